"""A normalised product and its gradient, written out for a loop that is compiled as one program.

LN subtracts the mean over the units of W x, which is the same as taking from every row of W its
mean over the units: done to the weights, once a pass, it costs no step anything. What is left of LN
in the loop is a division by the root mean square, and of its gradient one mean rather than two.
"""

from collections.abc import Sequence

import tensorflow as tf

from tf_layernorm._arguments import Tensor

Saved = tuple[Tensor, ...]


def row_mean(x: Tensor) -> Tensor:
    """The mean over the last axis, which is kept."""
    # XLA's CPU backend adds up a row number by number, but a product several at a time.
    return tf.tensordot(x, tf.ones([x.shape[-1], 1], x.dtype), axes=1) / x.shape[-1]


def batch_sum(x: Tensor, counts: Tensor) -> Tensor:
    """The sum over the first of two axes, where each of its rows counts so often."""
    # A product here too: XLA adds up a column of up to 32 numbers one by one, a row's length apart.
    return tf.linalg.matvec(x, counts, transpose_a=True)


def shift(x: Tensor) -> Tensor:
    """`x` less its mean over the last axis."""
    # Relative to one entry, a constant vector is exactly 0 and a large mean costs no digits.
    x = x - x[..., :1]
    return x - row_mean(x)


def center(kernel: Tensor, sizes: Sequence[int]) -> Tensor:
    """Weights whose products have mean 0 in each of the consecutive parts of the units."""
    return tf.concat([shift(part) for part in tf.split(kernel, sizes, axis=-1)], axis=-1)


def inverse_rms(x: Tensor, sizes: Sequence[int], epsilon: float) -> Tensor:
    """1 / sqrt(mean(x^2) + epsilon) of each part of the last axis: shape [..., parts]."""
    parts = tf.split(x, sizes, axis=-1)
    return tf.concat([tf.math.rsqrt(row_mean(tf.square(p)) + epsilon) for p in parts], axis=-1)


def spread(x: Tensor, sizes: Sequence[int]) -> Tensor:
    """One value for each part, [..., parts], to one that broadcasts against [..., n]."""
    values = tf.split(x, len(sizes), axis=-1)
    result, end = values[0], 0
    for size, value in zip(sizes, values[1:], strict=False):
        end += size
        # A choice, since XLA's CPU backend fuses no concatenation.
        result = tf.where(tf.range(sum(sizes)) < end, result, value)
    return result


def term(
    x: Tensor, gamma: Tensor | None, inverse: Tensor | None, sizes: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """LN(x; gamma) of a centred product, and the same before gamma; `x` itself without gamma."""
    if gamma is None:
        return x, x
    normalized = x * spread(inverse, sizes)
    return normalized * gamma, normalized


def term_gradient(
    d: Tensor,
    gamma: Tensor | None,
    normalized: Tensor,
    inverse: Tensor | None,
    sizes: Sequence[int],
) -> Tensor:
    """The gradient of `term` by x, up to a constant in each part.

    Such a constant is what centred weights lose in turn, so nothing subtracts it.
    """
    if gamma is None:
        return d
    parts = zip(tf.split(d * normalized, sizes, axis=-1), tf.split(gamma, sizes), strict=True)
    means = [tf.tensordot(part, g[:, None], axes=1) / part.shape[-1] for part, g in parts]
    mean = spread(tf.concat(means, axis=-1), sizes)
    return spread(inverse, sizes) * (d * gamma - normalized * mean)


def normalize(x: Tensor, epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    """(x - mu) / sqrt(var + epsilon) over the last axis, mu, and 1 / sqrt(var + epsilon)."""
    centered = shift(x)
    inverse = tf.math.rsqrt(row_mean(tf.square(centered)) + epsilon)
    return centered * inverse, (x - centered)[..., :1], inverse


def normalize_gradient(d: Tensor, normalized: Tensor, inverse: Tensor) -> Tensor:
    """The gradient of (x - mu) / sqrt(var + epsilon) by x."""
    return inverse * (d - row_mean(d) - normalized * row_mean(d * normalized))

"""A normalised term and its gradient, written out for a loop that is compiled as one program."""

from collections.abc import Sequence

import tensorflow as tf

from tf_layernorm._arguments import Tensor

Saved = tuple[Tensor, ...]


def normalize(x: Tensor, epsilon: float) -> Saved:
    """(x - mu) / sqrt(var + epsilon), and 1 / sqrt(var + epsilon), over the last axis."""
    # Relative to one entry, a constant vector is exactly 0 and a large mean costs no digits.
    centered = x - x[..., :1]
    centered = centered - tf.reduce_mean(centered, axis=-1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centered), axis=-1, keepdims=True)
    inverse = tf.math.rsqrt(variance + epsilon)
    return centered * inverse, inverse


def normalize_gradient(d: Tensor, normalized: Tensor, inverse: Tensor) -> Tensor:
    """The gradient of `normalize` by x, given that by its first result."""
    slope = tf.reduce_mean(d * normalized, axis=-1, keepdims=True)
    return inverse * (d - tf.reduce_mean(d, axis=-1, keepdims=True) - normalized * slope)


def term(
    x: Tensor, gamma: Tensor | None, sizes: Sequence[int], epsilon: float
) -> tuple[Tensor, Saved]:
    """LN(x; gamma) over consecutive parts of the last axis, and what its gradient needs."""
    if gamma is None:
        return x, ()
    parts = [normalize(part, epsilon) for part in tf.split(x, sizes, axis=-1)]
    normalized = tf.concat([part[0] for part in parts], axis=-1)
    inverse = tf.concat([part[1] for part in parts], axis=-1)
    return normalized * gamma, (normalized, inverse)


def term_gradient(d: Tensor, gamma: Tensor | None, sizes: Sequence[int], saved: Saved) -> Tensor:
    """The gradient of `term` by x."""
    if gamma is None:
        return d
    parts = zip(
        tf.split(d * gamma, sizes, axis=-1),
        tf.split(saved[0], sizes, axis=-1),
        tf.split(saved[1], len(sizes), axis=-1),
        strict=True,
    )
    return tf.concat([normalize_gradient(*part) for part in parts], axis=-1)


def sum_over_steps(x: Tensor) -> Tensor:
    """Sums [T, B, n] to [n]."""
    return tf.reduce_sum(x, axis=[0, 1])


def gamma_gradient(d: Tensor, gamma: Tensor | None, saved: Saved) -> Tensor | None:
    """The gradient of `term` by gamma, over all steps."""
    return None if gamma is None else sum_over_steps(d * saved[0])

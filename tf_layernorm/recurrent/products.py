"""The norm of a product's gates, and its gradient.

LN subtracts the mean over the units of W x, which is the same as taking from every row of W its
mean over the units: done to the weights, once for a sequence, it costs no step anything. What is
left of LN at a step is a division by the root mean square, and of its gradient one mean, not two.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf

from tf_layernorm._arguments import Tensor
from tf_layernorm.normalization import at_least_float32, center, inverse_rms, layer_norm


def project(x: Tensor, kernel: Tensor) -> Tensor:
    """The product of `x` and `kernel` in the dtype of `x`, given in at least float32."""
    return tf.cast(tf.matmul(x, tf.cast(kernel, x.dtype)), at_least_float32(x.dtype.name))


@dataclass(frozen=True)
class Term:
    """A product with weights whose gates, side by side, are normalised in groups.

    Args:
        gamma: Gain of all gates; None leaves the product as it is.
        groups: How many gates, one after another, are normalised together; in all the number of
            gates.
        epsilon: Added to the variances.
        centered: Whether the mean over each group is taken away, whatever `gamma` is.
    """

    gamma: Tensor | None
    groups: tuple[int, ...]
    epsilon: float
    centered: bool = False

    def _sizes(self, x: Tensor) -> list[int]:
        return [x.shape[-1] // sum(self.groups) * gates for gates in self.groups]

    def _split(self, x: Tensor) -> list[Tensor]:
        return tf.split(x, self._sizes(x), axis=-1)

    def _spread(self, values: Sequence[Tensor], like: Tensor) -> Tensor:
        """A value for each group, [..., 1], as one tensor to broadcast against all gates."""
        result, end = values[0], 0
        for size, value in zip(self._sizes(like), values[1:], strict=False):
            end += size
            # A choice, since XLA's CPU backend fuses no concatenation.
            result = tf.where(tf.range(like.shape[-1]) < end, result, value)
        return result

    def center(self, kernel: Tensor) -> Tensor:
        """Weights whose products have mean 0 in each group, if the term needs it."""
        if self.gamma is None and not self.centered:
            return kernel
        # Relative to one entry, a constant vector is exactly 0 and a large mean costs no digits.
        parts = [part - part[:, :1] for part in self._split(kernel)]
        return tf.concat([center(part, (1,)) for part in parts], axis=-1)

    def inverse(self, product: Tensor) -> Tensor | None:
        """What the groups of a product with centred weights are multiplied by, [..., groups]."""
        if self.gamma is None:
            return None
        axes = (len(product.shape) - 1,)
        inverses = [inverse_rms(group, self.epsilon, axes) for group in self._split(product)]
        return tf.concat(inverses, axis=-1)

    def gates(self, product: Sequence[Tensor], inverse: Tensor | None) -> list[Tensor]:
        """The gates of LN(product; gamma), given those of the product."""
        if self.gamma is None or inverse is None:
            return list(product)
        gammas = tf.split(self.gamma, len(product), axis=-1)
        inverses = zip(tf.split(inverse, len(self.groups), axis=-1), self.groups, strict=True)
        factors = [factor for factor, gates in inverses for _ in range(gates)]
        return [p * f * gamma for p, f, gamma in zip(product, factors, gammas, strict=True)]

    def gradient(
        self, d: Tensor, product: Tensor, inverse: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Gradients with respect to the product and, for each case, gamma.

        The first holds up to a constant in each group. Such a constant is what the centred weights
        lose in turn, so nothing subtracts it.
        """
        if self.gamma is None or inverse is None:
            return d, None
        factor = self._spread(tf.split(inverse, len(self.groups), axis=-1), d)
        normalized = product * factor
        along = d * normalized
        parts = zip(self._split(along), self._split(self.gamma), strict=True)
        means = [tf.tensordot(p, gamma[:, None], axes=1) / p.shape[-1] for p, gamma in parts]
        return factor * (d * self.gamma - normalized * self._spread(means, d)), along

    def __call__(self, product: Tensor) -> list[Tensor]:
        """The gates of LN(product; gamma) for any weights, with gradients of any order."""
        groups = self._split(product)
        if self.gamma is not None:
            gammas = self._split(self.gamma)
            groups = [
                layer_norm(group, gamma, epsilon=self.epsilon)
                for group, gamma in zip(groups, gammas, strict=True)
            ]
        elif self.centered:
            groups = [center(group, (len(group.shape) - 1,)) for group in groups]
        return [
            gate
            for group, gates in zip(groups, self.groups, strict=True)
            for gate in tf.split(group, gates, axis=-1)
        ]

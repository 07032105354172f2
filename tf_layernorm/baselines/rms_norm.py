"""RMS normalisation: layer norm that leaves the mean alone."""

from keras import ops

from tf_layernorm._arguments import Tensor, serializable
from tf_layernorm.normalization import LayerNorm, at_least_float32, canonical_axes


@serializable
class RMSNorm(LayerNorm):
    r"""Root mean square normalisation: equation (5) of the paper with a $\mu$ of 0.

    $$y = \frac{x}{\sqrt{\frac{1}{H} \sum_i x_i^2 + \epsilon}} \gamma + \beta$$

    Of layer norm's invariances it keeps those to scale, and loses that to a shift of all weight
    vectors. `keras.layers.RMSNormalization` is the same without `beta`; here every argument,
    weight and rule is that of `tf_layernorm.LayerNorm`, so that one can stand for the other.

    Args:
        axis: Axis or axes to normalise over, the batch excluded. Defaults to `-1`.
        epsilon: Small positive number added to the mean square. Defaults to `1e-5`.
        center: Whether to add `beta`. Defaults to `True`.
        scale: Whether to multiply by `gamma`. Defaults to `True`.
        **kwargs: The initializers, regularizers and constraints of `beta` and `gamma`; `name`,
            `dtype` and so on of `keras.layers.Layer`.

    Input shape:
        Any. The normalised axes must have a known size.

    Output shape:
        That of the input; in the compute dtype, with the mean square in at least float32.

    Weights:
        gamma: the sizes of the normalised axes, if `scale`.
        beta: the sizes of the normalised axes, if `center`.

    Masking:
        Passed on unchanged. Each case is normalised alone, so padding can't change another.

    Raises:
        ValueError: If `epsilon` is not positive, or `axis` doesn't fit the input.

    Example:

    >>> import numpy as np
    >>> from tf_layernorm.baselines.rms_norm import RMSNorm
    >>> y = RMSNorm()(np.array([[1., 1., -2., 2., 0., 0., 1., 1.]], "float32"))
    >>> print(y.numpy().round(3))
    [[ 0.816  0.816 -1.633  1.633  0.     0.     0.816  0.816]]

    References:
        [Zhang, Sennrich, 2019](https://arxiv.org/abs/1910.07467);
        [Ba, Kiros, Hinton, 2016](https://arxiv.org/abs/1607.06450), eq. (5).
    """

    def call(self, inputs: Tensor) -> Tensor:
        x = ops.cast(inputs, at_least_float32(self.compute_dtype))
        axes = canonical_axes(self.axis, len(x.shape))
        y = x * ops.rsqrt(ops.mean(ops.square(x), axes, keepdims=True) + self.epsilon)
        shape = [size if a in axes else 1 for a, size in enumerate(x.shape)]
        if self.gamma is not None:
            y = y * ops.reshape(self.gamma, shape)
        if self.beta is not None:
            y = y + ops.reshape(self.beta, shape)
        return ops.cast(y, self.compute_dtype)

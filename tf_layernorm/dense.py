"""A dense layer whose summed inputs are normalised."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from tf_layernorm._arguments import (
    ArgumentsMixin,
    Shape,
    Tensor,
    canonical_terms,
    check_epsilon,
    check_shape,
    check_units,
    serializable,
    warn_if_constant,
    warn_if_single,
)
from tf_layernorm.normalization import at_least_float32, layer_norm


@serializable
class LNDense(ArgumentsMixin, keras.layers.Layer):
    r"""Dense layer with layer normalisation of its summed inputs, eq. (1), (3), (5) of the paper.

    $$y = f(\mathrm{LN}(W x; \gamma) + b)$$

    The output does not change when one input vector, or the whole `kernel`, is multiplied by a
    positive number, nor when one vector is added to every column of `kernel` (up to `epsilon`).

    Args:
        units: Positive integer, the size of the output.
        activation: Activation `f`. Defaults to `None`: linear.
        use_bias: Whether to add `bias`, after the normalisation. Defaults to `True`.
        normalize: `("kernel",)`, or `()` for the same layer without the norm. Defaults to the
            first.
        epsilon: Small positive number added to the variance. Defaults to `1e-5`.
        kernel_initializer: Defaults to `"glorot_uniform"`.
        bias_initializer: Defaults to `"zeros"`.
        gamma_initializer: Defaults to `"ones"`.
        kernel_regularizer: Defaults to `None`.
        bias_regularizer: Defaults to `None`.
        gamma_regularizer: Defaults to `None`.
        kernel_constraint: Defaults to `None`.
        bias_constraint: Defaults to `None`.
        gamma_constraint: Defaults to `None`.
        **kwargs: `name`, `dtype`, `activity_regularizer` and so on of `keras.layers.Layer`.

    Input shape:
        `(batch, ..., features)`.

    Output shape:
        `(batch, ..., units)`, in the compute dtype, with statistics in at least float32.

    Weights:
        kernel: `(features, units)`.
        bias: `(units,)`, if `use_bias`.
        gamma: `(units,)`, if normalised.

    Masking:
        Passed on unchanged.

    Where W x is constant over the units, as for blank inputs, it has no direction: the output is
    f(b), and no gradient passes.

    Raises:
        ValueError: If an argument is out of its range or the input has fewer than 2 axes.

    Example:

    >>> import numpy as np
    >>> from tf_layernorm import LNDense
    >>> layer = LNDense(8, activation="relu")
    >>> x = np.ones((2, 5), "float32")
    >>> layer(x).shape
    TensorShape([2, 8])
    >>> bool(abs(layer(x) - layer(1000 * x)).numpy().max() < 1e-3)
    True

    References:
        [Ba, Kiros, Hinton, 2016](https://arxiv.org/abs/1607.06450), eq. (1), (3), (5).
    """

    def __init__(
        self,
        units: int,
        activation: Any = None,
        use_bias: bool = True,
        *,
        normalize: Sequence[str] = ("kernel",),
        epsilon: float = 1e-5,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        gamma_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        gamma_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        units = check_units(units)
        normalize = canonical_terms(normalize, ("kernel",))
        epsilon = check_epsilon(epsilon, self.compute_dtype)
        self._set_arguments(locals())

    def build(self, input_shape: Shape) -> None:
        features = check_shape(self, input_shape, 2, at_least=True)
        if self.normalize:
            warn_if_single(self, "its summed inputs", self.units)
            warn_if_constant(self, "kernel", self.kernel_initializer)
        self.kernel = self._add_term("kernel", (features, self.units), "kernel")
        self.bias = self._add_term("bias", (self.units,), "bias") if self.use_bias else None
        self.gamma = self._add_term("gamma", (self.units,), "gamma") if self.normalize else None
        self.input_spec = keras.layers.InputSpec(min_ndim=2, axes={-1: features})

    def call(self, inputs: Tensor) -> Tensor:
        dtype = self.compute_dtype
        z = ops.matmul(inputs, ops.cast(self.kernel, dtype))
        z = ops.cast(z, at_least_float32(dtype))
        if self.normalize:
            z = layer_norm(z, self.gamma, epsilon=self.epsilon)
        z = z if self.bias is None else z + ops.cast(self.bias, z.dtype)
        return self.activation(ops.cast(z, dtype))

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape[:-1], self.units)

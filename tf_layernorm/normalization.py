"""Layer normalisation itself."""

import math
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from tf_layernorm._arguments import (
    ArgumentsMixin,
    Shape,
    Tensor,
    check_epsilon,
    check_smallest_epsilon,
    serializable,
    warn_if_single,
)


def layer_norm(
    x: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    *,
    axis: int | tuple[int, ...] = -1,
    epsilon: float = 1e-5,
) -> Tensor:
    r"""Normalises each case of `x` over `axis`, then scales by `gamma` and shifts by `beta`.

    Equations (3) and (15) of the paper, with the biased variance and $\epsilon$ inside the root:

    $$\mathrm{LN}(x; \gamma, \beta) = \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} \gamma + \beta$$

    The statistics are computed in at least float32. They are exact for vectors far from zero. A
    constant vector has no direction: it gives exactly `beta`, and passes no gradient.

    Args:
        x: Tensor of any shape. Integers are taken as float32.
        gamma: Gain, of the shape of the normalised axes. Defaults to `None`: no gain.
        beta: Shift, of the shape of the normalised axes. Defaults to `None`: no shift.
        axis: Axis or axes to normalise over. Defaults to `-1`.
        epsilon: Small number added to the variance, 0 or at least 1.2e-38 (in float64 2.3e-308).
            With 0, and only then, the paper's invariances are exact. Below 2.4e-10 the gradient
            can overflow in float16, with a warning. Defaults to `1e-5`.

    Returns:
        A tensor of the shape and dtype of `x` (float32 for integers).

    Raises:
        ValueError: If `epsilon` is negative or too small, or `axis` is not an axis of `x` or is
            named twice.

    Example:

    >>> import numpy as np
    >>> from tf_layernorm import layer_norm
    >>> x = np.array([[1., 2., 3.], [1e6, 2e6, 3e6]], "float32")
    >>> print(layer_norm(x).numpy().round(3))
    [[-1.225  0.     1.225]
     [-1.225  0.     1.225]]

    References:
        [Ba, Kiros, Hinton, 2016](https://arxiv.org/abs/1607.06450), eq. (3), (15), (16).
    """
    if not epsilon >= 0:
        raise ValueError(f"`epsilon` must be at least 0. Received: epsilon={epsilon!r}")
    x = ops.convert_to_tensor(x)
    dtype = keras.backend.standardize_dtype(x.dtype)
    dtype = dtype if keras.backend.is_float_dtype(dtype) else "float32"
    check_smallest_epsilon(epsilon, dtype)
    axes = canonical_axes(axis, len(x.shape))
    x = ops.cast(x, at_least_float32(dtype))

    # Centred on the first entry, a constant vector is exactly 0; the second mean takes away what
    # rounding has left of the first. No gradient is lost: LN(x - shift) is LN(x) for any shift.
    first = x[tuple(slice(0, 1) if a in axes else slice(None) for a in range(len(x.shape)))]
    x = x - ops.stop_gradient(first + mean(x - first, axes))
    y = standardize(x, epsilon, axes)

    kept = [a for a in range(axes[0], len(x.shape)) if a not in axes]
    if gamma is not None:
        y = y * ops.expand_dims(ops.cast(gamma, y.dtype), [a - axes[0] for a in kept])
    if beta is not None:
        y = y + ops.expand_dims(ops.cast(beta, y.dtype), [a - axes[0] for a in kept])
    return ops.cast(y, dtype)


def mean(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The mean over axes, which are kept."""
    if isinstance(x, keras.KerasTensor) or axes != (len(x.shape) - 1,) or not x.shape[-1]:
        return ops.mean(x, axes, keepdims=True)
    # XLA's CPU backend adds up a row number by number, but a product several at a time.
    return tf.tensordot(x, tf.ones([x.shape[-1], 1], x.dtype), axes=1) / x.shape[-1]


def center(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """`x` less its mean: a linear map which is its own gradient."""

    @tf.custom_gradient
    def centered(x: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        return x - mean(x, axes), lambda d: center(d, axes)

    return centered(x)


def standardize(x: Tensor, epsilon: float, axes: tuple[int, ...]) -> Tensor:
    r"""`x` less its mean, over its standard deviation, with a gradient of its own.

    $$y = (x - \bar x) / s, \quad s = \sqrt{\overline{(x - \bar x)^2} + \epsilon}, \qquad
      \partial x = (\partial y - \overline{\partial y} - y\, \overline{y\, \partial y}) / s$$
    """

    def normalized(x: Tensor) -> tuple[Tensor, Tensor]:
        centered = x - mean(x, axes)
        inverse = inverse_rms(centered, epsilon, axes)
        return centered * inverse, inverse

    @tf.custom_gradient
    def value(x: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        def gradient(d: Tensor) -> Tensor:
            y, inverse = normalized(x)  # once more, so that this has a gradient too
            return inverse * (d - mean(d, axes) - y * mean(d * y, axes))

        return normalized(x)[0], gradient

    return normalized(x)[0] if isinstance(x, keras.KerasTensor) else value(x)


def inverse_rms(x: Tensor, epsilon: float, axes: tuple[int, ...]) -> Tensor:
    """1 / sqrt(mean(x^2) + epsilon), or 0 where x is 0.

    So what has no direction passes no gradient, and needs no epsilon.
    """
    variance = mean(ops.square(x), axes)
    constant = ops.equal(variance, 0)
    one, zero = ops.ones_like(variance), ops.zeros_like(variance)
    return ops.where(constant, zero, ops.rsqrt(ops.where(constant, one, variance + epsilon)))


def at_least_float32(dtype: str) -> str:
    """The dtype in which statistics and sums over time are computed."""
    return str(keras.backend.result_type(dtype, "float32"))


def canonical_axes(axis: int | tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Non-negative, sorted axes, or a `ValueError`."""
    given = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    is_axis = [isinstance(a, int) and -rank <= a < rank for a in given]
    axes = tuple(sorted(a % rank for a in given)) if all(is_axis) else ()
    if not axes or len(set(axes)) < len(axes):
        raise ValueError(
            f"`axis` must name distinct axes of an input of {rank} axes. Received: axis={axis!r}"
        )
    return axes


@serializable
class LayerNorm(ArgumentsMixin, keras.layers.Layer):
    r"""Layer normalisation over one or several axes, equations (3) and (15) of the paper.

    $$y = \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} \gamma + \beta$$

    Unlike `keras.layers.LayerNormalization` its epsilon is that of the authors' code, 1e-5 and not
    1e-3, and it is exact for inputs of large mean.

    Args:
        axis: Axis or axes to normalise over, the batch excluded. Defaults to `-1`.
        epsilon: Small positive number added to the variance. Defaults to `1e-5`.
        center: Whether to add `beta`. Defaults to `True`.
        scale: Whether to multiply by `gamma`. Defaults to `True`.
        beta_initializer: Defaults to `"zeros"`.
        gamma_initializer: Defaults to `"ones"`.
        beta_regularizer: Defaults to `None`.
        gamma_regularizer: Defaults to `None`.
        beta_constraint: Defaults to `None`.
        gamma_constraint: Defaults to `None`.
        **kwargs: `name`, `dtype` and so on of `keras.layers.Layer`.

    Input shape:
        Any. The normalised axes must have a known size.

    Output shape:
        That of the input; in the compute dtype, with statistics in at least float32.

    Weights:
        gamma: the sizes of the normalised axes, if `scale`.
        beta: the sizes of the normalised axes, if `center`.

    Masking:
        Passed on unchanged. Each case is normalised alone, so padding can't change another.

    A case that is constant over the axes, such as padding by zeros, gives `beta` and passes no
    gradient.

    Raises:
        ValueError: If `epsilon` is not positive, or `axis` doesn't fit the input.

    Example:

    >>> import numpy as np
    >>> from tf_layernorm import LayerNorm
    >>> y = LayerNorm()(np.array([[1., 2., 3.]], "float32"))
    >>> print(y.numpy().round(3))
    [[-1.225  0.     1.225]]

    References:
        [Ba, Kiros, Hinton, 2016](https://arxiv.org/abs/1607.06450), eq. (3), (15).
    """

    def __init__(
        self,
        axis: int | tuple[int, ...] = -1,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        axis = tuple(axis) if isinstance(axis, list) else axis
        epsilon = check_epsilon(epsilon, self.compute_dtype)
        self._set_arguments(locals())

    def build(self, input_shape: Shape) -> None:
        axes = canonical_axes(self.axis, len(input_shape))
        shape = [size for size in (input_shape[a] for a in axes) if size is not None]
        if 0 in axes or len(shape) < len(axes):
            raise ValueError(
                "`axis` must name axes of known size behind the batch axis. "
                f"Received: axis={self.axis!r} for an input of shape={tuple(input_shape)}"
            )
        warn_if_single(self, "its input", math.prod(shape))
        self.gamma = self._add_term("gamma", shape, "gamma") if self.scale else None
        self.beta = self._add_term("beta", shape, "beta") if self.center else None

    def call(self, inputs: Tensor) -> Tensor:
        # In float32 already: `layer_norm` would repeat the constructor's warning at each call.
        x = ops.cast(inputs, at_least_float32(self.compute_dtype))
        y = layer_norm(x, self.gamma, self.beta, axis=self.axis, epsilon=self.epsilon)
        return ops.cast(y, self.compute_dtype)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape

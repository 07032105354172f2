"""Weight normalisation, the third method of the paper's Table 1, around any layer with a kernel."""

from typing import Any

import keras
from keras import ops

from tf_layernorm._arguments import Shape, Tensor, serializable
from tf_layernorm.normalization import at_least_float32


@serializable
class WeightNorm(keras.layers.Wrapper):
    r"""Weight normalisation of a `Dense` or convolutional layer, equation (5) of the paper.

    $$y = f\left(\frac{\gamma}{\lVert w \rVert_2} w^\top x + b\right)$$

    for each unit (or channel), whose weight vector $w$ is all of the kernel that leads to it. The
    layer's own `kernel` holds the vectors; only their directions count. `gamma` starts as their
    lengths, so at first the layer computes what it would without the wrapper. (Salimans and Kingma
    also offer a start from the statistics of a batch. This isn't done here.)

    Args:
        layer: A layer whose `kernel` has the units, or channels, on its last axis.
        **kwargs: `name`, `dtype`, `trainable` of `keras.layers.Layer`.

    Call arguments:
        inputs: As the layer takes them.

    Weights:
        layer: those of the wrapped layer.
        gamma: `(units,)`, in float32 under a mixed policy.

    Masking:
        As the wrapped layer.

    Raises:
        ValueError: If the layer has no `kernel`.

    Example:

    >>> import keras, numpy as np
    >>> from tf_layernorm.baselines.weight_norm import WeightNorm
    >>> layer = WeightNorm(keras.layers.Dense(8, activation="relu"))
    >>> x = np.ones((2, 5), "float32")
    >>> layer(x).shape
    TensorShape([2, 8])
    >>> before = layer(x)
    >>> _ = layer.layer.kernel.assign(1000 * layer.layer.kernel)
    >>> bool(abs(layer(x) - before).numpy().max() < 1e-5)
    True

    References:
        [Ba, Kiros, Hinton, 2016](https://arxiv.org/abs/1607.06450), eq. (5) and Table 1;
        [Salimans, Kingma, 2016](https://arxiv.org/abs/1602.07868).
    """

    def build(self, input_shape: Shape) -> None:
        super().build(input_shape)
        kernel = getattr(self.layer, "kernel", None)
        if kernel is None:
            raise ValueError(
                f"`layer` must have a `kernel` to normalise. Received: layer={self.layer!r}"
            )
        self.gamma = self.add_weight(
            name="gamma",
            shape=kernel.shape[-1:],
            initializer=lambda shape, dtype: ops.reshape(self._lengths(kernel), shape),
            autocast=False,
        )

    def call(self, inputs: Tensor, **kwargs: Any) -> Tensor:
        kernel = self.layer.kernel
        v = ops.cast(kernel, at_least_float32(self.compute_dtype))
        normalized = self.gamma * v / self._lengths(v)
        values = [(w, normalized if w is kernel else w.value) for w in self.layer.variables]
        with keras.StatelessScope(state_mapping=values):
            return self.layer(inputs, **kwargs)

    @staticmethod
    def _lengths(v: Tensor) -> Tensor:
        """The length of each weight vector; 1e-12 for one of zeros, which passes no gradient."""
        squares = ops.sum(ops.square(v), tuple(range(len(v.shape) - 1)), keepdims=True)
        return ops.sqrt(ops.maximum(squares, 1e-24))

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return self.layer.compute_output_shape(input_shape)

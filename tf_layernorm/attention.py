r"""A soft window that moves over a text, inside a recurrent cell (Graves 2013, section 5.1)."""

import inspect
import math
from typing import Any

import keras
from keras import ops

from tf_layernorm._arguments import ArgumentsMixin, Shape, Tensor, check_units, serializable

__all__ = ["WindowCell", "window_weights"]


def window_weights(window: Tensor, positions: Tensor) -> Tensor:
    r"""How much of the characters at given positions the window lets through, eq. (46) of Graves.

    $$\phi(u) = \sum_k \alpha_k \exp(-\beta_k (\kappa_k - u)^2)$$

    Args:
        window: `(..., 3 * K)`: log alpha, log beta and kappa of K Gaussians, as `WindowCell`
            carries them in the state before the last two.
        positions: `(C,)`; the first character is at 1.

    Returns:
        `(..., C)`.
    """
    log_alpha, log_beta, kappa = (part[..., None] for part in ops.split(window, 3, axis=-1))
    distance = kappa - ops.cast(positions, kappa.dtype)
    # One exponential: alpha alone may be beyond float32 where phi is not.
    return ops.sum(ops.exp(log_alpha - ops.exp(log_beta) * ops.square(distance)), axis=-2)


@serializable
class WindowCell(ArgumentsMixin, keras.layers.Layer):
    r"""A recurrent cell that reads a text through a window, equations (46)-(51) of Graves.

    The wrapped cell sees its input and what the window showed the step before. Its output h moves
    the window, which never goes back:

    $$\begin{aligned}
    (\hat\alpha_t, \hat\beta_t, \hat\kappa_t) &= W h_t + b \\
    \kappa_t &= \kappa_{t-1} + \exp(\hat\kappa_t) \\
    \phi(t, u) &= \sum_k \exp(\hat\alpha_t^k) \exp(-\exp(\hat\beta_t^k) (\kappa_t^k - u)^2) \\
    w_t &= \sum_u \phi(t, u)\, c_u
    \end{aligned}$$

    Use it in `keras.layers.RNN`. The characters c are its last state, carried on unchanged, since a
    Keras RNN has no other way to give a cell a constant: start from `initial_state(characters)`.

    Args:
        cell: The cell to wrap: any of float32 or float64 whose output is a tensor. Its dropout
            draws a mask a step.
        features: Size of a character, such as that of the alphabet.
        components: Number of Gaussians, K. Defaults to 10.
        advance: How many characters the window moves a step before it is trained. At Graves' 1 it
            has left the text before it learns to read. Defaults to 0.05.
        **kwargs: `name` and so on of `keras.layers.Layer`; the dtype is that of `cell`.

    Call arguments:
        inputs: `(batch, n)`.
        states: Those of `cell`, the window `(batch, 3 * components)`, what it showed
            `(batch, features)`, and the characters `(batch, C, features)`, with zeros for padding.
        training: Handed on to `cell`.

    Returns:
        h and w side by side, `(batch, units + features)`, and the new states.

    Weights:
        kernel: `(units, 3 * components)`.
        bias: `(3 * components,)`.
        Then those of `cell`.

    Masking:
        That of `keras.layers.RNN`, which needs a known C for it.

    Raises:
        ValueError: If an argument is out of its range, or `cell` computes in half precision, which
            can't add a small step to a large position.

    Example:

    >>> import keras, numpy as np
    >>> from tf_layernorm import LNLSTMCell
    >>> from tf_layernorm.attention import WindowCell
    >>> cell = WindowCell(LNLSTMCell(8), features=57)
    >>> layer = keras.layers.RNN(cell, return_sequences=True)
    >>> points, characters = np.zeros((2, 5, 3), "float32"), np.zeros((2, 4, 57), "float32")
    >>> layer(points, initial_state=cell.initial_state(characters)).shape
    TensorShape([2, 5, 65])

    References:
        [Graves, 2013](https://arxiv.org/abs/1308.0850), section 5.1.
    """

    def __init__(
        self,
        cell: keras.layers.Layer,
        features: int,
        components: int = 10,
        advance: float = 0.05,
        **kwargs: Any,
    ) -> None:
        super().__init__(**{"dtype": cell.dtype_policy, **kwargs})
        self._set_arguments(locals())
        if self.compute_dtype not in ("float32", "float64"):
            raise ValueError(
                "The window's position needs at least float32. "
                f"Received: a cell of compute dtype {cell.compute_dtype!r}"
            )
        for name, value in (("features", features), ("components", components)):
            try:
                check_units(value)
            except ValueError:
                raise ValueError(
                    f"`{name}` must be a positive integer. Received: {name}={value!r}"
                ) from None
        if not 0 < advance < math.inf:
            raise ValueError(f"`advance` must be positive. Received: advance={advance!r}")
        self._nested = isinstance(cell.state_size, (list, tuple))
        self._cell_sizes = list(cell.state_size) if self._nested else [cell.state_size]
        self._takes_training = "training" in inspect.signature(cell.call).parameters
        self.state_size = [*self._cell_sizes, 3 * components, features, features]
        units = getattr(cell, "output_size", None) or self._cell_sizes[0]
        self.output_size = units + features

    def build(self, input_shape: Shape) -> None:
        if not self.cell.built:
            self.cell.build((input_shape[0], input_shape[-1] + self.features))
        k = self.components
        shape = (self.output_size - self.features, 3 * k)
        self.kernel = self.add_weight(name="kernel", shape=shape)
        self.bias = self.add_weight(name="bias", shape=(3 * k,), initializer=self._first_window)

    def _first_window(self, shape: Shape, dtype: Any = None) -> Tensor:
        # Together the Gaussians weigh 1; each is some 2 characters wide.
        first = (-math.log(self.components), -2.0, math.log(self.advance))
        return ops.repeat(ops.cast(first, dtype), self.components)

    def initial_state(self, characters: Tensor) -> list[Tensor]:
        """The states to start from: zeros, and the characters.

        Args:
            characters: `(batch, C, features)`, zero where a text is padded; may be symbolic.
        """
        shown = ops.zeros_like(ops.sum(characters, axis=1))
        zero = shown[:, :1]
        sizes = [*self._cell_sizes, 3 * self.components]
        return [*(ops.tile(zero, (1, size)) for size in sizes), shown, characters]

    def get_initial_state(self, batch_size: Any = None) -> list[Tensor]:
        raise ValueError(
            "The characters must be given: call the layer with "
            "`initial_state=cell.initial_state(characters)`. Received: initial_state=None"
        )

    def call(self, inputs: Tensor, states: Any, training: bool = False) -> tuple[Tensor, Any]:
        *own, window, shown, characters = states
        options = {"training": training} if self._takes_training else {}
        inputs = ops.concatenate([inputs, shown], axis=-1)
        h, new = self.cell(inputs, own if self._nested else own[0], **options)
        change = ops.matmul(h, self.kernel) + self.bias
        shape, step = ops.split(change, [2 * self.components], axis=-1)
        kappa = window[:, 2 * self.components :] + ops.exp(step)
        window = ops.concatenate([shape, kappa], axis=-1)
        positions = ops.arange(1, ops.shape(characters)[1] + 1)
        weights = window_weights(window, positions)
        shown = ops.einsum("bc,bca->ba", weights, characters)
        output = ops.concatenate([h, shown], axis=-1)
        own = list(new) if self._nested else [new]
        return output, [*own, window, shown, characters]

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        return {**config, "cell": keras.saving.serialize_keras_object(self.cell)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "WindowCell":
        cell = keras.saving.deserialize_keras_object(config["cell"])
        return cls(**{**config, "cell": cell})

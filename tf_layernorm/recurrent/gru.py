"""LN-GRU, equations (26)-(28), and the plain one (23)-(25)."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from keras import ops

from tf_layernorm._arguments import Tensor, serializable, warn_if_single
from tf_layernorm.recurrent.cell import LNCell, canonical_terms, normalize_term, project
from tf_layernorm.recurrent.layer import LNRNN
from tf_layernorm.recurrent.xla.gru import GRURecurrence


class GRUWeights(NamedTuple):
    """The weights of one step; a gamma that is None leaves its term as it is."""

    kernel: Tensor  # (D, 3U), in Keras' order z, r, h
    recurrent_kernel: Tensor  # (U, 3U)
    bias: Tensor | None
    recurrent_bias: Tensor | None  # (U,): b_r, inside the reset product
    kernel_gamma: Tensor | None
    recurrent_gamma: Tensor | None


def _split_terms(product: Tensor, gamma: Tensor | None, epsilon: float) -> tuple[Tensor, Tensor]:
    """LN jointly over the 2U values of z and r, and over the U values of the candidate."""
    units = product.shape[-1] // 3
    gates, candidate = ops.split(product, [2 * units], axis=-1)
    if gamma is None:
        return gates, candidate
    return (
        normalize_term(gates, gamma[: 2 * units], None, epsilon),
        normalize_term(candidate, gamma[2 * units :], None, epsilon),
    )


def gru_input_part(x: Tensor, w: GRUWeights, epsilon: float) -> Tensor:
    """The parts of eq. (26) and (27) that don't depend on the state, biases b and b_c included."""
    parts = _split_terms(project(x, w.kernel), w.kernel_gamma, epsilon)
    return normalize_term(ops.concatenate(parts, axis=-1), None, w.bias, epsilon)


def gru_step(
    z: Tensor,
    h: Tensor,
    w: GRUWeights,
    *,
    activation: Callable[[Tensor], Tensor],
    recurrent_activation: Callable[[Tensor], Tensor],
    epsilon: float,
    recurrent_mask: Tensor | None = None,
) -> Tensor:
    """Equations (26)-(28), given `z` of `gru_input_part`: the new h."""
    masked = h if recurrent_mask is None else h * recurrent_mask
    gates, candidate = _split_terms(project(masked, w.recurrent_kernel), w.recurrent_gamma, epsilon)
    candidate = normalize_term(candidate, None, w.recurrent_bias, epsilon)
    input_gates, input_candidate = ops.split(z, [gates.shape[-1]], axis=-1)
    update, reset = ops.split(recurrent_activation(input_gates + gates), 2, axis=-1)
    candidate = activation(input_candidate + reset * candidate)
    return (1 - update) * ops.cast(h, z.dtype) + update * candidate


@serializable
class LNGRUCell(LNCell):
    r"""GRU cell with layer normalisation, equations (26)-(28) of the paper.

    $$\begin{aligned}
    (z, r) &= \mathrm{LN}(W_x x_t; \gamma_x) + \mathrm{LN}(W_h h_{t-1}; \gamma_h) + b \\
    \hat h_t &= \tanh(\mathrm{LN}(W x_t; \gamma) + b_c
        + \sigma(r) \odot (\mathrm{LN}(U h_{t-1}; \gamma') + b_r)) \\
    h_t &= (1 - \sigma(z)) \odot h_{t-1} + \sigma(z) \odot \hat h_t
    \end{aligned}$$

    The LN of z and r is joint over their `2 * units` values, that of the candidate over its
    `units`. Note the update gate: in `keras.layers.GRU` z keeps the old state, here, as in the
    paper, it lets the new one in. `normalize=()` is the plain GRU, equations (23)-(25).

    Args:
        units: Positive integer, the size of the state and of the output.
        activation: Activation of the candidate. Defaults to `"tanh"`.
        recurrent_activation: Activation of the gates. Defaults to `"sigmoid"`.
        use_bias: Whether to add `bias` and `recurrent_bias`. Defaults to `True`.
        normalize: The terms to normalise: any of `"kernel"` (the products with x) and
            `"recurrent"` (those with h). Defaults to both.
        epsilon: Small positive number added to the variances. Defaults to `1e-5`.
        kernel_initializer: Defaults to `"glorot_uniform"`.
        recurrent_initializer: For the whole `(units, 3 * units)` block. Defaults to
            `"orthogonal"`.
        bias_initializer: For both biases. Defaults to `"zeros"`.
        gamma_initializer: Defaults to `"ones"`.
        dropout: Rate for the inputs, one mask for all three products. Defaults to `0`.
        recurrent_dropout: Rate for h in the products with it, one mask for all three. Defaults to
            `0`.
        zoneout: Rate at which units keep their previous state instead of taking the new one,
            drawn for each unit and step; at inference the two are mixed in proportion (Krueger et
            al., 2016). Defaults to `0`.
        learn_initial_state: Whether the state to start from, zeros at first, is trained; no layer
            with it can be stateful. From zeros its first gradients are up to
            `1 / sqrt(epsilon)` times as large. Defaults to `False`.
        seed: Integer seed of the masks. Defaults to `None`.
        **kwargs: The `_regularizer` and `_constraint` of `kernel`, `recurrent`, `bias` and `gamma`;
            `name`, `dtype` and so on of `keras.layers.Layer`.

    Call arguments:
        inputs: `(batch, features)`.
        states: h, or `[h]`, of shape `(batch, units)`.
        training: Whether to apply dropout and zoneout. In `keras.layers.RNN` the dropout masks are
            constant over a sequence; called by hand, each step draws its own.

    Returns:
        `(h, [h])`, or `(h, h)` if `states` is a tensor.

    Weights:
        kernel: `(features, 3 * units)`, in Keras' order z, r, h.
        recurrent_kernel: `(units, 3 * units)`.
        bias: `(3 * units,)`, if `use_bias`: b and b_c.
        recurrent_bias: `(units,)`, if `use_bias`: b_r.
        kernel_gamma, recurrent_gamma: `(3 * units,)` each, if in `normalize`.
        initial_h: `(units,)`, if `learn_initial_state`.

    Raises:
        ValueError: If an argument is out of its range.

    Example:

    >>> import keras, numpy as np
    >>> from tf_layernorm import LNGRUCell
    >>> keras.layers.RNN(LNGRUCell(4))(np.ones((2, 3, 5), "float32")).shape
    TensorShape([2, 4])

    References:
        [Ba, Kiros, Hinton, 2016](https://arxiv.org/abs/1607.06450), eq. (26)-(28).
        [Krueger et al., 2016](https://arxiv.org/abs/1606.01305), zoneout.
    """

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        *,
        normalize: Sequence[str] = ("kernel", "recurrent"),
        **kwargs: Any,
    ) -> None:
        super().__init__(units, activation, use_bias, **kwargs)
        normalize = canonical_terms(normalize, ("kernel", "recurrent"))
        self._set_arguments(locals())

    def _build_weights(self, features: int) -> None:
        units = self.units
        if self.normalize:
            warn_if_single(self, "its candidate", units)
        self.kernel = self._add_term("kernel", (features, 3 * units), "kernel")
        self.recurrent_kernel = self._add_term("recurrent_kernel", (units, 3 * units), "recurrent")
        self.bias = self.recurrent_bias = self.kernel_gamma = self.recurrent_gamma = None
        if self.use_bias:
            self.bias = self._add_term("bias", (3 * units,), "bias")
            self.recurrent_bias = self._add_term("recurrent_bias", (units,), "bias")
        if "kernel" in self.normalize:
            self.kernel_gamma = self._add_term("kernel_gamma", (3 * units,), "gamma")
        if "recurrent" in self.normalize:
            self.recurrent_gamma = self._add_term("recurrent_gamma", (3 * units,), "gamma")

    def step_weights(self) -> GRUWeights:
        return GRUWeights(*(getattr(self, field) for field in GRUWeights._fields))

    def recurrence(self) -> GRURecurrence:
        return GRURecurrence(self.epsilon)

    def input_part(self, inputs: Tensor, weights: GRUWeights) -> Tensor:
        return gru_input_part(inputs, weights, self.epsilon)

    def step(
        self, z: Tensor, states: list[Tensor], weights: GRUWeights, recurrent_mask: Tensor | None
    ) -> list[Tensor]:
        (h,) = states
        h = gru_step(
            z,
            h,
            weights,
            activation=self.activation,
            recurrent_activation=self.recurrent_activation,
            epsilon=self.epsilon,
            recurrent_mask=recurrent_mask,
        )
        return [h]


@serializable
class LNGRU(LNRNN):
    r"""GRU layer with layer normalisation, equations (26)-(28) of the paper.

    `keras.layers.RNN` over an `LNGRUCell`, with what a cell alone can't do: masks, padded NaN and
    empty sequences are safe. See `LNGRUCell` for the equations, the arguments of the cell and the
    weights, which are those of the cell in `.cell`; see `LNLSTM` for the other arguments, the call
    arguments, shapes and masking, with one state h.

    Args:
        units: Positive integer, the size of the state and of the output.
        **kwargs: The arguments of `LNGRUCell` and of `LNLSTM` as a layer: `return_sequences`,
            `return_state`, `go_backwards`, `stateful`, `unroll`, `zero_output_for_mask`,
            `use_fused`, `activity_regularizer`.

    Example:

    >>> import numpy as np
    >>> from tf_layernorm import LNGRU
    >>> LNGRU(4, return_sequences=True)(np.ones((2, 3, 5), "float32")).shape
    TensorShape([2, 3, 4])

    References:
        [Ba, Kiros, Hinton, 2016](https://arxiv.org/abs/1607.06450), eq. (26)-(28).
    """

    cell_class = LNGRUCell

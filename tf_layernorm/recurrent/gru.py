"""LN-GRU, equations (26)-(28), and the plain one (23)-(25)."""

from collections.abc import Sequence
from typing import Any

import keras

from tf_layernorm._arguments import Tensor, chosen, serializable
from tf_layernorm.recurrent.cell import LNCell, add_bias
from tf_layernorm.recurrent.layer import LNRNN


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
        learn_initial_state: Whether the state to start from is trained; no layer with it can be
            stateful. Defaults to `False`.
        initial_state_initializer: Of that state. What is constant over the units, zeros too,
            passes no gradient through a norm. Defaults to `"random_normal"`.
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

    Where a term is constant over the units, as W x is for blank inputs and W h for a zero state, it
    has no direction: it gives 0 before the bias, and passes no gradient.

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

    groups = (2, 1)

    recurrent_bias: keras.Variable | None = None

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        *,
        normalize: Sequence[str] = ("kernel", "recurrent"),
        epsilon: float = 1e-5,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        gamma_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        gamma_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        zoneout: float | Sequence[float] = 0.0,
        learn_initial_state: bool = False,
        initial_state_initializer: Any = "random_normal",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**chosen(LNCell, locals()), **kwargs)
        normalize = self.normalize
        self._set_arguments(locals())

    def step(
        self, x: list[Tensor], h: list[Tensor], states: list[Tensor], weights: dict[str, Tensor]
    ) -> list[Tensor]:
        """Equations (26)-(28)."""
        s = self.recurrent_activation
        x = add_bias(x, weights.get("bias"))
        z, r = s(x[0] + h[0]), s(x[1] + h[1])
        (inner,) = add_bias(h[2:], weights.get("recurrent_bias"))
        candidate = self.activation(x[2] + r * inner)
        return [(1 - z) * states[0] + z * candidate]

    def weight_shapes(self, features: int) -> dict[str, tuple[int, ...]]:
        shapes = super().weight_shapes(features)
        if not self.use_bias:
            return shapes
        gammas = {name: shapes.pop(name) for name in list(shapes) if name.endswith("gamma")}
        return shapes | {"recurrent_bias": (self.units,)} | gammas


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

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        *,
        normalize: Sequence[str] = ("kernel", "recurrent"),
        epsilon: float = 1e-5,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        gamma_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        gamma_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        zoneout: float | Sequence[float] = 0.0,
        learn_initial_state: bool = False,
        initial_state_initializer: Any = "random_normal",
        seed: int | None = None,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        zero_output_for_mask: bool = False,
        use_fused: bool | str = "auto",
        activity_regularizer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(locals(), **kwargs)

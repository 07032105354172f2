"""LN-RNN, equation (4)."""

from collections.abc import Sequence
from typing import Any

import keras

from tf_layernorm._arguments import Tensor, chosen, serializable
from tf_layernorm.normalization import standardize
from tf_layernorm.recurrent.cell import LNCell, add_bias
from tf_layernorm.recurrent.layer import LNRNN
from tf_layernorm.recurrent.products import Term


@serializable
class LNSimpleRNNCell(LNCell):
    r"""Simple RNN cell with layer normalisation, equation (4) of the paper.

    $$h_t = f(\mathrm{LN}(W_x x_t + W_h h_{t-1}; \gamma) + b)$$

    One LN on the *sum* of the two products, unlike in the paper's LSTM and GRU.

    Args:
        units: Positive integer, the size of the state and of the output.
        activation: Activation `f`. Defaults to `"tanh"`.
        use_bias: Whether to add `bias`, after the normalisation. Defaults to `True`.
        normalize: `("sum",)`, or `()` for the plain simple RNN. Defaults to the first.
        epsilon: Small positive number added to the variance. Defaults to `1e-5`.
        kernel_initializer: Defaults to `"glorot_uniform"`.
        recurrent_initializer: Defaults to `"orthogonal"`.
        bias_initializer: Defaults to `"zeros"`.
        gamma_initializer: Defaults to `"ones"`.
        dropout: Rate for the inputs. Defaults to `0`.
        recurrent_dropout: Rate for h in W_h h. Defaults to `0`.
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
        kernel: `(features, units)`.
        recurrent_kernel: `(units, units)`.
        bias: `(units,)`, if `use_bias`.
        gamma: `(units,)`, if normalised.
        initial_h: `(units,)`, if `learn_initial_state`.

    Where a term is constant over the units, as W x is for blank inputs and W h for a zero state, it
    has no direction: it gives 0 before the bias, and passes no gradient.

    Raises:
        ValueError: If an argument is out of its range.

    Example:

    >>> import keras, numpy as np
    >>> from tf_layernorm import LNSimpleRNNCell
    >>> keras.layers.RNN(LNSimpleRNNCell(4))(np.ones((2, 3, 5), "float32")).shape
    TensorShape([2, 4])

    References:
        [Ba, Kiros, Hinton, 2016](https://arxiv.org/abs/1607.06450), eq. (4).
        [Krueger et al., 2016](https://arxiv.org/abs/1606.01305), zoneout.
    """

    normalizable = ("sum",)

    gamma: keras.Variable | None = None

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        use_bias: bool = True,
        *,
        normalize: Sequence[str] = ("sum",),
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
        """Equation (4)."""
        total = x[0] + h[0]
        if self.normalize:
            total = standardize(total, self.epsilon, (1,)) * weights["gamma"]
        return [self.activation(*add_bias([total], weights.get("bias")))]

    def terms(self, weights: dict[str, Tensor]) -> list[Term]:
        # The sum is normalised. A large mean of one product would cost it the other's digits.
        term = Term(None, self.groups, self.epsilon, centered=bool(self.normalize))
        return [term, term]

    def weight_shapes(self, features: int) -> dict[str, tuple[int, ...]]:
        shapes = super().weight_shapes(features)
        gamma = shapes.pop("sum_gamma", None)
        return shapes | ({"gamma": gamma} if gamma else {})


@serializable
class LNSimpleRNN(LNRNN):
    r"""Simple RNN layer with layer normalisation, equation (4) of the paper.

    `keras.layers.RNN` over an `LNSimpleRNNCell`, with what a cell alone can't do: masks, padded NaN
    and empty sequences are safe. See `LNSimpleRNNCell` for the equation, the arguments of the cell
    and the weights, which are those of the cell in `.cell`; see `LNLSTM` for the other arguments,
    the call arguments, shapes and masking, with one state h.

    Args:
        units: Positive integer, the size of the state and of the output.
        **kwargs: The arguments of `LNSimpleRNNCell` and of `LNLSTM` as a layer:
            `return_sequences`, `return_state`, `go_backwards`, `stateful`, `unroll`,
            `zero_output_for_mask`, `use_fused`, `activity_regularizer`.

    Example:

    >>> import numpy as np
    >>> from tf_layernorm import LNSimpleRNN
    >>> LNSimpleRNN(4, return_sequences=True)(np.ones((2, 3, 5), "float32")).shape
    TensorShape([2, 3, 4])

    References:
        [Ba, Kiros, Hinton, 2016](https://arxiv.org/abs/1607.06450), eq. (4).
    """

    cell_class = LNSimpleRNNCell

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        use_bias: bool = True,
        *,
        normalize: Sequence[str] = ("sum",),
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

"""LN-RNN, equation (4)."""

from collections.abc import Callable
from typing import NamedTuple

from keras import ops

from tf_layernorm._arguments import Tensor, serializable, warn_if_single
from tf_layernorm.normalization import layer_norm
from tf_layernorm.recurrent.cell import LNCell, project
from tf_layernorm.recurrent.layer import LNRNN
from tf_layernorm.recurrent.xla.simple_rnn import SimpleRNNRecurrence


class SimpleRNNWeights(NamedTuple):
    """The weights of one step."""

    kernel: Tensor  # (D, U)
    recurrent_kernel: Tensor  # (U, U)
    bias: Tensor | None
    gamma: Tensor


def simple_rnn_step(
    z: Tensor,
    h: Tensor,
    w: SimpleRNNWeights,
    *,
    activation: Callable[[Tensor], Tensor],
    epsilon: float,
    recurrent_mask: Tensor | None = None,
) -> Tensor:
    """Equation (4), given `z`, W_x x up to its mean: the new h."""
    h = h if recurrent_mask is None else h * recurrent_mask
    return activation(
        layer_norm(z + project(h, w.recurrent_kernel), w.gamma, w.bias, epsilon=epsilon)
    )


@serializable
class LNSimpleRNNCell(LNCell):
    r"""Simple RNN cell with layer normalisation, equation (4) of the paper.

    $$h_t = f(\mathrm{LN}(W_x x_t + W_h h_{t-1}; \gamma) + b)$$

    One LN on the *sum* of the two products, unlike in the paper's LSTM and GRU.

    Args:
        units: Positive integer, the size of the state and of the output.
        activation: Activation `f`. Defaults to `"tanh"`.
        use_bias: Whether to add `bias`, after the normalisation. Defaults to `True`.
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
        learn_initial_state: Whether the state to start from, zeros at first, is trained; no layer
            with it can be stateful. Defaults to `False`.
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
        gamma: `(units,)`.
        initial_h: `(units,)`, if `learn_initial_state`.

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

    def _build_weights(self, features: int) -> None:
        units = self.units
        warn_if_single(self, "its summed inputs", units)
        self.kernel = self._add_term("kernel", (features, units), "kernel")
        self.recurrent_kernel = self._add_term("recurrent_kernel", (units, units), "recurrent")
        self.bias = self._add_term("bias", (units,), "bias") if self.use_bias else None
        self.gamma = self._add_term("gamma", (units,), "gamma")

    def step_weights(self) -> SimpleRNNWeights:
        return SimpleRNNWeights(self.kernel, self.recurrent_kernel, self.bias, self.gamma)

    def recurrence(self) -> SimpleRNNRecurrence:
        return SimpleRNNRecurrence(self.epsilon)

    def input_part(self, inputs: Tensor, weights: SimpleRNNWeights) -> Tensor:
        z = project(inputs, weights.kernel)
        # LN takes any mean away; a large one would cost the sum with W_h h its digits.
        return z - ops.stop_gradient(ops.mean(z, axis=-1, keepdims=True))

    def step(
        self,
        z: Tensor,
        states: list[Tensor],
        weights: SimpleRNNWeights,
        recurrent_mask: Tensor | None,
    ) -> list[Tensor]:
        (h,) = states
        h = simple_rnn_step(
            z,
            h,
            weights,
            activation=self.activation,
            epsilon=self.epsilon,
            recurrent_mask=recurrent_mask,
        )
        return [h]


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

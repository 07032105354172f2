"""LN-LSTM, equations (20)-(22), and its neighbours (29)-(31) and (17)-(19)."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from tf_layernorm._arguments import Shape, Tensor, chosen, serializable, warn_if_single
from tf_layernorm.normalization import at_least_float32, standardize
from tf_layernorm.recurrent.cell import LNCell, add_bias
from tf_layernorm.recurrent.layer import LNRNN


@serializable
class LNLSTMCell(LNCell):
    r"""LSTM cell with layer normalisation, equations (20)-(22) of the paper.

    $$\begin{aligned}
    (i, f, g, o) &= \mathrm{LN}(W_x x_t; \gamma_x) + \mathrm{LN}(W_h h_{t-1}; \gamma_h) + b \\
    c_t &= \sigma(f) \odot c_{t-1} + \sigma(i) \odot \tanh(g) \\
    h_t &= \sigma(o) \odot \tanh(\mathrm{LN}(c_t; \gamma_c, \beta_c))
    \end{aligned}$$

    Each LN of the gates is joint over all `4 * units` values, and the carried state is the raw
    $c_t$. The shifts of the paper's two gate LNs are redundant with $b$, so there is one $b$, and
    it acts after the normalisation. `normalize=("state",)` is DRAW's LSTM, equations (29)-(31), and
    `normalize=()` the plain LSTM.

    Args:
        units: Positive integer, the size of the states and of the output.
        activation: Activation of the candidate and of the normalised state. Defaults to `"tanh"`.
        recurrent_activation: Activation of the gates. Defaults to `"sigmoid"`.
        use_bias: Whether to add `bias`. Defaults to `True`.
        unit_forget_bias: Whether the forget gate's bias starts at 1 (the paper: 0). Defaults to
            `True`.
        normalize: The terms to normalise: any of `"kernel"` (W_x x), `"recurrent"` (W_h h) and
            `"state"` (c in h). Defaults to all three.
        carry_normalized_state: Whether LN(c) is carried on in place of c, as TensorFlow Addons'
            and PyTorch fastrnns' cells do; needs `"state"`. Defaults to `False`.
        epsilon: Small positive number added to the variances. Defaults to `1e-5`.
        kernel_initializer: Defaults to `"glorot_uniform"`.
        recurrent_initializer: For the whole `(units, 4 * units)` block. Defaults to
            `"orthogonal"`.
        bias_initializer: Defaults to `"zeros"`.
        gamma_initializer: Defaults to `"ones"`.
        beta_initializer: Defaults to `"zeros"`.
        dropout: Rate for the inputs, one mask for the four gates. Defaults to `0`.
        recurrent_dropout: Rate for h in W_h h, one mask for the four gates. Defaults to `0`.
        zoneout: Rate at which units keep their previous state instead of taking the new one,
            drawn for each unit and step; at inference the two are mixed in proportion (Krueger et
            al., 2016). A pair is for h and c. Defaults to `0`.
        learn_initial_state: Whether the state to start from is trained; no layer with it can be
            stateful. Defaults to `False`.
        initial_state_initializer: Of that state. What is constant over the units, zeros too,
            passes no gradient through a norm. Defaults to `"random_normal"`.
        seed: Integer seed of the masks. Defaults to `None`.
        **kwargs: The `_regularizer` and `_constraint` of `kernel`, `recurrent`, `bias`, `gamma` and
            `beta`; `name`, `dtype` and so on of `keras.layers.Layer`.

    Call arguments:
        inputs: `(batch, features)`.
        states: `[h, c]`, each `(batch, units)`.
        training: Whether to apply dropout and zoneout. In `keras.layers.RNN` the dropout masks are
            constant over a sequence; called by hand, each step draws its own.

    Returns:
        `(h, [h, c])`. The statistics and c are computed in at least float32; c is returned in the
        dtype it came in (`keras.layers.RNN` gives it in the compute dtype).

    Weights:
        kernel: `(features, 4 * units)`, gates in Keras' order i, f, c, o.
        recurrent_kernel: `(units, 4 * units)`.
        bias: `(4 * units,)`, if `use_bias`.
        kernel_gamma, recurrent_gamma: `(4 * units,)` each, if in `normalize`.
        state_gamma, state_beta: `(units,)` each, if `"state"` is in `normalize`.
        initial_h, initial_c: `(units,)` each, if `learn_initial_state`.

    Where a term is constant over the units, as W x is for blank inputs and W h for a zero state, it
    has no direction: it gives 0 before the bias, and passes no gradient.

    Raises:
        ValueError: If an argument is out of its range.

    Example:

    >>> import keras, numpy as np
    >>> from tf_layernorm import LNLSTMCell
    >>> layer = keras.layers.RNN(LNLSTMCell(4), return_sequences=True)
    >>> layer(np.ones((2, 3, 5), "float32")).shape
    TensorShape([2, 3, 4])

    References:
        [Ba, Kiros, Hinton, 2016](https://arxiv.org/abs/1607.06450), eq. (20)-(22), (29)-(31).
        [Krueger et al., 2016](https://arxiv.org/abs/1606.01305), zoneout.
    """

    groups = (4,)
    n_states = 2
    normalizable = ("kernel", "recurrent", "state")

    state_gamma: keras.Variable | None = None
    state_beta: keras.Variable | None = None

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        *,
        unit_forget_bias: bool = True,
        normalize: Sequence[str] = ("kernel", "recurrent", "state"),
        carry_normalized_state: bool = False,
        epsilon: float = 1e-5,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        beta_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        gamma_constraint: Any = None,
        beta_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        zoneout: float | Sequence[float] = 0.0,
        learn_initial_state: bool = False,
        initial_state_initializer: Any = "random_normal",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**chosen(LNCell, locals()), **kwargs)
        if carry_normalized_state and "state" not in self.normalize:
            raise ValueError(
                '`carry_normalized_state=True` needs "state" in `normalize`. '
                f"Received: normalize={normalize!r}"
            )
        normalize = self.normalize
        self._set_arguments(locals())

    @property
    def state_dtypes(self) -> list[str]:
        return [self.compute_dtype, at_least_float32(self.compute_dtype)]

    def step(
        self, x: list[Tensor], h: list[Tensor], states: list[Tensor], weights: dict[str, Tensor]
    ) -> list[Tensor]:
        """Equations (20)-(22)."""
        f, s = self.activation, self.recurrent_activation
        i, forget, g, o = (a + b for a, b in zip(add_bias(x, weights.get("bias")), h, strict=True))
        c = s(forget) * states[1] + s(i) * f(g)
        normalized = c
        if "state" in self.normalize:
            gamma, beta = weights["state_gamma"], weights["state_beta"]
            # Relative to one entry, a constant vector is exactly 0.
            centered = c - tf.stop_gradient(c[:, :1])
            normalized = standardize(centered, self.epsilon, (1,)) * gamma + beta
        return [s(o) * f(normalized), normalized if self.carry_normalized_state else c]

    def weight_shapes(self, features: int) -> dict[str, tuple[int, ...]]:
        shapes = super().weight_shapes(features)
        if shapes.pop("state_gamma", None):
            shapes |= {"state_gamma": (self.units,), "state_beta": (self.units,)}
        return shapes

    def initializer_of(self, name: str) -> Any:
        if name == "bias" and self.unit_forget_bias:
            return self._forget_bias
        return super().initializer_of(name)

    def _forget_bias(self, shape: Shape, dtype: Any = None) -> Tensor:
        i, _, c, o = ops.split(self.bias_initializer(shape, dtype=dtype), 4)
        return ops.concatenate([i, ops.ones_like(i), c, o])

    def build(self, input_shape: Shape) -> None:
        if "state" in self.normalize:
            warn_if_single(self, "its state", self.units)
        super().build(input_shape)


@serializable
class LNLSTM(LNRNN):
    r"""LSTM layer with layer normalisation, equations (20)-(22) of the paper.

    `keras.layers.RNN` over an `LNLSTMCell`, with what a cell alone can't do: c is carried in at
    least float32, and masks, padded NaN and empty sequences are safe. See `LNLSTMCell` for the
    equations, the arguments of the cell and the weights, which are those of the cell in `.cell`.

    Args:
        units: Positive integer, the size of the states and of the output.
        return_sequences: Whether to return the whole sequence of outputs. Defaults to `False`.
        return_state: Whether to return h and c behind the output. Defaults to `False`.
        go_backwards: Whether to read the sequence from its end, and return the outputs in that
            order. Defaults to `False`.
        stateful: Whether the last states start the next batch. Defaults to `False`.
        unroll: Whether to unroll the loop; needs a known length. Defaults to `False`.
        zero_output_for_mask: Whether the output of a masked step is 0 instead of the last valid
            one. Defaults to `False`.
        use_fused: `"auto"` and `True` run the recurrence with a gradient of its own, of first order
            and in reverse mode, as two XLA programs: `"auto"` when executing eagerly or training,
            `True` always, exports included. `False` leaves the loop to TensorFlow to differentiate,
            to any order. Defaults to `"auto"`.
        activity_regularizer: Regularizer of the output. Defaults to `None`.
        **kwargs: The arguments of `LNLSTMCell`; `name`, `dtype`, `trainable`.

    Call arguments:
        sequences: `(batch, timesteps, features)`.
        initial_state: `[h, c]`, each `(batch, units)`. Defaults to the stored or learned states,
            or zeros.
        mask: Boolean `(batch, timesteps)`, False where a step is to be skipped. Defaults to the
            mask that Keras attached to `sequences`, also beside an `initial_state`.
        training: Whether to apply dropout and zoneout.
        sequences_mask: Where Keras hands in the implicit mask beside an `initial_state`.

    Output shape:
        `(batch, units)`, or `(batch, timesteps, units)` with `return_sequences`; then, with
        `return_state`, h in the compute dtype and c in at least float32.

    Masking:
        A masked step repeats the last output (zeros at the start) and carries the states on. Its
        inputs may be anything, NaN included. The mask goes on with `return_sequences`, reversed
        with `go_backwards`. An empty sequence gives zeros and the initial states.

    Stateful:
        `.states` of a built stateful layer is a list of `tf.Variable`, h and c, to be read;
        `reset_state([h, c])` sets them and `reset_state()` starts anew. They are no weights and are
        not saved with the model. In a stack every layer has its own.

    Example:

    >>> import numpy as np
    >>> from tf_layernorm import LNLSTM
    >>> y, h, c = LNLSTM(4, return_sequences=True, return_state=True)(np.ones((2, 3, 5), "float32"))
    >>> y.shape, h.shape, c.shape
    (TensorShape([2, 3, 4]), TensorShape([2, 4]), TensorShape([2, 4]))

    References:
        [Ba, Kiros, Hinton, 2016](https://arxiv.org/abs/1607.06450), eq. (20)-(22).
    """

    cell_class = LNLSTMCell

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        *,
        unit_forget_bias: bool = True,
        normalize: Sequence[str] = ("kernel", "recurrent", "state"),
        carry_normalized_state: bool = False,
        epsilon: float = 1e-5,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        beta_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        gamma_constraint: Any = None,
        beta_constraint: Any = None,
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

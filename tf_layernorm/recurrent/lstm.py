"""LN-LSTM, equations (20)-(22), and its neighbours (29)-(31) and (17)-(19)."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from keras import ops

from tf_layernorm._arguments import Shape, Tensor, serializable, warn_if_single
from tf_layernorm.normalization import at_least_float32
from tf_layernorm.recurrent.cell import LNCell, canonical_terms, normalize_term, project
from tf_layernorm.recurrent.layer import LNRNN
from tf_layernorm.recurrent.xla.lstm import LSTMRecurrence


class LSTMWeights(NamedTuple):
    """The weights of one step; a gamma that is None leaves its term as it is."""

    kernel: Tensor  # (D, 4U), gates in Keras' order i, f, c, o
    recurrent_kernel: Tensor  # (U, 4U)
    bias: Tensor | None
    kernel_gamma: Tensor | None
    recurrent_gamma: Tensor | None
    state_gamma: Tensor | None
    state_beta: Tensor | None


def lstm_input_part(x: Tensor, w: LSTMWeights, epsilon: float) -> Tensor:
    """LN(W_x x; kernel_gamma) + b, the part of eq. (20) that doesn't depend on the state."""
    return normalize_term(project(x, w.kernel), w.kernel_gamma, w.bias, epsilon)


def lstm_step(
    z: Tensor,
    h: Tensor,
    c: Tensor,
    w: LSTMWeights,
    *,
    activation: Callable[[Tensor], Tensor],
    recurrent_activation: Callable[[Tensor], Tensor],
    carry_normalized_state: bool,
    epsilon: float,
    recurrent_mask: Tensor | None = None,
    candidate_mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Equations (20)-(22), given `z` of `lstm_input_part`: the new h and the carried c."""
    h = h if recurrent_mask is None else h * recurrent_mask
    z = z + normalize_term(project(h, w.recurrent_kernel), w.recurrent_gamma, None, epsilon)
    i, f, g, o = ops.split(z, 4, axis=-1)
    g = activation(g) if candidate_mask is None else activation(g) * candidate_mask
    c = recurrent_activation(f) * ops.cast(c, z.dtype) + recurrent_activation(i) * g
    normalized = normalize_term(c, w.state_gamma, w.state_beta, epsilon)
    h = recurrent_activation(o) * activation(normalized)
    return h, normalized if carry_normalized_state else c


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
        learn_initial_state: Whether the state to start from, zeros at first, is trained; no layer
            with it can be stateful. From zeros its first gradients are up to
            `1 / sqrt(epsilon)` times as large. Defaults to `False`.
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

    n_states = 2

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
        beta_initializer: Any = "zeros",
        beta_regularizer: Any = None,
        beta_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(units, activation, use_bias, **kwargs)
        normalize = canonical_terms(normalize, ("kernel", "recurrent", "state"))
        if carry_normalized_state and "state" not in normalize:
            raise ValueError(
                '`carry_normalized_state=True` needs "state" in `normalize`. '
                f"Received: normalize={normalize!r}"
            )
        self._set_arguments(locals())

    @property
    def state_dtypes(self) -> list[str]:
        # In half precision a sum over time stops growing at 256 (bfloat16) or 2,048 (float16).
        return [self.compute_dtype, at_least_float32(self.compute_dtype)]

    def _build_weights(self, features: int) -> None:
        units, n = self.units, self.normalize
        if "state" in n:
            warn_if_single(self, "its state", units)
        self.kernel = self._add_term("kernel", (features, 4 * units), "kernel")
        self.recurrent_kernel = self._add_term("recurrent_kernel", (units, 4 * units), "recurrent")
        self.bias = self.kernel_gamma = self.recurrent_gamma = None
        self.state_gamma = self.state_beta = None
        if self.use_bias:
            initializer = self._forget_bias if self.unit_forget_bias else self.bias_initializer
            self.bias = self._add_term("bias", (4 * units,), "bias", initializer=initializer)
        if "kernel" in n:
            self.kernel_gamma = self._add_term("kernel_gamma", (4 * units,), "gamma")
        if "recurrent" in n:
            self.recurrent_gamma = self._add_term("recurrent_gamma", (4 * units,), "gamma")
        if "state" in n:
            self.state_gamma = self._add_term("state_gamma", (units,), "gamma")
            self.state_beta = self._add_term("state_beta", (units,), "beta")

    def _forget_bias(self, shape: Shape, dtype: Any = None) -> Tensor:
        i, _, c, o = ops.split(self.bias_initializer(shape, dtype=dtype), 4)
        return ops.concatenate([i, ops.ones_like(i), c, o])

    def step_weights(self) -> LSTMWeights:
        return LSTMWeights(*(getattr(self, field) for field in LSTMWeights._fields))

    def recurrence(self) -> LSTMRecurrence:
        return LSTMRecurrence(self.epsilon, self.carry_normalized_state)

    def input_part(self, inputs: Tensor, weights: LSTMWeights) -> Tensor:
        return lstm_input_part(inputs, weights, self.epsilon)

    def step(
        self,
        z: Tensor,
        states: list[Tensor],
        weights: LSTMWeights,
        recurrent_mask: Tensor | None,
        candidate_mask: Tensor | None = None,
    ) -> list[Tensor]:
        h, c = states
        h, c = lstm_step(
            z,
            h,
            c,
            weights,
            activation=self.activation,
            recurrent_activation=self.recurrent_activation,
            carry_normalized_state=self.carry_normalized_state,
            epsilon=self.epsilon,
            recurrent_mask=recurrent_mask,
            candidate_mask=candidate_mask,
        )
        return [h, c]


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
        use_fused: `"auto"` takes the fused recurrence where it computes the same, `True` raises a
            `ValueError` where it can't, `False` is Keras' loop. Defaults to `"auto"`.
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

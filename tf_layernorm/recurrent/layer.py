"""What all sequence layers share: masks, initial states, precision, and how the loop is run."""

from typing import Any, ClassVar

import keras
import tensorflow as tf
from keras import ops

from tf_layernorm._arguments import (
    OF_KERAS,
    Shape,
    Tensor,
    check_flags,
    check_keywords,
    check_shape,
    chosen,
    parameters_of,
    serializable,
)
from tf_layernorm.recurrent.cell import LNCell
from tf_layernorm.recurrent.checks import same_size
from tf_layernorm.recurrent.recurrence import Constants, States, forward_pass


@serializable
class FusedRNN(keras.layers.RNN):
    """`keras.layers.RNN` over an `LNCell`, run as one XLA program forward and one backward.

    It takes any cell of that base, yours too, and computes what `keras.layers.RNN` computes, with
    what that can't do: states in at least float32 where the cell asks for it, a mask beside an
    `initial_state`, NaN in padded steps, empty sequences. `LNLSTM`, `LNGRU` and `LNSimpleRNN` are
    such layers with their cells.

    Args:
        cell: An `LNCell`.
        return_sequences: Whether to return the whole sequence of outputs. Defaults to `False`.
        return_state: Whether to return the last states behind the output. Defaults to `False`.
        go_backwards: Whether to read the sequence from its end, and return the outputs in that
            order. Defaults to `False`.
        stateful: Whether the last states start the next batch. Defaults to `False`.
        unroll: Whether the loop is unrolled into the graph; needs a known length. Defaults to
            `False`.
        zero_output_for_mask: Whether the output of a masked step is 0 instead of the last valid
            one. Defaults to `False`.
        use_fused: `"auto"` and `True` run the recurrence with a gradient of its own, of first order
            and in reverse mode: as two XLA programs when executing eagerly or training, with `True`
            always, exports included. `False` leaves its loop to TensorFlow to differentiate, to any
            order. `unroll=True` needs `False` or `"auto"`, which then is the same. Defaults to
            `"auto"`.
        activity_regularizer: Regularizer of the output. Defaults to `None`.
        **kwargs: `name`, `dtype`, `trainable` of `keras.layers.Layer`.

    Call arguments, shapes and masking are those of `tf_layernorm.LNLSTM`, with the states of the
    cell.

    Raises:
        ValueError: If `cell` is no `LNCell` or changes its `call`, or an argument is out of range.

    Example:

    >>> import numpy as np
    >>> from tf_layernorm import LNGRUCell
    >>> from tf_layernorm.recurrent import FusedRNN
    >>> FusedRNN(LNGRUCell(4), return_sequences=True)(np.ones((2, 3, 5), "float32")).shape
    TensorShape([2, 3, 4])
    """

    cell: LNCell
    states: Any

    def __init__(
        self,
        cell: LNCell,
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
        check_flags(FusedRNN, locals())
        check_keywords(type(self), kwargs, parameters_of(type(self)))
        if not isinstance(cell, LNCell) or type(cell).call is not LNCell.call:
            raise ValueError(
                "`cell` must be a `tf_layernorm.recurrent.LNCell` whose `step` says what it does, "
                "and not its `call`; `keras.layers.RNN` takes any other. "
                f"Received: cell={cell!r}"
            )
        if not (use_fused == "auto" or isinstance(use_fused, bool)):
            raise ValueError(
                f'`use_fused` must be "auto", True or False. Received: use_fused={use_fused!r}'
            )
        if use_fused is True and unroll:
            raise ValueError(
                "An unrolled loop has no gradient of its own: `unroll=True` needs "
                "`use_fused=False`. Received: use_fused=True"
            )
        super().__init__(
            cell,
            return_sequences=return_sequences,
            return_state=return_state,
            go_backwards=go_backwards,
            stateful=stateful,
            unroll=unroll,
            zero_output_for_mask=zero_output_for_mask,
            activity_regularizer=activity_regularizer,
            autocast=False,  # keeps a float32 `initial_state` as it is
            **kwargs,
        )
        # Keras' development version takes masks off behind an RNN unless this is set.
        self.supports_masking = True
        self.use_fused = use_fused

    def __getattr__(self, name: str) -> Any:
        # Every argument of the cell is an argument of the layer: `units`, `epsilon`, ...
        cell = vars(self).get("cell")
        if cell is not None and name in cell._argument_names:
            return getattr(cell, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def build(self, sequences_shape: Shape, initial_state_shape: Any = None) -> None:
        if sequences_shape and isinstance(sequences_shape[0], (list, tuple)):
            raise ValueError(
                f"`{type(self).__name__}` takes one tensor of sequences: pass states by "
                f"`initial_state=[...]`. Received: {len(sequences_shape)} tensors"
            )
        features = check_shape(self, sequences_shape, 3)
        self._check_unroll(sequences_shape[1])
        if not self.cell.built:
            self.cell.build((sequences_shape[0], features))
        if self.stateful and self.cell.learn_initial_state:
            raise ValueError(
                "No gradient reaches an initial state through the states that a layer has stored. "
                "Received: stateful=True, learn_initial_state=True"
            )
        if self.stateful and self.states is None:
            if sequences_shape[0] is None:
                raise ValueError(
                    "`stateful=True` needs a known batch size, as in `keras.Input(batch_size=8)`. "
                    f"Received: shape={tuple(sequences_shape)}"
                )
            with tf.init_scope():
                # tf.Variable: Keras' own would be rounded to half under a mixed dtype policy, and
                # would count among the weights.
                self.states = [
                    tf.Variable(state, trainable=False, name=f"state_{i}")
                    for i, state in enumerate(self.get_initial_state(sequences_shape[0]))
                ]
        self.input_spec = keras.layers.InputSpec(ndim=3, axes={-1: features})

    def reset_state(self, states: Any = None) -> None:
        """Sets the states of a stateful layer, all of them or none.

        Args:
            states: A tensor or array a state. Defaults to those that a new layer starts from.
        """
        if self.states is None:
            if states is not None:
                raise ValueError(
                    "Only a stateful layer that is built has states to set. "
                    f"Received: stateful={self.stateful}, built={self.built}"
                )
            return
        if states is None:
            states = self.get_initial_state(self.states[0].shape[0])
        self._store(self._check_states("states", states, self.states[0].shape))

    def _store(self, states: list[Tensor]) -> None:
        for variable, state in zip(self.states, states, strict=True):
            variable.assign(ops.cast(state, variable.dtype.name))

    def call(
        self,
        sequences: Tensor,
        initial_state: Any = None,
        mask: Tensor | None = None,
        training: bool = False,
        sequences_mask: Tensor | None = None,
    ) -> Any:
        if isinstance(sequences, tf.RaggedTensor):
            raise ValueError(
                "Ragged sequences are not supported: pass `x.to_tensor()` with "
                "`mask=tf.sequence_mask(x.row_lengths())`. Received: a tf.RaggedTensor"
            )
        self._check_unroll(sequences.shape[1])
        sequences = ops.cast(sequences, self.compute_dtype)
        if self.stateful:
            size = self.states[0].shape[0]
            if sequences.shape[0] not in (None, size):
                raise ValueError(
                    f"A stateful layer keeps its batch size of {size}. "
                    f"Received: batch size {sequences.shape[0]}"
                )
            sequences = same_size("sequences", sequences, self.states[0], axes=1)
            # XLA drops that check, but not this one.
            sequences = tf.ensure_shape(sequences, [size, *sequences.shape[1:]])
        states = self._states_to_start_from(sequences, initial_state)
        # Beside an `initial_state` Keras fills `sequences_mask`, and not `mask`.
        mask = sequences_mask if mask is None else mask
        if mask is not None:
            mask = ops.cast(mask, "bool")
            if not sequences.shape[:2].is_compatible_with(mask.shape):
                raise ValueError(
                    f"`mask` must be of shape {sequences.shape[:2]}. Received: shape {mask.shape}"
                )
            mask = same_size("mask", mask, sequences, axes=2)
            # Before any arithmetic: NaN in a padded step would reach the gradient through `where`.
            valid = ops.expand_dims(mask, 2)  # not an index of None: LiteRT has none for booleans
            sequences = ops.where(valid, sequences, ops.zeros_like(sequences))
        if self.go_backwards:
            sequences, mask = (
                None if v is None else tf.reverse(v, axis=[1]) for v in (sequences, mask)
            )
        outputs, states = self._run(sequences, states, mask, training)
        if self.stateful:
            self._store(states)
        if outputs is None:
            outputs = self._last_output(sequences, states[0], mask)
        elif mask is not None:
            shown = mask if self.zero_output_for_mask else tf.cumsum(tf.cast(mask, tf.int32), 1) > 0
            outputs = tf.where(tf.expand_dims(shown, 2), outputs, tf.zeros_like(outputs))
        return (outputs, *states) if self.return_state else outputs

    def _run(
        self, sequences: Tensor, states: States, mask: Tensor | None, training: bool
    ) -> tuple[Tensor | None, States]:
        cell, recurrent_mask, shares = self.cell, None, []
        if training and cell.dropout:
            sequences *= cell.draw_dropout_mask(sequences[:, :1])
        if training and cell.recurrent_dropout:
            recurrent_mask = cell.draw_recurrent_mask(states[0])
        if cell.zoneout_rates:
            batch, steps, _ = ops.shape(sequences)
            shares = cell.draw_shares((batch if training else 1, steps), training)
        weights = cell.step_weights()
        if recurrent_mask is not None and not cell.masks_recurrent_product:
            weights["recurrent_mask"], recurrent_mask = recurrent_mask, None
        arguments = (
            sequences,
            states,
            weights,
            Constants(mask, recurrent_mask, tuple(shares)),
        )
        if self.use_fused is False or self.unroll:
            outputs, states, _ = forward_pass(
                cell,
                *arguments,
                sequences=self.return_sequences,
                differentiable=True,
                unroll=self.unroll,
            )
            return outputs, states
        return cell.programs(
            *arguments,
            sequences=self.return_sequences,
            training=bool(training),
            # Keras gives no sign that a trace is an export, which must run where no XLA is.
            compiled=tf.executing_eagerly() or bool(training) or self.use_fused is True,
        )

    def _states_to_start_from(self, sequences: Tensor, initial_state: Any) -> States:
        if initial_state is None and not self.stateful:
            return self.get_initial_state(ops.shape(sequences)[0])
        if initial_state is None:
            initial_state = [tf.convert_to_tensor(state) for state in self.states]
        shape = tf.TensorShape([sequences.shape[0], self.cell.units])
        states = self._check_states("initial_state", initial_state, shape)
        return [same_size("initial_state", state, sequences, axes=1) for state in states]

    def _check_states(self, name: str, states: Any, shape: tf.TensorShape) -> States:
        """One tensor a state in its dtype, or an error: another shape could be broadcast."""
        states = list(states) if isinstance(states, (list, tuple)) else [states]
        dtypes = self.cell.state_dtypes
        if len(states) != len(dtypes):
            raise ValueError(
                f"`{name}` must hold {len(dtypes)} tensors. Received: {len(states)} tensors"
            )
        states = [ops.cast(state, dtype) for state, dtype in zip(states, dtypes, strict=True)]
        if not all(shape.is_compatible_with(state.shape) for state in states):
            raise ValueError(
                f"`{name}` must hold tensors of shape {shape}. "
                f"Received: shapes {[tuple(state.shape) for state in states]}"
            )
        return states

    def _last_output(self, sequences: Tensor, h: Tensor, mask: Tensor | None) -> Tensor:
        """The output of the step read last: h, or zeros where no step was valid."""
        if mask is None:
            if sequences.shape[1]:
                return h
            return tf.where(tf.shape(sequences)[1] > 0, h, tf.zeros_like(h))
        if self.zero_output_for_mask:
            mask = mask[:, -1:]
        return tf.where(tf.reduce_any(mask, axis=1, keepdims=True), h, tf.zeros_like(h))

    def _check_unroll(self, length: int | None) -> None:
        if self.unroll and length is None:
            raise ValueError(
                "`unroll=True` needs a known number of timesteps, as by "
                "`keras.Input((timesteps, features))`. Received: timesteps=None"
            )

    def compute_mask(self, sequences: Any, mask: Any) -> Any:
        mask = keras.tree.flatten(mask)[0]
        output_mask = None
        if self.return_sequences and mask is not None:
            output_mask = ops.flip(mask, axis=1) if self.go_backwards else mask
        return [output_mask] + [None] * len(self.state_size) if self.return_state else output_mask

    def compute_output_spec(
        self,
        sequences: Tensor,
        initial_state: Any = None,
        mask: Tensor | None = None,
        training: bool = False,
        sequences_mask: Tensor | None = None,
    ) -> Any:
        shapes = self.compute_output_shape(sequences.shape)
        shapes = shapes if self.return_state else [shapes]
        dtypes = [self.compute_dtype, *self.cell.state_dtypes]
        specs = tuple(keras.KerasTensor(s, dtype=d) for s, d in zip(shapes, dtypes, strict=False))
        return specs if self.return_state else specs[0]

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "use_fused": self.use_fused}


class LNRNN(FusedRNN):
    """Base of `LNLSTM`, `LNGRU` and `LNSimpleRNN`: makes a cell of its `cell_class`, its own."""

    cell_class: ClassVar[type[LNCell]]

    def __init__(self, arguments: dict[str, Any], **kwargs: Any) -> None:
        """Takes the `locals()` of a subclass' `__init__`, and its keywords."""
        of_cell = parameters_of(self.cell_class)
        check_keywords(type(self), kwargs, {**parameters_of(type(self)), **of_cell})
        arguments = {**arguments, **kwargs}
        layer = chosen(FusedRNN, arguments)
        layer |= {name: kwargs[name] for name in OF_KERAS if name in kwargs}
        cell = {n: v for n, v in arguments.items() if n in of_cell and n not in layer}
        cell |= {name: layer[name] for name in ("dtype", "trainable") if name in layer}
        super().__init__(self.cell_class(**cell, name="cell"), **layer)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["cell"]
        cell_config = self.cell.get_config()
        return {**config, **{name: cell_config[name] for name in self.cell._argument_names}}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> "LNRNN":
        return cls(**config)

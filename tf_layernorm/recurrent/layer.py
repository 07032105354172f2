"""What the three sequence layers share: masks, initial state, precision, choice of driver."""

from typing import Any, ClassVar

import keras
import tensorflow as tf
from keras import ops

from tf_layernorm._arguments import Shape, Tensor, check_flags, check_shape, show_parameters
from tf_layernorm.recurrent.cell import LNCell
from tf_layernorm.recurrent.xla.recurrence import recurrence


class LNRNN(keras.layers.RNN):
    """Base of the sequence layers: `keras.layers.RNN` over its `cell_class`.

    It owns what `keras.layers.RNN` does outside the cell and can't be mended from inside one: the
    dtype of the states, the mask beside an `initial_state`, NaN in padded steps, empty sequences.
    """

    cell_class: ClassVar[type[LNCell]]
    states: Any

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        show_parameters(cls, cls.cell_class, LNRNN)

    def __init__(
        self,
        *args: Any,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        zero_output_for_mask: bool = False,
        use_fused: Any = "auto",
        activity_regularizer: Any = None,
        trainable: bool = True,
        dtype: Any = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        check_flags(locals())
        if not (use_fused == "auto" or isinstance(use_fused, bool)):
            raise ValueError(
                f'`use_fused` must be "auto", True or False. Received: use_fused={use_fused!r}'
            )
        cell = self.cell_class(*args, name="cell", trainable=trainable, dtype=dtype, **kwargs)
        super().__init__(
            cell,
            return_sequences=return_sequences,
            return_state=return_state,
            go_backwards=go_backwards,
            stateful=stateful,
            unroll=unroll,
            zero_output_for_mask=zero_output_for_mask,
            activity_regularizer=activity_regularizer,
            trainable=trainable,
            dtype=dtype,
            autocast=False,  # keeps a float32 `initial_state` as it is
            name=name,
        )
        # Keras' development version takes masks off behind an RNN unless this is set.
        self.supports_masking = True
        self.use_fused = use_fused
        reason = "it has no `unroll`" if unroll else cell.why_not_fused()
        if use_fused is True and reason:
            raise ValueError(
                f"The fused recurrence can't compute this layer: {reason}. Use `use_fused=False`. "
                "Received: use_fused=True"
            )
        self._fused = use_fused is not False and not reason

    def build(self, sequences_shape: Shape, initial_state_shape: Any = None) -> None:
        features = check_shape(self, sequences_shape, 3)
        self._check_unroll(sequences_shape[1])
        if not self.cell.built:
            self.cell.build((sequences_shape[0], features))
        if self.cell.zoneout_rates:
            self.cell.input_spec = None  # this layer's loop hands in masks behind the inputs
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
        self._store(self.cell.check_states("states", states, self.states[0].shape))

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
        states = self._states_to_start_from(sequences, initial_state)
        # Beside an `initial_state` Keras fills `sequences_mask`, and not `mask`.
        mask = sequences_mask if mask is None else mask
        if mask is not None:
            mask = ops.cast(mask, "bool")
            if not sequences.shape[:2].is_compatible_with(mask.shape):
                raise ValueError(
                    f"`mask` must be of shape {sequences.shape[:2]}. Received: shape {mask.shape}"
                )
            # Before any arithmetic: NaN in a padded step would reach the gradient through `where`.
            valid = ops.expand_dims(mask, 2)  # not an index of None: LiteRT has none for booleans
            sequences = ops.where(valid, sequences, ops.zeros_like(sequences))

        loop = self._fused_loop if self._fused else self._keras_loop
        output, states = loop(sequences, states, mask, training)

        if self.stateful:
            self._store(states)
        return (output, *states) if self.return_state else output

    def _states_to_start_from(self, sequences: Tensor, initial_state: Any) -> list[Tensor]:
        if initial_state is None:
            if self.stateful:
                initial_state = [tf.convert_to_tensor(state) for state in self.states]
            else:
                initial_state = self.get_initial_state(ops.shape(sequences)[0])
        if self.stateful and sequences.shape[0] not in (None, self.states[0].shape[0]):
            raise ValueError(
                f"A stateful layer keeps its batch size of {self.states[0].shape[0]}. "
                f"Received: batch size {sequences.shape[0]}"
            )
        shape = tf.TensorShape([sequences.shape[0], self.cell.units])
        return self.cell.check_states("initial_state", initial_state, shape)

    def _fused_loop(
        self, sequences: Tensor, states: list[Tensor], mask: Tensor | None, training: bool
    ) -> tuple[Tensor, list[Tensor]]:
        cell, recurrent_mask, share = self.cell, None, None
        if cell.zoneout_rates:
            batch, steps, _ = ops.shape(sequences)
            share = cell.new_share((batch if training else 1, steps), training)
        if training and cell.dropout:
            sequences *= cell.draw_dropout_mask(sequences[:, :1])
        if training and cell.recurrent_dropout:
            recurrent_mask = cell.draw_recurrent_mask(states[0])
        if self.go_backwards:
            sequences, mask, share = (
                None if v is None else tf.reverse(v, axis=[1]) for v in (sequences, mask, share)
            )
        outputs, states = recurrence(
            cell.recurrence(),
            sequences,
            states,
            cell.step_weights(),
            mask,
            recurrent_mask,
            share,
            return_sequences=self.return_sequences,
            training=bool(training),
            # Keras gives no sign that a trace is an export, which must run where no XLA is.
            compiled=tf.executing_eagerly() or bool(training) or self.use_fused is True,
        )
        if outputs is None:
            return self._last_output(sequences, states[0], mask), states
        if mask is not None:
            shown = mask if self.zero_output_for_mask else tf.cumsum(tf.cast(mask, tf.int32), 1) > 0
            outputs = tf.where(tf.expand_dims(shown, 2), outputs, tf.zeros_like(outputs))
        return outputs, states

    def _keras_loop(
        self, sequences: Tensor, states: list[Tensor], mask: Tensor | None, training: bool
    ) -> tuple[Tensor, list[Tensor]]:
        features, may_be_empty = sequences.shape[2], not sequences.shape[1]
        if training and self.cell.zoneout_rates:
            share = self.cell.new_share(ops.shape(sequences)[:2], training)
            sequences = tf.concat([sequences, tf.cast(share, sequences.dtype)], axis=2)
        if may_be_empty:
            # Keras' loop evaluates step 0, so one masked step is put where it is read first.
            if mask is None:
                mask = tf.ones(tf.shape(sequences)[:2], "bool")
            before, after = (0, 1) if self.go_backwards else (1, 0)
            sequences = tf.pad(sequences, [[0, 0], [before, after], [0, 0]])
            mask = tf.pad(mask, [[0, 0], [before, after]])
        if training:
            self.cell.get_dropout_mask(sequences[:, 0, :features])
            self.cell.get_recurrent_dropout_mask(states[0])
        try:
            last, outputs, states = self.inner_loop(sequences, states, mask, training)
        finally:
            self.cell.reset_dropout_mask()
            self.cell.reset_recurrent_dropout_mask()
        if not self.return_sequences:
            return last, list(states)
        return outputs[:, 1:] if may_be_empty else outputs, list(states)

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
        config = super().get_config()
        del config["cell"]
        cell_config = self.cell.get_config()
        own = {name: cell_config[name] for name in self.cell._argument_names}
        return {**config, **own, "use_fused": self.use_fused}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> "LNRNN":
        return cls(**config)

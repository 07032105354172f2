"""A model over sequences as a model of one step, its states given and returned."""

from collections.abc import Iterator
from typing import Any

import keras
from keras import ops

from tf_layernorm._arguments import Tensor
from tf_layernorm.export.graph import (
    Sources,
    check_each_step_alone,
    describe,
    has_graph,
    recurrent_arguments,
    run,
    tensors_in,
)
from tf_layernorm.recurrent.layer import LNRNN

# A recurrent layer that changes `call` may do around its cell what a step can't.
_KNOWN_CALLS = [
    layer.call
    for layer in (
        keras.layers.RNN,
        keras.layers.LSTM,
        keras.layers.GRU,
        keras.layers.SimpleRNN,
        LNRNN,
    )
]


class StepModel(keras.Model):
    """One step of a recurrent model; made by `step_model`."""

    def __init__(self, inputs: Any, outputs: Any, steps: Any, given: Any) -> None:
        super().__init__(inputs, outputs)
        self._steps, self._given = steps, given

    @property
    def start_inputs(self) -> list[Tensor]:
        """The inputs of the model that make an `initial_state`."""
        return [] if self._given is None else list(self._given.inputs)

    def initial_states(self, *arguments: Any) -> list[Tensor]:
        """The states to start from, in the order in which a step takes them.

        Args:
            *arguments: The batch size. Or, where the model computes an `initial_state` from some of
                its inputs, those inputs.
        """
        computed: Iterator[Tensor] = iter(())
        batch_size = arguments[0]
        if self._given is not None:
            computed = iter(keras.tree.flatten(self._given(list(arguments))))
            batch_size = ops.shape(arguments[0])[0]
        states = []
        for step in self._steps:
            if step.given is None:
                new = keras.tree.flatten(step.layer.get_initial_state(batch_size))
            else:
                new = [next(computed) if tensors_in(state) else state for state in step.given]
            states += [ops.cast(s, dtype) for s, dtype in zip(new, step.dtypes, strict=True)]
        return states


class _RecurrentStep(keras.layers.Layer):
    """One step of a recurrent layer: (B, 1, ...) and the states to output and new states."""

    def __init__(self, layer: Any, initial_state: Any) -> None:
        super().__init__(dtype=layer.dtype_policy, autocast=False)
        self.layer = layer
        is_given = initial_state is not None
        initial_state = initial_state if is_given else layer.get_initial_state(1)
        if not keras.tree.is_nested(initial_state):
            initial_state = [initial_state]
        flat = keras.tree.flatten(initial_state)
        self.given = flat if is_given else None  # symbolic, or constants
        self.structure = keras.tree.map_structure(lambda _: 0, initial_state)
        if isinstance(layer, LNRNN):
            self.dtypes = list(layer.cell.state_dtypes)
        else:  # which casts whatever it starts from
            self.dtypes = [layer.cell.compute_dtype] * len(flat)
        self.state_shapes = [tuple(state.shape)[1:] for state in flat]
        self.built = True

    def call(self, sequences: Tensor, states: list[Tensor]) -> list[Tensor]:
        cell = self.layer.cell
        call = cell if callable(cell) else cell.call
        inputs = ops.cast(sequences[:, 0], self.compute_dtype)
        output, new = call(inputs, keras.tree.pack_sequence_as(self.structure, states))
        output = ops.cast(output, self.compute_dtype)
        new = [ops.cast(s, d) for s, d in zip(keras.tree.flatten(new), self.dtypes, strict=True)]
        return [output[:, None] if self.layer.return_sequences else output, *new]


def step_model(model: keras.Model) -> StepModel:
    """Makes a model of one time step out of a model over sequences.

    Run step after step, it computes what the model computes for the whole sequence; where the model
    gives only the last output (`return_sequences=False`), that of the steps so far. The weights are
    the model's own.

    Args:
        model: A built Sequential or functional model of `keras.layers.RNN` (over one cell or
            several), `keras.layers.LSTM`, `GRU`, `SimpleRNN`, `LNLSTM`, `LNGRU` or `LNSimpleRNN`,
            and any layers that act on each step alone. Every input that reaches the output other
            than by an `initial_state` is a sequence `(batch, timesteps, ...)`.

    Returns:
        A `keras.Model`. It takes `[*inputs, *states]`: one step `(batch, ...)` of every sequence,
        then the states of all recurrent layers in the order of their calls. It gives
        `[*outputs, *new_states]`. Its `initial_states(batch_size)` are the states to start from;
        where inputs of the model make an `initial_state`, `initial_states(*those_inputs)`.

    Raises:
        ValueError: If the model has no graph, or no recurrent layer, or if a layer can't be run
            step by step. The message names the layer.

    Example:

    >>> import keras, numpy as np
    >>> from tf_layernorm import LNLSTM
    >>> from tf_layernorm.export import step_model
    >>> model = keras.Sequential([keras.Input((None, 3)), LNLSTM(4), keras.layers.Dense(1)])
    >>> x = keras.ops.ones((2, 5, 3))
    >>> step = step_model(model)
    >>> states = step.initial_states(2)
    >>> for t in range(5):
    ...     y, *states = step([x[:, t], *states])
    >>> np.testing.assert_allclose(y, model(x), atol=1e-6)
    """
    if not has_graph(model):
        raise ValueError(
            "`model` must be a built Sequential or functional model: what a subclassed model does "
            f"is not known. Received: model={model!r}"
        )
    walk = _Walk(Sources(model))
    outputs = run(model, walk.tensors, walk.call)
    if not walk.steps:
        raise ValueError(
            f"`model` must hold a recurrent layer over the sequence. Received: model={model!r}"
        )
    outputs = [y[:, 0] if y in walk.timed else y for y in outputs]
    return StepModel(
        [*walk.inputs, *walk.states], [*outputs, *walk.new_states], walk.steps, walk.given()
    )


class _Walk:
    """Calls each operation of a model on one step, and gathers the states on the way."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self.remaining = iter(sources.initial_states)
        self.inputs: list[Tensor] = []
        self.tensors = []
        self.timed = set()  # tensors with an axis for the one step
        for k, tensor in enumerate(sources.inputs):
            if k in sources.sequences:
                batch, _, *rest = tensor.shape
                self.inputs.append(
                    keras.Input(batch_shape=(batch, *rest), dtype=tensor.dtype, name=tensor.name)
                )
                tensor = ops.expand_dims(self.inputs[-1], 1)
                self.timed.add(tensor)
            self.tensors.append(tensor)
        self.states: list[Tensor] = []
        self.new_states: list[Tensor] = []
        self.steps: list[_RecurrentStep] = []
        self.starts: list[Tensor] = []

    def call(self, operation: Any, *args: Any, **kwargs: Any) -> Any:
        is_recurrent = isinstance(operation, keras.layers.RNN)
        initial_state = next(self.remaining) if is_recurrent else None
        given = tensors_in((args, kwargs))
        if is_recurrent and args[0] in self.timed:
            return self._step(
                operation, initial_state, recurrent_arguments(operation, args, kwargs)
            )
        if self.timed.isdisjoint(given):
            # What makes an initial state, or follows the last output of a sequence.
            return operation(*args, **kwargs)
        if not self.timed.issuperset(given):
            raise ValueError(
                "The last output of a sequence must not be used beside the sequence. Received: "
                f"{describe(operation)}"
            )
        check_each_step_alone(operation, args, kwargs)
        outputs = operation(*args, **kwargs)
        self.timed.update(tensors_in(outputs))
        return outputs

    def _step(self, layer: Any, initial_state: Any, arguments: dict[str, Any]) -> Any:
        for wrong, why in (
            (layer.go_backwards, "reads the sequence from its end"),
            (arguments.get("mask") is not None, "is given a mask"),
            (type(layer).call not in _KNOWN_CALLS, "changes the `call` of its base"),
            (
                self.sources.sequences & self.sources.needed(initial_state),
                "starts from a state that is computed from the sequence",
            ),
        ):
            if wrong:
                raise ValueError(
                    "A recurrent layer must be one that can be run step by step. Received: "
                    f"{describe(layer)}, which {why}"
                )
        step = _RecurrentStep(layer, initial_state)
        sequences = arguments["sequences"]
        states = [
            keras.Input(batch_shape=(sequences.shape[0], *shape), dtype=dtype, name=f"state_{k}")
            for k, (shape, dtype) in enumerate(
                zip(step.state_shapes, step.dtypes, strict=True), len(self.states)
            )
        ]
        output, *new_states = step(sequences, states)
        if layer.return_sequences:
            self.timed.add(output)
        self.steps.append(step)
        self.states += states
        self.new_states += new_states
        self.starts += tensors_in(initial_state)
        return [output, *new_states] if layer.return_state else output

    def given(self) -> keras.Model | None:
        """The model of the initial states that inputs make, or None."""
        if not self.starts:
            return None
        inputs = [self.sources.inputs[k] for k in sorted(self.sources.needed(self.starts))]
        return keras.Model(inputs, self.starts)

"""The graph of a Keras model, run on other tensors, and what of it acts on each step alone."""

import inspect
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from tf_layernorm._arguments import Tensor
from tf_layernorm.normalization import at_least_float32

_SAMPLE_STEPS = 32


class _End(keras.layers.Layer):
    """Where the outputs of a graph are caught."""

    def __init__(self) -> None:
        super().__init__()
        self.supports_masking = True

    def call(self, outputs: list[Tensor]) -> Tensor:
        return outputs[0]


def has_graph(operation: Any) -> bool:
    """Whether it is a Sequential or functional model, built."""
    return isinstance(operation, keras.Model) and bool(getattr(operation, "inputs", None))


def run(model: Any, tensors: list[Tensor], call: Callable[..., Any]) -> list[Tensor]:
    """Runs a model's graph on other tensors, each operation, of nested models too, by `call`."""
    end, results = _End(), []

    def call_or_enter(operation: Any, *args: Any, **kwargs: Any) -> Any:
        if operation is end:
            results.extend(keras.tree.flatten(args))
            return end(tensors[:1])  # Some graph: the clone itself is not wanted.
        if has_graph(operation):
            return run(operation, keras.tree.flatten(args), call)
        return call(operation, *args, **kwargs)

    keras.models.clone_model(
        keras.Model(list(model.inputs), end(list(model.outputs))),
        input_tensors=list(tensors),
        clone_function=lambda operation: operation,
        call_function=call_or_enter,
    )
    return results


def describe(operation: Any) -> str:
    return f"layer {operation.name!r}, a {type(operation).__name__}"


def tensors_in(structure: Any) -> list[Tensor]:
    """The symbolic tensors of a structure."""
    return [t for t in keras.tree.flatten(structure) if isinstance(t, keras.KerasTensor)]


def recurrent_arguments(layer: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """The arguments of the call of a recurrent layer by their names."""
    return inspect.signature(layer.call).bind(*args, **kwargs).arguments


class Sources:
    """Which inputs of a model its tensors need, other than by an `initial_state`.

    Attributes:
        inputs: New inputs for the model.
        sequences: The indices of the inputs that reach the output other than by an
            `initial_state`: those are sequences.
        initial_states: For every call of a recurrent layer, in the order of `run`, the
            `initial_state` computed from `inputs`, or None.
    """

    def __init__(self, model: keras.Model) -> None:
        self.inputs = [
            keras.Input(batch_shape=t.shape, dtype=t.dtype, name=f"input_{k}")
            for k, t in enumerate(model.inputs)
        ]
        self._of = {tensor: {k} for k, tensor in enumerate(self.inputs)}
        self.initial_states: list[Any] = []
        self.sequences = self.needed(run(model, self.inputs, self._call))

    def needed(self, structure: Any) -> set[int]:
        return set().union(*(self._of[t] for t in tensors_in(structure)))

    def _call(self, operation: Any, *args: Any, **kwargs: Any) -> Any:
        outputs, used = operation(*args, **kwargs), (args, kwargs)
        if isinstance(operation, keras.layers.RNN):
            arguments = recurrent_arguments(operation, args, kwargs)
            self.initial_states.append(arguments.get("initial_state"))
            used = arguments["sequences"]
        self._of |= dict.fromkeys(tensors_in(outputs), self.needed(used))
        return outputs


def check_each_step_alone(operation: Any, args: Any, kwargs: Any) -> None:
    """Raises a `ValueError` if an operation makes a mask, or needs other steps than the present.

    No list of layers says that: the operation is called on random sequences, and on their steps.
    """
    compute_mask = getattr(operation, "compute_mask", lambda *_: None)
    if compute_mask(tensors_in((args, kwargs))[0], None) is not None:
        raise ValueError(
            f"One step has no mask, so none must be made. Received: {describe(operation)}"
        )
    rng = np.random.default_rng(0)

    def sample(tensor: Any) -> Any:
        if not isinstance(tensor, keras.KerasTensor):
            return tensor
        shape = (1, _SAMPLE_STEPS, *(size or 4 for size in tensor.shape[2:]))
        is_float = "float" in tensor.dtype
        values = rng.normal(size=shape) if is_float else rng.integers(0, 2, size=shape)
        return ops.cast(values, tensor.dtype)

    def as_batch(tensor: Any) -> Any:
        """A sequence of steps as a batch of single steps."""
        return ops.reshape(tensor, (tensor.shape[1], 1, *tensor.shape[2:]))

    sequences = keras.tree.map_structure(sample, (args, kwargs))
    alone = keras.tree.map_structure(
        lambda tensor: as_batch(tensor) if ops.is_tensor(tensor) else tensor, sequences
    )
    try:
        together, apart = (keras.tree.flatten(operation(*a, **k)) for a, k in (sequences, alone))
        agree = all(_close(as_batch(t), a) for t, a in zip(together, apart, strict=True))
    except Exception as error:
        raise ValueError(
            "A layer must be applicable to one step of a sequence. Received: "
            f"{describe(operation)}, which raises: {error}"
        ) from error
    if not agree:
        raise ValueError(
            "What a layer gives for one step of a sequence must not depend on the other steps, "
            f"unless it is `keras.layers.RNN` or the like. Received: {describe(operation)}"
        )


def _close(x: Tensor, y: Tensor) -> bool:
    is_half = x.dtype != at_least_float32(x.dtype)
    x, y = (ops.convert_to_numpy(ops.cast(t, "float64")) for t in (x, y))
    tolerance = (1e-1 if is_half else 1e-4) * max(1.0, np.abs(x).max(initial=0.0))
    return x.shape == y.shape and np.allclose(x, y, rtol=0, atol=tolerance, equal_nan=True)

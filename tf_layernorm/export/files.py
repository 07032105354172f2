"""Recurrent models in files: a SavedModel of one step, and LiteRT for a step or a sequence."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from tf_layernorm._arguments import Tensor
from tf_layernorm.export.step import StepModel, step_model
from tf_layernorm.recurrent.arrays import scatter_arrays

_FORMATS = ("tf_saved_model", "litert")


def export_step(
    model: keras.Model, path: str | os.PathLike[str], format: str = "tf_saved_model"
) -> None:
    """Writes one step of a recurrent model to a file, its states given and returned.

    It has two signatures, both from names to tensors and the same in either format:

    * `step` takes one step `input_0` of shape `(batch, ...)`, further inputs if the model has them,
      and the states `state_0`, `state_1`, ...; it gives `output_0` and so on and the new states
      under the names of the old.
    * `initial_states` takes `batch_size`, a scalar of int32, and gives the states to start from.
      Where inputs of the model make an `initial_state`, it takes those inputs, by the names
      `input_...` that they have in the model's order.

    Args:
        model: A model as `step_model` takes it.
        path: Where to write to: a folder for a SavedModel, a file for LiteRT.
        format: `"tf_saved_model"` (the default), which loads without this package and without
            Keras, or `"litert"`, which needs only LiteRT's built-in operations.

    Raises:
        ValueError: If `format` is another, or as `step_model`.

    Example:

    >>> import keras, tempfile, numpy as np, tensorflow as tf
    >>> from tf_layernorm import LNLSTM
    >>> from tf_layernorm.export import export_step
    >>> model = keras.Sequential([keras.Input((None, 3)), LNLSTM(4), keras.layers.Dense(1)])
    >>> folder = tempfile.mkdtemp()
    >>> export_step(model, folder)
    >>> loaded = tf.saved_model.load(folder)
    >>> x = np.ones((2, 5, 3), "float32")
    >>> states = loaded.initial_states({"batch_size": tf.constant(2)})
    >>> for t in range(5):
    ...     result = loaded.step({"input_0": tf.constant(x[:, t]), **states})
    ...     states = {name: result[name] for name in states}
    >>> np.testing.assert_allclose(result["output_0"], model(x), atol=1e-6)
    """
    if format not in _FORMATS:
        raise ValueError(f"`format` must be one of {_FORMATS}. Received: format={format!r}")
    archive = _archive(step_model(model))
    if format == "tf_saved_model":
        archive.write_out(os.fspath(path), verbose=False)
        return
    with tempfile.TemporaryDirectory() as folder:
        archive.write_out(folder, verbose=False)
        converter = tf.lite.TFLiteConverter.from_saved_model(
            folder, signature_keys=["step", "initial_states"]
        )
        Path(path).write_bytes(converter.convert())


def export_litert(model: keras.Model, path: str | os.PathLike[str]) -> None:
    """Writes a model over whole sequences for LiteRT, with built-in operations only.

    `LNLSTM`, `LNGRU` and `LNSimpleRNN` convert with their batch size and length left open. For
    that their loop is traced in another form than in `model.export`, whose file would need
    operations that LiteRT's interpreter lacks. Keras' loop, that of `keras.layers.RNN`, `LSTM` and
    `GRU`, converts with `unroll=True` and a known length.

    Args:
        model: A built model.
        path: The file to write, which ends in `.tflite`.

    Raises:
        ValueError: If the built-in operations don't suffice, or the path ends otherwise.

    Example:

    >>> import keras, tempfile
    >>> from tf_layernorm import LNGRU
    >>> from tf_layernorm.export import export_litert
    >>> model = keras.Sequential([keras.Input((None, 3)), LNGRU(4), keras.layers.Dense(1)])
    >>> export_litert(model, tempfile.mkdtemp() + "/model.tflite")
    """
    if not os.fspath(path).endswith(".tflite"):
        raise ValueError(f"`path` must end in '.tflite'. Received: path={path!r}")
    with scatter_arrays(), _explained(model):
        model.export(
            path,
            format="litert",
            verbose=False,
            target_spec={"supported_ops": [tf.lite.OpsSet.TFLITE_BUILTINS]},
        )


def export_onnx(model: keras.Model, path: str | os.PathLike[str]) -> None:
    """Writes a model over whole sequences as ONNX, for onnxruntime and others.

    Batch sizes and lengths may be open. The loop of `LNLSTM`, `LNGRU` and `LNSimpleRNN` is traced
    in another form than in `model.export(path, format="onnx")`, which tf2onnx can't convert; all
    other layers convert either way. Needs the packages tf2onnx and onnx.

    Args:
        model: A built Sequential or functional model, of float32.
        path: The file to write.
    """
    # Keras asks for a model that was called, unless it is given the signature.
    graph = keras.Model(list(model.inputs), list(model.outputs))
    signature = [[tf.TensorSpec(t.shape, t.dtype, t.name) for t in graph.inputs]]
    with scatter_arrays():
        graph.export(os.fspath(path), format="onnx", verbose=False, input_signature=signature)


@contextmanager
def _explained(model: keras.Model) -> Iterator[None]:
    """Says what to do where the converter fails."""
    try:
        yield
    except Exception as error:
        raise ValueError(
            "`model` must need LiteRT's built-in operations only. Keras' loop (`keras.layers.RNN`, "
            "`LSTM`, `GRU`) needs `unroll=True` and a known length; "
            '`use_fused=True` should be `"auto"`. Received: '
            f"model={model!r}, for which the converter says: {error}"
        ) from error


def _archive(step: StepModel) -> Any:
    states = [tensor.name for tensor in step.inputs if tensor.name.startswith("state_")]
    outputs = [f"output_{k}" for k in range(len(step.outputs) - len(states))]

    def one_step(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        results = step([tensors[t.name] for t in step.inputs], training=False)
        return dict(zip([*outputs, *states], results, strict=True))

    def initial_states(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        arguments = [tensors[name] for name in starts]
        return dict(zip(states, step.initial_states(*arguments), strict=True))

    starts = _specs(step.start_inputs) or {"batch_size": tf.TensorSpec((), "int32", "batch_size")}
    archive = keras.export.ExportArchive()
    archive.track(step)
    archive.add_endpoint("step", one_step, input_signature=[_specs(step.inputs)])
    archive.add_endpoint("initial_states", initial_states, input_signature=[starts])
    return archive


def _specs(tensors: list[Tensor]) -> dict[str, tf.TensorSpec]:
    return {t.name: tf.TensorSpec(t.shape, t.dtype, t.name) for t in tensors}

"""LiteRT: built-in operations only, at batch sizes and lengths that are left open."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter
from keras import layers
from kinds import BATCH, INPUTS, TIME, UNITS, normal, randomize

import tf_layernorm as tfln
from tf_layernorm.export import export_litert, export_step

# The interpreter has no Flex delegate, so a file that runs holds built-in operations only.


def sequential(*parts, shape=(None, INPUTS)):
    model = keras.Sequential([keras.Input(shape), *parts])
    randomize(model)
    return model


def check_equal(path, model, shapes):
    (runner,) = (
        interpreter.get_signature_runner(name)
        for interpreter in [Interpreter(str(path))]
        for name in interpreter.get_signature_list()
    )
    (name,) = runner.get_input_details()
    call = tf.function(model, reduce_retracing=True)
    for batch, time in shapes:
        x = normal(batch, time, INPUTS, dtype="float32")
        x[0, -1] = 0.0
        (result,) = runner(**{name: x}).values()
        expected = call(x).numpy()
        assert np.std(expected) > 1e-2
        np.testing.assert_allclose(result, expected, rtol=0, atol=1e-5)


def test_portable_loop_runs_at_unknown_batch_size_and_length(tmp_path):
    model = sequential(
        layers.Masking(),
        tfln.LNLSTM(UNITS, return_sequences=True),
        tfln.LNSimpleRNN(UNITS, return_sequences=True),
        tfln.LNGRU(UNITS, go_backwards=True),
    )
    export_litert(model, tmp_path / "model.tflite")
    check_equal(tmp_path / "model.tflite", model, ((BATCH, TIME), (BATCH + 2, TIME + 4)))


def test_keras_loop_runs_unrolled_at_unknown_batch_size(tmp_path):
    model = sequential(
        layers.RNN(tfln.LNLSTMCell(UNITS), unroll=True, return_sequences=True),
        tfln.LNGRU(UNITS, unroll=True),
        shape=(TIME, INPUTS),
    )
    export_litert(model, tmp_path / "model.tflite")
    check_equal(tmp_path / "model.tflite", model, ((BATCH, TIME), (1, TIME)))


@pytest.mark.parametrize(
    "layer",
    [
        layers.RNN(tfln.LNSimpleRNNCell(UNITS)),
        layers.SimpleRNN(UNITS),
    ],
    ids=["cell", "keras"],
)
def test_loop_that_cannot_be_converted_is_refused(layer, tmp_path):
    with pytest.raises(ValueError, match="built-in operations only.*unroll=True.*Received: model="):
        export_litert(sequential(layer), tmp_path / "model.tflite")
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="`path` must end in '.tflite'. Received: path='model'"):
        export_litert(sequential(layers.Dense(2)), "model")


def test_step_with_explicit_states_streams(tmp_path):
    model = sequential(
        tfln.LNLSTM(UNITS, return_sequences=True),
        layers.RNN([tfln.LNGRUCell(UNITS), layers.LSTMCell(2)], return_sequences=True),
        layers.Dense(2),
    )
    path = tmp_path / "step.tflite"
    export_step(model, path, format="litert")
    interpreter = Interpreter(str(path))
    step = interpreter.get_signature_runner("step")
    x = normal(BATCH, TIME, INPUTS, dtype="float32")
    states = interpreter.get_signature_runner("initial_states")(batch_size=np.int32(BATCH))
    outputs = []
    for t in range(TIME):
        result = step(input_0=x[:, t], **states)
        states = {name: result[name] for name in states}
        outputs.append(result["output_0"])
    np.testing.assert_allclose(np.stack(outputs, axis=1), tf.function(model)(x), rtol=0, atol=1e-5)

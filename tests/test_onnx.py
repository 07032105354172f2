"""ONNX: `model.export(path, format="onnx")`, run by onnxruntime."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers
from kinds import BATCH, INPUTS, TIME, UNITS, normal, randomize

import tf_layernorm as tfln

pytest.importorskip("tf2onnx", reason="needs tf2onnx, of the extra `export`")
onnxruntime = pytest.importorskip("onnxruntime", reason="needs onnxruntime, of the extra `export`")


MODELS = {
    "portable loop": lambda: [
        layers.Masking(),
        tfln.LNLSTM(UNITS, return_sequences=True),
        tfln.LNGRU(UNITS, return_sequences=True, go_backwards=True),
        tfln.LNSimpleRNN(UNITS, return_sequences=True),
    ],
    "Keras' loop": lambda: [layers.RNN(tfln.LNLSTMCell(UNITS), return_sequences=True)],
}


@pytest.mark.parametrize("name", MODELS)
def test_onnxruntime_equals_keras_at_any_batch_size_and_length(name, tmp_path):
    model = keras.Sequential([keras.Input((None, INPUTS)), *MODELS[name]()])
    randomize(model)
    call, path = tf.function(model, reduce_retracing=True), tmp_path / "model.onnx"
    call(tf.zeros((1, 1, INPUTS)))  # Keras refuses to export a model that was never called.
    model.export(path, format="onnx", verbose=False)
    session = onnxruntime.InferenceSession(str(path))
    (argument,) = session.get_inputs()
    for batch, time in ((BATCH, TIME), (BATCH + 2, TIME + 4), (1, 1)):
        x = normal(batch, time, INPUTS, dtype="float32")
        x[0, -1] = 0.0
        (result,) = session.run(None, {argument.name: x})
        np.testing.assert_allclose(result, call(x), rtol=0, atol=1e-5)

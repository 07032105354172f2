"""ONNX, run by onnxruntime."""

import keras
import numpy as np
import onnxruntime
import pytest
import tensorflow as tf
from keras import layers
from kinds import BATCH, INPUTS, TIME, UNITS, normal, randomize

import tf_layernorm as tfln
from tf_layernorm.export import export_onnx


def ours():
    """Side by side, not one after the other, where each would magnify the last one's rounding."""
    inputs = keras.Input((None, INPUTS))
    x = layers.Masking()(inputs)
    outputs = [
        tfln.LNLSTM(UNITS, return_sequences=True)(x),
        tfln.LNGRU(UNITS, return_sequences=True, go_backwards=True)(x),
        tfln.LNSimpleRNN(UNITS, return_sequences=True)(x),
    ]
    return keras.Model(inputs, keras.ops.concatenate(outputs, axis=-1))


def keras_loop():
    layer = layers.RNN(tfln.LNLSTMCell(UNITS), return_sequences=True)
    return keras.Sequential([keras.Input((None, INPUTS)), layer])


# Keras looks for NumPy 1's name before it gives it to tf2onnx.
@pytest.mark.filterwarnings("ignore:In the future `np.object`:FutureWarning")
@pytest.mark.parametrize("make", [ours, keras_loop])
def test_onnxruntime_equals_keras_at_any_batch_size_and_length(make, tmp_path):
    model = make()
    randomize(model)
    call, path = tf.function(model, reduce_retracing=True), tmp_path / "model.onnx"
    export_onnx(model, path)
    session = onnxruntime.InferenceSession(str(path))
    (argument,) = session.get_inputs()
    for batch, time in ((BATCH, TIME), (BATCH + 2, TIME + 4), (1, 1)):
        x = normal(batch, time, INPUTS, dtype="float32")
        x[0, -1] = 0.0
        (result,) = session.run(None, {argument.name: x})
        np.testing.assert_allclose(result, call(x), rtol=0, atol=1e-5)

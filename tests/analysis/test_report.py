"""Table 1 for Keras layers and models, this package's and others."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from tf_layernorm import LNLSTM, LNDense, LNGRUCell, LNLSTMCell, LNSimpleRNNCell
from tf_layernorm.analysis import invariance_report

LAYER = ["case_scale", "data_scale", "matrix_scale", "matrix_shift"]
BATCH = ["data_scale", "data_shift", "matrix_scale", "vector_scale"]
BOTH = ["kernel", "recurrent_kernel"]


def functional():
    x = keras.Input((4,))
    model = keras.Model(x, layers.Dense(3)(LNDense(5, "relu")(x)))
    model.compile("adam", "mse")
    return model


@keras.saving.register_keras_serializable("tf_layernorm_tests")
class Subclassed(keras.Model):
    def __init__(self, units):
        super().__init__()
        self.units = units
        self.hidden = LNDense(units)

    def call(self, x):
        return self.hidden(x)

    def get_config(self):
        return {"units": self.units}


@pytest.mark.parametrize(
    "make, shape, kernel, expected",
    [
        (lambda: LNDense(5), (4,), None, LAYER),
        (lambda: LNDense(5, "tanh", use_bias=False), (3, 4), None, LAYER),
        (lambda: Subclassed(5), (4,), None, LAYER),
        (functional, (4,), "ln_dense/kernel", LAYER),
        (functional, (4,), "dense/kernel", ["case_scale", "data_scale"]),
        # The sum is what is normalised: W_x alone may be shifted only, W_x and W_h are one matrix.
        (lambda: LNSimpleRNNCell(5), (3, 4), None, ["matrix_shift"]),
        (lambda: LNSimpleRNNCell(5), (3, 4), BOTH, ["matrix_scale", "matrix_shift"]),
        (lambda: LNLSTMCell(5), (3, 4), None, LAYER),
        (lambda: LNLSTMCell(5), (3, 4), "recurrent_kernel", LAYER),
        (lambda: LNGRUCell(5), (3, 4), None, LAYER),
        (lambda: LNLSTM(5, return_state=True, dropout=0.3, use_fused=False), (3, 4), None, LAYER),
        (lambda: layers.RNN([LNLSTMCell(5), LNGRUCell(3)]), (3, 4), None, LAYER),
        (lambda: layers.SpectralNormalization(layers.Dense(5)), (4,), None, ["matrix_scale"]),
        (lambda: layers.Dense(5), (4,), None, []),
    ],
)
def test_report_finds_the_invariances(make, shape, kernel, expected):
    keras.backend.clear_session()
    assert invariance_report(make(), shape, kernel).invariant == set(expected)


def sequential(*parts):
    return keras.Sequential(list(parts))


def test_report_on_batch_norm_in_training_mode():
    model = sequential(layers.Dense(5), layers.BatchNormalization())
    assert invariance_report(model, (4,)).invariant == set(BATCH)


def test_report_on_batch_norm_with_moving_averages():
    model = sequential(layers.Dense(5), layers.BatchNormalization())
    assert invariance_report(model, (4,), training=False).invariant == set()


def test_report_on_layer_norm_before_the_weights():
    model = sequential(layers.LayerNormalization(), layers.Dense(5))
    assert invariance_report(model, (4,)).invariant == {"case_scale", "data_scale"}


def test_report_sees_a_bias_inside_the_normalised_sum():
    inside = sequential(layers.Dense(5), layers.LayerNormalization())
    outside = sequential(layers.Dense(5, use_bias=False), layers.LayerNormalization())
    assert invariance_report(inside, (4,)).invariant == {"matrix_shift"}
    assert invariance_report(outside, (4,)).invariant == set(LAYER)


def test_report_is_not_fooled_by_epsilon():
    for epsilon, most in ((1e-5, 1e-14), (1e-3, 1e-12)):
        changes = invariance_report(LNDense(5, epsilon=epsilon), (4,)).changes
        assert max(changes[change] for change in LAYER) < most
        assert min(changes[change] for change in set(changes) - set(LAYER)) > 0.01


def test_report_leaves_the_layer_alone():
    layer = LNDense(5)
    layer.build((None, 4))
    before = [w.numpy() for w in layer.weights]
    policy = keras.config.dtype_policy()
    report = invariance_report(layer, (4,))
    assert report.name == layer.name and keras.config.dtype_policy() == policy
    assert all(np.array_equal(w.numpy(), old) for w, old in zip(layer.weights, before))
    assert {w.dtype for w in layer.weights} == {"float32"}
    unbuilt = LNDense(5)
    invariance_report(unbuilt, (4,))
    assert not unbuilt.built


def test_report_takes_a_layer_of_any_dtype():
    assert invariance_report(LNDense(5, dtype="mixed_float16"), (4,)).invariant == set(LAYER)


def test_report_prints_a_row_of_the_table():
    lines = str(invariance_report(LNDense(5, name="a_rather_long_name"), (4,))).splitlines()
    assert len(lines) == 3 and len(set(map(len, lines))) == 1
    assert lines[2].split()[0] == "a_rather_long_name"
    assert lines[2].count("yes") == 4 and lines[2].count("no ") == 2


@keras.saving.register_keras_serializable("tf_layernorm_tests")
class Noise(layers.Layer):
    def call(self, x):
        return x + tf.random.normal(tf.shape(x), dtype=x.dtype)


class Unrebuildable(layers.Layer):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def get_config(self):
        return {}


@pytest.mark.parametrize(
    "make, arguments, message",
    [
        (lambda: layers.Dense(5, "tanh"), {}, "react to what is transformed.*Received: 0%"),
        (lambda: layers.LSTM(5), {}, "react to what is transformed.*Received: 0%"),
        (
            lambda: sequential(layers.Dense(1), layers.LayerNormalization()),
            {},
            "constant .a single normalised unit is.*Received: 0%",
        ),
        (lambda: layers.Dense(5), {"kernel": "weight"}, r"/kernel.*Received: kernel=\['weig"),
        (lambda: layers.Dense(5), {"kernel": "bias"}, r"Received: kernel=\['bias'\]"),
        (lambda: layers.LayerNormalization(), {}, r"Received: kernel=\['kernel'\]"),
        (lambda: layers.Dense(5), {"scale": 0.0}, "Received: scale=0"),
        (lambda: layers.Dense(5), {"scale": 1e308}, "Received: outputs="),
        (lambda: layers.Dense(5), {"draws": 0}, "Received: draws=0"),
        (lambda: sequential(layers.Dense(5), Noise()), {}, "Received: two different outputs"),
        (lambda: Unrebuildable(abs), {}, "Received: layer="),
        (lambda: layers.Conv2D(3, 2), {}, "Received: layer="),
    ],
)
def test_report_refuses_what_it_cannot_judge(make, arguments, message):
    with np.errstate(over="ignore"), pytest.raises(ValueError, match=f"(?s){message}"):
        invariance_report(make(), (3, 4), **arguments)


@pytest.mark.parametrize(
    "make",
    [lambda: layers.Dense(5, "tanh"), lambda: LNLSTM(5, normalize=("state",), use_fused=False)],
)
def test_report_on_a_saturating_layer_at_a_smaller_scale(make):
    with pytest.raises(ValueError, match="a smaller scale"):
        invariance_report(make(), (3, 4))
    assert invariance_report(make(), (3, 4), scale=1.0).invariant == set()

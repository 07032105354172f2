"""A cell of one's own: its step is stated once, and runs wherever those of the package do."""

import subprocess
import sys

import keras
import numpy as np
import pytest
import reference
import tensorflow as tf
from kinds import BATCH, INPUTS, KINDS, TIME, UNITS, WRAPPERS, built, normal

from tf_layernorm.export import step_model
from tf_layernorm.recurrent import FusedRNN, LNCell


@keras.saving.register_keras_serializable("tests")
class MGUCell(LNCell):
    """A minimal gated unit (Zhou et al., 2016), whose terms are normalised gate by gate."""

    groups = (1, 1)

    def step(self, x, h, states, weights):
        forget_bias, bias = tf.split(weights["bias"], 2, axis=-1)
        forget = tf.sigmoid(x[0] + h[0] + forget_bias)
        candidate = self.activation(x[1] + forget * h[1] + bias)
        return [(1 - forget) * states[0] + forget * candidate]


def mgu(x, kernel, recurrent_kernel, bias, kernel_gamma, recurrent_gamma, h, mask=None):
    """The same in NumPy float64, by a loop over time."""

    def terms(product, gamma):
        parts = zip(np.split(product, 2, -1), np.split(gamma, 2), strict=True)
        return [reference.layer_norm(part, g) for part, g in parts]

    outputs = []
    for t in range(x.shape[1]):
        (xf, xg), (hf, hg) = (
            terms(x[:, t] @ kernel, kernel_gamma),
            terms(h @ recurrent_kernel, recurrent_gamma),
        )
        bf, bg = np.split(bias, 2)
        forget = 1 / (1 + np.exp(-(xf + hf + bf)))
        new = (1 - forget) * h + forget * np.tanh(xg + forget * hg + bg)
        h = new if mask is None else np.where(mask[:, t, None], new, h)
        outputs.append(h)
    return np.stack(outputs, axis=1)


def make(use_fused="auto", **options):
    cell = MGUCell(UNITS, dtype="float64", **options)
    layer = FusedRNN(cell, return_sequences=True, use_fused=use_fused, dtype="float64")
    return built(layer, None, None, INPUTS)


@pytest.mark.parametrize("mode", WRAPPERS)
@pytest.mark.parametrize("use_fused", ["auto", True, False])
def test_values_and_gradients_are_those_of_the_reference(use_fused, mode):
    layer, x = make(use_fused), normal(BATCH, TIME, INPUTS)
    h, mask = normal(BATCH, UNITS, seed=2), np.array([[1, 0, 1], [1, 1, 0]], bool)
    scale = normal(BATCH, TIME, UNITS, seed=3)

    def run(x, h):
        with tf.GradientTape() as tape:
            tape.watch([x, h])
            outputs = layer(x, initial_state=[h], mask=mask, training=True)
            loss = tf.reduce_sum(outputs * scale)
        return outputs, tape.gradient(loss, [x, *layer.trainable_variables, h])

    # XLA can't differentiate TensorFlow's loop from outside; ours it can.
    run = run if mode == "eager" else WRAPPERS[mode](run)
    outputs, gradients = run(tf.constant(x), tf.constant(h))
    arrays = [x, *(w.astype("float64") for w in layer.get_weights()), h]
    np.testing.assert_allclose(outputs, mgu(*arrays, mask), rtol=0, atol=1e-9)
    expected = reference.gradients(lambda *a: np.sum(mgu(*a, mask) * scale), arrays)
    for gradient, value in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(gradient, value, rtol=1e-5, atol=1e-6)


def test_keras_rnn_runs_the_same_cell():
    layer, x = make(), normal(BATCH, TIME, INPUTS)
    rnn = keras.layers.RNN(layer.cell, return_sequences=True, dtype="float64")
    np.testing.assert_allclose(rnn(x), layer(x), rtol=0, atol=1e-12)


def test_model_trains_saves_loads_and_runs_step_by_step(tmp_path):
    cell = MGUCell(8, dropout=0.1, recurrent_dropout=0.1, zoneout=0.1, learn_initial_state=True)
    model = keras.Sequential([keras.Input((None, INPUTS)), FusedRNN(cell), keras.layers.Dense(1)])
    x = normal(64, 6, INPUTS, dtype="float32")
    y = x[:, -1, :1]
    model.compile(keras.optimizers.Adam(0.02), "mse")
    losses = model.fit(x, y, epochs=8, verbose=0).history["loss"]
    assert losses[-1] < 0.7 * losses[0]
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded(x), model(x), rtol=0, atol=1e-6)
    step = step_model(model)
    states = step.initial_states(64)
    for t in range(x.shape[1]):
        output, *states = step([tf.constant(x[:, t]), *states])
    np.testing.assert_allclose(output, model(x), rtol=0, atol=1e-5)


def test_export_runs_where_the_cell_is_unknown(tmp_path):
    layer = FusedRNN(MGUCell(UNITS))
    model = keras.Sequential([keras.Input((None, INPUTS)), built(layer, None, None, INPUTS)])
    x = normal(BATCH, TIME, INPUTS, dtype="float32")
    model.export(tmp_path / "saved", verbose=False)
    np.save(tmp_path / "x.npy", x)
    program = (
        "import numpy as np, sys, tensorflow as tf\n"
        "folder = sys.argv[1]\n"
        "model = tf.saved_model.load(folder + '/saved')\n"
        "y = model.serve(np.load(folder + '/x.npy'))\n"
        "assert 'keras' not in sys.modules or 'tf_layernorm' not in sys.modules\n"
        "np.save(folder + '/y.npy', y)"
    )
    run = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True)
    assert run.returncode == 0, run.stderr
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), model(x), rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS, ids=repr)
def test_the_equations_stand_in_one_place(kind, monkeypatch):
    """Whatever runs a cell sees that its step was changed: forward, backward, by every way."""
    original = kind.cell.step

    def changed(self, x, h, states, weights):
        return [1.5 * new for new in original(self, x, h, states, weights)]

    x, scale = tf.constant(normal(BATCH, TIME, INPUTS)), normal(BATCH, UNITS, seed=5)
    layers = {
        "fused": kind.layer(UNITS, dtype="float64", name="same"),
        "loop": kind.layer(UNITS, dtype="float64", name="same", use_fused=False),
        "unrolled": kind.layer(UNITS, dtype="float64", name="same", unroll=True),
        "rnn": keras.layers.RNN(kind.cell(UNITS, dtype="float64"), dtype="float64"),
    }

    def results(layer, mode, training):
        def run(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                outputs = layer(x, training=training)
                loss = tf.reduce_sum(outputs * scale)
            return outputs, tape.gradient(loss, x)

        return WRAPPERS[mode](run)(x)

    ways = [(name, mode) for name in layers for mode in ("eager", "graph")] + [("fused", "jit")]
    for layer in layers.values():
        built(layer, None, TIME, INPUTS)
    before = results(layers["fused"], "eager", False)
    monkeypatch.setattr(kind.cell, "step", changed)
    for layer in layers.values():  # their programs hold the step that was
        layer.cell.programs.__init__(layer.cell)
    seen = {way: results(layers[way[0]], way[1], True) for way in ways}
    assert np.abs(seen["fused", "eager"][0] - before[0]).max() > 0.1
    for outputs, gradient in seen.values():
        np.testing.assert_allclose(outputs, seen["rnn", "eager"][0], rtol=0, atol=1e-9)
        np.testing.assert_allclose(gradient, seen["rnn", "eager"][1], rtol=0, atol=1e-9)
    layer, step, direction = layers["fused"], 1e-6, normal(*x.shape, seed=6)
    above, below = (tf.reduce_sum(layer(x + s * step * direction) * scale) for s in (1, -1))
    slope = np.sum(seen["fused", "eager"][1] * direction)
    np.testing.assert_allclose(slope, (above - below) / (2 * step), rtol=1e-5)


def test_what_is_no_such_cell_is_refused():
    for cell in (keras.layers.LSTMCell(4), [MGUCell(4), MGUCell(4)], None):
        with pytest.raises(ValueError, match="`keras.layers.RNN`.*Received: cell="):
            FusedRNN(cell)
    with pytest.raises(NotImplementedError, match="Nothing must state its `step`"):
        type("Nothing", (LNCell,), {})(4)(tf.ones((2, 3)), [tf.ones((2, 4))])

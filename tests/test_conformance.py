"""Every layer of the table: dtype policies, wrappers, training, and weights that move."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from cases import BATCH, CASES, INPUTS, TIME, UNITS
from kinds import GRU, LSTM, PAIRS, built, f64, normal, randomize

import tf_layernorm as tfln


def batch_of(case, *, time=TIME, seed=0, dtype="float32"):
    return normal(BATCH, *[size or time for size in case.shape], seed=seed, dtype=dtype)


@pytest.mark.parametrize("case", CASES, ids=repr)
@pytest.mark.parametrize("dtype", ["float32", "float64", "mixed_bfloat16", "mixed_float16"])
def test_output_and_weights_follow_the_dtype_policy(case, dtype):
    layer, policy = case.layer(dtype=dtype), keras.DTypePolicy(dtype)
    outputs = layer(batch_of(case))
    assert outputs.dtype == policy.compute_dtype
    assert {weight.dtype for weight in layer.weights} == {policy.variable_dtype}
    assert layer.compute_output_shape((BATCH, *batch_of(case).shape[1:])) == outputs.shape
    assert np.isfinite(f64(outputs)).all()


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_layer_in_graphs_and_in_functional_and_sequential_models(case):
    layer, inputs, x = case.layer(), keras.Input(case.shape), batch_of(case)
    expected = layer(x)
    models = [keras.Model(inputs, layer(inputs)), keras.Sequential([inputs, layer])]
    for model in models:
        assert model(x).dtype == "float32"
        np.testing.assert_allclose(model(x), expected, rtol=0, atol=1e-6)
    call = tf.function(models[0], input_signature=[tf.TensorSpec((None, *case.shape))])
    np.testing.assert_allclose(call(x), expected, rtol=0, atol=1e-6)
    assert call(batch_of(case, time=TIME + 2)).shape[1] == TIME + 2


@pytest.mark.parametrize(("kind", "use_fused"), PAIRS, ids=str)
def test_layer_in_a_subclassed_model(kind, use_fused):
    class Subclassed(keras.Model):
        def __init__(self):
            super().__init__()
            self.rnn = kind.layer(UNITS, use_fused=use_fused)

        def call(self, x, mask=None):
            return self.rnn(x, mask=mask)

    model, x = Subclassed(), normal(BATCH, TIME, INPUTS, dtype="float32")
    np.testing.assert_allclose(model(x), model.rnn(x), rtol=0, atol=1e-6)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_time_distributed_applies_the_layer_to_each_slice(case):
    layer = built(case.layer(), None, *case.shape)
    x = np.stack([batch_of(case, seed=k) for k in range(2)], axis=1)
    outputs = keras.layers.TimeDistributed(layer)(x)
    for k in range(2):
        np.testing.assert_allclose(outputs[:, k], layer(x[:, k]), rtol=0, atol=1e-6)


def test_bidirectional_is_two_layers(kind, use_fused):
    flags = dict(return_sequences=True, dtype="float64")
    layer = kind.layer(UNITS, use_fused=use_fused, **flags)
    wrapped = keras.layers.Bidirectional(layer, dtype="float64")
    x = normal(BATCH, TIME, INPUTS)
    built(wrapped, None, None, INPUTS)
    forward, backward = wrapped.forward_layer, wrapped.backward_layer
    assert backward.go_backwards and not forward.go_backwards
    expected = tf.concat([forward(x), backward(x)[:, ::-1]], axis=-1)
    np.testing.assert_allclose(wrapped(x), expected, rtol=0, atol=1e-12)
    of_cell = keras.layers.RNN(kind.cell(UNITS, dtype="float64"), **flags)
    of_cell = keras.layers.Bidirectional(of_cell, dtype="float64")
    of_cell.build((None, None, INPUTS))
    of_cell.set_weights(wrapped.get_weights())
    np.testing.assert_allclose(of_cell(x), expected, rtol=0, atol=1e-9)


FITTED = {
    "fused simple RNN": [functools.partial(tfln.LNSimpleRNN, UNITS, use_fused=True)],
    "fused LSTM": [functools.partial(tfln.LNLSTM, UNITS, use_fused=True)],
    "fused GRU": [functools.partial(tfln.LNGRU, UNITS, use_fused=True)],
    "cell": [lambda: keras.layers.RNN(tfln.LNSimpleRNNCell(UNITS))],
    "dense": [keras.layers.Flatten, lambda: tfln.LNDense(UNITS, "tanh"), tfln.LayerNorm],
}


@pytest.mark.parametrize("layers", FITTED.values(), ids=FITTED)
def test_fit_gives_the_same_with_jit_without_and_eagerly(layers):
    x, losses = normal(8, 3, INPUTS, dtype="float32"), []
    for options in ({"jit_compile": True}, {"jit_compile": False}, {"run_eagerly": True}):
        keras.utils.set_random_seed(0)
        model = keras.Sequential([make() for make in layers])
        model.compile(keras.optimizers.SGD(1e-3), "mse", **options)
        history = model.fit(x, x[:, 0, :UNITS], batch_size=8, epochs=3, shuffle=False, verbose=0)
        losses.append(history.history["loss"])
    np.testing.assert_allclose(losses[1:], [losses[0]] * 2, rtol=0, atol=1e-5)
    assert losses[0][-1] < losses[0][0]


@pytest.mark.parametrize(("kind", "use_fused"), [(LSTM, True), (GRU, False)], ids=str)
def test_fit_of_a_stateful_layer(kind, use_fused):
    layer = kind.layer(UNITS, stateful=True, use_fused=use_fused)
    model = keras.Sequential([keras.Input(batch_shape=(4, TIME, INPUTS)), layer])
    model.compile("sgd", "mse", jit_compile=False)
    x, y = normal(8, TIME, INPUTS, dtype="float32"), normal(8, UNITS, dtype="float32")
    model.fit(x, y, batch_size=4, epochs=1, shuffle=False, verbose=0)
    assert all(np.any(f64(state) != 0) for state in layer.states)
    layer.reset_state()
    assert all(np.all(f64(state) == 0) for state in layer.states)


def pair(kind):
    """A sequence layer and `keras.layers.RNN(cell)`, with other weights."""
    layer = built(kind.layer(UNITS, use_fused=False), None, None, INPUTS)
    rnn = keras.layers.RNN(kind.cell(UNITS, name="cell"))
    rnn.build((None, None, INPUTS))
    randomize(rnn, seed=5)
    return layer, rnn


def check_equal(source, target, before):
    x = normal(BATCH, TIME, INPUTS, dtype="float32")
    np.testing.assert_allclose(target(x), source(x), rtol=0, atol=1e-6)
    assert not np.allclose(target(x), before)


@pytest.mark.parametrize(
    ("way", "turned"),
    [("set_weights", False), *[(w, t) for w in ("checkpoint", "bidirectional") for t in (0, 1)]],
)
def test_weights_move_between_layer_and_rnn_of_a_cell(kind, way, turned, tmp_path):
    source, target = pair(kind)[:: -1 if turned else 1]
    if way == "bidirectional":
        source, target = (
            keras.Sequential([keras.Input((None, INPUTS)), keras.layers.Bidirectional(layer)])
            for layer in (source, target)
        )
        randomize(source, seed=8)
    x = normal(BATCH, TIME, INPUTS, dtype="float32")
    before = target(x)
    if way == "set_weights":
        target.set_weights(source.get_weights())
    elif way == "checkpoint":
        path = tf.train.Checkpoint(rnn=source).save(tmp_path / "checkpoint")
        status = tf.train.Checkpoint(rnn=target).restore(path)
        status.assert_existing_objects_matched()
    else:
        source.save_weights(tmp_path / "model.weights.h5")
        target.load_weights(tmp_path / "model.weights.h5")
    check_equal(source, target, before)


def test_weights_of_a_whole_model_move_by_two_lines(kind, tmp_path):
    # Keras keys a model's file by class names, so it is read by the class that wrote it.
    layer, rnn = pair(kind)
    keras.Sequential([keras.Input((None, INPUTS)), layer]).save_weights(
        tmp_path / "model.weights.h5"
    )
    before = rnn(normal(BATCH, TIME, INPUTS, dtype="float32"))
    target = keras.Sequential([keras.Input((None, INPUTS)), rnn])
    with pytest.raises(ValueError):
        target.load_weights(tmp_path / "model.weights.h5")
    reader = keras.Sequential([keras.Input((None, INPUTS)), kind.layer(UNITS)])
    reader.load_weights(tmp_path / "model.weights.h5")
    target.set_weights(reader.get_weights())
    check_equal(layer, target, before)

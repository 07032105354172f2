"""Initial states, stateful layers, stacked cells and what wraps them."""

import keras
import numpy as np
import pytest
import reference
import tensorflow as tf
from kinds import (
    BATCH,
    GRU,
    INPUTS,
    KINDS,
    LSTM,
    PAIRS,
    SIMPLE,
    TIME,
    UNITS,
    WRAPPERS,
    built,
    f64,
    normal,
)


def make(kind, use_fused=False, **options):
    layer = kind.layer(UNITS, use_fused=use_fused, dtype="float64", **options)
    return built(layer, BATCH, None, INPUTS)


def states_of(kind, seed=2):
    return [normal(BATCH, UNITS, seed=seed + k) for k in range(kind.n_states)]


def as_list(states):
    return keras.tree.flatten(states)


def test_cell_tells_the_sizes_of_its_states(kind):
    cell = kind.cell(UNITS)
    assert keras.tree.flatten(cell.state_size) == [UNITS] * kind.n_states
    assert cell.output_size == UNITS


@pytest.mark.parametrize("dtype", ["float32", "float64", "mixed_float16"])
def test_cell_initial_state_is_zero(kind, dtype):
    cell = kind.cell(UNITS, dtype=dtype)
    results = [
        cell.get_initial_state(BATCH),
        cell.get_initial_state(batch_size=BATCH),
        cell.get_initial_state(batch_size=tf.constant(BATCH)),
        tf.function(cell.get_initial_state)(tf.constant(BATCH)),
    ]
    for result in results:
        assert len(as_list(result)) == kind.n_states
        for state in as_list(result):
            np.testing.assert_array_equal(f64(state), np.zeros((BATCH, UNITS)))


WRONG_SIZES = [None, 2.5, "2", [2], -1, np.int64(-1), np.ones((2, 3), int)]


@pytest.mark.parametrize("size", [*WRONG_SIZES, *map(tf.constant, WRONG_SIZES[1:])], ids=repr)
def test_cell_initial_state_needs_a_batch_size(kind, size):
    with pytest.raises(ValueError, match="Received: batch_size="):
        kind.cell(UNITS).get_initial_state(size)


def test_initial_state_is_a_list_or_a_tuple_or_one_tensor(kind, use_fused):
    layer, x, states = make(kind, use_fused), normal(BATCH, TIME, INPUTS), states_of(kind)
    expected = reference.sequence(kind.reference(), x, layer.get_weights(), states)
    tensors = [tf.constant(state) for state in states]
    for given in (tensors, tuple(tensors), *[tensors[0]] * (kind.n_states == 1)):
        outputs = layer(x, initial_state=given)
        np.testing.assert_allclose(outputs, expected.last, rtol=0, atol=1e-9)


def test_initial_state_of_a_wrong_number_or_shape_is_refused(kind, use_fused):
    layer, x = make(kind, use_fused), normal(BATCH, TIME, INPUTS)
    good = states_of(kind)
    wrong = [good[-1][:, :-1], good[-1][:, :1], good[-1][:1], good[-1][0], good[-1][:, :, None]]
    nested = [good], [[state] for state in good]
    for states in ([*good, good[0]], *nested, *([*good[:-1], state] for state in wrong)):
        with pytest.raises(ValueError, match="`initial_state` must hold .*Received: "):
            layer(x, initial_state=states)


@pytest.mark.parametrize(("kind", "use_fused"), PAIRS, ids=str)
@pytest.mark.parametrize("stateful", [False, True])
def test_initial_state_can_be_trained(kind, use_fused, stateful):
    layer = make(kind, use_fused, stateful=stateful)
    variables = [tf.Variable(state) for state in states_of(kind)]
    mask = np.array([[0, 1, 1], [1, 0, 1]], bool)
    x, scale = normal(BATCH, TIME, INPUTS), normal(BATCH, UNITS, seed=8)
    with tf.GradientTape() as tape:
        outputs = layer(x, initial_state=[v + 0.0 for v in variables], mask=mask)
        loss = tf.reduce_sum(outputs * scale)
    expected = reference.gradients(
        lambda *states: np.sum(
            reference.sequence(kind.reference(), x, layer.get_weights(), states, mask).last * scale
        ),
        states_of(kind),
    )
    for gradient, value in zip(tape.gradient(loss, variables), expected, strict=True):
        np.testing.assert_allclose(gradient, value, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "use_fused", "mode"),
    [
        *[(kind, *how) for kind in KINDS for how in ((False, "graph"), (True, "eager"))],
        (GRU, False, "eager"),
        (LSTM, True, "graph"),
    ],
    ids=str,
)
def test_stateful_layer_goes_on_and_resets(kind, use_fused, mode):
    layer = make(kind, use_fused, stateful=True)
    x, call = normal(BATCH, TIME, INPUTS), WRAPPERS[mode](layer)
    weights = layer.get_weights()[: len(layer.trainable_variables)]
    once = reference.sequence(kind.reference(), x, weights)
    twice = reference.sequence(kind.reference(), x, weights, once.states)
    for _ in range(2):
        for expected in (once, twice):
            np.testing.assert_allclose(call(tf.constant(x)), expected.last, rtol=0, atol=1e-9)
            for state, value in zip(layer.states, expected.states, strict=True):
                np.testing.assert_allclose(state, value, rtol=0, atol=1e-9)
        layer.reset_state()


def test_stateful_layer_takes_states_that_are_assigned_or_passed(kind, use_fused):
    layer, given = make(kind, use_fused, stateful=True), states_of(kind)
    x = normal(BATCH, TIME, INPUTS)
    weights = layer.get_weights()[: len(layer.trainable_variables)]
    expected = reference.sequence(kind.reference(), x, weights, given)
    for variable, state in zip(layer.states, given, strict=True):
        variable.assign(state)
    np.testing.assert_allclose(layer(x), expected.last, rtol=0, atol=1e-9)
    np.testing.assert_allclose(layer(x, initial_state=given), expected.last, rtol=0, atol=1e-9)
    for state, value in zip(layer.states, expected.states, strict=True):
        np.testing.assert_allclose(state, value, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("kind", "use_fused"), PAIRS, ids=str)
def test_reset_gives_the_state_a_fresh_layer_starts_from(kind, use_fused):
    class Ones(kind.layer):
        def get_initial_state(self, batch_size):
            return [tf.ones((batch_size, UNITS), "float64")] * kind.n_states

    layer = Ones(UNITS, stateful=True, use_fused=use_fused, dtype="float64")
    x = normal(BATCH, TIME, INPUTS)
    first = layer(x)
    assert not np.allclose(layer(x), first)
    layer.reset_state()
    np.testing.assert_array_equal(layer(x), first)


def test_stateful_layer_refuses_another_batch_size(kind, use_fused):
    layer = make(kind, use_fused, stateful=True)
    with pytest.raises(ValueError, match="batch size"):
        layer(normal(BATCH + 1, TIME, INPUTS))
    with pytest.raises(ValueError, match="batch size"):
        kind.layer(UNITS, stateful=True, use_fused=use_fused)(keras.Input((TIME, INPUTS)))


def sequential(layer):
    return keras.Sequential([layer])


def functional(layer):
    inputs = keras.Input(batch_shape=(BATCH, TIME, INPUTS), dtype="float64")
    return keras.Model(inputs, layer(inputs))


class Subclassed(keras.Model):
    def __init__(self, rnn):
        super().__init__()
        self.rnn = rnn

    def call(self, x):
        return self.rnn(x)


@pytest.mark.parametrize(
    ("kind", "use_fused", "model_of"),
    [
        (SIMPLE, False, sequential),
        (LSTM, True, functional),
        (GRU, True, sequential),
        (GRU, False, Subclassed),
    ],
)
def test_stateful_layer_in_models(kind, use_fused, model_of):
    layer, x = make(kind, use_fused, stateful=True), normal(BATCH, TIME, INPUTS)
    model = model_of(layer)
    layer.reset_state()
    first = model.predict(x, verbose=0)
    assert not np.allclose(model.predict(x, verbose=0), first)
    layer.reset_state()
    np.testing.assert_allclose(model.predict(x, verbose=0), first, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("kind", "use_fused"), PAIRS, ids=str)
def test_stateful_bidirectional_resets_both_halves(kind, use_fused):
    layer = keras.layers.Bidirectional(make(kind, use_fused, stateful=True), dtype="float64")
    x = normal(BATCH, TIME, INPUTS)
    first = layer(x)
    assert not np.allclose(layer(x), first)
    layer.reset_state()
    np.testing.assert_allclose(layer(x), first, rtol=0, atol=1e-12)


def test_stacked_cells_return_and_take_their_states(kind):
    cells = [kind.cell(UNITS, dtype="float64"), kind.cell(UNITS, dtype="float64")]
    flags = dict(return_state=True, return_sequences=True, dtype="float64")
    # A bare list of cells would become a stack of the default dtype policy.
    stack = keras.layers.StackedRNNCells(cells, dtype="float64")
    layer = built(keras.layers.RNN(stack, **flags), None, None, INPUTS)
    x = normal(BATCH, 2 * TIME, INPUTS)
    outputs, *_ = layer(x)
    first, *states = layer(x[:, :TIME])
    second, *_ = layer(x[:, TIME:], initial_state=states)
    np.testing.assert_allclose(tf.concat([first, second], 1), outputs, rtol=0, atol=1e-12)


def test_bidirectional_stacked_cells_return_and_take_their_states(kind):
    cells = [kind.cell(UNITS), kind.cell(UNITS)]
    inputs = keras.Input((TIME, INPUTS))
    layer = keras.layers.Bidirectional(keras.layers.RNN(cells, return_state=True))
    outputs, *states = layer(inputs)
    model = keras.Model(inputs, [outputs, states, layer(inputs, initial_state=states)[0]])
    x = normal(BATCH, TIME, INPUTS, dtype="float32")
    outputs, states, again = model(x)
    assert outputs.shape == (BATCH, 2 * UNITS)
    assert len(as_list(states)) == 4 * kind.n_states
    np.testing.assert_allclose(again, layer(x, initial_state=states)[0], rtol=0, atol=1e-6)
    assert not np.allclose(again, outputs)


def test_one_stack_holds_cells_of_other_kinds(kind):
    cells = [kind.cell(UNITS), keras.layers.LSTMCell(7), kind.cell(3)]
    x = normal(BATCH, TIME, INPUTS, dtype="float32")
    assert keras.layers.RNN(cells)(x).shape == (BATCH, 3)


def test_layer_refuses_constants(kind, use_fused):
    with pytest.raises(TypeError, match="constants"):
        make(kind, use_fused)(normal(BATCH, TIME, INPUTS), constants=[tf.zeros((BATCH, 1))])


@pytest.mark.parametrize(("kind", "use_fused"), PAIRS, ids=str)
def test_states_of_a_stateful_layer_are_saved_by_hand(kind, use_fused, tmp_path):
    layer = make(kind, use_fused, stateful=True)
    model = keras.Sequential([layer])
    x = normal(BATCH, TIME, INPUTS)
    model(x)
    kept = [f64(state) for state in layer.states]
    expected = model(x)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    for state in loaded.layers[0].states:
        np.testing.assert_array_equal(state, 0.0)  # states are no weights
    loaded.layers[0].reset_state(kept)
    np.testing.assert_allclose(loaded(x), expected, rtol=0, atol=1e-12)

"""The cells over time: by hand, in `keras.layers.RNN`, and as sequence layers."""

import functools

import keras
import numpy as np
import pytest
import reference
import tensorflow as tf
from kinds import (
    BATCH,
    DRIVERS,
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
    driven,
    normal,
)

VARIANTS = [
    *[(kind, {}) for kind in KINDS],
    (SIMPLE, {"use_bias": False, "epsilon": 1e-2}),
    (LSTM, {"normalize": (), "use_bias": False}),
    (LSTM, {"normalize": ("state",)}),
    (LSTM, {"normalize": ("kernel", "state"), "carry_normalized_state": True}),
    (GRU, {"normalize": (), "use_bias": False}),
    (GRU, {"normalize": ("recurrent",)}),
]


def inputs_and_states(kind):
    states = [normal(BATCH, UNITS, seed=2 + k) for k in range(kind.n_states)]
    return normal(BATCH, TIME, INPUTS), states


def objective(outputs, states, cotangents):
    return sum((value * c).sum() for value, c in zip([outputs, *states], cotangents))


def cotangents_of(kind):
    return [
        normal(BATCH, TIME, UNITS, seed=10),
        *[normal(BATCH, UNITS, seed=11 + k) for k in range(kind.n_states)],
    ]


@functools.cache
def reference_run(index):
    """Outputs, states and gradients by inputs, states and weights of a variant, by its index."""
    kind, options = VARIANTS[index]
    cell, _ = driven("cell", kind, **options)
    weights, (x, states) = cell.get_weights(), inputs_and_states(kind)
    expected, cotangents = kind.reference(**options), cotangents_of(kind)

    def loss(x, *rest):
        run = reference.sequence(expected, x, rest[kind.n_states :], rest[: kind.n_states])
        return objective(run.outputs, run.states, cotangents)

    run = reference.sequence(expected, x, weights, states)
    return run, reference.gradients(loss, [x, *states, *weights])


def check_against_reference(index, player, wrap):
    kind, options = VARIANTS[index]
    layer, call = driven(player, kind, **options)
    x, states = inputs_and_states(kind)
    cotangents = cotangents_of(kind)

    def run(x, *states):
        with tf.GradientTape() as tape:
            tape.watch([x, *states])
            outputs, new_states = call(x, list(states))
            values = [outputs, *new_states]
            products = [tf.reduce_sum(v * c) for v, c in zip(values, cotangents, strict=True)]
            loss = tf.add_n(products)
        gradients = tape.gradient(loss, [x, *states, *layer.trainable_variables])
        return outputs, new_states, gradients

    outputs, new_states, gradients = wrap(run)(tf.constant(x), *map(tf.constant, states))
    expected, expected_gradients = reference_run(index)
    np.testing.assert_allclose(outputs, expected.outputs, rtol=0, atol=1e-9)
    for state, value in zip(new_states, expected.states, strict=True):
        np.testing.assert_allclose(state, value, rtol=0, atol=1e-9)
    for gradient, value in zip(gradients, expected_gradients, strict=True):
        np.testing.assert_allclose(gradient, value, rtol=1e-7, atol=1e-6)


@pytest.mark.parametrize("index", range(len(VARIANTS)), ids=lambda i: str(VARIANTS[i]))
@pytest.mark.parametrize("use_fused", DRIVERS)
def test_values_states_and_gradients_match_the_reference(index, use_fused):
    check_against_reference(index, use_fused, wrap=lambda function: function)


@pytest.mark.parametrize("index", range(len(KINDS)), ids=lambda i: str(KINDS[i]))
@pytest.mark.parametrize("player", ["cell", "rnn"])
def test_cell_over_time_matches_the_reference(index, player):
    check_against_reference(index, player, wrap=lambda function: function)


@pytest.mark.parametrize("index", range(len(KINDS)), ids=lambda i: str(KINDS[i]))
@pytest.mark.parametrize("player", ["cell", "rnn", *DRIVERS])
@pytest.mark.parametrize("mode", ["graph", "jit"])
def test_compiled_gradients_match_the_reference(index, player, mode):
    check_against_reference(index, player, wrap=WRAPPERS[mode])


def make(kind, use_fused=False, dtype="float64", **options):
    time = TIME if options.get("unroll") else None
    return built(kind.layer(UNITS, use_fused=use_fused, dtype=dtype, **options), None, time, INPUTS)


@pytest.mark.parametrize(
    ("use_fused", "go_backwards", "unroll"),
    [(False, True, True), *[(d, backwards, False) for d in DRIVERS for backwards in (False, True)]],
)
def test_layer_returns_what_its_flags_say(kind, use_fused, go_backwards, unroll):
    flags = dict(go_backwards=go_backwards, unroll=unroll)
    x = normal(BATCH, TIME, INPUTS)
    weights = make(kind).get_weights()
    expected = reference.sequence(kind.reference(), x, weights, go_backwards=go_backwards)

    def run(**returned):
        layer = make(kind, use_fused, **flags, **returned)
        shape = layer.compute_output_shape(x.shape)
        result = layer(x)
        shapes = [shape] if not returned.get("return_state") else list(shape)
        values = result if isinstance(result, (list, tuple)) else [result]
        assert [tuple(value.shape) for value in values] == [tuple(s) for s in shapes]
        return values

    np.testing.assert_allclose(run()[0], expected.last, rtol=0, atol=1e-9)
    np.testing.assert_allclose(run(return_sequences=True)[0], expected.outputs, rtol=0, atol=1e-9)
    outputs, *states = run(return_state=True)
    np.testing.assert_allclose(outputs, expected.last, rtol=0, atol=1e-9)
    assert isinstance(states, list) and len(states) == kind.n_states
    for state, value in zip(states, expected.states, strict=True):
        np.testing.assert_allclose(state, value, rtol=0, atol=1e-9)


def test_layer_in_float32_is_close_to_float64(kind, use_fused):
    layer = make(kind, use_fused, dtype="float32", return_sequences=True)
    x = normal(BATCH, 20, INPUTS, dtype="float32")
    weights = [w.astype("float64") for w in layer.get_weights()]
    expected = reference.sequence(kind.reference(), x.astype("float64"), weights)
    # Random weights of size one make the recurrence itself spread rounding errors.
    np.testing.assert_allclose(layer(x), expected.outputs, rtol=0, atol=1e-4)


def traced(layer):
    """The recurrence as `layer` does it, which in a graph is not compiled."""
    return tf.function(layer) if layer.use_fused else layer


FAR = [*[(kind, "inputs") for kind in KINDS], (LSTM, "state")]


@pytest.mark.parametrize(("kind", "what"), FAR, ids=str)
@pytest.mark.parametrize("use_fused", [False, "auto"])
def test_layer_is_exact_far_from_zero(kind, what, use_fused):
    layer = kind.layer(UNITS, use_fused=use_fused, return_sequences=True)
    layer.build((None, None, 2))
    x, states = np.ones((1, TIME, 2)), [np.zeros((1, UNITS))] * kind.n_states
    if what == "inputs":  # W_x x is 1e6 and some whole numbers, exactly
        width = UNITS * kind.gates
        kernel = np.stack([np.ones(width), np.random.default_rng(0).permutation(width)])
        layer.cell.kernel.assign(kernel)
        x[..., 0], x[..., 1] = 1e6, [1, -2, 3]
    else:  # c is 1e6 and some whole numbers, and all of it is kept
        layer.cell.bias.assign(np.repeat([-60.0, 60.0, 0.0, 60.0], UNITS))
        states[-1] = 1e6 + np.arange(UNITS)[None]
    weights = [w.astype("float64") for w in layer.get_weights()]
    expected = reference.sequence(kind.reference(), x, weights, states)
    given = [state.astype("float32") for state in states]
    outputs = traced(layer)(x.astype("float32"), initial_state=given)
    np.testing.assert_allclose(outputs, expected.outputs, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "options"),
    [(SIMPLE, {}), (LSTM, {}), (LSTM, {"carry_normalized_state": True}), (GRU, {})],
    ids=str,
)
@pytest.mark.parametrize("use_fused", [False, "auto"])
def test_layer_without_variance_has_finite_gradients(kind, options, use_fused):
    layer = kind.layer(4, epsilon=1e-12, use_fused=use_fused, **options)
    layer.build((None, None, INPUTS))
    states = [tf.zeros((2, 4))] * kind.n_states

    def run(x, *states):
        with tf.GradientTape() as tape:
            tape.watch([x, *states])
            loss = tf.reduce_sum(layer(x, initial_state=list(states)) * tf.range(4.0))
        return tape.gradient(loss, [x, *states, *layer.trainable_variables])

    run = tf.function(run) if use_fused else run
    gradients = run(tf.zeros((2, 1, INPUTS)), *(state + 0.0 for state in states))
    assert all(np.isfinite(gradient).all() for gradient in gradients)
    assert max(np.abs(gradient).max() for gradient in gradients) < 100  # 1 / sqrt(epsilon) is 1e6


@pytest.mark.parametrize("go_backwards", [False, True])
def test_layer_takes_any_batch_and_length(kind, use_fused, go_backwards):
    layer = make(kind, use_fused, return_sequences=True, go_backwards=go_backwards)
    specification = tf.TensorSpec((None, None, INPUTS), "float64")
    call = tf.function(layer, input_signature=[specification])
    for batch, time in ((1, 1), (5, 9)):
        x = normal(batch, time, INPUTS)
        expected = reference.sequence(
            kind.reference(), x, layer.get_weights(), go_backwards=go_backwards
        )
        np.testing.assert_allclose(call(x), expected.outputs, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("units", "inputs"), [(1, 7), (33, 1)])
@pytest.mark.filterwarnings("ignore:.*single unit:UserWarning")
def test_layer_takes_any_width(kind, use_fused, units, inputs):
    layer = kind.layer(units, use_fused=use_fused, dtype="float64", return_sequences=True)
    built(layer, None, None, inputs)
    x = normal(BATCH, TIME, inputs)
    expected = reference.sequence(kind.reference(), x, layer.get_weights())
    np.testing.assert_allclose(layer(x), expected.outputs, rtol=0, atol=1e-9)


def test_layer_is_an_rnn_with_a_cell(kind, use_fused):
    layer = make(kind, use_fused)
    assert isinstance(layer, keras.layers.RNN)
    assert type(layer.cell) is kind.cell
    assert layer.cell.units == UNITS


def test_layer_continues_from_the_state_it_returned(kind, use_fused):
    layer = make(kind, use_fused, return_sequences=True, return_state=True)
    x = normal(BATCH, 2 * TIME, INPUTS)
    outputs, *states = layer(x)
    first, *middle = layer(x[:, :TIME])
    second, *last = layer(x[:, TIME:], initial_state=middle)
    np.testing.assert_allclose(tf.concat([first, second], 1), outputs, rtol=0, atol=1e-12)
    for state, value in zip(last, states, strict=True):
        np.testing.assert_allclose(state, value, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("kind", "use_fused"), PAIRS, ids=str)
def test_layer_adds_its_activity_regularizer(kind, use_fused):
    regularizer = keras.regularizers.L2(0.1)
    layer = make(kind, use_fused, return_sequences=True, activity_regularizer=regularizer)
    outputs = layer(normal(BATCH, TIME, INPUTS))
    expected = 0.1 * np.sum(np.square(outputs)) / BATCH
    np.testing.assert_allclose(sum(layer.losses), expected, rtol=1e-6)

"""States that are read and set between calls."""

import keras
import numpy as np
import pytest
from kinds import BATCH, INPUTS, TIME, UNITS, built, f64, normal


def make(kind, **options):
    return built(kind.layer(UNITS, dtype="float64", **options), BATCH, None, INPUTS)


def states_of(kind, seed=2):
    return [normal(BATCH, UNITS, seed=seed + k) for k in range(kind.n_states)]


def test_reset_refuses_wrong_states_before_it_sets_any(kind):
    layer, good = make(kind, stateful=True), states_of(kind)
    layer.reset_state(good)
    last = good[-1]
    wrong = [last[:, :-1], last[:, :1], last[:1], last[0], last[:, :, None]]
    other = [state + 1 for state in good[:-1]]  # would be set first
    for states in ([*good, last], [], *([*other, state] for state in wrong)):
        with pytest.raises(ValueError, match="`states` must hold.*Received: "):
            layer.reset_state(states)
    for variable, state in zip(layer.states, good, strict=True):
        np.testing.assert_array_equal(variable, state)


def test_reset_refuses_states_where_none_are_kept(kind):
    for layer in (make(kind), kind.layer(UNITS, stateful=True)):
        layer.reset_state()
        with pytest.raises(ValueError, match="Received: stateful="):
            layer.reset_state(states_of(kind))


def test_states_of_a_stack_are_read_and_set_layer_by_layer(kind):
    model = keras.Sequential(
        [
            keras.Input(batch_shape=(BATCH, TIME, INPUTS), dtype="float64"),
            kind.layer(UNITS, stateful=True, return_sequences=True, dtype="float64"),
            kind.layer(UNITS, stateful=True, dtype="float64"),
        ]
    )
    x = normal(BATCH, TIME, INPUTS)
    model.predict(x, verbose=0)
    kept = [[f64(state) for state in layer.states] for layer in model.layers]
    second = model.predict(x, verbose=0)
    for layer, states in zip(model.layers, kept, strict=True):
        assert not np.allclose(layer.states[0], states[0])
        layer.reset_state(states)
    np.testing.assert_allclose(model.predict(x, verbose=0), second, rtol=0, atol=1e-12)
    np.testing.assert_allclose(model.layers[-1].states[0], second, rtol=0, atol=1e-12)

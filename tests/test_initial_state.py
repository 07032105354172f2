"""States that are read and set between calls, and initial states that are learned."""

import keras
import numpy as np
import pytest
import reference
import tensorflow as tf
from kinds import BATCH, INPUTS, LSTM, PAIRS, TIME, UNITS, built, f64, normal


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


LEARNED = {"learn_initial_state": True}
MASK = np.array([[0, 1, 1], [1, 1, 0]], bool)


def test_learned_states_come_last_start_small_and_move_to_an_rnn(kind):
    layer, plain = (kind.layer(UNITS, dtype="mixed_float16", **o) for o in (LEARNED, {}))
    for each in (layer, plain):
        each.build((None, None, INPUTS))
    names = [weight.name for weight in layer.weights]
    learned = ["initial_h", "initial_c"][: kind.n_states]
    assert names == [*(weight.name for weight in plain.weights), *learned]
    for weight in layer.trainable_variables[-kind.n_states :]:
        assert weight.dtype == "float32"
        assert 0 < np.abs(weight).max() < 0.5 and np.std(weight) > 0
    layer = make(kind, **LEARNED)
    rnn = keras.layers.RNN(kind.cell(UNITS, dtype="float64", **LEARNED), dtype="float64")
    built(rnn, None, None, INPUTS).set_weights(layer.get_weights())
    x = normal(BATCH, TIME, INPUTS)
    np.testing.assert_allclose(rnn(x), layer(x), rtol=0, atol=1e-9)


def test_learned_states_have_the_gradient_of_the_reference(kind, use_fused):
    layer = make(kind, use_fused=use_fused, zoneout=0.25, **LEARNED)
    n, x, scale = kind.n_states, normal(BATCH, TIME, INPUTS), normal(BATCH, UNITS, seed=8)
    weights = layer.get_weights()

    def run():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(x, mask=MASK) * scale)
        return tape.gradient(loss, layer.trainable_variables[-n:])

    def loss(*learned):
        states = [np.tile(state, (BATCH, 1)) for state in learned]
        shares = [np.full((BATCH, TIME, UNITS), 0.75)] * n
        result = reference.sequence(kind.reference(), x, weights[:-n], states, MASK, shares=shares)
        return np.sum(result.last * scale)

    run = run if use_fused else tf.function(run)
    for learned in (weights[-n:], [np.linspace(-0.01, 0.02, UNITS)] * n):
        layer.set_weights([*weights[:-n], *learned])
        wanted = reference.gradients(loss, learned, step=1e-7)
        for gradient, target in zip(run(), wanted, strict=True):
            np.testing.assert_allclose(gradient, target, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("kind", "use_fused"), PAIRS)
def test_learned_states_give_way_to_given_ones(kind, use_fused):
    layer, plain = make(kind, use_fused=use_fused, **LEARNED), make(kind, use_fused=use_fused)
    plain.set_weights(layer.get_weights()[: -kind.n_states])
    x, states = normal(BATCH, TIME, INPUTS), states_of(kind)
    given = layer(x, initial_state=states)
    np.testing.assert_array_equal(given, plain(x, initial_state=states))
    assert not np.allclose(layer(x), plain(x))


def test_learned_states_are_trained_and_saved_in_both_directions(tmp_path):
    half = LSTM.layer(UNITS, use_fused=True, zoneout=0.1, **LEARNED)
    model = keras.Sequential([keras.Input((None, INPUTS)), keras.layers.Bidirectional(half)])
    model.compile(keras.optimizers.SGD(0.1), "mse", jit_compile=False)
    x = normal(4, TIME, INPUTS, dtype="float32")
    model.fit(x, np.ones((4, 2 * UNITS)), verbose=0)
    learned = [weight for weight in model.trainable_variables if "initial_" in weight.path]
    assert len({weight.path for weight in learned}) == 2 * LSTM.n_states
    assert all(np.any(f64(weight) != 0) for weight in learned)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded(x), model(x), rtol=0, atol=1e-6)


def test_learned_states_are_refused_where_none_could_be_learned(kind):
    with pytest.raises(ValueError, match="Received: stateful=True, learn_initial_state=True"):
        kind.layer(UNITS, stateful=True, **LEARNED).build((BATCH, TIME, INPUTS))
    with pytest.raises(ValueError, match="Received: built=False"):
        kind.cell(UNITS, **LEARNED).get_initial_state(BATCH)

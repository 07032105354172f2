"""Zoneout: units keep their old state, at random in training, in proportion at inference."""

import keras
import numpy as np
import pytest
import reference
import tensorflow as tf
from kinds import BATCH, DRIVERS, GRU, INPUTS, KINDS, LSTM, PAIRS, TIME, UNITS, built, f64, normal

MASK = np.array([[1, 0, 1], [0, 1, 1]], bool)


def rates_of(kind):
    return (0.3, 0.6)[-kind.n_states :]


def make(kind, use_fused, **options):
    options = {"zoneout": rates_of(kind), "dtype": "float64", "return_state": True, **options}
    layer = kind.layer(UNITS, use_fused=use_fused, return_sequences=True, **options)
    return built(layer, None, None, INPUTS)


def scales_of(x, states):
    return [normal(*x.shape[:2], UNITS, seed=9), *[state[::-1] for state in states]]


def gradients_of(layer, x, states, mask=None):
    """Outputs, last states and the gradients of their weighted sum, in one list."""
    scales = scales_of(x, states)

    def run(x, *states):
        with tf.GradientTape() as tape:
            tape.watch([x, *states])
            results = layer(x, initial_state=list(states), mask=mask, training=True)
            loss = tf.add_n([tf.reduce_sum(r * s) for r, s in zip(results, scales, strict=True)])
        return results, tape.gradient(loss, [x, *states, *layer.trainable_variables])

    # Eagerly the fused passes are compiled already.
    run = run if layer.use_fused else tf.function(run)
    return keras.tree.flatten(run(tf.constant(x), *map(tf.constant, states)))


def test_values_and_gradients_match_the_reference_given_the_masks(kind, use_fused):
    layer = make(kind, use_fused, go_backwards=True)
    x = normal(BATCH, TIME, INPUTS)
    states = [normal(BATCH, UNITS, seed=2 + k) for k in range(kind.n_states)]
    drawn = np.random.default_rng(4).integers(0, 2, (BATCH, TIME, kind.n_states * UNITS))
    shares = np.split(drawn, kind.n_states, axis=-1)
    # The layer draws for the steps as it reads them: from the end.
    read = [tf.constant(share[:, ::-1], "float64") for share in shares]
    layer.cell.draw_shares = lambda shape, training: read

    def run(x, *rest):
        return reference.sequence(
            kind.reference(),
            x,
            rest[kind.n_states :],
            rest[: kind.n_states],
            MASK,
            go_backwards=True,
            shares=shares,
        )

    def loss(*arrays):
        result = run(*arrays)
        values = zip([result.outputs, *result.states], scales_of(x, states), strict=True)
        return sum((value * scale).sum() for value, scale in values)

    arrays = [x, *states, *layer.get_weights()]
    expected = run(*arrays)
    wanted = [expected.outputs, *expected.states, *reference.gradients(loss, arrays)]
    for value, target in zip(gradients_of(layer, x, states, MASK), wanted, strict=True):
        np.testing.assert_allclose(value, target, rtol=1e-7, atol=1e-6)


def test_drivers_draw_the_same():
    x, states = normal(BATCH, TIME, INPUTS), [normal(BATCH, UNITS, seed=2 + k) for k in (0, 1)]
    # Dropout draws from the same seed.
    options = dict(dropout=0.5, recurrent_dropout=0.5, seed=3, name="same")
    results = [gradients_of(make(LSTM, fused, **options), x, states) for fused in DRIVERS]
    for value, target in zip(*results, strict=True):
        np.testing.assert_allclose(value, target, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("kind", "player"), [*((kind, "rnn") for kind in KINDS), (GRU, False), (LSTM, True)]
)
def test_units_are_held_at_the_rate_anew_in_each_step(kind, player):
    units, batch, time = 16, 40, 5
    options = {"zoneout": 0.3}
    if player == "rnn":
        layer = keras.layers.RNN(kind.cell(units, **options), return_sequences=True)
    else:
        layer = kind.layer(units, use_fused=player, return_sequences=True, **options)
    x = normal(batch, time, INPUTS, dtype="float32")
    call = tf.function(lambda x: layer(x, training=True))

    def held():
        outputs = f64(call(x))
        return outputs[:, 1:] == outputs[:, :-1]

    first, second = held(), held()
    assert abs(first.mean() - 0.3) < 0.03
    assert (first != second).any(axis=(1, 2)).all()
    for axis in range(3):
        assert (first.any(axis) & ~first.all(axis)).mean() > 0.5  # drawn along each axis
    assert not (f64(layer(x))[:, 1:] == f64(layer(x))[:, :-1]).any()


def test_pair_of_rates_is_for_h_and_c_and_c_is_held_exactly(use_fused):
    options = dict(use_fused=use_fused, return_state=True, dtype="mixed_bfloat16")
    layer = LSTM.layer(64, zoneout=(0.0, 0.5), **options)
    h, c = tf.fill((20, 64), 0.7), tf.fill((20, 64), 1000.3)  # neither is a bfloat16
    _, *new = layer(tf.ones((20, 1, 3)), initial_state=[h, c], training=True)
    assert new[1].dtype == "float32"
    held = [f64(new[0]) == f64(tf.cast(h, "bfloat16")), f64(new[1]) == f64(c)]
    assert [share.mean() for share in held] == pytest.approx([0.0, 0.5], abs=0.06)


def test_cell_by_hand_draws_anew_and_leaves_no_tensor_of_a_graph(kind):
    cell = built(kind.cell(UNITS, zoneout=0.5), None, INPUTS)

    def call(x):
        states = [tf.ones((len(x), UNITS))] * kind.n_states
        return cell(x, states, training=True)[0] == 1.0

    for batch in (30, 20):
        x = tf.ones((batch, INPUTS))
        for function in (tf.function(call), call):
            first, second = np.array(function(x)), np.array(function(x))
            assert (first != second).any() and 0.3 < first.mean() < 0.7


@pytest.mark.parametrize(("kind", "use_fused"), PAIRS)
def test_empty_sequences_keep_their_states(kind, use_fused):
    layer = make(kind, use_fused)
    states = [normal(2, UNITS, seed=k) for k in range(kind.n_states)]
    outputs, *last = layer(tf.zeros((2, 0, INPUTS)), initial_state=states, training=True)
    assert outputs.shape == (2, 0, UNITS)
    for state, value in zip(last, states, strict=True):
        np.testing.assert_array_equal(state, value)


def test_wrong_rates_are_refused(kind):
    wrong = [-0.1, 1.0, "0.5", None, True, float("nan"), (0.1,) * (kind.n_states + 1), ()]
    for cls in (kind.cell, kind.layer):
        for zoneout in wrong:
            with pytest.raises(ValueError, match="`zoneout`.*Received: zoneout="):
                cls(UNITS, zoneout=zoneout)


def test_a_rate_of_zero_is_no_zoneout(kind):
    for zoneout in (0, 0.0, (0.0,) * kind.n_states):
        cell = built(kind.cell(UNITS, zoneout=zoneout), None, INPUTS)
        assert cell.seed_generator is None and cell.zoneout_rates == ()

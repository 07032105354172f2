"""One step of each cell against the paper's equations, for every choice of its options."""

import keras
import numpy as np
import pytest
import reference
import tensorflow as tf
from kinds import BATCH, INPUTS, LSTM, OPTIONS, SIMPLE, UNITS, built, normal

ACTIVATIONS = {"tanh": np.tanh, "sigmoid": reference.sigmoid, "linear": lambda x: x}


def one_step(kind, options, dtype="float64", activations=None):
    """A built cell, its reference, and an input and states for both."""
    names = activations or {}
    cell = built(kind.cell(UNITS, dtype=dtype, **options, **names), None, INPUTS)
    functions = {key: ACTIVATIONS[value] for key, value in names.items()}
    expected = kind.reference(**options, **functions)
    states = [normal(BATCH, UNITS, seed=2 + k) for k in range(kind.n_states)]
    return cell, expected, normal(BATCH, INPUTS), states


@pytest.mark.parametrize(("kind", "options"), OPTIONS, ids=str)
def test_step_matches_the_equations(kind, options):
    cell, expected, x, states = one_step(kind, options)
    weights = cell.get_weights()
    output, new_states = cell(x, states)
    expected_output, expected_states = expected.step(x, states, weights)
    np.testing.assert_allclose(output, expected_output, rtol=0, atol=1e-12)
    for state, value in zip(keras.tree.flatten(new_states), expected_states, strict=True):
        np.testing.assert_allclose(state, value, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("kind", "options"), OPTIONS, ids=str)
def test_step_gradients_match_the_equations(kind, options):
    cell, expected, x, states = one_step(kind, options)
    scales = [normal(BATCH, UNITS, seed=10 + k) for k in range(1 + kind.n_states)]

    def objective(output, states):
        return sum((value * s).sum() for value, s in zip([output, *states], scales))

    def reference_loss(*arrays):
        x, *rest = arrays
        return objective(*expected.step(x, rest[: kind.n_states], rest[kind.n_states :]))

    inputs = [tf.constant(a) for a in (x, *states)]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        output, new_states = cell(inputs[0], inputs[1:])
        values = [output, *keras.tree.flatten(new_states)]
        loss = tf.add_n([tf.reduce_sum(v * s) for v, s in zip(values, scales, strict=True)])
    result = tape.gradient(loss, [*inputs, *cell.trainable_variables])
    wanted = reference.gradients(reference_loss, [x, *states, *cell.get_weights()])
    for gradient, value in zip(result, wanted, strict=True):
        np.testing.assert_allclose(gradient, value, rtol=0, atol=1e-7)


@pytest.mark.parametrize("activation", ["sigmoid", "linear"])
@pytest.mark.parametrize("recurrent_activation", ["tanh", "linear"])
def test_step_uses_the_activations(kind, activation, recurrent_activation):
    names = {"activation": activation, "recurrent_activation": recurrent_activation}
    if kind is SIMPLE:
        del names["recurrent_activation"]
    cell, expected, x, states = one_step(kind, {"epsilon": 1e-2}, activations=names)
    np.testing.assert_allclose(
        cell(x, states)[0], expected.step(x, states, cell.get_weights())[0], rtol=0, atol=1e-12
    )


def test_step_in_float32_is_close_to_float64(kind, compiled):
    cell, expected, x, states = one_step(kind, {}, dtype="float32")
    weights = [w.astype("float64") for w in cell.get_weights()]
    x, *states = (a.astype("float32") for a in (x, *states))
    wanted, wanted_states = expected.step(
        x.astype("float64"), [s.astype("float64") for s in states], weights
    )
    output, new_states = compiled(cell)(x, states)
    np.testing.assert_allclose(output, wanted, rtol=0, atol=1e-5)
    for state, value in zip(keras.tree.flatten(new_states), wanted_states, strict=True):
        np.testing.assert_allclose(state, value, rtol=0, atol=1e-5)


def test_step_is_exact_far_from_zero(kind, compiled):
    # W_x x = 1e6 + arange, exactly; from a zero state the rest of the sum is the bias.
    width = UNITS * kind.gates
    cell = kind.cell(UNITS)
    cell.build((None, 2))
    kernel = np.stack([np.ones(width), np.random.default_rng(0).permutation(width)])
    cell.kernel.assign(kernel)
    weights = [w.astype("float64") for w in cell.get_weights()]
    x, states = np.array([[1e6, 1.0]]), [np.zeros((1, UNITS))] * kind.n_states
    wanted, _ = kind.reference().step(x, states, weights)
    output, _ = compiled(cell)(x.astype("float32"), [s.astype("float32") for s in states])
    np.testing.assert_allclose(output, wanted, rtol=0, atol=1e-6)


@pytest.mark.parametrize("carried", [False, True])
def test_lstm_carries_the_raw_state_unless_told(carried):
    cell = LSTM.cell(UNITS, carry_normalized_state=carried, dtype="float64")
    cell.build((None, INPUTS))
    x, states = normal(BATCH, INPUTS), [normal(BATCH, UNITS), 3 + normal(BATCH, UNITS)]
    _, (_, c) = cell(x, states)
    is_normalized = np.allclose(np.mean(c, -1), 0) and np.allclose(np.var(c, -1), 1, atol=1e-3)
    assert is_normalized == carried


def test_step_without_variance_has_finite_gradients(kind, compiled):
    cell = kind.cell(UNITS, epsilon=1e-12)
    cell.build((None, INPUTS))
    cell.kernel.assign(np.ones(cell.kernel.shape))
    x = tf.repeat([[0.0], [3.0]], INPUTS, axis=1)  # W_x x is constant, W_h h and c are zero
    states = [tf.zeros((2, UNITS))] * kind.n_states

    def run(*inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            output, _ = cell(inputs[0], inputs[1:])
            loss = tf.reduce_sum(output * tf.range(UNITS, dtype="float32"))
        return tape.gradient(loss, [*inputs, *cell.trainable_variables])

    for gradient in compiled(run)(x, *states):
        assert np.isfinite(gradient).all()

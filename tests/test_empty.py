"""Sequences of length zero and batches of size zero."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from kinds import GRU, INPUTS, KINDS, LSTM, PAIRS, UNITS, WRAPPERS, built, normal

SHAPES = [(2, 0, INPUTS), (0, 5, INPUTS), (0, 0, INPUTS)]


def make(kind, use_fused, **flags):
    return built(kind.layer(UNITS, use_fused=use_fused, **flags), None, None, INPUTS)


@pytest.mark.parametrize(
    ("kind", "use_fused", "mode", "shape"),
    [
        *[(kind, *how, SHAPES[0]) for kind in KINDS for how in ((False, "graph"), (True, "eager"))],
        (GRU, False, "jit", SHAPES[0]),
        (LSTM, True, "jit", SHAPES[0]),
        (GRU, False, "graph", SHAPES[1]),
        (LSTM, True, "eager", SHAPES[1]),
    ],
    ids=str,
)
def test_empty_sequences_give_zeros_the_initial_state_and_no_gradient(kind, use_fused, mode, shape):
    masked = shape == SHAPES[0]
    layer = make(kind, use_fused, return_sequences=masked, return_state=True)
    mask = tf.ones(shape[:2], bool) if masked else None
    states = [normal(shape[0], UNITS, seed=k, dtype="float32") for k in range(kind.n_states)]

    @WRAPPERS[mode]
    def run(x, *states):
        with tf.GradientTape() as tape:
            tape.watch([x, *states])
            outputs, *last = layer(x, initial_state=list(states), mask=mask)
            loss = tf.reduce_sum(outputs) + tf.add_n([tf.reduce_sum(state) for state in last])
        none = tf.UnconnectedGradients.ZERO
        sources = layer.trainable_variables
        return outputs, last, tape.gradient(loss, sources, unconnected_gradients=none)

    outputs, last, gradients = run(tf.zeros(shape), *map(tf.constant, states))
    wanted = (*shape[:2], UNITS) if masked else (shape[0], UNITS)
    np.testing.assert_array_equal(outputs, np.zeros(wanted))
    for state, value in zip(last, states, strict=True):
        np.testing.assert_array_equal(state, value)
    for gradient in gradients:
        np.testing.assert_array_equal(gradient, np.zeros(gradient.shape))


def test_empty_sequences_give_a_zero_output_whatever_the_state(kind, use_fused):
    cases = ((SHAPES[0], False), (SHAPES[0], True), (SHAPES[1], False), (SHAPES[2], True))
    for zero_output_for_mask in (False, True):
        layer = make(kind, use_fused, return_state=True, zero_output_for_mask=zero_output_for_mask)
        for shape, masked in cases:
            mask = tf.ones(shape[:2], bool) if masked else None
            initial = [tf.ones((shape[0], UNITS))] * kind.n_states
            output, *states = layer(tf.zeros(shape), initial_state=initial, mask=mask)
            np.testing.assert_array_equal(output, np.zeros((shape[0], UNITS)))
            for state in states:
                np.testing.assert_array_equal(state, np.ones((shape[0], UNITS)))


def test_one_graph_takes_empty_and_other_sequences(kind, use_fused):
    layer = make(kind, use_fused, return_sequences=True)
    specification = tf.TensorSpec((None, None, INPUTS), "float32")
    call = tf.function(layer, input_signature=[specification])
    for shape in SHAPES:
        assert call(tf.zeros(shape)).shape == (*shape[:2], UNITS)
    x = normal(2, 3, INPUTS, dtype="float32")
    np.testing.assert_allclose(call(x), layer(x), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("kind", "use_fused"), PAIRS, ids=str)
def test_empty_sequences_in_a_functional_model(kind, use_fused):
    inputs = keras.Input((None, INPUTS))
    layer = make(kind, use_fused, return_sequences=True, go_backwards=True)
    model = keras.Model(inputs, layer(inputs))
    for shape in SHAPES:
        assert model(tf.zeros(shape)).shape == (*shape[:2], UNITS)

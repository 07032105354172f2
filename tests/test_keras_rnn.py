"""What `keras.layers.RNN(cell)` does around our cells, its faults included.

A cell cannot mend these faults; the sequence layers do not have them. Each test here pins one, so
that the documentation can name it and a new Keras that mends it is noticed.
"""

import keras
import numpy as np
import pytest
import reference
import tensorflow as tf
from kinds import INPUTS, UNITS, built, mask_of, normal

MASK = np.array([[1, 1, 1, 0], [1, 0, 1, 0], [0, 0, 0, 0]], bool)


def rnn(kind, dtype="float32", **flags):
    layer = keras.layers.RNN(kind.cell(UNITS, dtype=dtype), dtype=dtype, **flags)
    return built(layer, None, None, INPUTS)


@pytest.mark.parametrize("zero_output_for_mask", [False, True])
def test_rnn_of_a_cell_follows_masks(kind, zero_output_for_mask):
    zero = dict(zero_output_for_mask=zero_output_for_mask)
    layer = rnn(kind, "float64", return_sequences=True, return_state=True, **zero)
    x = normal(*MASK.shape, INPUTS)
    given = [normal(len(MASK), UNITS, seed=2 + k) for k in range(kind.n_states)]
    expected = reference.sequence(kind.reference(), x, layer.get_weights(), given, MASK, **zero)
    outputs, *states = layer(x, initial_state=given, mask=MASK)
    np.testing.assert_allclose(outputs, expected.outputs, rtol=0, atol=1e-9)
    for state, value in zip(states, expected.states, strict=True):
        np.testing.assert_allclose(state, value, rtol=0, atol=1e-9)


@pytest.mark.parametrize("unroll", [False, True])
def test_rnn_of_two_cells_is_two_layers(kind, unroll):
    flags = dict(return_sequences=True, dtype="float64")
    cells = [kind.cell(UNITS, dtype="float64") for _ in range(2)]
    # A bare list of cells would become a stack of the default dtype policy.
    cells = keras.layers.StackedRNNCells(cells, dtype="float64")
    stacked = keras.layers.RNN(cells, unroll=unroll, **flags)
    x = normal(*MASK.shape, INPUTS)
    built(stacked, *x.shape)
    weights = stacked.get_weights()
    layers = [kind.layer(UNITS, **flags) for _ in range(2)]
    outputs = x
    for k, layer in enumerate(layers):
        layer.build((None, None, outputs.shape[-1]))
        half = len(weights) // 2
        layer.set_weights(weights[k * half : (k + 1) * half])
        outputs = layer(outputs, mask=MASK)
    np.testing.assert_allclose(stacked(x, mask=MASK), outputs, rtol=0, atol=1e-9)


def test_rnn_of_a_list_of_cells_takes_their_dtype_as_it_comes(kind):
    cells = [kind.cell(UNITS, dtype="float64") for _ in range(2)]
    layer = built(keras.layers.RNN(cells, dtype="float64"), None, None, INPUTS)
    layers = [kind.layer(UNITS, return_sequences=first, dtype="float64") for first in (True, False)]
    outputs, weights = normal(*MASK.shape, INPUTS), layer.get_weights()
    expected, half = outputs, len(weights) // 2
    for k, single in enumerate(layers):
        single.build((None, None, expected.shape[-1]))
        single.set_weights(weights[k * half : (k + 1) * half])
        expected = single(expected)
    np.testing.assert_allclose(layer(outputs), expected, rtol=0, atol=1e-4)


def test_rnn_repeats_the_output_of_a_cell_and_not_its_state(kind):
    class Projected(kind.cell):
        def call(self, inputs, states, training=False):
            output, states = super().call(inputs, states, training=training)
            return 10.0 + output, states

    layer = keras.layers.RNN(Projected(UNITS), return_sequences=True)
    outputs = np.array(layer(normal(*MASK.shape, INPUTS, dtype="float32"), mask=MASK))
    np.testing.assert_array_equal(outputs[0, 3], outputs[0, 2])
    np.testing.assert_array_equal(outputs[1, 1], outputs[1, 0])
    np.testing.assert_array_equal(outputs[2], 0.0)
    assert (outputs[0] > 5).all()


def test_rnn_lets_nan_of_padded_steps_into_the_gradient(kind):
    layer, x = rnn(kind), normal(*MASK.shape, INPUTS, dtype="float32")
    x = tf.constant(np.where(MASK[..., None], x, np.nan), "float32")
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(x, mask=MASK))
    assert np.isfinite(loss)
    assert np.isnan(tape.gradient(loss, layer.cell.kernel)).any()


def test_rnn_raises_for_sequences_of_length_zero(kind):
    layer = rnn(kind)
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError)):
        layer(tf.zeros((2, 0, INPUTS)))
    assert layer(tf.zeros((0, 2, INPUTS))).shape == (0, UNITS)


def test_rnn_takes_an_unknown_length_for_unroll_until_it_is_run(kind):
    layer = keras.layers.RNN(kind.cell(UNITS), unroll=True)
    model = keras.Model(inputs := keras.Input((None, INPUTS)), layer(inputs))
    assert model(tf.zeros((2, 3, INPUTS))).shape == (2, UNITS)
    with pytest.raises(ValueError, match="[Uu]nroll"):
        tf.function(model, input_signature=[tf.TensorSpec((None, None, INPUTS))])(
            tf.zeros((2, 3, INPUTS))
        )


def test_rnn_has_no_gradient_where_only_its_call_is_compiled(kind):
    layer = rnn(kind)
    call = tf.function(layer, jit_compile=True)
    with pytest.raises(tf.errors.UnimplementedError, match="TensorList"):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(call(tf.ones((2, 3, INPUTS))))
        tape.gradient(loss, layer.cell.kernel)


def test_rnn_has_no_constants(kind):
    with pytest.raises(TypeError, match="constants"):
        rnn(kind)(tf.zeros((2, 3, INPUTS)), constants=[tf.zeros((2, 1))])


def test_rnn_drops_an_implicit_mask_beside_an_initial_state(kind):
    ids = np.array([[1, 2, 0]])
    embedded = keras.layers.Embedding(3, INPUTS, mask_zero=True)(ids)
    layer, states = rnn(kind), [tf.zeros((1, UNITS))] * kind.n_states
    dropped = layer(embedded, initial_state=states)
    np.testing.assert_array_equal(dropped, layer(tf.convert_to_tensor(np.array(embedded))))
    assert not np.allclose(dropped, layer(embedded))
    # The way round: pass the mask.
    np.testing.assert_array_equal(
        layer(embedded, initial_state=states, mask=ids != 0), layer(embedded)
    )


def test_rnn_does_not_turn_the_mask_with_the_outputs(kind):
    ids = np.array([[1, 2, 0, 0]])
    embedded = keras.layers.Embedding(3, INPUTS, mask_zero=True)(ids)
    flags = dict(return_sequences=True, go_backwards=True, zero_output_for_mask=True)
    outputs = rnn(kind, **flags)(embedded)
    np.testing.assert_array_equal(np.any(np.array(outputs) != 0, -1), [[0, 0, 1, 1]])
    np.testing.assert_array_equal(mask_of(outputs), [[1, 1, 0, 0]])


def test_rnn_cannot_reset_the_states_of_stacked_cells(kind):
    layer = keras.layers.RNN([kind.cell(UNITS), kind.cell(UNITS)], stateful=True)
    x = normal(2, 3, INPUTS, dtype="float32")
    layer(x)
    if kind.n_states > 1:
        with pytest.raises(AttributeError, match="assign"):
            layer.reset_state()
    # The way round.
    for state in keras.tree.flatten(layer.states):
        state.assign(tf.zeros_like(state))
    fresh = layer(x)
    for state in keras.tree.flatten(layer.states):
        state.assign(tf.zeros_like(state))
    np.testing.assert_allclose(layer(x), fresh, rtol=0, atol=1e-6)

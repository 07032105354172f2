"""Masks of every kind through the sequence layers: values, states, gradients, propagation."""

import keras
import numpy as np
import pytest
import reference
import tensorflow as tf
from kinds import GRU, INPUTS, KINDS, LSTM, PAIRS, UNITS, WRAPPERS, built, mask_of, normal

MASKS = {
    "right": [[1, 1, 1, 0], [1, 0, 0, 0], [1, 1, 1, 1]],
    "left": [[0, 1, 1, 1], [0, 0, 0, 1], [1, 1, 1, 1]],
    "holes": [[1, 0, 1, 1], [0, 1, 0, 1], [1, 0, 0, 1]],
    "row": [[0, 0, 0, 0], [1, 1, 0, 1], [0, 0, 1, 1]],
    "all": [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]],
    "none": [[1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1]],
}
MIXED = np.array(sum(MASKS.values(), []), bool)
BATCH, TIME = 3, 4
# Eagerly the fused passes are XLA programs already; an outer program costs the most to compile.
MODES = [
    *[(kind, *mode) for kind in KINDS for mode in ((False, "graph"), (True, "eager"))],
    (GRU, False, "jit"),
    (LSTM, True, "jit"),
]


def make(kind, use_fused=False, dtype="float64", **options):
    return built(kind.layer(UNITS, use_fused=use_fused, dtype=dtype, **options), None, None, INPUTS)


def states_of(kind, batch=BATCH):
    return [normal(batch, UNITS, seed=2 + k) for k in range(kind.n_states)]


@pytest.mark.parametrize("zero_output_for_mask", [False, True])
@pytest.mark.parametrize("go_backwards", [False, True])
def test_masked_layer_matches_the_reference(kind, use_fused, zero_output_for_mask, go_backwards):
    flags = dict(zero_output_for_mask=zero_output_for_mask, go_backwards=go_backwards)
    x, states = normal(len(MIXED), TIME, INPUTS), states_of(kind, len(MIXED))
    for sequences in (True, False):
        layer = make(kind, use_fused, return_sequences=sequences, return_state=True, **flags)
        expected = reference.sequence(
            kind.reference(), x, layer.get_weights(), states, MIXED, **flags
        )
        outputs, *last = layer(x, initial_state=states, mask=MIXED)
        wanted = expected.outputs if sequences else expected.last
        np.testing.assert_allclose(outputs, wanted, rtol=0, atol=1e-9)
        for state, value in zip(last, expected.states, strict=True):
            np.testing.assert_allclose(state, value, rtol=0, atol=1e-9)


def test_masked_layer_that_carries_the_normalized_state(use_fused):
    layer = make(LSTM, use_fused, return_sequences=True, carry_normalized_state=True)
    x = normal(len(MIXED), TIME, INPUTS)
    expected = reference.sequence(
        reference.LSTM(carry_normalized_state=True), x, layer.get_weights(), mask=MIXED
    )
    np.testing.assert_allclose(layer(x, mask=MIXED), expected.outputs, rtol=0, atol=1e-9)


def test_unrolled_layer_is_masked_alike(kind):
    layer = built(kind.layer(UNITS, unroll=True, dtype="float64"), None, TIME, INPUTS)
    x = normal(len(MIXED), TIME, INPUTS)
    expected = reference.sequence(kind.reference(), x, layer.get_weights(), mask=MIXED)
    np.testing.assert_allclose(layer(x, mask=MIXED), expected.last, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("kind", "use_fused", "mode"), MODES, ids=str)
def test_masked_gradients_match_the_reference_whatever_is_in_padded_steps(kind, use_fused, mode):
    layer = make(kind, use_fused, return_sequences=True, return_state=True)
    states = states_of(kind, len(MIXED))
    scale = normal(len(MIXED), TIME, UNITS, seed=9)
    clean = np.where(MIXED[..., None], normal(len(MIXED), TIME, INPUTS), 0.0)
    junk = np.resize([np.nan, np.inf, -np.inf, 1e308], clean.shape)
    dirty = np.where(MIXED[..., None], clean, junk)

    @WRAPPERS[mode]
    def run(x, *states):
        with tf.GradientTape() as tape:
            tape.watch([x, *states])
            outputs, *last = layer(x, initial_state=list(states), mask=MIXED)
            loss = tf.reduce_sum(outputs * scale) + tf.add_n([tf.reduce_sum(s) for s in last])
        return outputs, last, tape.gradient(loss, [x, *states, *layer.trainable_variables])

    def reference_loss(states, weights):
        found = reference.sequence(kind.reference(), clean, weights, states, MIXED)
        return np.sum(found.outputs * scale) + sum(np.sum(state) for state in found.states)

    n, initial = kind.n_states, [tf.constant(state) for state in states]
    results = [run(tf.constant(x), *initial) for x in (clean, dirty)]
    for expected, result in zip(*map(keras.tree.flatten, results), strict=True):
        assert np.isfinite(result).all()
        np.testing.assert_array_equal(result, expected)
    by_x, *gradients = results[0][-1]
    np.testing.assert_array_equal(np.array(by_x)[~MIXED], 0.0)
    expected = reference.gradients(
        lambda *arrays: reference_loss(arrays[:n], arrays[n:]), [*states, *layer.get_weights()]
    )
    for gradient, value in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(gradient, value, rtol=1e-6, atol=1e-6)


def test_masks_of_another_dtype_and_unknown_length(kind, use_fused):
    layer = make(kind, use_fused)
    specification = [
        tf.TensorSpec((None, None, INPUTS), "float64"),
        tf.TensorSpec((None, None), "float32"),
    ]
    call = tf.function(lambda x, mask: layer(x, mask=mask), input_signature=specification)
    for mask in (MIXED, MIXED[:5, :2]):
        x = normal(*mask.shape, INPUTS)
        expected = reference.sequence(kind.reference(), x, layer.get_weights(), mask=mask)
        np.testing.assert_allclose(
            call(x, mask.astype("float32")), expected.last, rtol=0, atol=1e-9
        )


IDS = np.array([[1, 2, 0, 0], [3, 0, 4, 0], [0, 0, 1, 2]])


def embedding():
    return keras.layers.Embedding(5, INPUTS, mask_zero=True, dtype="float64")


def after_embedding(kind, layer, embed, states=None):
    """What `layer` gives for the embedded `IDS`, by the reference."""
    x, weights = np.array(embed(IDS)), layer.get_weights()
    return reference.sequence(kind.reference(), x, weights, states, IDS != 0)


def test_implicit_mask_is_kept_beside_an_initial_state(kind, use_fused):
    embed, layer, states = embedding(), make(kind, use_fused), states_of(kind)
    expected = after_embedding(kind, layer, embed, states)
    outputs = layer(embed(IDS), initial_state=states)
    np.testing.assert_allclose(outputs, expected.last, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("kind", "use_fused"), PAIRS, ids=str)
def test_implicit_mask_is_kept_beside_an_initial_state_in_a_functional_model(
    kind, use_fused, tmp_path
):
    embed, layer, states = embedding(), make(kind, use_fused), states_of(kind)
    ids = keras.Input((None,), dtype="int32")
    given = [keras.Input((UNITS,), dtype="float64") for _ in states]
    model = keras.Model([ids, *given], layer(embed(ids), initial_state=given))
    expected = after_embedding(kind, layer, embed, states).last
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    for each in (model, tf.function(model), loaded):
        np.testing.assert_allclose(each([IDS, *states]), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("kind", "use_fused"), PAIRS, ids=str)
def test_mask_passes_through_two_layers(kind, use_fused):
    embed, first = embedding(), make(kind, use_fused, return_sequences=True)
    second = kind.layer(UNITS, use_fused=use_fused, dtype="float64")
    model = keras.Sequential([embed, first, second])
    outputs = model(IDS)
    between = after_embedding(kind, first, embed).outputs
    expected = reference.sequence(kind.reference(), between, second.get_weights(), mask=IDS != 0)
    np.testing.assert_allclose(outputs, expected.last, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(mask_of(first(embed(IDS))), IDS != 0)


@pytest.mark.parametrize("return_state", [False, True])
@pytest.mark.parametrize(("kind", "use_fused"), PAIRS, ids=str)
def test_mask_follows_the_outputs_backwards(kind, use_fused, return_state):
    layer = make(
        kind,
        use_fused,
        go_backwards=True,
        return_sequences=True,
        return_state=return_state,
        zero_output_for_mask=True,
    )
    result = layer(embedding()(IDS))
    outputs = result[0] if return_state else result
    is_valid = np.any(np.array(outputs) != 0, axis=-1)
    np.testing.assert_array_equal(is_valid, (IDS != 0)[:, ::-1])
    np.testing.assert_array_equal(mask_of(outputs), is_valid)


def test_compute_mask_tells_what_passes_on(kind, use_fused):
    mask = tf.constant(IDS != 0)
    assert make(kind, use_fused).compute_mask(None, mask) is None
    flags = dict(return_sequences=True, return_state=True)
    first, *rest = make(kind, use_fused, **flags).compute_mask(None, mask)
    np.testing.assert_array_equal(first, mask)
    assert rest == [None] * kind.n_states
    assert make(kind, use_fused, return_sequences=True).compute_mask(None, None) is None
    backwards = make(kind, use_fused, return_sequences=True, go_backwards=True)
    np.testing.assert_array_equal(backwards.compute_mask(None, mask), (IDS != 0)[:, ::-1])


def test_bidirectional_keeps_masks_aligned(kind, use_fused):
    layer = make(kind, use_fused, return_sequences=True)
    wrapped = keras.layers.Bidirectional(layer, dtype="float64")
    x, mask = normal(len(MIXED), TIME, INPUTS), MIXED
    wrapped.build(x.shape)
    weights = built(wrapped, *x.shape).get_weights()
    half = len(weights) // 2
    halves = []
    for part, backwards in ((weights[:half], False), (weights[half:], True)):
        run = reference.sequence(
            kind.reference(),
            x,
            part,
            mask=mask,
            zero_output_for_mask=True,
            go_backwards=backwards,
        )
        halves.append(run.outputs[:, ::-1] if backwards else run.outputs)
    expected = np.concatenate(halves, -1)
    np.testing.assert_allclose(wrapped(x, mask=mask), expected, rtol=0, atol=1e-9)

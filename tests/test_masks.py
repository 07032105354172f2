"""Masks of every kind through the sequence layers: values, states, gradients, propagation."""

import keras
import numpy as np
import pytest
import reference
import tensorflow as tf
from kinds import INPUTS, LSTM, UNITS, WRAPPERS, built, mask_of, normal

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
MODES = [(False, "graph"), (True, "eager")]  # eagerly the fused passes are XLA programs already


def make(kind, use_fused=False, dtype="float64", **options):
    return built(kind.layer(UNITS, use_fused=use_fused, dtype=dtype, **options), None, None, INPUTS)


def states_of(kind, batch=BATCH):
    return [normal(batch, UNITS, seed=2 + k) for k in range(kind.n_states)]


@pytest.mark.parametrize("zero_output_for_mask", [False, True])
@pytest.mark.parametrize("go_backwards", [False, True])
def test_masked_layer_matches_the_reference(kind, use_fused, zero_output_for_mask, go_backwards):
    flags = dict(zero_output_for_mask=zero_output_for_mask, go_backwards=go_backwards)
    x = normal(len(MIXED), TIME, INPUTS)
    layers = [
        make(kind, use_fused, return_sequences=sequences, return_state=True, **flags)
        for sequences in (True, False)
    ]
    for states in (None, states_of(kind, len(MIXED))):
        expected = reference.sequence(
            kind.reference(), x, layers[0].get_weights(), states, MIXED, **flags
        )
        for layer, value in zip(layers, (expected.outputs, expected.last)):
            outputs, *last = layer(x, initial_state=states, mask=MIXED)
            np.testing.assert_allclose(outputs, value, rtol=0, atol=1e-9)
            for state, wanted in zip(last, expected.states, strict=True):
                np.testing.assert_allclose(state, wanted, rtol=0, atol=1e-9)


def test_masked_layer_that_carries_the_normalized_state(use_fused):
    layer = make(LSTM, use_fused, return_sequences=True, carry_normalized_state=True)
    x = normal(len(MIXED), TIME, INPUTS)
    expected = reference.sequence(
        reference.LSTM(carry_normalized_state=True), x, layer.get_weights(), mask=MIXED
    )
    np.testing.assert_allclose(layer(x, mask=MIXED), expected.outputs, rtol=0, atol=1e-9)


@pytest.mark.parametrize("unroll", [False, True])
def test_unrolled_layer_is_masked_alike(kind, unroll):
    layer = built(kind.layer(UNITS, unroll=unroll, dtype="float64"), None, TIME, INPUTS)
    x = normal(len(MIXED), TIME, INPUTS)
    expected = reference.sequence(kind.reference(), x, layer.get_weights(), mask=MIXED)
    np.testing.assert_allclose(layer(x, mask=MIXED), expected.last, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("use_fused", "mode"), MODES)
def test_masked_gradients_match_the_reference(kind, use_fused, mode):
    layer = make(kind, use_fused, return_sequences=True)
    x, states = normal(len(MIXED), TIME, INPUTS), states_of(kind, len(MIXED))
    scale = normal(len(MIXED), TIME, UNITS, seed=9)

    def run(x, *states):
        with tf.GradientTape() as tape:
            tape.watch([x, *states])
            loss = tf.reduce_sum(layer(x, initial_state=list(states), mask=MIXED) * scale)
        return tape.gradient(loss, [x, *states, *layer.trainable_variables])

    def reference_loss(*weights):
        return np.sum(
            reference.sequence(kind.reference(), x, weights, states, MIXED).outputs * scale
        )

    result = WRAPPERS[mode](run)(tf.constant(x), *map(tf.constant, states))
    np.testing.assert_array_equal(np.array(result[0])[~MIXED], 0.0)
    expected = reference.gradients(reference_loss, layer.get_weights())
    for gradient, value in zip(result[1 + kind.n_states :], expected, strict=True):
        np.testing.assert_allclose(gradient, value, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("use_fused", "mode"), [*MODES, (False, "jit"), (True, "jit")])
def test_junk_in_padded_steps_reaches_nothing(kind, use_fused, mode):
    layer = make(kind, use_fused, "float32", return_sequences=True, return_state=True)
    clean = normal(len(MIXED), TIME, INPUTS, dtype="float32")
    clean[~MIXED] = 0.0
    junk = np.resize(np.array([np.nan, np.inf, -np.inf, 3e38], "float32"), clean.shape)
    dirty = np.where(MIXED[..., None], clean, junk)

    @WRAPPERS[mode]
    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            values = layer(x, mask=MIXED)
            loss = tf.add_n([tf.reduce_sum(value * value) for value in values])
        return values, tape.gradient(loss, [x, *layer.trainable_variables])

    for expected, result in zip(*(keras.tree.flatten(run(tf.constant(x))) for x in (clean, dirty))):
        assert np.isfinite(result).all()
        np.testing.assert_array_equal(result, expected)


def test_rows_do_not_depend_on_the_masks_of_others(kind, use_fused):
    layer = make(kind, use_fused, return_sequences=True)
    x = normal(len(MIXED), TIME, INPUTS)
    together = layer(x, mask=MIXED)
    for k in range(0, len(MIXED), BATCH):
        alone = layer(x[k : k + BATCH], mask=MIXED[k : k + BATCH])
        np.testing.assert_allclose(alone, together[k : k + BATCH], rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", ["bool", "float32"])
def test_masks_of_any_dtype_and_unknown_length(kind, use_fused, dtype):
    layer = make(kind, use_fused)
    specification = [
        tf.TensorSpec((None, None, INPUTS), "float64"),
        tf.TensorSpec((None, None), dtype),
    ]
    call = tf.function(lambda x, mask: layer(x, mask=mask), input_signature=specification)
    for mask in (MIXED, MIXED[:5, :2]):
        x = normal(*mask.shape, INPUTS)
        expected = reference.sequence(kind.reference(), x, layer.get_weights(), mask=mask)
        np.testing.assert_allclose(call(x, mask.astype(dtype)), expected.last, rtol=0, atol=1e-9)


IDS = np.array([[1, 2, 0, 0], [3, 0, 4, 0], [0, 0, 1, 2]])


def embedding(dtype="float64"):
    return keras.layers.Embedding(5, INPUTS, mask_zero=True, dtype=dtype)


@pytest.mark.parametrize("graph", [False, True])
def test_implicit_mask_is_kept_beside_an_initial_state(kind, use_fused, graph):
    embed, layer, states = embedding(), make(kind, use_fused), states_of(kind)
    expected = layer(embed(IDS), initial_state=states, mask=IDS != 0)
    run = lambda ids: layer(embed(ids), initial_state=states)  # noqa: E731
    run = tf.function(run) if graph else run
    np.testing.assert_allclose(run(tf.constant(IDS)), expected, rtol=0, atol=1e-9)
    unmasked = layer(tf.convert_to_tensor(np.array(embed(IDS))), initial_state=states)
    assert not np.allclose(expected, unmasked)


def test_implicit_mask_is_kept_beside_an_initial_state_in_a_functional_model(
    kind, use_fused, tmp_path
):
    embed, layer, states = embedding(), make(kind, use_fused), states_of(kind)
    ids = keras.Input((None,), dtype="int32")
    given = [keras.Input((UNITS,), dtype="float64") for _ in states]
    model = keras.Model([ids, *given], layer(embed(ids), initial_state=given))
    expected = layer(embed(IDS), initial_state=states, mask=IDS != 0)
    model.save(tmp_path / "model.keras")
    for each in (model, keras.models.load_model(tmp_path / "model.keras")):
        np.testing.assert_allclose(each([IDS, *states]), expected, rtol=0, atol=1e-9)


def test_mask_passes_through_two_layers(kind, use_fused):
    layers = [make(kind, use_fused, return_sequences=True, dtype="float32") for _ in range(2)]
    layers[1] = kind.layer(UNITS, use_fused=use_fused)
    embedded = embedding("float32")(IDS)
    between = layers[0](embedded)
    np.testing.assert_array_equal(mask_of(between), IDS != 0)
    model = keras.Sequential([embedding("float32"), *layers])
    expected = layers[1](layers[0](model.layers[0](IDS), mask=IDS != 0), mask=IDS != 0)
    np.testing.assert_allclose(model(IDS), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("return_state", [False, True])
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


@pytest.mark.parametrize("merge_mode", ["concat", "sum"])
def test_bidirectional_keeps_masks_aligned(kind, use_fused, merge_mode):
    layer = make(kind, use_fused, return_sequences=True)
    wrapped = keras.layers.Bidirectional(layer, merge_mode, dtype="float64")
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
    expected = np.concatenate(halves, -1) if merge_mode == "concat" else sum(halves)
    np.testing.assert_allclose(wrapped(x, mask=mask), expected, rtol=0, atol=1e-9)

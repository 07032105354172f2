"""Order embeddings: score, loss, network and batches, against NumPy and by hand."""

import doctest
from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tf_layernorm.data.captions import Pairs, load_emoji
from tf_layernorm.data.words import Vocabulary
from tf_layernorm.experiments.order import EXPERIMENT, batches, loss, model
from tf_layernorm.experiments.order.batches import encode, order_of_pass, training_batches
from tf_layernorm.experiments.order.loss import (
    RankingLoss,
    cosine_distances,
    order_violations,
    ranking_loss,
)
from tf_layernorm.experiments.order.model import build_model

SMOKE = EXPERIMENT.presets["smoke"].config
PAPER = EXPERIMENT.presets["paper"].config


def violations(s, v):
    """E, coordinate by coordinate."""
    found = np.zeros((len(s), len(v)))
    for i, caption in enumerate(s):
        for j, image in enumerate(v):
            found[i, j] = sum(max(0.0, a - b) ** 2 for a, b in zip(caption, image))
    return found


def ranking(e, margin):
    """L, term by term."""
    total, count = 0.0, len(e)
    for i in range(count):
        for j in range(count):
            if i != j:
                total += max(0.0, margin + e[i, i] - e[i, j])
                total += max(0.0, margin + e[i, i] - e[j, i])
    return total


S = np.array([[0.0, 1.0], [0.6, 0.8], [1.0, 0.0]])
V = np.array([[0.6, 0.8], [0.0, 1.0], [0.8, 0.6]])


def test_score_and_loss_by_hand():
    # Caption 0 exceeds image 0 by 0.2 in the second coordinate, and so on.
    expected = [[0.04, 0.0, 0.16], [0.0, 0.36, 0.04], [0.16, 1.0, 0.04]]
    found = order_violations(S, V).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-7)
    np.testing.assert_allclose(violations(S, V), expected, atol=1e-12)
    # Rows: .05+.04-.0=.09, .05+.04-.16<0; .05+.36-.0=.41, .05+.36-.04=.37; <0, <0. Columns:
    # .05+.04-.0=.09, .05+.04-.16<0; .05+.36-.0=.41, .05+.36-1.<0; .05+.04-.16<0, .05+.04-.04=.05.
    by_hand = 0.09 + 0.41 + 0.37 + 0.09 + 0.41 + 0.05
    assert float(ranking_loss(found, 0.05)) == pytest.approx(by_hand, abs=1e-6)


EMBEDDINGS = arrays.arrays(np.float64, (2, 4, 3), elements=st.floats(-1, 1, width=32))


@settings(max_examples=50, deadline=None)
@given(EMBEDDINGS, st.sampled_from([0.0, 0.05, 0.2]))
def test_loss_is_the_reference(both, margin):
    e = violations(*both)
    np.testing.assert_allclose(order_violations(*both), e, atol=1e-12)
    np.testing.assert_allclose(ranking_loss(e, margin), ranking(e, margin), atol=1e-12)


@settings(max_examples=50, deadline=None)
@given(EMBEDDINGS)
def test_score_is_zero_exactly_where_a_caption_is_below(both):
    s, v = both
    below = (s[:, None] <= v[None]).all(-1)
    np.testing.assert_array_equal(order_violations(s, v).numpy() == 0, below)


@settings(max_examples=30, deadline=None)
@given(EMBEDDINGS)
def test_loss_has_no_terms_of_the_diagonal(both):
    """One of j = i would be the margin, however far all wrong pairs are."""
    far = violations(*both) + 100 * (1 - np.eye(4))
    assert float(ranking_loss(far, 0.05)) == 0


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 9), st.floats(0.01, 1), st.floats(0, 1))
def test_loss_of_a_collapsed_model(count, margin, value):
    found = float(ranking_loss(np.full((count, count), value), margin))
    assert found == pytest.approx(2 * margin * count * (count - 1))


def test_score_is_not_symmetric_and_captions_are_the_general_side():
    general, special, other = [[0.0, 0.6]], [[0.8, 0.6]], [[1.0, 0.0]]
    assert float(order_violations(general, special)[0, 0]) == 0
    assert float(order_violations(special, general)[0, 0]) == pytest.approx(0.64)
    assert float(order_violations(general, other)[0, 0]) > 0


def test_loss_is_not_symmetric():
    s, v = np.random.default_rng(0).random((2, 4, 3))
    ours, swapped = (float(ranking_loss(order_violations(*b), 0.05)) for b in ((s, v), (v, s)))
    assert abs(ours - swapped) > 0.1


def test_loss_is_a_sum():
    """Of two copies of a batch it is more than twice as large; a mean would be as large."""
    e = order_violations(np.tile(S, (2, 1)), np.tile(V, (2, 1)))
    twice, once = float(ranking_loss(e, 0.05)), float(ranking_loss(violations(S, V), 0.05))
    assert twice == pytest.approx(4 * once + 3 * 2 * 2 * 0.05, rel=1e-5)
    stacked = np.stack([S, V], 1).astype("float32")
    assert float(RankingLoss()(np.zeros((3, 1)), stacked)) == pytest.approx(once, rel=1e-5)


def test_gradient_at_no_violation_is_zero_and_finite():
    s, v = tf.constant([[0.6, 0.8]]), tf.constant([[0.6, 0.8]])
    with tf.GradientTape() as tape:
        tape.watch([s, v])
        e = order_violations(s, v)
    assert float(e[0, 0]) == 0
    for gradient in tape.gradient(e, [s, v]):
        np.testing.assert_array_equal(gradient, np.zeros((1, 2)))


def test_cosine_score():
    found = cosine_distances(tf.constant(S), tf.constant(V)).numpy()
    np.testing.assert_allclose(found, -(S @ V.T), rtol=1e-6)
    again = RankingLoss.from_config(RankingLoss("cosine", 0.2).get_config())
    assert (again.score, again.margin) == ("cosine", 0.2)
    with pytest.raises(ValueError, match="Received: score='dot'"):
        RankingLoss("dot")


def network(norm="layer", **changes):
    return build_model(replace(SMOKE, **changes), norm, 20, (5,))


def captions_of(network, ids, mask):
    encoder = network.get_layer("caption_encoder")
    return encoder({"words": tf.constant(ids), "mask": tf.constant(mask)}).numpy()


# LN has a gain for each of the GRU's 3H + 3H summed inputs.
@pytest.mark.parametrize("norm,more", [("none", 0), ("layer", 6 * 1024)])
def test_network_is_the_authors(norm, more):
    built = build_model(PAPER, norm, 20_002, (4096,))
    gru = 3 * (300 * 1024 + 1024 * 1024 + 1024) + 1024
    assert gru == 4_071_424
    assert built.count_params() == 20_002 * 300 + gru + more + 4_195_328
    assert built.optimizer.clipnorm == 2.0 and built.optimizer.epsilon == 1e-8
    assert float(built.optimizer.learning_rate) == pytest.approx(3.512e-3, rel=1e-3)
    assert built.jit_compile
    encoder = built.get_layer("caption_encoder")
    gru_cell = encoder.get_layer("gru").cell
    for block in np.split(gru_cell.recurrent_kernel.numpy(), 3, axis=1):
        np.testing.assert_allclose(block[:, :50].T @ block[:, :50], np.eye(50), atol=1e-4)
    for uniform in (gru_cell.kernel, encoder.get_layer("vectors").embeddings):
        assert 0.099 < np.abs(uniform.numpy()).max() <= 0.1


def test_adam_is_corrected_where_asked():
    rate = float(network(corrected_adam=True).optimizer.learning_rate)
    assert rate == pytest.approx(SMOKE.learning_rate)
    with pytest.raises(ValueError, match="Received: norm='batch'"):
        network("batch")


def test_norms_differ_in_gammas_alone():
    shapes = [{w.path: tuple(w.shape) for w in network(norm).weights} for norm in ("layer", "none")]
    more = {path.split("/")[-1] for path in shapes[0].keys() - shapes[1].keys()}
    assert more == {"kernel_gamma", "recurrent_gamma"} and shapes[1].items() <= shapes[0].items()


def test_embeddings_have_norm_one_and_then_no_signs():
    encoder = network().get_layer("image_encoder")
    x = np.random.default_rng(0).normal(size=(4, 5)).astype("float32")
    embedded = encoder(x).numpy()
    linear = x / np.linalg.norm(x, axis=1, keepdims=True) @ encoder.get_layer("linear").kernel
    expected = np.abs(linear) / np.linalg.norm(linear, axis=1, keepdims=True)
    np.testing.assert_allclose(embedded, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(encoder(-x), embedded, rtol=1e-5, atol=1e-7)
    signed = network(score="cosine").get_layer("image_encoder")(x).numpy()
    assert signed.min() < 0 and np.allclose(np.linalg.norm(signed, axis=1), 1, atol=1e-5)


def test_a_blank_picture_is_no_nan():
    encoder = build_model(SMOKE, "none", 20, (4, 4, 3)).get_layer("image_encoder")
    white = np.full((1, 4, 4, 3), 255, np.uint8)
    np.testing.assert_array_equal(encoder(white), np.zeros((1, SMOKE.units)))


def test_pixels_are_one_less_their_share_of_white():
    encoder = build_model(SMOKE, "none", 20, (2, 1, 3)).get_layer("image_encoder")
    pixels = np.array([[[[255, 0, 255]], [[0, 255, 255]]]], np.uint8)
    ink = (np.array([[0, 1, 0, 1, 0, 0]]) / np.sqrt(2)).astype("float32")
    linear = np.abs(ink @ encoder.get_layer("linear").kernel.numpy())
    found = encoder(pixels).numpy()
    np.testing.assert_allclose(found, linear / np.linalg.norm(linear), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("norm", ["layer", "none"])
def test_the_end_counts_and_padding_does_not(norm):
    built = network(norm)
    ended = captions_of(built, [[5, 7, 0]], [[True] * 3])
    assert np.abs(ended - captions_of(built, [[5, 7]], [[True] * 2])).max() > 1e-3
    padded = captions_of(built, [[5, 7, 0, 0, 0]], [[True] * 3 + [False] * 2])
    np.testing.assert_allclose(padded, ended, atol=1e-6)


def pairs_of(count, captions=2):
    """Images whose number is in their captions' second word; captions of one to four words."""
    texts = [
        [f"k{k} i{i}" + " more" * ((i + k) % 3) for k in range(captions)] for i in range(count)
    ]
    images = np.repeat(np.arange(count, dtype=np.float32)[:, None], 5, 1)
    pairs = Pairs(images, texts)
    return pairs, Vocabulary.of_sentences(c.split() for own in texts for c in own)


def epochs_of(dataset, vocabulary, steps, count):
    """For each pass, the images' numbers and the captions' as read from what the model gets."""
    found = []
    for inputs, _ in dataset.take(steps * count):
        images = inputs["images"].numpy()[:, 0].astype(int).tolist()
        for image, ids, mask in zip(images, inputs["words"].numpy(), inputs["mask"].numpy()):
            words = vocabulary.decode(ids)
            assert words[1] == f"i{image}"  # the caption is the image's own
            assert mask.sum() == len(words) + 1 and not mask[len(words) + 1 :].any()
            found.append((image, words[0]))
    return np.array(found, dtype=object).reshape(count, -1, 2)


def test_a_pass_shows_each_image_once_with_one_of_its_captions():
    pairs, vocabulary = pairs_of(14)
    dataset = training_batches(encode(pairs, vocabulary, 9), 4, seed=1)
    passes = epochs_of(dataset, vocabulary, 3, 3)
    assert passes.shape == (3, 12, 2)  # the last two images are dropped, each time others
    for one in passes:
        assert len(set(one[:, 0])) == 12
    assert len({tuple(one[:, 0]) for one in passes}) == 3
    captions = [dict(one.tolist()) for one in passes]
    assert any(captions[0][i] != captions[1][i] for i in captions[0].keys() & captions[1].keys())


@pytest.mark.parametrize("update", [1, 3, 4, 7])
def test_batches_go_on_where_a_straight_run_would_be(update):
    pairs, vocabulary = pairs_of(14)
    encoded = encode(pairs, vocabulary, 9)
    straight = [b for b, _ in training_batches(encoded, 4, seed=1).take(update + 3)][update:]
    resumed = [b for b, _ in training_batches(encoded, 4, 1, update).take(3)]
    for ours, theirs in zip(resumed, straight, strict=True):
        for key in ours:
            np.testing.assert_array_equal(ours[key], theirs[key])
    other = next(iter(training_batches(encoded, 4, seed=2)))[0]["images"]
    assert (other != straight[0]["images"]).numpy().any()


def test_captions_are_drawn_evenly():
    chosen = np.concatenate([order_of_pass(100, 5, 1, e)[1] for e in range(20)])
    assert np.bincount(chosen).min() > 320 and np.bincount(chosen).max() < 480


def test_batches_are_as_long_as_they_must_be():
    pairs, vocabulary = pairs_of(8)
    encoded = encode(pairs, vocabulary, 20)
    assert encoded.ids.shape == (8, 2, 5) and encoded.lengths.max() == 5
    assert next(iter(training_batches(encoded, 4, seed=1)))[0]["words"].shape == (4, 5)
    long = replace(encoded, ids=np.pad(encoded.ids, ((0, 0), (0, 0), (0, 15))))
    assert next(iter(training_batches(long, 4, seed=1)))[0]["words"].shape == (4, 8)


def test_long_captions_are_cut_and_keep_their_end():
    pairs, vocabulary = pairs_of(3)
    encoded = encode(pairs, vocabulary, 3)
    assert encoded.ids.shape == (3, 2, 3) and (encoded.lengths == 3).all()
    assert (encoded.ids[..., 2] == 0).all()


def test_batches_refuse_fewer_images_than_a_batch():
    with pytest.raises(ValueError, match="Received: batch_size=9"):
        training_batches(encode(*pairs_of(8), 9), 9, seed=1)


@pytest.mark.parametrize("norm,compiled", [("layer", True), ("layer", False), ("none", False)])
def test_one_update_lowers_the_loss_of_its_batch(norm, compiled):
    emoji = load_emoji()
    config = replace(SMOKE, compiled=compiled, learning_rate=1e-3, corrected_adam=True)
    encoded = encode(emoji.train, emoji.vocabulary, config.length)
    built = build_model(config, norm, len(emoji.vocabulary), emoji.train.images.shape[1:])
    inputs, zeros = next(iter(training_batches(encoded, 32, seed=1)))
    before = built.train_on_batch(inputs, zeros)
    after = float(built.loss(zeros, built(inputs, training=True)))
    outputs = built(inputs).numpy().astype("float64")
    assert after < before < 2 * 0.2 * 32 * 31
    assert after == pytest.approx(ranking(violations(outputs[:, 0], outputs[:, 1]), 0.05), rel=1e-4)


def test_saved_network_goes_on_alike(tmp_path):
    pairs, vocabulary = pairs_of(12)
    data = training_batches(encode(pairs, vocabulary, 9), 4, seed=1)
    straight = build_model(SMOKE, "layer", len(vocabulary), (5,))
    batches = list(data.take(4))
    for batch in batches[:2]:
        straight.train_on_batch(*batch)
    straight.save(tmp_path / "model.keras")
    resumed = keras.models.load_model(tmp_path / "model.keras")
    for batch in batches[2:]:
        losses = [m.train_on_batch(*batch) for m in (straight, resumed)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)


@pytest.mark.parametrize("changes", [{"units": 0}, {"length": 1}, {"updates": -1}], ids=str)
def test_config_refuses(changes):
    with pytest.raises(ValueError, match=f"Received: {next(iter(changes))}="):
        replace(SMOKE, **changes)


@pytest.mark.parametrize("module", [loss, model, batches], ids=lambda module: module.__name__)
def test_examples_in_docstrings_run(module):
    assert doctest.testmod(module).failed == 0

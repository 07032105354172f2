"""Skip-thoughts: what its decoders see, its loss, its vectors, and words new to it."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_layernorm.data.words import pad
from tf_layernorm.experiments.skipthoughts import PAPER, PRESETS, Config
from tf_layernorm.experiments.skipthoughts.commands import TABLE3, table
from tf_layernorm.experiments.skipthoughts.encoder import SentenceEncoder, expand, load, nearest
from tf_layernorm.experiments.skipthoughts.model import SkipThoughts
from tf_layernorm.experiments.skipthoughts.text import build_model

WORDS = ("<eos>", "<unk>", "a", "b", "c", "Paris")
SENTENCES = {
    "source": [[2, 3, 0], [4, 0]],
    "next": [[3, 3, 2, 0], [2]],
    "previous": [[0], [4, 2, 0]],
}


def batch_of(**sentences):
    padded = {name: pad(rows, 5) for name, rows in (SENTENCES | sentences).items()}
    lengths = np.stack([padded[name][1] for name in ("source", "next", "previous")], 1)
    return {name: ids for name, (ids, _) in padded.items()} | {"lengths": lengths}


def network(normalize=("kernel", "recurrent"), **options):
    model = SkipThoughts(WORDS, 3, 4, normalize, **options)
    model.build(None)
    return model


def numpy(tensor):
    return keras.ops.convert_to_numpy(tensor)


def counts(batch):
    return batch["lengths"].sum(0)[1:]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def plain_gru(weights, inputs, h):
    """The states of a GRU without norm, eq. (26)-(28), in float64."""
    kernel, recurrent, bias, recurrent_bias = (numpy(w).astype("float64") for w in weights)
    units, states = len(h), []
    for x in inputs:
        from_x, from_h = x @ kernel + bias, h @ recurrent
        z, r = (sigmoid(from_x[i : i + units] + from_h[i : i + units]) for i in (0, units))
        candidate = np.tanh(from_x[2 * units :] + r * (from_h[2 * units :] + recurrent_bias))
        h = (1 - z) * h + z * candidate
        states.append(h)
    return states


@pytest.mark.parametrize("conditioning", ["initial", "every_step"])
def test_nats_of_each_word_written_out(conditioning):
    model = network((), conditioning=conditioning)
    for variable in model.trainable_variables:  # biases that say something
        variable.assign(variable + keras.random.normal(variable.shape, stddev=0.3))
    embeddings, kernel, bias = (
        numpy(w).astype("float64")
        for w in (model.embedding.embeddings, model.logits.kernel, model.logits.bias)
    )
    expected = []
    for name, decoder in (("next", model.next_decoder), ("previous", model.previous_decoder)):
        for source, target in zip(SENTENCES["source"], SENTENCES[name]):
            h = plain_gru(model.encoder.weights, embeddings[source], np.zeros(4))[-1]
            inputs = [np.zeros(3), *embeddings[target[:-1]]]
            if conditioning == "every_step":
                inputs = [np.concatenate([x, h]) for x in inputs]
            for state, word in zip(plain_gru(decoder.weights, inputs, h), target):
                logits = state @ kernel + bias
                p = np.exp(logits) / np.exp(logits).sum()
                expected.append(-np.log(p[word] + 1e-8))
    np.testing.assert_allclose(numpy(model(batch_of())), expected, rtol=1e-5)


@pytest.mark.parametrize("conditioning", ["initial", "every_step"])
def test_a_word_depends_on_the_source_and_on_the_words_before(conditioning):
    model = network(conditioning=conditioning)
    before = numpy(model(batch_of()))
    # The next sentence's third word changes its own nats and those after it, no others'.
    after = numpy(model(batch_of(next=[[3, 3, 4, 0], [2]])))
    changed = ~np.isclose(before, after, rtol=0, atol=1e-7)
    assert changed[2] and changed[3] and not changed[[0, 1, *range(4, len(before))]].any()
    # The source changes all of its sentence's, and none of the other's.
    after = numpy(model(batch_of(source=[[3, 2, 0], [4, 0]])))
    changed = ~np.isclose(before, after, rtol=0, atol=1e-7)
    assert changed.tolist() == [True] * 4 + [False] + [True] + [False] * 3


def test_decoders_begin_with_zeros():
    """The vector of id 0 isn't what they read first."""
    model = network()
    before = numpy(model(batch_of(source=[[2], [4]])))
    table = numpy(model.embedding.embeddings)
    table[0] = 1e6
    model.embedding.embeddings.assign(table)
    np.testing.assert_allclose(numpy(model(batch_of(source=[[2], [4]]))), before, rtol=1e-6)


@pytest.mark.parametrize("conditioning", ["initial", "every_step"])
def test_what_is_left_of_the_source_when_states_are_forgotten(conditioning):
    """With no recurrent weights and open update gates only the inputs say what h was."""
    model = network((), conditioning=conditioning)
    for decoder in (model.next_decoder, model.previous_decoder):
        decoder.cell.recurrent_kernel.assign(np.zeros((4, 12)))
        decoder.cell.bias.assign([30.0] * 4 + [0.0] * 8)  # z = 1
    ids = np.array([[3, 3, 2, 0]])
    states = [
        numpy(model.decode(model.next_decoder, ids, np.full((1, 4), value, "float32")))[0, 2]
        for value in (0.5, -0.5)
    ]
    assert np.allclose(*states) == (conditioning == "initial")


def test_the_loss_is_a_sum_of_two_parts():
    model = network()
    batch = batch_of()
    nats = numpy(model(batch))
    assert len(nats) == sum(counts(batch)) == 9  # no padding
    # Exchanged targets and decoders give exchanged parts.
    first, second = (
        decoder.get_weights() for decoder in (model.next_decoder, model.previous_decoder)
    )
    model.next_decoder.set_weights(second)
    model.previous_decoder.set_weights(first)
    other = batch_of(next=SENTENCES["previous"], previous=SENTENCES["next"])
    np.testing.assert_allclose(numpy(model(other)), [*nats[5:], *nats[:5]], rtol=1e-5)


def test_padding_changes_nothing():
    model = network()
    batch = batch_of()
    wider = {
        name: np.pad(value, [(0, 0), (0, 3)], constant_values=3) if name != "lengths" else value
        for name, value in batch.items()
    }
    np.testing.assert_allclose(numpy(model(wider)), numpy(model(batch)), rtol=1e-5)


@pytest.mark.parametrize("normalize", [(), ("kernel", "recurrent")], ids=["none", "layer"])
def test_number_of_weights(normalize):
    """Words and the output layer exist once: 125,673,600 with the paper's sizes, and 7,200 b_r."""

    def formula(words, size, units, gammas, recurrent_biases=1):
        gru = 3 * units * (size + units + 1) + recurrent_biases * units + gammas * 6 * units
        return words * size + 3 * gru + (units + 1) * words

    assert formula(20_000, 620, 2400, 0, recurrent_biases=0) == 125_673_600
    assert network(normalize).count_params() == formula(6, 3, 4, bool(normalize))
    paper = PRESETS["paper"].config
    assert (paper.vocabulary, paper.size, paper.units) == (20_000, 620, 2400)


def test_gates_are_drawn_one_by_one():
    model = SkipThoughts(WORDS, 3, 16)
    model.build(None)
    for layer in (model.encoder, model.next_decoder, model.previous_decoder):
        for block in np.split(numpy(layer.cell.recurrent_kernel), 3, 1):
            np.testing.assert_allclose(block.T @ block, np.eye(16), atol=1e-5)
        assert np.abs(numpy(layer.cell.kernel)).max() <= 0.1


def test_an_update_is_adam_on_the_clipped_sum_and_is_saved(tmp_path):
    config = Config(size=3, units=4, vocabulary=6, tokenizer="plain", clip_norm=0.5)
    model = build_model(config, "layer", WORDS)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(batch_of(), training=True))
    gradients = [numpy(g) for g in tape.gradient(loss, model.trainable_weights)]
    norm = np.sqrt(sum(np.sum(g.astype("float64") ** 2) for g in gradients))
    assert norm > 0.5
    weights = [numpy(w) for w in model.trainable_weights]
    figures = model.train_on_batch(batch_of(), return_dict=True)
    np.testing.assert_allclose(figures["nats"], float(loss) / 9, rtol=1e-5)
    # The first step of the authors' Adam: sqrt(1 - 0.001) / (1 - 0.1) * m / (sqrt(v) + 1e-8).
    for weight, before, gradient in zip(model.trainable_weights, weights, gradients):
        gradient = gradient * 0.5 / norm
        m, v = 0.1 * gradient, 0.001 * gradient**2
        step = 2e-4 * np.sqrt(0.999) / 0.9 * m / (np.sqrt(v) + 1e-8)
        np.testing.assert_allclose(before - numpy(weight), step, rtol=2e-2, atol=2e-6)
    model.save(tmp_path / "model.keras")
    loaded = load(tmp_path)
    np.testing.assert_allclose(numpy(loaded(batch_of())), numpy(model(batch_of())), rtol=1e-6)
    assert loaded.words == WORDS and loaded.optimizer.iterations == 1
    with pytest.raises(ValueError, match="Received: model='.*nowhere'"):
        load(tmp_path / "nowhere")


def test_vectors_are_of_length_one_whatever_the_order():
    model = network()
    encode = SentenceEncoder(model)
    sentences = ["a b c", "", "c", "a b c a b c a b c", "unheard of", "b"]
    found = encode(sentences)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), [1, 0, 1, 1, 1, 1], rtol=1e-5)
    order = [3, 1, 5, 0, 4, 2]
    np.testing.assert_allclose(encode([sentences[i] for i in order]), found[order], atol=1e-6)
    for i, sentence in enumerate(sentences):
        np.testing.assert_allclose(encode([sentence])[0], found[i], atol=1e-6)
    embeddings = numpy(model.embedding.embeddings)[[2, 3, 4, 0]][None]
    state = numpy(model.encode(embeddings, [4]))[0]
    np.testing.assert_allclose(
        encode(["A b c"], end=True)[0], state / np.linalg.norm(state), atol=1e-6
    )
    assert not np.allclose(encode(["a b c"], end=True), found[0], atol=1e-3)
    assert encode.unknown(sentences) == pytest.approx(2 / 16)


def test_expansion_finds_an_affine_map():
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(50)]
    pretrained = {word: rng.normal(size=5) for word in [*words, "Paris", "paris", "New_York"]}
    matrix, shift = rng.normal(size=(5, 7)), rng.normal(size=7)
    embeddings = np.stack([pretrained[word] @ matrix + shift for word in words]).astype("float32")
    embeddings[0] = 99  # a word that was trained keeps its vector, though it is far off the map
    del pretrained["w0"]
    found = expand(words, embeddings, pretrained)
    for word in ("Paris", "paris"):
        np.testing.assert_allclose(found[word], pretrained[word] @ matrix + shift, atol=1e-5)
    assert not np.allclose(found["Paris"], found["paris"])
    np.testing.assert_array_equal(found["w0"], embeddings[0])
    np.testing.assert_array_equal(found["w7"], embeddings[7])
    assert "New_York" not in found and len(found) == 52


def test_expansion_needs_shared_words():
    with pytest.raises(ValueError, match="more than 5 words.*Received: 1 shared"):
        expand(["a", "b"], np.zeros((2, 3)), {"a": np.zeros(5)})


def test_an_expanded_encoder_knows_more_words():
    model = SkipThoughts(("<eos>", "<unk>", *"abcdefgh"), 3, 4)
    rng = np.random.default_rng(0)
    vectors = {word: rng.normal(size=2) for word in "abcdefghxy"}
    plain, more = SentenceEncoder(model), SentenceEncoder(model, vectors)
    assert plain.unknown(["a x z"]) == pytest.approx(2 / 3)
    assert more.unknown(["a x z"]) == pytest.approx(1 / 3)
    np.testing.assert_allclose(more(["a h"]), plain(["a h"]), atol=1e-6)
    assert not np.allclose(more(["x"]), more(["z"]), atol=1e-3)
    np.testing.assert_allclose(more(["z"]), plain(["x"]), atol=1e-6)  # both are unknown


def test_neighbours():
    vectors = np.array([[1.0, 0], [0.9, 0.1], [0, 1], [-1, 0]])
    assert nearest(vectors[:1] * 5, vectors, 3).tolist() == [[0, 1, 2]]


def test_the_paper_is_quoted_alike():
    keys = list(PAPER["none"])
    assert TABLE3["paper: Ours"] == tuple(PAPER["none"][key] for key in keys)
    assert TABLE3["paper: Ours + LN"] == tuple(PAPER["layer"][key] for key in keys)
    text = table({"mine": {"sick_pearson": 0.5, "mr": 0.75}})
    assert "| mine | 0.500 |  |  | 75.0 |  |  |  |" in text


@pytest.mark.parametrize(
    "values, message",
    [({"held_out": 0.5}, "held_out=0.5"), ({"folds": 1}, "folds=1"), ({"length": 0}, "length=0")],
)
def test_values_that_cannot_be(values, message):
    with pytest.raises(ValueError, match=f"Received: {message}"):
        Config(**values)


def test_conditioning_is_checked():
    with pytest.raises(ValueError, match="Received: conditioning='never'"):
        network(conditioning="never")

"""MNIST as a sequence: how a digit is read, and the networks of Cooijmans et al."""

from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_layernorm import LNLSTM
from tf_layernorm.data.mnist import load_packaged
from tf_layernorm.experiments.seqmnist import EXPERIMENT, PRESETS, Config
from tf_layernorm.experiments.seqmnist.model import IdentityCandidate, Reading, build_model

RNG = np.random.default_rng(0)
DIGITS = load_packaged().test[0][:20]


def standardised(digits):
    return (digits / 255 - 0.1307) / 0.3081


def test_rows_are_the_rows_from_the_top():
    expected = standardised(DIGITS).reshape(-1, 28, 28)
    np.testing.assert_allclose(Reading("rows")(DIGITS), expected, atol=1e-6)


def test_pixels_come_row_by_row_with_a_one_beside():
    y = Reading("pixels")(DIGITS).numpy()
    assert y.shape == (20, 784, 2)
    np.testing.assert_allclose(y[..., 0], standardised(DIGITS), atol=1e-6)
    assert (y[..., 1] == 1).all()
    raw = Reading("pixels", raw=True)(DIGITS).numpy()
    np.testing.assert_array_equal(raw, y[..., :1])


def test_pooled_pixels_are_means_of_two_by_two():
    y = Reading("pixels", pool=2, raw=True)(DIGITS).numpy()[..., 0]
    squares = standardised(DIGITS).reshape(-1, 28, 28)
    expected = [
        squares[:, i : i + 2, j : j + 2].mean((1, 2))
        for i in range(0, 28, 2)
        for j in range(0, 28, 2)
    ]
    np.testing.assert_allclose(y.T, expected, atol=1e-6)


@pytest.mark.parametrize("pool, length", [(1, 784), (2, 196)])
def test_permuted_is_one_true_permutation_of_the_pixels(pool, length):
    layer = Reading("permuted", pool)
    assert sorted(layer.order) == list(range(length)) != layer.order
    assert layer.order == Reading("permuted", pool).order
    pixels = Reading("pixels", pool)(DIGITS).numpy()
    np.testing.assert_array_equal(layer(DIGITS), pixels[:, layer.order])


@pytest.mark.parametrize("reading", ["rows", "pixels", "permuted"])
def test_no_step_of_a_blank_digit_is_zero(reading):
    assert abs(Reading(reading, raw=True)(np.zeros((1, 784), "uint8")).numpy()).min() > 0.4


def test_layer_norm_of_a_single_input_keeps_nothing_but_its_sign():
    x = np.linspace(0.3, 2, 5, dtype="float32")[:, None, None]  # five cases of one step
    layer = LNLSTM(8, kernel_initializer=keras.initializers.RandomNormal(stddev=1.0, seed=1))
    with_one = LNLSTM(8, kernel_initializer=keras.initializers.RandomNormal(stddev=1.0, seed=1))
    y, y_one = layer(x).numpy(), with_one(np.concatenate([x, np.ones_like(x)], -1)).numpy()
    np.testing.assert_allclose(y, np.repeat(y[:1], 5, 0), atol=1e-3)
    assert abs(layer(-x).numpy() - y).max() > 0.05
    assert abs(y_one - y_one[:1]).max(1)[1:].min() > 0.02


def test_candidate_begins_as_the_identity():
    kernel = IdentityCandidate()((6, 24)).numpy()
    i, f, candidate, o = np.split(kernel, 4, axis=1)
    np.testing.assert_array_equal(candidate, np.eye(6))
    gates = np.concatenate([i, f, o], axis=1)
    np.testing.assert_allclose(gates @ gates.T, np.eye(6), atol=1e-6)


@pytest.mark.parametrize(
    "cell, norm, count",
    [
        # Inputs, recurrence, biases; softmax. Layer norm adds 10 vectors of 100, or 6.
        ("lstm", "none", 400 + 40_000 + 400 + 1010),
        ("lstm", "layer", 400 + 40_000 + 400 + 1010 + 1000),
        ("gru", "none", 300 + 30_000 + 300 + 100 + 1010),
        ("gru", "layer", 300 + 30_000 + 300 + 100 + 1010 + 600),
    ],
)
def test_weights_are_those_of_cooijmans(cell, norm, count):
    assert build_model(Config(cell=cell, raw=True), norm).count_params() == count


def test_rmsprop_is_cooijmans():
    """An update by hand: divided by the root mean square, which is at least about 1e-5."""
    optimizer = build_model(Config(units=4), "none").optimizer
    assert (optimizer.momentum, optimizer.global_clipnorm) == (0.0, 1.0)
    w = keras.Variable([1.0, 1.0, 1.0])
    gradient = np.array([0.3, 1e-9, -0.1])
    mean_square = np.zeros(3)
    expected = np.ones(3)
    for _ in range(3):
        optimizer.apply([tf.constant(gradient, "float32")], [w])
        mean_square = 0.9 * mean_square + 0.1 * gradient**2
        expected -= 1e-3 * gradient / np.sqrt(mean_square + 1e-10)
    np.testing.assert_allclose(w, expected, rtol=1e-6)


@pytest.mark.parametrize("norm", ["layer", "none"])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_network_saves_its_permutation_and_trains_every_weight(cell, norm, tmp_path):
    config = replace(PRESETS["small"].config, units=4, cell=cell, pool=14)
    model = build_model(config, norm)
    before = [w.numpy() for w in model.trainable_weights]
    for _ in range(2):
        model.train_on_batch(DIGITS, np.arange(20) % 10)
    pairs = zip(model.trainable_weights, before)
    assert [w.path for w, old in pairs if np.array_equal(w, old)] == []
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.layers[1].order == model.layers[1].order
    np.testing.assert_array_equal(loaded(DIGITS), model(DIGITS))


def test_mnist_validates_on_ten_thousand_as_cooijmans(monkeypatch):
    from tf_layernorm.data import mnist

    def part(start, stop):
        labels = np.arange(start, stop)
        return np.repeat(labels[:, None], 2, 1), labels

    digits = mnist.Digits(part(5000, 60_000), part(0, 5000), part(0, 10_000), "MNIST: 55,000")
    monkeypatch.setattr(mnist, "load_mnist", lambda *_, **__: digits)
    loaded = EXPERIMENT.load(Config(data="full"), None, False)
    assert loaded.cases == {"train": 50_000, "validation": 10_000, "test": 10_000}
    images, labels = loaded.validation
    np.testing.assert_array_equal(labels, np.arange(10_000))
    np.testing.assert_array_equal(images[:, 0], labels)
    assert loaded.train[1][0] == 10_000 and "50,000 / 10,000" in loaded.source


def test_pool_must_divide_a_side():
    with pytest.raises(ValueError, match="must divide 28.*Received: pool=3"):
        Config(pool=3)
    with pytest.raises(ValueError, match="Received: norm='batch'"):
        build_model(Config(), "batch")

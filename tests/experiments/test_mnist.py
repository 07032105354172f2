"""The experiment on MNIST: its network, and its updates in one program."""

import math
from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_layernorm.data.mnist import Digits
from tf_layernorm.experiments import mnist
from tf_layernorm.experiments.mnist import model as network
from tf_layernorm.experiments.training import MODEL, train

CONFIG = replace(mnist.PRESETS["smoke"].config, hidden=(8, 8), batch_size=4)
RNG = np.random.default_rng(0)


def part(count):
    labels = RNG.integers(0, 10, count).astype("int32")
    images = RNG.integers(0, 40, (count, 784)).astype("uint8")
    images[np.arange(count), labels] = 255
    return images, labels


DIGITS = Digits(part(48), part(20), part(30), "made up")


def run_curve(folder):
    training = mnist.curve(CONFIG, DIGITS, "layer", 1)
    return train(folder, training, seed=1, epochs=1, verbose=0)


@pytest.fixture(scope="module")
def one_epoch(tmp_path_factory):
    """The folder and the figures of one epoch with layer norm."""
    folder = tmp_path_factory.mktemp("one_epoch")
    return folder, run_curve(folder)


def test_figures_are_those_of_the_kept_model(one_epoch):
    folder, (row,) = one_epoch
    model = keras.models.load_model(folder / MODEL)
    for name, (images, labels) in (("validation", DIGITS.validation), ("test", DIGITS.test)):
        logits = model.predict(images, verbose=0)
        wrong = (logits.argmax(-1) != labels).mean()
        assert row[f"{name}_error"] == pytest.approx(wrong, abs=1e-6)
        nll = keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
        assert row[f"{name}_nll"] == pytest.approx(np.mean(nll), rel=1e-5)
    assert int(model.optimizer.iterations) == 12


def test_chunked_updates_are_the_single_updates(one_epoch, tmp_path, monkeypatch):
    folder, chunked = one_epoch
    monkeypatch.setattr(network, "chunk_size", lambda steps: 1)
    single = run_curve(tmp_path)
    assert chunked[0]["loss"] == pytest.approx(single[0]["loss"], rel=1e-5)
    both = (keras.models.load_model(f / MODEL).get_weights() for f in (folder, tmp_path))
    for ours, theirs in zip(*both):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize("steps,size", [(13750, 50), (429, 39), (27, 27), (109, 1), (1, 1)])
def test_chunk_size_divides(steps, size, monkeypatch):
    assert network.chunk_size(steps) == size
    monkeypatch.setattr(tf.distribute, "has_strategy", lambda: True)
    assert network.chunk_size(steps) == 0


@pytest.mark.parametrize("batch_size,unbiased", [(4, True), (5, False)])
def test_model_normalises_where_the_paper_does(batch_size, unbiased):
    def layers(norm):
        return network.build_model(replace(CONFIG, batch_size=batch_size), norm).layers

    def kinds(norm):
        return [type(layer).__name__ for layer in layers(norm) if layer.count_params()]

    assert kinds("layer") == ["LNDense", "LNDense", "Dense"]
    assert kinds("batch") == ["Dense", "BatchNorm"] * 3
    assert kinds("rms") == ["Dense", "RMSNorm"] * 2 + ["Dense"]
    assert kinds("weight") == ["WeightNorm", "WeightNorm", "Dense"]
    assert kinds("none") == ["Dense", "Dense", "Dense"]
    found = [one.unbiased for one in layers("batch") if type(one).__name__ == "BatchNorm"]
    assert found == [unbiased] * 3


def test_model_is_the_papers():
    model = network.build_model(mnist.PRESETS["paper"].config, "layer")
    assert model.count_params() == 1_796_010 + 2_000
    optimizer = model.optimizer
    assert (optimizer.epsilon, optimizer.beta_1, optimizer.beta_2) == (1e-8, 0.9, 0.999)
    with pytest.raises(ValueError, match="Received: norm='group'"):
        network.build_model(CONFIG, "group")


def test_loss_is_right_down_to_where_the_figure_ends():
    loss = network.build_model(CONFIG, "none").loss
    logits = np.array([[16.0] + [0.0] * 9], "float32")
    expected = math.log1p(9 * math.exp(-16.0))
    assert float(loss(np.array([0]), logits)) == pytest.approx(expected, abs=1.2e-7)

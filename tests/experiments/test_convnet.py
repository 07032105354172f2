"""The conv nets: what each norm normalises, their sizes, and active units by distance."""

import re
from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_layernorm.data.cifar10 import ARCHIVE, load_cifar10
from tf_layernorm.data.mnist import load_packaged
from tf_layernorm.experiments import runner
from tf_layernorm.experiments.convnet import EXPERIMENT, PRESETS, Config, load
from tf_layernorm.experiments.convnet.activity import active_shares, distances
from tf_layernorm.experiments.convnet.model import (
    ConstantThenLinear,
    build_model,
    conv_pool,
    normalized,
)
from tf_layernorm.experiments.convnet.picture import by_distance, draw_border
from tf_layernorm.experiments.convnet.whitening import Whitening

RNG = np.random.default_rng(0)
NORMS = [norm.name for norm in EXPERIMENT.norms]
X = RNG.normal(1, 2, (4, 6, 5, 3))  # batch, height, width, channels
DIGITS = np.zeros((1, 28, 28, 1), "uint8")


def summed(norm):
    """Of a convolution: its summed inputs without a bias, and what `normalized` makes of them."""
    x = keras.Input(X.shape[1:], dtype="float64")
    keras.config.set_dtype_policy("float64")
    try:
        model = keras.Model(x, normalized(x, norm, keras.layers.Conv2D, 7, 2))
    finally:
        keras.config.set_dtype_policy("float32")
    kernel = next(w for w in model.weights if w.path.endswith("/kernel")).numpy()
    patches = np.lib.stride_tricks.sliding_window_view(X, (2, 2), (1, 2))  # B, H, W, C, 2, 2
    return np.einsum("bhwcij,ijck->bhwk", patches, kernel), model(X, training=True), model


@pytest.mark.parametrize(
    "norm, axes",
    [("layer", (1, 2, 3)), ("channel", 3), ("instance", (1, 2)), ("batch", (0, 1, 2))],
)
def test_norms_take_their_statistics_where_they_say(norm, axes):
    z, y, _ = summed(norm)
    expected = (z - z.mean(axes, keepdims=True)) / np.sqrt(z.var(axes, keepdims=True) + 1e-5)
    np.testing.assert_allclose(y, expected, atol=1e-10)


def test_rms_norm_divides_by_the_root_mean_square_of_a_case():
    z, y, _ = summed("rms")
    expected = z / np.sqrt((z**2).mean((1, 2, 3), keepdims=True) + 1e-5)
    np.testing.assert_allclose(y, expected, atol=1e-10)


@pytest.mark.parametrize("norm", ["weight", "none"])
def test_weight_norm_and_none_start_with_the_summed_inputs(norm):
    z, y, _ = summed(norm)
    np.testing.assert_allclose(y, z, atol=1e-10)


def test_layer_norm_of_all_units_has_one_mean_and_a_gain_for_each_channel():
    _, y, model = summed("layer")
    flat = np.reshape(y, (len(y), -1))
    np.testing.assert_allclose(flat.mean(1), 0, atol=1e-12)
    np.testing.assert_allclose(flat.var(1), 1, atol=1e-4)
    assert model.count_params() == 2 * 2 * 3 * 7 + 2 * 7
    model.layers[-1].set_weights([np.arange(7), np.arange(7) + 100])
    np.testing.assert_allclose(model(X), y * np.arange(7) + np.arange(7) + 100, rtol=1e-10)


def test_all_norms_differ():
    results = {}
    for norm in NORMS:
        keras.utils.set_random_seed(0)
        results[norm] = np.array(summed(norm)[1])
    for one in NORMS:
        for other in NORMS:
            # Weight norm begins as no norm does.
            same = one == other or {one, other} == {"weight", "none"}
            assert (abs(results[one] - results[other]).max() < 1e-9) == same


@pytest.mark.parametrize("norm", NORMS)
def test_each_norm_trains_every_weight(norm):
    model = build_model(Config(), norm, DIGITS)
    before = [w.numpy() for w in model.trainable_weights]
    x, y = RNG.integers(0, 256, (8, 28, 28, 1)).astype("uint8"), RNG.integers(0, 10, 8)
    model.compile(keras.optimizers.SGD(1.0), model.loss)
    model.train_on_batch(x, y)
    pairs = zip(model.trainable_weights, before)
    assert [w.path for w, old in pairs if np.array_equal(w, old)] == []


def test_conv_pool_is_salimans_and_kingmas():
    x = keras.Input((32, 32, 3))
    model = keras.Model(x, conv_pool(x, "none"))
    assert model.count_params() == 1_406_794
    shapes = [model.get_layer(f"conv{k}").output.shape[1:] for k in range(1, 10)]
    sides = [32] * 3 + [16] * 3 + [6] * 3
    assert shapes == [(n, n, c) for n, c in zip(sides, [96] * 3 + [192] * 6)]


def test_learning_rate_stays_and_then_falls_to_zero():
    rate = ConstantThenLinear(0.5, 10, 4)
    assert [float(rate(step)) for step in (0, 10, 11, 12, 14, 99)] == [0.5, 0.5, 0.375, 0.25, 0, 0]
    assert float(ConstantThenLinear.from_config(rate.get_config())(11)) == 0.375
    config = replace(PRESETS["paper"].config, network="small")
    model = build_model(config, "none", np.zeros((1000, 28, 28, 1), "uint8"))
    saved = model.optimizer.get_config()["learning_rate"]["config"]
    assert (saved["constant"], saved["decay"]) == (100 * 10, 100 * 10)


def test_whitening_equals_numpy_and_is_saved(tmp_path):
    mixed = RNG.normal(size=(500, 12)) @ RNG.normal(size=(12, 12)) + 3
    images = mixed.reshape(500, 2, 2, 3)
    layer = Whitening()
    layer.adapt(images)
    y = np.reshape(layer(images), (500, 12))
    values, vectors = np.linalg.eigh(np.cov(mixed.T, bias=True))
    matrix = vectors / np.sqrt(values + 1e-5) @ vectors.T
    np.testing.assert_allclose(y, (mixed - mixed.mean(0)) @ matrix, atol=1e-2)
    model = keras.Sequential([keras.Input((2, 2, 3)), layer])
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(np.reshape(loaded(images), y.shape), y, atol=1e-5)


def test_distances_are_those_from_the_border():
    assert distances(5, 4).tolist() == [[0] * 4, *[[0, 1, 1, 0]] * 3, [0] * 4]


def test_active_shares_are_means_over_cases_channels_and_places():
    x = keras.Input((3, 3, 1), dtype="uint8")
    dense = keras.layers.Dense(2)
    y = dense(keras.layers.Rescaling(1.0)(x))
    model = keras.Model(x, keras.layers.LeakyReLU(name="conv1")(y))
    dense.set_weights([np.ones((1, 2)), np.array([0.0, -2.0])])
    image = np.array([[1, 0, 0], [0, 9, 0], [0, 0, 0]], "uint8").reshape(1, 3, 3, 1)
    batches = [(image, [0]), (np.concatenate([image, 0 * image]), [0, 0])]
    # One of 8 border pixels is lit, enough for the first channel only; the middle one for both.
    assert active_shares(model, batches) == pytest.approx(
        {
            "active_input_0": 2 / 3 / 8,
            "active_input_1": 2 / 3,
            "active_conv1_0": 2 / 3 / 8 / 2,
            "active_conv1_1": 2 / 3,
        }
    )


def test_border_units_of_digits_sum_to_zero():
    images, labels = (array[:100] for array in load_packaged().test)
    images = images.reshape(-1, 28, 28, 1)
    none, layer = (
        active_shares(build_model(Config(), norm, images), [(images, labels)])
        for norm in ("none", "layer")
    )
    assert none["active_conv1_0"] < 0.01 < 0.1 < none["active_conv1_10"]
    # Less the mean of the case's layer, which all channels share: so all are active, or none is.
    assert layer["active_conv1_0"] > 0.8 or layer["active_conv1_0"] < 0.2


def test_load_gives_square_images_and_conv_pool_needs_cifar10(tmp_path):
    images = load(Config(), None, False)
    assert images.train[0].shape == (3500, 28, 28, 1)
    np.testing.assert_array_equal(images.test[0].reshape(1000, 784), load_packaged().test[0])
    with pytest.raises(ValueError, match="isn't packaged.*Received: network='conv_pool'"):
        Config(network="conv_pool")
    with pytest.raises(ValueError, match=f"must hold {ARCHIVE}.*Received: data_dir="):
        load(PRESETS["paper"].config, str(tmp_path), False)
    with pytest.raises(ValueError, match="is not prepared here.*Received: data_dir=None"):
        load_cifar10(prepared_dir=tmp_path)


def test_cifar10_validates_on_the_first_images(monkeypatch):
    import tensorflow_datasets as tfds

    class Prepared:
        """Seven training images and three of the test, as TFDS gives them."""

        parts = {"train": np.arange(7), "test": np.arange(3)}

        def is_prepared(self):
            return True

        def as_dataset(self, split, batch_size, shuffle_files):
            assert batch_size == -1 and not shuffle_files
            name, cut = re.fullmatch(r"(\w+)(?:\[(.*)\])?", split.replace("5000", "2")).groups()
            start, _, end = (cut or ":").partition(":")
            labels = self.parts[name][int(start or 0) : int(end) if end else None]
            images = np.zeros((len(labels), 32, 32, 3), "uint8")
            return {"image": tf.constant(images), "label": tf.constant(labels)}

    monkeypatch.setattr(tfds, "builder", lambda name, data_dir: Prepared())
    images = load_cifar10()
    assert images.cases == {"train": 5, "validation": 2, "test": 3}
    assert [part[1].tolist() for part in (images.validation, images.train)] == [
        [0, 1],
        [2, 3, 4, 5, 6],
    ]
    assert images.train[0].dtype == np.uint8 and images.train[1].dtype == np.int32


def test_smoke_run_draws_its_border(tmp_path):
    summary = runner.run(
        "convnet", "smoke", norms=["layer", "none"], epochs=1, out=tmp_path, verbose=0
    )
    rows = {row["norm"]: row for row in summary["results"]}
    assert rows.keys() == {"layer", "none"} and "active_conv1_0" in rows["none"]
    assert draw_border(tmp_path).read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="finished curve.*Received: run="):
        draw_border(tmp_path / "curves")


def test_by_distance_orders_by_number():
    shares = {"active_conv1_10": 3.0, "active_conv1_2": 1.0, "active_conv11_0": 9.0, "loss": 0.0}
    assert by_distance(shares, "conv1").tolist() == [1.0, 3.0]

"""Batch normalisation with the unbiased variance."""

import keras
import numpy as np
import pytest

from tf_layernorm.baselines.batch_norm import BatchNorm

Z = np.random.default_rng(0).normal(3, 2, (4, 5)).astype("float32")


@pytest.mark.parametrize("unbiased", [False, True])
def test_batch_norm_uses_the_variance_it_is_told(unbiased):
    layer = BatchNorm(unbiased, epsilon=1e-5)
    variance = Z.astype("float64").var(0, ddof=int(unbiased))
    expected = (Z - Z.mean(0)) / np.sqrt(variance + 1e-5)
    np.testing.assert_allclose(layer(Z, training=True), expected, atol=1e-5)


@pytest.mark.parametrize("unbiased", [False, True])
def test_batch_norm_infers_with_the_averages_of_what_it_used(unbiased):
    layer = BatchNorm(unbiased, momentum=0.9)
    layer(Z, training=True)
    mean, variance = 0.1 * Z.mean(0), 0.9 + 0.1 * Z.var(0, ddof=int(unbiased))
    np.testing.assert_allclose(layer.moving_mean, mean, rtol=1e-5)
    np.testing.assert_allclose(layer.moving_variance, variance, rtol=1e-5)
    expected = (Z - mean) / np.sqrt(variance + 1e-5)
    np.testing.assert_allclose(layer(Z), expected, atol=1e-5)


def test_batch_norm_biased_equals_keras():
    ours, keras_own = BatchNorm(epsilon=1e-3), keras.layers.BatchNormalization(epsilon=1e-3)
    sequence = np.random.default_rng(1).normal(size=(3, 4, 5)).astype("float32")
    for training in (True, False):
        expected = keras_own(sequence, training=training)
        np.testing.assert_allclose(ours(sequence, training=training), expected, atol=1e-5)


def test_batch_norm_of_one_row_has_no_unbiased_variance():
    assert np.isnan(BatchNorm(unbiased=True)(Z[:1], training=True)).all()


def test_batch_norm_frozen_keeps_its_averages():
    layer = BatchNorm(trainable=False)
    np.testing.assert_allclose(layer(Z, training=True), Z / np.sqrt(1 + 1e-5), rtol=1e-6)
    np.testing.assert_array_equal(layer.moving_mean, np.zeros(5))


def test_batch_norm_saves_and_loads(tmp_path):
    inputs = keras.Input((5,))
    layer = BatchNorm(True, momentum=0.5, epsilon=1e-4, name="normaliser")
    model = keras.Model(inputs, layer(inputs))
    layer(Z, training=True)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.get_layer("normaliser").get_config() == layer.get_config()
    np.testing.assert_array_equal(loaded(Z), model(Z))


@pytest.mark.parametrize(
    "arguments", [{"momentum": 1.0}, {"momentum": -0.1}, {"epsilon": 0.0}], ids=str
)
def test_batch_norm_refuses(arguments):
    (name,) = arguments
    with pytest.raises(ValueError, match=f"Received: {name}="):
        BatchNorm(**arguments)

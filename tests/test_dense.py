"""`LNDense` against eq. 1, 3 and 5 in float64."""

import keras
import numpy as np
import pytest
import reference
import tensorflow as tf
from kinds import built, mask_of, normal

from tf_layernorm import LNDense

ACTIVATIONS = {None: lambda a: a, "relu": lambda a: np.maximum(a, 0), "tanh": np.tanh}


@pytest.mark.parametrize("activation", list(ACTIVATIONS))
@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize("epsilon", [1e-5, 1e-2])
def test_dense_matches_the_reference(traced, activation, use_bias, epsilon):
    layer = LNDense(5, activation, use_bias, epsilon=epsilon, dtype="float64")
    built(layer, None, 3)
    weights = layer.get_weights()
    kernel, bias, gamma = weights if use_bias else (weights[0], np.zeros(5), weights[1])
    x = normal(4, 3)
    expected = reference.dense(x, kernel, bias, gamma, ACTIVATIONS[activation], epsilon)
    np.testing.assert_allclose(traced(layer)(x), expected, rtol=0, atol=1e-12)


def test_dense_gradients_match_the_reference(compiled):
    layer = built(LNDense(5, "tanh", dtype="float64"), None, 3)
    x, weight = normal(4, 3), normal(4, 5, seed=2)

    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(layer(x) * weight)
        return tape.gradient(loss, [x, *layer.trainable_variables])

    expected = reference.gradients(
        lambda x, *w: np.sum(reference.dense(x, *w, np.tanh) * weight), [x, *layer.get_weights()]
    )
    for gradient, value in zip(compiled(run)(tf.constant(x)), expected, strict=True):
        np.testing.assert_allclose(gradient, value, rtol=0, atol=1e-8)


@pytest.mark.parametrize("shape", [(6,), (3, 6), (2, 3, 6), (2, 0, 6), (0, 6)])
def test_dense_applies_to_the_last_axis(shape):
    if len(shape) == 1:
        with pytest.raises(ValueError, match="Received: .*"):
            LNDense(4)(tf.zeros(shape))
        return
    layer = built(LNDense(4, dtype="float64"), *shape)
    x = normal(*shape)
    kernel, bias, gamma = layer.get_weights()
    expected = reference.dense(x, kernel, bias, gamma)
    assert layer.compute_output_shape(shape) == (*shape[:-1], 4)
    np.testing.assert_allclose(layer(x), expected, rtol=0, atol=1e-12)


def test_dense_is_exact_far_from_zero(compiled):
    # W x = 1e6 + arange(16), exactly: the layer norm must not lose it.
    layer = LNDense(16)
    layer.build((None, 2))
    kernel = np.stack([np.ones(16), np.arange(16.0)])
    layer.set_weights([kernel, np.zeros(16), np.ones(16)])
    x = np.array([[1e6, 1.0]])
    expected = reference.dense(x, kernel, 0.0, 1.0)
    np.testing.assert_allclose(compiled(layer)(x.astype("float32")), expected, rtol=0, atol=1e-6)


def test_dense_starts_as_a_plain_layer_norm():
    layer = LNDense(4)
    layer.build((None, 3))
    assert [w.name for w in layer.weights] == ["kernel", "bias", "gamma"]
    assert [w.shape for w in layer.weights] == [(3, 4), (4,), (4,)]
    np.testing.assert_array_equal(layer.bias, np.zeros(4))
    np.testing.assert_array_equal(layer.gamma, np.ones(4))


def test_dense_passes_masks_on():
    ids = np.array([[1, 2, 0]])
    embedded = keras.layers.Embedding(3, 4, mask_zero=True)(ids)
    np.testing.assert_array_equal(mask_of(LNDense(4)(embedded)), ids != 0)


def test_dense_bias_acts_after_the_norm():
    layer = LNDense(4, bias_initializer=keras.initializers.Constant(7.0), dtype="float64")
    without = LNDense(4, use_bias=False, dtype="float64")
    x = normal(2, 3)
    layer.build(x.shape), without.build(x.shape)
    without.set_weights([layer.kernel, layer.gamma])
    np.testing.assert_allclose(layer(x), without(x) + 7.0, rtol=0, atol=1e-12)

"""`layer_norm` and `LayerNorm` against eq. 3 and 5 in float64."""

import keras
import numpy as np
import pytest
import reference
import tensorflow as tf
from kinds import f64, mask_of, normal

from tf_layernorm import LayerNorm, layer_norm


@pytest.mark.parametrize("units", [3, 7, 16, 100, 1000])
def test_layer_norm_is_exact_far_from_zero(compiled, units):
    # Integers below 2**24 are exact in float32, so what differs is the arithmetic alone.
    offsets = np.repeat([0.0, 1e4, 1e6, -1e6, 1.6e7], 20)[:, None]
    x = offsets + np.random.default_rng(units).integers(-1000, 1000, (100, units))
    result = compiled(layer_norm)(tf.constant(x, "float32"))
    np.testing.assert_allclose(result, reference.layer_norm(x), rtol=0, atol=1e-6)


def test_layer_norm_is_exact_at_any_scale(compiled):
    x = (np.array([[1e-3], [1e3], [1e15]]) * normal(3, 10)).astype("float32")
    expected = reference.layer_norm(x.astype("float64"))
    np.testing.assert_allclose(compiled(layer_norm)(x), expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize(
    ("dtype", "units"),
    [("float64", 7), ("float32", 1), ("float32", 1000), ("bfloat16", 1000), ("float16", 1000)],
)
def test_layer_norm_of_a_constant_is_beta(compiled, dtype, units):
    values = tf.constant([0.0, 0.1, -3.3, 1.1e4], "float64")
    x = tf.cast(tf.repeat(values[:, None], units, axis=1), dtype)
    wide = "float64" if dtype == "float64" else "float32"
    beta, gamma = tf.cast(normal(units), wide), tf.cast(normal(units, seed=1), wide)

    def run(x, gamma, beta):
        with tf.GradientTape() as tape:
            tape.watch((x, gamma, beta))
            y = layer_norm(x, gamma, beta)
            loss = tf.reduce_sum(tf.cast(y, wide) * tf.linspace(tf.cast(0, wide), 1, units))
        return y, tape.gradient(loss, (x, gamma, beta))

    y, gradients = compiled(run)(x, gamma, beta)
    np.testing.assert_array_equal(f64(y), f64(tf.broadcast_to(tf.cast(beta, dtype), x.shape)))
    for gradient in gradients:
        assert np.isfinite(f64(gradient)).all()


@pytest.mark.parametrize("axis", [-1, 1, 2, (1, 2), (2, 1), (-1, -2), (1, 2, 3)])
def test_layer_norm_takes_an_axis_or_several(axis):
    x = normal(2, 3, 4, 5)
    np.testing.assert_allclose(
        layer_norm(x, axis=axis), reference.layer_norm(x, axis=axis), rtol=0, atol=1e-12
    )


def test_layer_norm_scales_and_shifts():
    x, gamma, beta = normal(2, 5), normal(5, seed=1), normal(5, seed=2)
    for arguments in [(), (gamma,), (gamma, beta)]:
        np.testing.assert_allclose(
            layer_norm(x, *arguments), reference.layer_norm(x, *arguments), rtol=0, atol=1e-12
        )
    np.testing.assert_allclose(
        layer_norm(x, beta=beta), reference.layer_norm(x, beta=beta), rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("epsilon", [0.0, 1e-12, 1e-3, 1.0])
def test_layer_norm_puts_epsilon_inside_the_root(epsilon):
    x = 0.1 * normal(3, 5)
    expected = reference.layer_norm(x, epsilon=epsilon)
    np.testing.assert_allclose(layer_norm(x, epsilon=epsilon), expected, rtol=0, atol=1e-12)


def test_layer_norm_gradient_matches_the_reference(compiled):
    arrays, weight = [normal(3, 5), normal(5, seed=1), normal(5, seed=2)], normal(3, 5, seed=3)

    def run(*tensors):
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            loss = tf.reduce_sum(layer_norm(*tensors) * weight)
        return tape.gradient(loss, tensors)

    expected = reference.gradients(lambda *a: np.sum(reference.layer_norm(*a) * weight), arrays)
    for gradient, value in zip(compiled(run)(*map(tf.constant, arrays)), expected, strict=True):
        np.testing.assert_allclose(gradient, value, rtol=0, atol=1e-8)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_layer_norm_of_half_inputs_has_float32_statistics(dtype):
    # The squares of these overflow in float16, and their sum is lost in bfloat16.
    x = tf.cast(300.0 * normal(4, 1000, dtype="float32"), dtype)
    result = layer_norm(x)
    assert result.dtype == dtype
    expected = tf.cast(reference.layer_norm(f64(x)), dtype)
    np.testing.assert_allclose(f64(result), f64(expected), rtol=0.008, atol=1e-3)


@pytest.mark.parametrize("shape", [(0, 4), (2, 0, 4), (4,)])
def test_layer_norm_takes_any_leading_shape(compiled, shape):
    assert compiled(layer_norm)(tf.zeros(shape)).shape == shape


@pytest.mark.parametrize("axis", [-1, 1, (1, 2), (-1, 1), [1, 2]])
def test_layer_norm_layer_matches_the_reference(traced, axis):
    x = normal(2, 3, 4)
    layer = LayerNorm(axis=axis, epsilon=1e-2, dtype="float64")
    layer.build(x.shape)
    axes = tuple(sorted(a % 3 for a in ([axis] if isinstance(axis, int) else axis)))
    shape = tuple(x.shape[a] for a in axes)
    gamma, beta = normal(*shape, seed=1), normal(*shape, seed=2)
    layer.set_weights([gamma, beta])
    spread = [x.shape[a] if a in axes else 1 for a in range(3)]
    expected = reference.layer_norm(
        x, gamma.reshape(spread), beta.reshape(spread), axis=axes, epsilon=1e-2
    )
    np.testing.assert_allclose(traced(layer)(x), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("scale", [True, False])
def test_layer_norm_layer_weights(center, scale):
    layer = LayerNorm(center=center, scale=scale)
    layer.build((None, 4))
    assert [w.name for w in layer.weights] == ["gamma"] * scale + ["beta"] * center
    for weight in layer.weights:
        np.testing.assert_array_equal(weight, np.full(4, float(weight.name == "gamma")))


def test_layer_norm_layer_passes_masks_on():
    ids = np.array([[1, 2, 0]])
    embedded = keras.layers.Embedding(3, 4, mask_zero=True)(ids)
    np.testing.assert_array_equal(mask_of(LayerNorm()(embedded)), ids != 0)


def test_layer_norm_layer_adds_its_regularizers():
    layer = LayerNorm(gamma_regularizer="l1", beta_regularizer="l2")
    layer.build((None, 4))
    np.testing.assert_allclose(sum(layer.losses), 0.01 * 4, rtol=1e-6)

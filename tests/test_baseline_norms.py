"""Weight norm and RMS norm: layers that train, against NumPy and against Table 1."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from reference import gradients

from tf_layernorm import LayerNorm
from tf_layernorm.analysis import invariance_report, normalized
from tf_layernorm.analysis.invariance import PRINTED
from tf_layernorm.baselines.rms_norm import RMSNorm
from tf_layernorm.baselines.weight_norm import WeightNorm

RNG = np.random.default_rng(0)
X = RNG.normal(1, 2, (4, 5))
SLOPES = RNG.normal(size=(4, 3))  # of the loss, by the outputs


def weight_norm(x, v, bias, gamma):
    """Salimans & Kingma, eq. (2), and a bias: y_i = g_i / |v_i| v_i . x + b_i."""
    y = np.empty((len(x), v.shape[1]))
    for i, column in enumerate(v.T):
        y[:, i] = x @ (gamma[i] / np.sqrt(column @ column) * column) + bias[i]
    return y


def rms_norm(x, gamma, beta):
    """Zhang & Sennrich, eq. (4), with epsilon inside the root, and a bias; case by case."""
    return np.array([case / np.sqrt(case @ case / case.size + 1e-5) * gamma + beta for case in x])


def randomized(layer, shape):
    """The layer, with all weights drawn at random; and its weights."""
    layer.build(shape)
    layer.set_weights([RNG.normal(size=w.shape) for w in layer.weights])
    return layer, layer.get_weights()


@pytest.mark.parametrize("jit_compile", [False, True])
def test_weight_norm_and_its_gradients_equal_numpy(jit_compile):
    inner = keras.layers.Dense(3, dtype="float64")
    layer, weights = randomized(WeightNorm(inner, dtype="float64"), X.shape)
    assert [w.path.split("/")[-1] for w in layer.weights] == ["gamma", "kernel", "bias"]
    gamma, v, bias = weights

    @tf.function(jit_compile=jit_compile)
    def both(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x)
        sources = [x, *(w.value for w in (inner.kernel, inner.bias, layer.gamma))]
        return y, tape.gradient(y, sources, SLOPES)

    y, ours = both(tf.constant(X))
    np.testing.assert_allclose(y, weight_norm(X, v, bias, gamma), rtol=1e-12)
    expected = gradients(lambda *a: (weight_norm(*a) * SLOPES).sum(), [X, v, bias, gamma])
    for one, other in zip(ours, expected):
        np.testing.assert_allclose(one, other, atol=1e-7)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_rms_norm_and_its_gradients_equal_numpy(jit_compile):
    layer, (gamma, beta) = randomized(RMSNorm(dtype="float64"), X.shape)
    slopes = RNG.normal(size=X.shape)

    @tf.function(jit_compile=jit_compile)
    def both(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x)
        return y, tape.gradient(y, [x, layer.gamma.value, layer.beta.value], slopes)

    y, ours = both(tf.constant(X))
    np.testing.assert_allclose(y, rms_norm(X, gamma, beta), rtol=1e-12)
    expected = gradients(lambda *a: (rms_norm(*a) * slopes).sum(), [X, gamma, beta])
    for one, other in zip(ours, expected):
        np.testing.assert_allclose(one, other, atol=1e-7)


@pytest.mark.parametrize("norm", ["weight", "rms"])
def test_layers_compute_what_the_analysis_computes(norm):
    dense = keras.layers.Dense(3, use_bias=False, dtype="float64")
    if norm == "weight":
        layer = WeightNorm(dense, dtype="float64")
        layer.build(X.shape)
        layer.gamma.assign(np.ones(3))
        y = layer(X)
    else:
        y = RMSNorm(epsilon=1e-300, dtype="float64")(dense(X))
    np.testing.assert_allclose(y, normalized(norm, dense.kernel.numpy().T, X), rtol=1e-12)


@pytest.mark.parametrize(
    "norm, make, shape",
    [
        ("weight", lambda: WeightNorm(keras.layers.Dense(5)), (4,)),
        ("weight", lambda: WeightNorm(keras.layers.Dense(5, use_bias=False)), (3, 4)),
        ("weight", lambda: WeightNorm(keras.layers.Conv2D(5, 2)), (4, 4, 2)),
        ("rms", lambda: [keras.layers.Dense(5, use_bias=False), RMSNorm()], (4,)),
        (
            "rms",
            lambda: [keras.layers.Conv2D(5, 2, use_bias=False), RMSNorm((1, 2, 3))],
            (4, 4, 2),
        ),
    ],
    ids=lambda value: None if callable(value) else str(value),
)
def test_layers_have_their_row_of_table_1(norm, make, shape):
    layer = make()
    layer = keras.Sequential(layer) if isinstance(layer, list) else layer
    assert invariance_report(layer, shape).invariant == PRINTED[norm]


@pytest.mark.parametrize("inner", [keras.layers.Dense(3), keras.layers.Conv1D(3, 2)], ids=str)
def test_weight_norm_starts_as_the_layer_without_it(inner):
    x = RNG.normal(size=(2, 6, 5)).astype("float32")
    y = WeightNorm(inner)(x)
    np.testing.assert_allclose(y, inner(x), atol=1e-6)


def test_weight_norm_of_a_zero_vector_is_finite():
    layer = WeightNorm(keras.layers.Dense(3, kernel_initializer="zeros"))
    layer.build(X.shape)
    layer.gamma.assign(np.ones(3))
    with tf.GradientTape() as tape:
        y = layer(X.astype("float32"))
    slopes = tape.gradient(y, [w.value for w in layer.trainable_weights])
    assert np.isfinite(np.concatenate([np.ravel(s) for s in [y, *slopes]])).all()


def test_weight_norm_keeps_the_weights_that_an_outer_scope_gives():
    layer, (gamma, v, bias) = randomized(WeightNorm(keras.layers.Dense(3)), X.shape)
    by_path = {w.path: value for w, value in zip(layer.weights, (2 * gamma, v, bias + 1))}
    given = [by_path[w.path] for w in layer.trainable_variables]
    y, _ = layer.stateless_call(given, [], X.astype("float32"))
    np.testing.assert_allclose(y, weight_norm(X, v, bias + 1, 2 * gamma), atol=1e-4)


def test_weight_norm_needs_a_kernel():
    with pytest.raises(ValueError, match="must have a `kernel`.*Received: layer="):
        WeightNorm(keras.layers.ReLU()).build((2, 3))


@pytest.mark.parametrize("axis", [-1, (1, 2, 3), (1, 2), (1, 3)])
def test_rms_norm_is_layer_norm_where_the_mean_is_zero(axis):
    x = RNG.normal(size=(2, 4, 4, 3))
    axes = axis if isinstance(axis, tuple) else (axis,)
    x -= x.mean(axes, keepdims=True)
    ours, weights = randomized(RMSNorm(axis), x.shape)
    layer_norm = LayerNorm(axis)
    layer_norm.build(x.shape)
    layer_norm.set_weights(weights)
    np.testing.assert_allclose(ours(x), layer_norm(x), atol=1e-5)
    assert abs(ours(x + 1) - layer_norm(x + 1)).numpy().max() > 0.1


def test_rms_norm_without_beta_equals_keras():
    x = X.astype("float32")
    np.testing.assert_allclose(
        RMSNorm(center=False)(x), keras.layers.RMSNormalization(epsilon=1e-5)(x), rtol=1e-6
    )


def network(norm):
    def normalized(layer):
        if norm == "weight":
            return [WeightNorm(layer)]
        return [layer, RMSNorm(axis=-1 if isinstance(layer, keras.layers.Dense) else (1, 2, 3))]

    return keras.Sequential(
        [
            keras.Input((6, 6, 1)),
            *normalized(keras.layers.Conv2D(4, 3, use_bias=norm == "weight")),
            keras.layers.Flatten(),
            *normalized(keras.layers.Dense(3, use_bias=norm == "weight")),
        ]
    )


@pytest.mark.parametrize("norm", ["weight", "rms"])
def test_networks_train_save_and_load(norm, tmp_path):
    x, y = RNG.normal(size=(32, 6, 6, 1)).astype("float32"), RNG.integers(0, 3, 32)
    model = network(norm)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss, jit_compile=True)
    losses = model.fit(x, y, 16, epochs=30, verbose=0).history["loss"]
    assert losses[-1] < 0.5 * losses[0]
    before = [w.numpy() for w in model.trainable_weights]
    model.fit(x, y, 16, verbose=0)
    assert all((w.numpy() != b).any() for w, b in zip(model.trainable_weights, before))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded.predict(x, verbose=0), model.predict(x, verbose=0), atol=1e-6)
    for one, other in zip(loaded.layers, model.layers):
        if norm == "weight" and isinstance(one, WeightNorm):
            one, other = one.layer, other.layer
        assert one.get_config() == other.get_config()
    again = network(norm)
    model.save_weights(tmp_path / "model.weights.h5")
    again.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(again(x), model(x))


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("norm", ["weight", "rms"])
def test_half_precision_keeps_weights_and_statistics_in_float32(norm, policy):
    keras.config.set_dtype_policy(policy)
    try:
        model = network(norm)
    finally:
        keras.config.set_dtype_policy("float32")
    full = network(norm)
    full.set_weights(model.get_weights())
    assert {w.dtype for w in model.weights} == {"float32"}
    # Squares of 1e3 are beyond float16.
    x = RNG.normal(0, 1e3 if norm == "rms" else 1, (8, 6, 6, 1)).astype("float32")
    y = model(x)
    assert y.dtype == policy.removeprefix("mixed_")
    np.testing.assert_allclose(tf.cast(y, "float32"), full(x), atol=0.05)

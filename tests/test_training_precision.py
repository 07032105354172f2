"""Training ends at the same loss under every dtype policy, and what an epsilon can't do is said."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from kinds import KINDS, normal

from tf_layernorm import LayerNorm, LNDense, layer_norm
from tf_layernorm.baselines.batch_norm import BatchNorm

# Unit vectors, since the layers don't see how long an input is.
X = normal(512, 2, 2, dtype="float32")
X /= np.linalg.norm(X, axis=-1, keepdims=True)
# The noise can't be learnt from so many cases: the loss ends far above what rounding adds.
Y = 2 * X.sum((1, 2))[:, None] + 0.5 * normal(512, 1, seed=1, dtype="float32")
STEPS = 150


def stacked(policy, use_fused):
    """All three layers, one on the other."""
    inputs = x = keras.Input((2, 2))
    for i, kind in enumerate(KINDS):
        x = kind.layer(6, return_sequences=i < 2, use_fused=use_fused, dtype=policy)(x)
    wide = "float64" if policy == "float64" else "float32"
    return keras.Model(inputs, keras.layers.Dense(1, dtype=wide)(x))


def adam():
    return keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(0.03, STEPS))


def train(model, optimizer):
    """The losses of all updates."""
    variables = model.trainable_variables
    optimizer.build(variables)

    @tf.function
    def update():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(X, training=True) - Y) ** 2)
            scaled = optimizer.scale_loss(loss)
        optimizer.apply(tape.gradient(scaled, variables), variables)
        return loss

    return [float(update()) for _ in range(STEPS)]


@pytest.fixture(scope="module")
def in_float32():
    """The weights at the start and the loss at the end."""
    keras.utils.set_random_seed(3)
    model = stacked("float32", False)
    weights = model.get_weights()
    losses = train(model, adam())
    assert losses[-1] < losses[0] / 10
    return weights, losses[-1]


# bfloat16 has less than three digits: from four seeds it ended 0 to 9 % higher.
@pytest.mark.parametrize(
    ("policy", "use_fused", "rel"),
    [("float64", False, 0.02), ("mixed_bfloat16", False, 0.15), ("mixed_float16", True, 0.1)],
)
def test_training_ends_at_the_loss_of_float32(in_float32, policy, use_fused, rel):
    weights, loss = in_float32
    model, optimizer = stacked(policy, use_fused), adam()
    model.set_weights(weights)
    if policy == "mixed_float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    assert train(model, optimizer)[-1] == pytest.approx(loss, rel=rel)
    wide = "float64" if policy == "float64" else "float32"
    assert {weight.dtype for weight in model.weights} == {wide}


RECURRENT = [cls for kind in KINDS for cls in (kind.cell, kind.layer)]
PUBLIC = [LayerNorm, LNDense, BatchNorm, *RECURRENT]


def make(cls, **options):
    return cls(**options) if cls in (LayerNorm, BatchNorm) else cls(4, **options)


@pytest.mark.parametrize("cls", PUBLIC)
def test_epsilon_lost_in_the_variance_is_refused(cls):
    for policy in ("float32", "mixed_float16"):
        with pytest.raises(ValueError, match="at least 1.18e-38.*Received: epsilon=1e-38$"):
            make(cls, epsilon=1e-38, dtype=policy)
    make(cls, epsilon=1e-38, dtype="float64")
    with pytest.raises(ValueError, match="float64.*Received: epsilon=1e-310$"):
        make(cls, epsilon=1e-310, dtype="float64")


@pytest.mark.parametrize("cls", PUBLIC)
def test_epsilon_whose_gradient_overflows_float16_is_said_once(cls):
    with pytest.warns(UserWarning, match="too small for float16.*at least 2.4e-10"):
        make(cls, epsilon=2.3e-10, dtype="mixed_float16")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for policy, epsilon in (("mixed_float16", 2.4e-10), ("mixed_bfloat16", 2e-38)):
            make(cls, epsilon=epsilon, dtype=policy)


def test_layer_of_a_small_epsilon_does_not_warn_again_at_each_call():
    with pytest.warns(UserWarning, match="float16"):
        layer = LayerNorm(epsilon=1e-12, dtype="mixed_float16")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert layer(tf.ones((2, 3))).dtype == "float16"


def gradient_at_zero(epsilon, dtype):
    x = tf.zeros((1, 4), dtype)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = layer_norm(x, epsilon=epsilon)
        loss = tf.reduce_sum(y * tf.range(4, dtype=dtype))
    return tf.cast(tape.gradient(loss, x), "float64").numpy()


@pytest.mark.parametrize(
    ("dtype", "epsilon"), [("float32", 1.2e-38), ("bfloat16", 1.2e-38), ("float16", 1e-9)]
)
def test_smallest_epsilon_that_passes_has_a_finite_gradient(dtype, epsilon):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(gradient_at_zero(epsilon, dtype)).all()


def test_function_says_of_a_smaller_epsilon_what_the_layers_say():
    with pytest.raises(ValueError, match="Received: epsilon=1e-38$"):
        layer_norm(tf.zeros((1, 4)), epsilon=1e-38)
    with pytest.warns(UserWarning, match="too small for float16"):
        np.testing.assert_array_equal(gradient_at_zero(1e-12, "float16"), np.zeros((1, 4)))

"""A constant vector has no direction: it gives beta and passes no gradient, everywhere alike."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from kinds import INPUTS, KINDS, UNITS, normal

from tf_layernorm import LayerNorm, LNDense, layer_norm

POLICIES = ("float32", "float64", "mixed_bfloat16", "mixed_float16")


@pytest.mark.parametrize("epsilon", [0.0, 1e-12, 1e-5])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.filterwarnings("ignore:.*too small for float16:UserWarning")
def test_constant_vector_gives_beta_and_passes_no_gradient(dtype, epsilon):
    x = tf.cast([[3.0, 3.0, 3.0], [0.0, 0.0, 0.0], [1.0, 2.0, 4.0]], dtype)
    gamma, beta = tf.cast([2.0, 3.0, 4.0], dtype), tf.cast([0.5, -1.0, 2.0], dtype)
    with tf.GradientTape() as tape:
        tape.watch([x, gamma])
        y = layer_norm(x, gamma, beta, epsilon=epsilon)
        loss = tf.reduce_sum(y * tf.cast([1.0, 2.0, 3.0], dtype))
    d_x, d_gamma = (tf.cast(d, "float64").numpy() for d in tape.gradient(loss, [x, gamma]))
    np.testing.assert_array_equal(y[:2], [beta, beta])
    np.testing.assert_array_equal(d_x[:2], np.zeros((2, 3)))
    assert np.isfinite(d_gamma).all() and np.abs(d_x[2]).max() > 0.01


def test_layers_pass_no_gradient_through_a_constant_vector():
    x = tf.zeros((2, INPUTS))
    for layer in (LayerNorm(), LNDense(UNITS)):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(layer(x) * tf.range(float(layer(x).shape[-1])))
        np.testing.assert_array_equal(tape.gradient(loss, x), tf.zeros_like(x))


def gradient_norm(kind, x, use_fused, **options):
    keras.utils.set_random_seed(0)
    layer = kind.layer(UNITS, use_fused=use_fused, **options)
    with tf.GradientTape() as tape:
        outputs = layer(tf.constant(x), training=True)
        loss = tf.reduce_sum(tf.cast(outputs, "float32") * tf.range(float(UNITS)))
    return float(tf.linalg.global_norm(tape.gradient(loss, layer.trainable_variables)))


@pytest.mark.parametrize("dtype", POLICIES)
def test_blank_steps_in_front_amplify_nothing(kind, use_fused, dtype):
    x, options = normal(8, 3, INPUTS, dtype="float32"), {"dtype": dtype}
    usual = gradient_norm(kind, x, use_fused, **options)
    for steps in (1, 5, 20):
        blank = np.concatenate([np.zeros((8, steps, INPUTS), "float32"), x], axis=1)
        assert gradient_norm(kind, blank, use_fused, **options) < 2 * usual


@pytest.mark.parametrize("kind", KINDS, ids=repr)
@settings(max_examples=8, deadline=None)
@given(
    blanks=st.tuples(*[st.integers(0, 4)] * 3),
    epsilon=st.sampled_from([1e-12, 1e-8, 1e-5]),
    fused=st.booleans(),
)
def test_gradients_are_finite_wherever_blank_steps_are(kind, blanks, epsilon, fused):
    parts = []
    for count in blanks:
        parts += [np.zeros((2, count, INPUTS), "float32"), normal(2, 1, INPUTS, dtype="float32")]
    norm = gradient_norm(kind, np.concatenate(parts, axis=1), fused, epsilon=epsilon)
    assert np.isfinite(norm) and norm < 1000


@pytest.mark.parametrize("dtype", ["float32", "mixed_float16", "mixed_bfloat16"])
def test_a_fit_on_sequences_padded_in_front_learns(kind, dtype):
    """Under mixed_float16 the loss scale must not fall for it, and the weights must move."""
    rng = np.random.default_rng(0)
    sequences = [rng.normal(size=(n, 2)) for n in rng.integers(2, 7, 256)]
    x = keras.utils.pad_sequences(sequences, 10, dtype="float32")  # zeros in front
    y = x[:, -1, :1]
    model = keras.Sequential(
        [
            keras.Input((10, 2)),
            kind.layer(16, dtype=dtype),
            keras.layers.Dense(1, dtype="float32"),
        ]
    )
    optimizer = keras.optimizers.Adam(0.01)
    if dtype == "mixed_float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    model.compile(optimizer, "mse")
    kernel = np.array(model.layers[0].cell.kernel)
    losses = model.fit(x, y, epochs=8, batch_size=32, verbose=0).history["loss"]
    assert losses[-1] < 0.5 * losses[0]
    assert np.abs(np.array(model.layers[0].cell.kernel) - kernel).max() > 0.01
    if dtype == "mixed_float16":
        assert float(optimizer.dynamic_scale) >= 1024


def test_what_starts_constant_over_the_units_warns(kind):
    wrong = [{"kernel_initializer": "zeros"}, {"recurrent_initializer": "ones"}]
    wrong += [{"learn_initial_state": True, "initial_state_initializer": "zeros"}]
    for options in wrong:
        with pytest.warns(UserWarning, match="no direction"):
            kind.layer(UNITS, **options).build((None, None, INPUTS))
        kind.layer(UNITS, normalize=(), **options).build((None, None, INPUTS))  # doesn't
    with pytest.warns(UserWarning, match="no direction"):
        LNDense(UNITS, kernel_initializer="zeros").build((None, INPUTS))

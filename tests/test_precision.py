"""Half policies: the carried state, the statistics and the gains stay float32."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from kinds import BATCH, INPUTS, LSTM, PAIRS, TIME, UNITS, built, f64, normal

# One step adds 1 to c: both gates are open, tanh(g) = 1. Float16 counts to 2,048, bfloat16 to 256.
COUNTS = {"mixed_bfloat16": 600, "mixed_float16": 3000}
COUNTER = dict(
    units=2,
    kernel_initializer="zeros",
    recurrent_initializer="zeros",
    bias_initializer=keras.initializers.Constant(30.0),
    unit_forget_bias=False,
)

# The counter counts by its biases: its kernels are 0.
pytestmark = pytest.mark.filterwarnings("ignore:.*starts constant:UserWarning")


def counted(dtype, use_fused, **flags):
    return LSTM.layer(**COUNTER, dtype=dtype, use_fused=use_fused, return_state=True, **flags)


@pytest.mark.parametrize(
    ("dtype", "steps", "jit_compile"),
    [("mixed_bfloat16", 300, None), *[(d, n, jit) for d, n in COUNTS.items() for jit in (0, 1)]],
)
def test_lstm_counts_beyond_what_half_types_hold(use_fused, dtype, steps, jit_compile):
    layer = counted(dtype, use_fused)
    layer.build((1, steps, 1))
    call = layer if jit_compile is None else tf.function(layer, jit_compile=bool(jit_compile))
    _, _, c = call(tf.zeros((1, steps, 1)))
    np.testing.assert_array_equal(f64(c), np.full((1, 2), steps))


@pytest.mark.parametrize("dtype", list(COUNTS))
def test_lstm_counts_on_from_the_state_it_returned(use_fused, dtype):
    steps = COUNTS[dtype] // 2
    layer = counted(dtype, use_fused)
    layer.build((1, steps, 1))

    @tf.function
    def twice(x):
        _, *states = layer(x)
        return layer(x, initial_state=states)[-1]

    np.testing.assert_array_equal(f64(twice(tf.zeros((1, steps, 1)))), [[2.0 * steps] * 2])


@pytest.mark.parametrize(
    ("use_fused", "dtype"), [(False, "mixed_float16"), (True, "mixed_bfloat16")]
)
def test_lstm_counts_on_in_a_functional_model(use_fused, dtype):
    steps = COUNTS[dtype] // 2
    layer = counted(dtype, use_fused)
    inputs = keras.Input((None, 1))
    _, *states = layer(inputs)
    model = keras.Model(inputs, layer(inputs, initial_state=states)[-1])
    c = tf.function(model)(tf.zeros((1, steps, 1)))
    np.testing.assert_array_equal(f64(c), [[2.0 * steps] * 2])


@pytest.mark.parametrize(("dtype", "count"), [("mixed_bfloat16", 256.0), ("mixed_float16", 2048.0)])
def test_unrolled_lstm_counts_on(dtype, count):
    layer = counted(dtype, False, unroll=True)
    states = [tf.zeros((1, 2)), tf.fill((1, 2), count)]
    np.testing.assert_array_equal(
        f64(layer(tf.zeros((1, 3, 1)), initial_state=states)[-1]), [[count + 3] * 2]
    )


@pytest.mark.parametrize("dtype", list(COUNTS))
def test_stateful_lstm_counts_on(use_fused, dtype):
    steps = COUNTS[dtype] // 2
    layer = counted(dtype, use_fused, stateful=True)
    layer.build((1, steps, 1))
    call, x = tf.function(layer), tf.zeros((1, steps, 1))
    for run in (1, 2):
        np.testing.assert_array_equal(f64(call(x)[-1]), [[run * steps] * 2])
    layer.reset_state()
    np.testing.assert_array_equal(f64(call(x)[-1]), [[steps] * 2])
    odd = [np.zeros((1, 2)), np.full((1, 2), {"mixed_bfloat16": 301.0}.get(dtype, 2049.0))]
    layer.reset_state(odd)  # neither is a number of its half type
    np.testing.assert_array_equal(layer.states[1], odd[1])
    np.testing.assert_array_equal(f64(call(x)[-1]), odd[1] + steps)


@pytest.mark.parametrize(
    ("dtype", "steps", "reached"), [("mixed_bfloat16", 600, 256), ("mixed_float16", 3000, 2048)]
)
def test_rnn_of_a_cell_stops_counting(dtype, steps, reached):
    """Keras casts the states to the cell's compute dtype: the documented limit of `RNN(cell)`."""
    layer = keras.layers.RNN(LSTM.cell(**COUNTER, dtype=dtype), return_state=True, dtype=dtype)
    _, _, c = tf.function(layer)(tf.zeros((1, steps, 1)))
    np.testing.assert_array_equal(f64(c), np.full((1, 2), reached))


@pytest.mark.parametrize("dtype", ["float64", *COUNTS])
def test_dtypes_follow_the_policy(kind, use_fused, dtype):
    layer = kind.layer(
        UNITS, dtype=dtype, use_fused=use_fused, return_sequences=True, return_state=True
    )
    x = normal(BATCH, TIME, INPUTS, dtype="float32")
    outputs, *states = layer(x)
    policy = keras.DTypePolicy(dtype)
    assert outputs.dtype == policy.compute_dtype
    assert {weight.dtype for weight in layer.weights} == {policy.variable_dtype}
    # c is a sum over time, so it comes back as it was carried: never half.
    expected = "float64" if dtype == "float64" else "float32"
    if kind is LSTM:
        assert states[-1].dtype == expected


@pytest.mark.parametrize(
    ("use_fused", "dtype"),
    [(False, "mixed_bfloat16"), (True, "mixed_bfloat16"), (True, "mixed_float16")],
)
def test_half_policy_is_close_to_float32(kind, use_fused, dtype):
    results = []
    for policy in ("float32", dtype):
        keras.utils.set_random_seed(3)
        layer = kind.layer(UNITS, dtype=policy, use_fused=use_fused, return_sequences=True)
        results.append(f64(layer(normal(BATCH, TIME, INPUTS, dtype="float32"))))
    np.testing.assert_allclose(*results, rtol=0, atol=0.05 if "bfloat" in dtype else 0.01)


@pytest.mark.parametrize(("kind", "use_fused"), PAIRS, ids=str)
def test_training_in_half_precision_stays_finite(kind, use_fused):
    model = keras.Sequential(
        [
            kind.layer(8, dtype="mixed_float16", use_fused=use_fused),
            keras.layers.Dense(1, dtype="float32"),
        ]
    )
    model.compile(keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.01)), "mse")
    x = 1e3 * normal(32, 6, 3, dtype="float32")
    history = model.fit(x, x[:, 0, :1] > 0, epochs=50, batch_size=32, verbose=0)
    assert np.isfinite(history.history["loss"]).all()
    assert all(np.isfinite(weight).all() for weight in model.get_weights())


def test_zero_variance_in_half_precision_has_finite_gradients(kind, use_fused):
    layer = built(kind.layer(4, dtype="mixed_float16", use_fused=use_fused), None, None, INPUTS)
    layer.set_weights([np.zeros_like(w) for w in layer.get_weights()])
    x = tf.zeros((1, 1, INPUTS))
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(tf.cast(layer(x), "float32") * tf.range(4.0))
    for gradient in tape.gradient(loss, [x, *layer.trainable_variables]):
        assert np.isfinite(f64(gradient)).all()

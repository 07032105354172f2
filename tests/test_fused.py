"""The choice of `use_fused`: when it is refused, what "auto" takes, and second-order gradients."""

import numpy as np
import pytest
import tensorflow as tf
from kinds import (
    BATCH,
    GRU,
    INPUTS,
    KINDS,
    LSTM,
    SIMPLE,
    TIME,
    UNITS,
    WRAPPERS,
    built,
    driven,
    normal,
)


def make(kind, use_fused, **options):
    layer = kind.layer(UNITS, use_fused=use_fused, dtype="float64", **options)
    return built(layer, None, options.get("unroll") and TIME, INPUTS)


def test_fused_is_refused_for_an_unrolled_loop(kind):
    with pytest.raises(ValueError, match="use_fused=False.*Received: use_fused=True$"):
        kind.layer(UNITS, use_fused=True, unroll=True)


def test_a_cell_that_changes_its_call_is_refused(kind, use_fused):
    call = {"call": lambda self, *args, **kwargs: kind.cell.call(self, *args, **kwargs)}
    layer = type("Layer", (kind.layer,), {"cell_class": type("Changed", (kind.cell,), call)})
    with pytest.raises(ValueError, match="`step`.*Received: cell=<Changed"):
        layer(UNITS, use_fused=use_fused)


def test_auto_runs_an_unrolled_loop_like_any(kind):
    x = normal(BATCH, TIME, INPUTS)
    unrolled, loop = make(kind, "auto", unroll=True), make(kind, False)
    np.testing.assert_allclose(unrolled(x), loop(x), rtol=0, atol=1e-12)
    assert kind.layer(UNITS).use_fused == "auto"


@pytest.mark.parametrize("activation", ["relu", tf.sin], ids=["by name", "function"])
def test_any_activation_runs_fused(kind, activation):
    x = tf.constant(normal(BATCH, TIME, INPUTS))
    results = []
    for use_fused in (True, False):
        layer = make(kind, use_fused, activation=activation)
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(layer(x) * normal(BATCH, UNITS, seed=3))
        results.append([loss, *tape.gradient(loss, [x, *layer.trainable_variables])])
    for fused, loop in zip(*results, strict=True):
        np.testing.assert_allclose(fused, loop, rtol=1e-9, atol=1e-9)


def test_auto_is_one_of_the_drivers(kind):
    x = normal(BATCH, TIME, INPUTS)
    results = [make(kind, use_fused)(x) for use_fused in ("auto", *(False, True))]
    np.testing.assert_allclose(results[0], results[1], rtol=0, atol=1e-12)
    np.testing.assert_allclose(results[0], results[2], rtol=0, atol=1e-12)


def gradients(layer, training, wrap=WRAPPERS["graph"]):
    scale = normal(BATCH, UNITS, seed=3)

    @wrap
    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(layer(x, training=training) * scale)
        return tape.gradient(loss, [x, *layer.trainable_variables])

    return run(tf.constant(normal(BATCH, TIME, INPUTS)))


def test_gradients_do_not_depend_on_training(kind):
    # Without `training` the forward pass keeps nothing, and a gradient runs it again.
    layer = make(kind, True)
    for first, second in zip(gradients(layer, True), gradients(layer, False), strict=True):
        np.testing.assert_allclose(first, second, rtol=0, atol=1e-12)


def test_gradients_are_linear_in_those_for_the_outputs(kind):
    """The backward loop's step more, on gradients in the products' place, adds nothing to them."""
    layer = kind.layer(UNITS, use_fused=True, return_sequences=True)
    x = tf.constant(normal(BATCH, TIME, INPUTS, dtype="float32"))
    d = tf.constant(normal(BATCH, TIME, UNITS, dtype="float32"))
    states = [tf.constant(normal(BATCH, UNITS, dtype="float32")) for _ in range(kind.n_states)]
    layer.build(x.shape)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        outputs = layer(x, training=True, initial_state=states)
    sources = [x, *(v.value for v in layer.trainable_variables)]
    small, large = (
        tape.gradient(outputs, sources, output_gradients=scale * d) for scale in (1.0, 2.0**80)
    )
    for a, b in zip(small, large, strict=True):
        np.testing.assert_array_equal(a * 2.0**80, b)


def test_layer_is_differentiable_when_only_the_call_is_compiled(kind):
    """An eager tape outside a compiled function, which Keras' loop can't do."""
    layer, x = make(kind, True), tf.constant(normal(BATCH, TIME, INPUTS))
    call = tf.function(layer, jit_compile=True)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(call(x) * normal(BATCH, UNITS, seed=3))
    result = tape.gradient(loss, layer.trainable_variables)
    for gradient, value in zip(result, gradients(layer, True)[1:], strict=True):
        np.testing.assert_allclose(gradient, value, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("kind", "mode", "weighted"),
    [
        *[(kind, "eager", True) for kind in KINDS],
        *[(LSTM, "eager", False), (LSTM, "graph", False), (GRU, "graph", True), (GRU, "jit", True)],
    ],
    ids=str,
)
def test_second_order_is_refused_by_name(kind, mode, weighted):
    layer = make(kind, True)
    scale = normal(BATCH, UNITS) if weighted else np.ones((BATCH, UNITS))

    @WRAPPERS[mode]
    def penalty_gradient(x):
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                inner.watch(x)
                loss = tf.reduce_sum(layer(x) * scale)
            penalty = tf.reduce_sum(inner.gradient(loss, x) ** 2)
        return outer.gradient(penalty, layer.trainable_variables)

    with pytest.raises(NotImplementedError, match="use_fused=False"):
        penalty_gradient(tf.constant(normal(BATCH, TIME, INPUTS)))


def test_forward_mode_is_refused_by_name(kind):
    layer, x = make(kind, True), tf.constant(normal(BATCH, TIME, INPUTS))
    with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)):
        with pytest.raises(NotImplementedError, match="use_fused=False"):
            layer(x)


def test_jacobian_is_that_of_the_loop(kind):
    results, x = [], tf.constant(normal(BATCH, TIME, INPUTS))
    for use_fused in (True, False):
        layer = make(kind, use_fused)
        with tf.GradientTape() as tape:
            outputs = layer(x)
        results.append(tape.jacobian(outputs, layer.cell.bias))
    np.testing.assert_allclose(*results, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("kind", "player", "mode"),
    [
        *[(k, p, "eager") for k in KINDS for p in ("rnn", False)],
        (SIMPLE, "rnn", "graph"),
        (SIMPLE, False, "jit"),
    ],
    ids=str,
)
def test_second_order_works_in_the_loop(kind, player, mode):
    layer, x = driven(player, kind)[0], tf.constant(normal(BATCH, TIME, INPUTS))

    def penalty(kernel):
        layer.cell.kernel.assign(kernel)
        return both()

    @WRAPPERS[mode]
    def both():
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                inner.watch(x)
                loss = tf.reduce_sum(layer(x)[0] * normal(BATCH, TIME, UNITS))
            value = tf.reduce_sum(inner.gradient(loss, x) ** 2)
        return value, outer.gradient(value, layer.cell.kernel.value)

    kernel, step = np.array(layer.cell.kernel), 1e-6
    _, gradient = penalty(kernel)
    direction = normal(*kernel.shape, seed=4)
    above, below = (penalty(kernel + sign * step * direction)[0] for sign in (1, -1))
    np.testing.assert_allclose(
        np.sum(gradient * direction), (above - below) / (2 * step), rtol=1e-5
    )

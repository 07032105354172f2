"""What `speed.py` measures: each candidate gives a train step and a forward pass as functions."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

import tf_layernorm as tfln

Run = Callable[[], Any]
GATES = {"LSTM": 4, "GRU": 3, "SimpleRNN": 1}


def train_step(layer: Any, x: tf.Tensor, jit: bool) -> tuple[Any, tuple[tf.Tensor, tf.Tensor]]:
    """The gradients by x and all weights of a built layer as a function, and its arguments.

    That by the outputs is one of them: the ones of a sum would be constants of the program.
    """

    @tf.function(jit_compile=jit)
    def train(x: tf.Tensor, d: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            outputs = layer(x, training=True)
        sources = [x, *(v.value for v in layer.trainable_variables)]
        return tape.gradient(outputs, sources, output_gradients=d)

    shape = layer.compute_output_shape(x.shape)
    return train, (x, tf.random.stateless_normal(shape, seed=[1, 0]))


def steps_of(layer: Any, x: tf.Tensor, jit: bool) -> tuple[Run, Run]:
    """A train step (gradients by x and all weights) and a forward pass of a Keras layer."""
    layer.build(x.shape)
    train, given = train_step(layer, x, jit)

    @tf.function(jit_compile=jit)
    def forward(x: tf.Tensor) -> Any:
        return layer(x)

    return lambda: train(*given)[0].numpy(), lambda: forward(x).numpy()


def gemm_floor(cell: str, x: tf.Tensor, units: int) -> tuple[Run, Run]:
    """Only the matrix products of that step, of the same shapes, the recurrent ones in loops."""
    batch, steps, features = x.shape
    width = GATES[cell] * units
    kernel = tf.random.normal([features, width])
    recurrent = tf.random.normal([units, width]) / width

    def loop(start: tf.Tensor, product: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
        return tf.while_loop(lambda t, _: t < steps, lambda t, h: (t + 1, product(h)), (0, start))[
            1
        ]

    def forward_products(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        z = tf.matmul(tf.reshape(x, [-1, features]), kernel)
        return z, loop(z[:batch, :units], lambda h: tf.matmul(h, recurrent)[:, :units])

    @tf.function(jit_compile=True)
    def train(x: tf.Tensor) -> Any:
        z, h = forward_products(x)
        # A gradient of the gates is as wide as the gates, so it is made by repeating h's.
        transposed = tf.transpose(recurrent)
        d = loop(h, lambda d: tf.matmul(tf.tile(d, [1, width // units]), transposed))
        rows = tf.reshape(x, [-1, features])
        hidden = z[:, :units]
        return (
            tf.matmul(z, kernel, transpose_b=True),
            tf.matmul(rows, z, transpose_a=True),
            tf.matmul(hidden, z, transpose_a=True),
            d,
        )

    @tf.function(jit_compile=True)
    def forward(x: tf.Tensor) -> Any:
        return forward_products(x)

    return lambda: train(x)[0].numpy(), lambda: forward(x)[1].numpy()


def make_layer(name: str, cell: str, units: int) -> Any:
    """Ours, fused or unrolled, Keras' loop over either cell, or Keras' own layer without a norm."""
    if name in ("fused", "unrolled"):
        layer = getattr(tfln, f"LN{cell}")
        return layer(units, return_sequences=True, unroll=name == "unrolled")
    if name == "RNN(cell)":
        inner = getattr(tfln, f"LN{cell}Cell")(units)
        return keras.layers.RNN(inner, return_sequences=True)
    if name == "RNN(Keras cell)":
        inner = getattr(keras.layers, f"{cell}Cell")(units)
        return keras.layers.RNN(inner, return_sequences=True)
    plain: dict[str, Any] = {} if cell == "SimpleRNN" else {"use_cudnn": False}
    return getattr(keras.layers, cell)(units, return_sequences=True, **plain)


def keras_candidates(cell: str, x: tf.Tensor, units: int) -> dict[str, tuple[Run, Run]]:
    """The layers of `make_layer`, each with XLA on and off, and the floor."""
    return {
        f"{name}, jit={jit}": steps_of(make_layer(name, cell, units), x, jit)
        for name in ("fused", "RNN(cell)", "RNN(Keras cell)", "Keras plain")
        for jit in (True, False)
    } | {"GEMM floor": gemm_floor(cell, x, units)}

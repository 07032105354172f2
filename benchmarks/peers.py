"""What other libraries offer, each in a process of its own, which may have another environment.

    python benchmarks/peers.py LIBRARY CELL B T D H

Takes `train` or `forward` a line, runs it once, and answers with its milliseconds. `speed.py`
starts these and gives them their turns between its own candidates.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

Run = Callable[[], Any]
CELLS = {
    "torch": ("LSTM", "GRU"),
    "TorchScript LN": ("LSTM",),
    "jax scan LN": ("LSTM",),
    "TensorFlow Addons LN": ("LSTM",),
}
MODULES = {
    "torch": "torch",
    "TorchScript LN": "torch",
    "jax scan LN": "jax",
    "TensorFlow Addons LN": "tensorflow_addons",
}


def torch_steps(model: Any, shape: tuple[int, ...]) -> tuple[Run, Run]:
    """A train step and a forward pass of a module that takes (T, B, D)."""
    import torch

    batch, steps, features, units = shape
    x = torch.randn(steps, batch, features, requires_grad=True)
    d = torch.randn(steps, batch, units)

    def train() -> None:
        for tensor in (x, *model.parameters()):
            tensor.grad = None
        model(x)[0].backward(d)

    def forward() -> None:
        with torch.no_grad():
            model(x)

    return train, forward


def plain_torch(cell: str, shape: tuple[int, ...]) -> tuple[Run, Run]:
    """`torch.nn.LSTM` or `GRU`, without any norm."""
    import torch

    return torch_steps(getattr(torch.nn, cell)(shape[2], shape[3]), shape)


def torchscript(cell: str, shape: tuple[int, ...]) -> tuple[Run, Run]:
    """The LN-LSTM of PyTorch's benchmarks/fastrnns/custom_lstms.py, scripted."""
    import torch
    from torch import Tensor, nn

    features, units = shape[2:]

    class LNLSTM(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w_x = nn.Parameter(torch.randn(4 * units, features) / features**0.5)
            self.w_h = nn.Parameter(torch.randn(4 * units, units) / units**0.5)
            self.ln_x = nn.LayerNorm(4 * units)
            self.ln_h = nn.LayerNorm(4 * units)
            self.ln_c = nn.LayerNorm(units)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            h = torch.zeros(x.shape[1], self.w_h.shape[1])
            c = torch.zeros_like(h)
            outputs: list[Tensor] = []
            for x_t in x.unbind(0):
                gates = self.ln_x(x_t @ self.w_x.t()) + self.ln_h(h @ self.w_h.t())
                i, f, g, o = gates.chunk(4, 1)
                c = self.ln_c(torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g))
                h = torch.sigmoid(o) * torch.tanh(c)
                outputs.append(h)
            return torch.stack(outputs), h

    return torch_steps(torch.jit.script(LNLSTM()), shape)


def jax_scan(cell: str, shape: tuple[int, ...]) -> tuple[Run, Run]:
    """An LN-LSTM over `jax.lax.scan`, its input part outside of the loop, compiled."""
    import jax
    import jax.numpy as jnp

    batch, steps, features, units = shape
    keys = jax.random.split(jax.random.key(0), 4)
    weights = {
        "w_x": jax.random.normal(keys[0], (features, 4 * units)) / features**0.5,
        "w_h": jax.random.normal(keys[1], (units, 4 * units)) / units**0.5,
        "b": jnp.zeros(4 * units),
        "g_x": jnp.ones(4 * units),
        "g_h": jnp.ones(4 * units),
        "g_c": jnp.ones(units),
        "b_c": jnp.zeros(units),
    }
    x = jax.random.normal(keys[2], (steps, batch, features))
    d = jax.random.normal(keys[3], (steps, batch, units))

    def norm(z: Any) -> Any:
        z = z - z.mean(-1, keepdims=True)
        return z * jax.lax.rsqrt(jnp.square(z).mean(-1, keepdims=True) + 1e-5)

    def outputs(x: Any, w: dict[str, Any]) -> Any:
        def step(states: Any, z: Any) -> Any:
            h, c = states
            i, f, g, o = jnp.split(z + norm(h @ w["w_h"]) * w["g_h"], 4, axis=-1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(norm(c) * w["g_c"] + w["b_c"])
            return (h, c), h

        zeros = jnp.zeros((batch, units))
        return jax.lax.scan(step, (zeros, zeros), norm(x @ w["w_x"]) * w["g_x"] + w["b"])[1]

    gradient = jax.jit(lambda x, w, d: jax.vjp(outputs, x, w)[1](d))
    forward = jax.jit(outputs)
    return (
        lambda: jax.block_until_ready(gradient(x, weights, d)),
        lambda: jax.block_until_ready(forward(x, weights)),
    )


def addons(cell: str, shape: tuple[int, ...]) -> tuple[Run, Run]:
    """TensorFlow Addons' cell in `tf.keras.layers.RNN`, the better of XLA on and off."""
    import tensorflow as tf
    import tensorflow_addons as tfa

    batch, steps, features, units = shape
    layer = tf.keras.layers.RNN(tfa.rnn.LayerNormLSTMCell(units), return_sequences=True)
    x = tf.random.normal([batch, steps, features])
    layer(x)

    d = tf.random.normal([batch, steps, units])

    def train(x: Any, d: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            outputs = layer(x)
        return tape.gradient(outputs, [x, *layer.trainable_variables], output_gradients=d)[0]

    def best(function: Any, *given: Any) -> Run:
        runs = []
        for jit in (True, False):
            compiled = tf.function(function, jit_compile=jit)
            run = lambda compiled=compiled: compiled(*given).numpy()  # noqa: E731
            run()
            runs.append((min(timed(run) for _ in range(3)), run))
        return min(runs, key=lambda pair: pair[0])[1]

    return best(train, x, d), best(layer, x)


MAKERS = dict(zip(CELLS, (plain_torch, torchscript, jax_scan, addons), strict=True))


def timed(run: Run) -> float:
    start = time.perf_counter()
    run()
    return 1e3 * (time.perf_counter() - start)


def main() -> None:
    library, cell, *sizes = sys.argv[1:]
    runs = dict(
        zip(("train", "forward"), MAKERS[library](cell, tuple(map(int, sizes))), strict=True)
    )
    for line in sys.stdin:
        print(timed(runs[line.strip()]), flush=True)


if __name__ == "__main__":
    main()

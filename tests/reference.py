"""The paper's cells in NumPy float64, written from its equations and not from the package.

A cell holds its options; `step` is one step of it, `sequence` the loop over time. Weights come as a
list in `get_weights()` order and are read by the names that `names` puts in that order.
B batch, T time, D inputs, U units.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

Arrays = list[np.ndarray]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-x))


def layer_norm(z, gamma=1.0, beta=0.0, *, epsilon=1e-5, axis=-1):
    """Eq. 3 and 5: mean and biased variance over the units, epsilon inside the root."""
    mu = z.mean(axis, keepdims=True)
    variance = ((z - mu) ** 2).mean(axis, keepdims=True)
    return (z - mu) / np.sqrt(variance + epsilon) * gamma + beta


def dense(x, kernel, bias, gamma, activation=lambda a: a, epsilon=1e-5):
    """Eq. 1, 3 and 5: y = f(LN(W x; gamma) + b)."""
    return activation(layer_norm(x @ kernel, gamma, epsilon=epsilon) + bias)


@dataclass(frozen=True)
class Cell:
    """What the three cells have in common; without "kernel" in `normalize` LN(W_x x) is W_x x."""

    normalize: tuple[str, ...] = ()
    use_bias: bool = True
    activation: Callable = np.tanh
    recurrent_activation: Callable = sigmoid
    epsilon: float = 1e-5

    def named(self, weights: Arrays) -> dict[str, np.ndarray]:
        names = self.names()
        assert len(names) == len(weights), (names, [np.shape(w) for w in weights])
        return dict(zip(names, weights))

    def maybe_norm(self, term, z, gamma=None, beta=0.0):
        if term not in self.normalize:
            return z
        return layer_norm(z, gamma, beta, epsilon=self.epsilon)


@dataclass(frozen=True)
class SimpleRNN(Cell):
    n_states = 1

    def names(self):
        return ["kernel", "recurrent_kernel", *["bias"] * self.use_bias, "gamma"]

    def step(self, x, states, weights):
        """Eq. 4: h' = f(LN(W_x x + W_h h; gamma) + b), one LN on the sum."""
        w, (h,) = self.named(weights), states
        a = x @ w["kernel"] + h @ w["recurrent_kernel"]
        h = self.activation(layer_norm(a, w["gamma"], epsilon=self.epsilon) + w.get("bias", 0.0))
        return h, (h,)


@dataclass(frozen=True)
class LSTM(Cell):
    normalize: tuple[str, ...] = ("kernel", "recurrent", "state")
    carry_normalized_state: bool = False
    n_states = 2

    def names(self):
        return [
            *["kernel", "recurrent_kernel"],
            *["bias"] * self.use_bias,
            *["kernel_gamma"] * ("kernel" in self.normalize),
            *["recurrent_gamma"] * ("recurrent" in self.normalize),
            *["state_gamma", "state_beta"] * ("state" in self.normalize),
        ]

    def step(self, x, states, weights):
        """Eq. 20-22; eq. 29-31 with `normalize=("state",)`. Gate order i, f, c, o."""
        w, (h, c) = self.named(weights), states
        gates = (
            self.maybe_norm("kernel", x @ w["kernel"], w.get("kernel_gamma"))
            + self.maybe_norm("recurrent", h @ w["recurrent_kernel"], w.get("recurrent_gamma"))
            + w.get("bias", 0.0)
        )
        i, f, g, o = np.split(gates, 4, axis=-1)
        s = self.recurrent_activation
        c = s(f) * c + s(i) * self.activation(g)
        normalized = self.maybe_norm("state", c, w.get("state_gamma"), w.get("state_beta"))
        h = s(o) * self.activation(normalized)
        return h, (h, normalized if self.carry_normalized_state else c)


@dataclass(frozen=True)
class GRU(Cell):
    normalize: tuple[str, ...] = ("kernel", "recurrent")
    n_states = 1

    def names(self):
        return [
            *["kernel", "recurrent_kernel"],
            *["bias", "recurrent_bias"] * self.use_bias,
            *["kernel_gamma"] * ("kernel" in self.normalize),
            *["recurrent_gamma"] * ("recurrent" in self.normalize),
        ]

    def step(self, x, states, weights):
        """Eq. 26-28: z and r share an LN over 2U, the candidate has its own. Order z, r, h."""
        w, (h,) = self.named(weights), states
        units = h.shape[-1]
        gates, candidate = slice(None, 2 * units), slice(2 * units, None)
        bias = w.get("bias", np.zeros(3 * units))
        kernel_gamma = w.get("kernel_gamma", np.ones(3 * units))
        recurrent_gamma = w.get("recurrent_gamma", np.ones(3 * units))

        def inputs(part):
            return self.maybe_norm("kernel", x @ w["kernel"][:, part], kernel_gamma[part])

        def recurrent(part):
            product = h @ w["recurrent_kernel"][:, part]
            return self.maybe_norm("recurrent", product, recurrent_gamma[part])

        s = self.recurrent_activation
        z, r = np.split(inputs(gates) + recurrent(gates) + bias[gates], 2, axis=-1)
        proposal = self.activation(
            inputs(candidate)
            + bias[candidate]
            + s(r) * (recurrent(candidate) + w.get("recurrent_bias", 0.0))
        )
        h = (1 - s(z)) * h + s(z) * proposal
        return h, (h,)


@dataclass
class Result:
    outputs: np.ndarray  # [B, T, U]
    last: np.ndarray  # [B, U]: what `return_sequences=False` returns
    states: Arrays = field(default_factory=list)


def sequence(
    cell: Cell,
    x,
    weights,
    states=None,
    mask=None,
    *,
    zero_output_for_mask=False,
    go_backwards=False,
    shares=None,
) -> Result:
    """Keras' loop. A masked step repeats the output (zeros before the first) and the state.

    `shares` is zoneout: for each state, [B, T, U], how much of the new one is taken.
    The rows that a mask leaves out are not computed at all, so nothing of them can get through.
    """
    batch, time = x.shape[:2]
    units = weights[1].shape[0]
    mask = np.ones((batch, time), bool) if mask is None else np.asarray(mask)
    if go_backwards:
        x, mask = x[:, ::-1], mask[:, ::-1]
        shares = shares and [share[:, ::-1] for share in shares]
    if states is None:
        states = [np.zeros((batch, units)) for _ in range(cell.n_states)]
    states = [np.array(state, "float64") for state in states]
    output, outputs = np.zeros((batch, units)), np.zeros((batch, time, units))
    for t in range(time):
        rows = mask[:, t]
        new, new_states = cell.step(x[rows, t], [state[rows] for state in states], weights)
        if shares is not None:
            triples = zip(new_states, states, (share[rows, t] for share in shares))
            new_states = [s * value + (1 - s) * state[rows] for value, state, s in triples]
            new = new_states[0]
        output = np.zeros_like(output) if zero_output_for_mask else output.copy()
        output[rows] = new
        for state, value in zip(states, new_states):
            state[rows] = value
        outputs[:, t] = output
    return Result(outputs, output, states)


def gradients(loss: Callable[..., float], arrays: Arrays, step: float = 1e-6) -> Arrays:
    """Central differences of `loss(*arrays)` by every entry of every array."""
    arrays = [np.array(array, "float64") for array in arrays]
    result = [np.zeros_like(array) for array in arrays]
    for array, slope in zip(arrays, result):
        flat = array.reshape(-1)
        for k, value in enumerate(flat):
            flat[k] = value + step
            above = loss(*arrays)
            flat[k] = value - step
            below = loss(*arrays)
            flat[k] = value
            slope.reshape(-1)[k] = (above - below) / (2 * step)
    return result

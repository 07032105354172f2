"""The three kinds of cell, each with its sequence layer and reference, and ways to drive them."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass

import keras
import numpy as np
import reference
import tensorflow as tf

import tf_layernorm as tfln

BATCH, TIME, INPUTS, UNITS = 2, 3, 5, 4
# `use_fused` of the sequence layers: every test of what they compute runs with each driver.
DRIVERS = (False, True)
# Ways to call a function of tensors.
WRAPPERS = {
    "eager": lambda function: function,
    "graph": tf.function,
    "jit": functools.partial(tf.function, jit_compile=True),
}


@dataclass(frozen=True)
class Kind:
    name: str
    cell: type
    layer: type
    reference: type
    gates: int
    n_states: int

    def __repr__(self) -> str:
        return self.name


SIMPLE = Kind("SimpleRNN", tfln.LNSimpleRNNCell, tfln.LNSimpleRNN, reference.SimpleRNN, 1, 1)
LSTM = Kind("LSTM", tfln.LNLSTMCell, tfln.LNLSTM, reference.LSTM, 4, 2)
GRU = Kind("GRU", tfln.LNGRUCell, tfln.LNGRU, reference.GRU, 3, 1)
KINDS = (SIMPLE, LSTM, GRU)
# For what stands around the recurrence: each kind and each driver, but not each with each.
PAIRS = ((SIMPLE, True), (LSTM, False), (LSTM, True), (GRU, False))


def subsets(*terms):
    sizes = range(len(terms) + 1)
    return [chosen for size in sizes for chosen in itertools.combinations(terms, size)]


# Every choice of what is normalised, carried and biased.
OPTIONS = [
    *[(SIMPLE, {"use_bias": b}) for b in (True, False)],
    *[
        (LSTM, {"use_bias": b, "normalize": n, "carry_normalized_state": carried})
        for b in (True, False)
        for n in subsets("kernel", "recurrent", "state")
        for carried in (False, True)[: 1 + ("state" in n)]
    ],
    *[
        (GRU, {"use_bias": b, "normalize": n})
        for b in (True, False)
        for n in subsets("kernel", "recurrent")
    ],
]


def normal(*shape: int, seed: int = 0, dtype: str = "float64") -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def f64(tensor) -> np.ndarray:
    """A tensor of any dtype; NumPy itself can't convert bfloat16."""
    return tf.cast(tensor, "float64").numpy()


def randomize(layer, seed: int = 1) -> list[np.ndarray]:
    """Gives every weight another value and returns them, float64."""
    rng = np.random.default_rng(seed)
    values = [rng.normal(size=w.shape) for w in layer.get_weights()]
    names = [w.name for w in layer.weights]
    values = [abs(v) if "variance" in n else v for v, n in zip(values, names, strict=True)]
    layer.set_weights(values)
    return [w.astype("float64") for w in layer.get_weights()]


def built(layer, *shape: int | None):
    layer.build(shape)
    randomize(layer)
    return layer


def by_hand(cell, x, states):
    """A cell called step by step."""
    outputs = []
    for t in range(x.shape[1]):
        output, states = cell(x[:, t], states)
        outputs.append(output)
    return tf.stack(outputs, axis=1), keras.tree.flatten(states)


def driven(player: str | bool, kind: Kind, **options) -> tuple[object, Callable]:
    """A float64 layer with random weights, and the call (x, states) -> (outputs, states).

    `player` is "cell" (called by hand), "rnn" (`keras.layers.RNN(cell)`), or a sequence layer's
    `use_fused`.
    """
    cell = kind.cell(UNITS, dtype="float64", **options)
    if player == "cell":
        return built(cell, None, INPUTS), lambda x, states: by_hand(cell, x, states)
    flags = dict(return_sequences=True, return_state=True, dtype="float64")
    if player == "rnn":
        layer = keras.layers.RNN(cell, **flags)
    else:
        layer = kind.layer(UNITS, use_fused=player, **flags, **options)

    def call(x, states):
        outputs, *states = layer(x, initial_state=states)
        return outputs, states

    return built(layer, None, None, INPUTS), call


class SeeMask(keras.layers.Layer):
    supports_masking = True

    def call(self, inputs, mask=None):
        return inputs if mask is None else tf.cast(mask, self.compute_dtype)


def mask_of(outputs):
    """The implicit mask that the next layer would be given; an error if there is none."""
    mask = SeeMask()(outputs)
    assert mask is not outputs, "no mask"
    return mask

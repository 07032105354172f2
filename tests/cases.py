"""One table over all public layers: arguments off their defaults, and models that hold them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import keras
from kinds import KINDS, randomize

import tf_layernorm as tfln

BATCH, TIME, INPUTS, UNITS = 2, 3, 5, 4


def weight_arguments(*names: str) -> dict[str, Any]:
    """An initializer object, a regularizer and a constraint for each weight."""
    arguments: dict[str, Any] = {}
    for k, name in enumerate(names):
        uniform = keras.initializers.RandomUniform(0.1 + k, 0.2 + k, seed=k)
        arguments[f"{name}_initializer"] = uniform
        arguments[f"{name}_regularizer"] = keras.regularizers.L1L2(0.01 + k, 0.02)
        arguments[f"{name}_constraint"] = keras.constraints.MinMaxNorm(0.1, 2.0 + k)
    return arguments


CELL = dict(
    units=UNITS,
    activation="relu",
    use_bias=False,
    epsilon=1e-3,
    dropout=0.1,
    recurrent_dropout=0.2,
    zoneout=0.3,
    learn_initial_state=True,
    initial_state_initializer=keras.initializers.RandomUniform(0.1, 0.2, seed=9),
    normalize=[],
    seed=7,
    **weight_arguments("kernel", "recurrent", "bias", "gamma"),
)
LSTM_CELL = dict(
    CELL,
    zoneout=[0.05, 0.5],
    recurrent_activation="hard_sigmoid",
    unit_forget_bias=False,
    normalize=["kernel", "state"],
    carry_normalized_state=True,
    **weight_arguments("beta"),
)
GRU_CELL = dict(CELL, recurrent_activation="hard_sigmoid", normalize=["recurrent"])
SEQUENCE = dict(
    activity_regularizer=keras.regularizers.L2(0.1),
    return_sequences=True,
    return_state=True,
    go_backwards=True,
    stateful=True,
    unroll=True,
    zero_output_for_mask=True,
    use_fused=False,
)
LAYER = dict(name="own", dtype="mixed_bfloat16", trainable=False)


@dataclass(frozen=True)
class Case:
    """A class, all its arguments off their defaults, and fewer with which it makes a model."""

    cls: type
    off: dict[str, Any]
    some: dict[str, Any] = field(default_factory=dict)
    shape: tuple[int | None, ...] = (None, INPUTS)

    def __repr__(self) -> str:
        return self.cls.__name__

    def layer(self, **options: Any) -> keras.Layer:
        """The layer of a model over sequences; a cell stands in `keras.layers.RNN`."""
        if self.cls.__name__.endswith("Cell"):
            return keras.layers.RNN(
                self.cls(**self.some, **options), return_sequences=True, **options
            )
        return self.cls(**self.some, **options)

    def model(self, **options: Any) -> keras.Model:
        model = keras.Sequential([keras.Input(self.shape), self.layer(**options)])
        randomize(model)
        return model


LN_OFF = dict(
    axis=(2, 3), epsilon=1e-3, center=False, scale=False, **weight_arguments("beta", "gamma")
)
DENSE_OFF = dict(
    units=UNITS,
    normalize=[],
    activation="relu",
    use_bias=False,
    epsilon=1e-3,
    **weight_arguments("kernel", "bias", "gamma"),
)
UNITS_OF = dict(units=UNITS, activation="sigmoid", epsilon=1e-3)
RECURRENT = dict(UNITS_OF, zoneout=0.3, learn_initial_state=True)
CASES = (
    Case(tfln.LayerNorm, LN_OFF, dict(axis=(2, 3), epsilon=1e-3), (None, INPUTS, 2)),
    Case(tfln.LNDense, DENSE_OFF, UNITS_OF),
    *[
        Case(kind.cell, off, RECURRENT)
        for kind, off in zip(KINDS, (CELL, LSTM_CELL, GRU_CELL), strict=True)
    ],
    *[
        Case(kind.layer, {**off, **SEQUENCE}, {**RECURRENT, "return_sequences": True})
        for kind, off in zip(KINDS, (CELL, LSTM_CELL, GRU_CELL), strict=True)
    ],
)

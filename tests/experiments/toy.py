"""An experiment of a line fitted to points, with all that an experiment can declare: for tests."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Literal

import keras
import numpy as np

from tf_layernorm.data.order import batches_in_order, shuffled_batches
from tf_layernorm.experiments import norms
from tf_layernorm.experiments.experiment import (
    Axis,
    Command,
    Experiment,
    Figure,
    Preset,
    Training,
)
from tf_layernorm.experiments.training import held_out


@dataclass(frozen=True)
class Config:
    """What one line is."""

    data: Literal["packaged", "full"] = "packaged"  # the points
    slope: float = 1.0  # of the points, 100 % of it
    hidden: tuple[int, ...] = (3, 2)  # units of the layers
    batch_size: int = 4  # points a batch
    epochs: int = 3  # of training
    learning_rate: float = 0.05  # of SGD
    fancy: bool = False  # whether it is


@dataclass(frozen=True)
class Points:
    train: tuple[np.ndarray, np.ndarray]
    validation: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]
    source: str = "points; made up"

    @property
    def cases(self):
        return {"validation": 20, "test": 30}


def load(config, data_dir, download):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(90, 2)).astype("float32")
    y = config.slope * x[:, :1]
    return Points(*[(x[a:b], y[a:b]) for a, b in ((0, 40), (40, 60), (60, 90))])


def curve(config, data, norm, seed):
    def build():
        layers = [keras.layers.Dense(units) for units in (*config.hidden, 1)]
        model = keras.Sequential([keras.Input((2,)), *layers])
        model.compile(keras.optimizers.SGD(config.learning_rate), "mse")
        return model

    parts = {"validation": batches_in_order(data.validation, 20)}

    def test(model):
        loss = held_out(model, {"test": batches_in_order(data.test, 30)})["test_loss"]
        return {"test_loss": loss, "test_share": 0.25}

    return Training(
        build=build,
        batches=lambda epoch: shuffled_batches(data.train, config.batch_size, seed, epoch),
        steps=40 // config.batch_size,
        evaluate=lambda model: held_out(model, parts),
        test=test,
        files={"points.json": {"slope": config.slope}},
    )


EXPERIMENT = Experiment(
    name="toy",
    section="9.9",
    title="A line (section 9.9)",
    config=Config,
    presets={
        "small": Preset(Config(), seeds=2, grid={"slope": (1.0, 2.0)}, minutes=0.5),
        "smoke": Preset(Config(epochs=1), seeds=1),
    },
    axes=(Axis("slope", "slope", "slope {}", data=True),),
    norms=(norms.LAYER, norms.NONE, norms.ALL),
    default_norms=("layer", "none"),
    figures=(
        Figure("test_share", "found, %", scale=100, higher=True, of="test"),
        Figure("test_loss", "test loss", digits=3, compare=True),
    ),
    panels=(Figure("loss", "loss"), Figure("validation_loss", "validation loss")),
    load=load,
    curve=curve,
    kept=Figure("validation_loss", "validation loss"),
    untrained=True,
    paper={"layer": {"test_share": 33.0}},
    commands=(
        Command(
            "paint",
            "paint a line",
            lambda parser: parser.add_argument("--out", default="line.png"),
            lambda out: f"painted\n{out}",
        ),
    ),
    renamed={"slopes": "slope"},
)


def register(monkeypatch):
    """Makes it one of the experiments there are."""
    monkeypatch.setitem(sys.modules, "tf_layernorm.experiments.toy", sys.modules[__name__])
    monkeypatch.setattr("tf_layernorm.experiments.registry.EXPERIMENTS", ("toy",))

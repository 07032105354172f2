"""One curve: training that an interruption doesn't change, and what is kept and measured of it."""

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from tf_layernorm.experiments.experiment import Figure, Training
from tf_layernorm.experiments.files import read_json, write_json, write_whole
from tf_layernorm.experiments.results import METRICS, TEST, UNTRAINED, best_row, read_metrics

MODEL, BEST = "model.keras", "best.keras"

Rows = list[dict[str, float]]


class _EndOfEpoch(keras.callbacks.Callback):
    """Evaluates, then keeps the epoch's figures and the model."""

    def __init__(
        self,
        folder: Path,
        evaluate: Callable[[keras.Model], dict[str, float]],
        kept: Figure | None,
        rows: Sequence[dict[str, float]],
    ) -> None:
        super().__init__()
        self.folder, self.evaluate, self.kept, self.rows = folder, evaluate, kept, list(rows)

    def on_epoch_begin(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        self.start = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: dict[str, float]) -> None:
        logs.update(self.evaluate(self.model))
        row = {"epoch": epoch + 1, **{name: float(value) for name, value in logs.items()}}
        row["seconds"] = time.perf_counter() - self.start
        if not all(math.isfinite(value) for value in row.values()):
            raise FloatingPointError(f"Training diverged. Received: {row}")
        self.rows.append(row)
        # The figures first: figures without their model are dropped on the next start.
        with (self.folder / METRICS).open("a") as file:
            file.write(json.dumps(row) + "\n")
        if self.kept is not None and best_row(self.rows, self.kept) is row:
            write_whole(self.folder / BEST, self.model.save)
        write_whole(self.folder / MODEL, self.model.save)


def train(
    folder: Path,
    training: Training,
    *,
    seed: int,
    epochs: int,
    kept: Figure | None = None,
    untrained: bool = False,
    verbose: Any = "auto",
) -> Rows:
    """Trains a model up to an epoch, from where an earlier call for this folder ended.

    After each epoch the folder holds the model with its optimizer (`model.keras`), that of the best
    epoch (`best.keras`) if one is kept, and a line of figures (`metrics.jsonl`); TensorBoard reads
    it too. Under a `tf.distribute` strategy the updates are not compiled by XLA.

    Args:
        folder: The curve's own folder.
        training: How to build, feed and measure the model.
        seed: Seed of the initial weights.
        epochs: The epoch to end with.
        kept: The figure whose best epoch is kept and tested. Defaults to `None`: the last epoch.
        untrained: Whether to measure the model before its first update, into `untrained.json`.
        verbose: As in `keras.Model.fit`.

    Returns:
        The figures of all epochs.
    """
    for name, content in training.files.items():
        write_json(folder / name, content)
    done = 0
    if (folder / MODEL).exists():
        model = keras.models.load_model(folder / MODEL)
        done = int(model.optimizer.iterations.numpy()) // training.steps
    else:
        keras.utils.set_random_seed(seed)
        model = training.build()
        if untrained:
            write_json(folder / UNTRAINED, _measured(model, training))
    rows = [row for row in read_metrics(folder) if row["epoch"] <= done]
    if done < epochs:
        if tf.distribute.has_strategy():
            model.jit_compile = False  # TensorFlow can't compile the step of a strategy
        text = "".join(json.dumps(row) + "\n" for row in rows)
        write_whole(folder / METRICS, lambda path: path.write_text(text))
        end = _EndOfEpoch(folder, training.evaluate, kept, rows)
        model.fit(
            training.batches(done),
            initial_epoch=done,
            epochs=epochs,
            steps_per_epoch=training.steps // training.chunk,
            shuffle=False,  # the data comes in its order
            callbacks=[end, keras.callbacks.TensorBoard(folder)],
            verbose=verbose,
        )
        rows = read_metrics(folder)
    if training.test is not None:
        _test(folder, training, rows, kept)
    return rows


def held_out(model: keras.Model, parts: Mapping[str, tf.data.Dataset]) -> dict[str, float]:
    """The model's loss and metrics on each part, as `validation_loss`."""
    return {
        f"{name}_{key}": value
        for name, dataset in parts.items()
        for key, value in model.evaluate(dataset, verbose=0, return_dict=True).items()
    }


def _measured(model: keras.Model, training: Training) -> dict[str, float]:
    figures = training.evaluate(model)
    if training.test is not None:
        figures |= training.test(model)
    return {name: float(value) for name, value in figures.items()}


def _test(folder: Path, training: Training, rows: Rows, kept: Figure | None) -> None:
    """Tests the kept model, once for these epochs."""
    there = read_json(folder / TEST)
    if there is not None and there["epochs"] == len(rows):
        return
    assert training.test is not None
    epoch = rows[-1]["epoch"] if kept is None else best_row(rows, kept)["epoch"]
    model = keras.models.load_model(folder / (MODEL if kept is None else BEST))
    figures = {name: float(value) for name, value in training.test(model).items()}
    write_json(folder / TEST, {"epochs": len(rows), "kept": epoch, "figures": figures})

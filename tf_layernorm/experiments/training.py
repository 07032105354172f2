"""Training that an interruption doesn't change, as many updates as you like in one XLA program."""

import json
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from tf_layernorm._arguments import Tensor, serializable

MODEL, METRICS = "model.keras", "metrics.jsonl"


@serializable
class ChunkedModel(keras.Model):
    """A `keras.Model` whose `fit` takes several batches at once, on a leading axis.

    The updates are the same as one by one; but they are one loop inside one XLA program, which
    saves a launch and a copy of all weights for each: a quarter of the time at batch size 4.
    Build it as `ChunkedModel(inputs, outputs)` and compile it with `jit_compile=True`. Under a
    `tf.distribute` strategy, which splits the leading axis, it takes one batch.
    """

    def train_step(self, data: Any) -> dict[str, Tensor]:
        if tf.distribute.has_strategy():
            return super().train_step(data)
        update, count = super().train_step, tf.shape(data[0])[0]

        def body(i: Tensor) -> Tensor:
            update(tuple(part[i] for part in data))
            return i + 1

        tf.while_loop(lambda i: i < count, body, [0])
        return self.get_metrics_result()


def chunk_size(steps: int, limit: int = 50) -> int:
    """The largest divisor of `steps` up to `limit`."""
    return max(k for k in range(1, min(steps, limit) + 1) if steps % k == 0)


class _EndOfEpoch(keras.callbacks.Callback):
    """Evaluates, then keeps the model and the epoch's figures."""

    def __init__(self, folder: Path, evaluate: Callable[[keras.Model], dict[str, float]]) -> None:
        super().__init__()
        self.folder, self.evaluate = folder, evaluate

    def on_epoch_begin(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        self.start = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: dict[str, float]) -> None:
        logs.update(self.evaluate(self.model))
        row = {"epoch": epoch + 1, **{name: float(value) for name, value in logs.items()}}
        row["seconds"] = time.perf_counter() - self.start
        if not all(math.isfinite(value) for value in row.values()):
            raise FloatingPointError(f"Training diverged. Received: {row}")
        # The figures first: figures without their model are dropped on the next start.
        with (self.folder / METRICS).open("a") as file:
            file.write(json.dumps(row) + "\n")
        unfinished = self.folder / ("unfinished-" + MODEL)
        self.model.save(unfinished)
        os.replace(unfinished, self.folder / MODEL)


def read_metrics(folder: Path) -> list[dict[str, float]]:
    """The figures of the epochs done, one dict each; none if there is no such file."""
    path = folder / METRICS
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def train(
    folder: Path,
    build: Callable[[], keras.Model],
    batches: Callable[[int], tf.data.Dataset],
    evaluate: Callable[[keras.Model], dict[str, float]],
    *,
    epochs: int,
    steps: int,
    chunk: int = 1,
    verbose: Any = "auto",
) -> list[dict[str, float]]:
    """Trains a model up to an epoch, from where an earlier call for this folder ended.

    After each epoch the folder holds the model with its optimizer (`model.keras`) and a line of
    figures (`metrics.jsonl`); TensorBoard reads it too.

    Args:
        folder: The curve's own folder.
        build: Makes the compiled model for a first start.
        batches: Makes the training data from an epoch (0 is the first) on.
        evaluate: Figures of a model to log after each epoch.
        epochs: The epoch to end with.
        steps: Updates an epoch.
        chunk: Updates an element of `batches`, for a `ChunkedModel`. Under a `tf.distribute`
            strategy the chunks are taken apart, and the updates are not one XLA program.
        verbose: As in `keras.Model.fit`.

    Returns:
        The figures of all epochs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    done = 0
    if (folder / MODEL).exists():
        model = keras.models.load_model(folder / MODEL)
        done = int(model.optimizer.iterations.numpy()) // steps
    else:
        model = build()
    rows = [row for row in read_metrics(folder) if row["epoch"] <= done]
    if done < epochs:
        data = batches(done)
        if tf.distribute.has_strategy():
            model.jit_compile = False  # TensorFlow can't compile the step of a strategy
            if isinstance(model, ChunkedModel):
                data, chunk = data.unbatch(), 1
        (folder / METRICS).write_text("".join(json.dumps(row) + "\n" for row in rows))
        model.fit(
            data,
            initial_epoch=done,
            epochs=epochs,
            steps_per_epoch=steps // chunk,
            shuffle=False,  # the data comes in its order
            callbacks=[_EndOfEpoch(folder, evaluate), keras.callbacks.TensorBoard(folder)],
            verbose=verbose,
        )
    return read_metrics(folder)

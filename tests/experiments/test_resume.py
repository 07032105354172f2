"""A killed run goes on from its last whole epoch, and ends where an undisturbed one does."""

import dataclasses
import os
import signal
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np

from tf_layernorm.data.mnist import Digits
from tf_layernorm.experiments import mnist
from tf_layernorm.experiments.mnist import model as network
from tf_layernorm.experiments.results import read_metrics
from tf_layernorm.experiments.training import MODEL, train

STEPS, BATCH = 10, 8
CONFIG = dataclasses.replace(mnist.PRESETS["smoke"].config, hidden=(8,), batch_size=BATCH)


class Die(keras.callbacks.Callback):
    """Ends the process in the middle of the second epoch as a power cut does: nothing is tidied."""

    def on_train_batch_begin(self, batch, logs=None):
        if self.model.optimizer.iterations.numpy() > STEPS + 2:
            os.kill(os.getpid(), signal.SIGKILL)


def run(folder, epochs=2):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (120, 784)).astype("uint8")
    labels = np.arange(120, dtype="int32") % 10
    ends = ((0, STEPS * BATCH), (80, 100), (100, 120))
    digits = Digits(*[(images[a:b], labels[a:b]) for a, b in ends], "noise")
    # Batch norm has the most to keep: weights, optimizer and moving averages.
    training = mnist.curve(CONFIG, digits, "batch", 1)
    return train(Path(folder), training, seed=1, epochs=epochs, verbose=0)


def run_and_die(folder):
    fit, network.chunk_size = network.ChunkedModel.fit, lambda steps: 2

    def fit_and_die(model, *arguments, callbacks, **options):
        return fit(model, *arguments, callbacks=[*callbacks, Die()], **options)

    network.ChunkedModel.fit = fit_and_die
    run(folder)


def test_run_killed_in_the_middle_of_an_epoch_ends_where_the_undisturbed_ends(
    tmp_path, monkeypatch
):
    program = f"import test_resume; test_resume.run_and_die({str(tmp_path / 'killed')!r})"
    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert process.returncode == -signal.SIGKILL, process.stderr[-3000:]
    assert [row["epoch"] for row in read_metrics(tmp_path / "killed")] == [1]

    monkeypatch.setattr(network, "chunk_size", lambda steps: 2)
    rows, weights = zip(
        *[
            (
                [{**row, "seconds": 0} for row in run(tmp_path / name)],
                keras.models.load_model(tmp_path / name / MODEL).get_weights(),
            )
            for name in ("killed", "whole")
        ]
    )
    assert len(rows[0]) == 2 and rows[0] == rows[1]
    for ours, theirs in zip(*weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)

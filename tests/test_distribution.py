"""Training on several devices ends where training on one does."""

import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import distribution_worker
import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_layernorm.experiments import mnist
from tf_layernorm.experiments.results import read_metrics
from tf_layernorm.experiments.runner import run
from tf_layernorm.experiments.settings import settle
from tf_layernorm.experiments.strategies import make_strategy
from tf_layernorm.experiments.training import MODEL

WORKER = Path(distribution_worker.__file__)


def start(*arguments):
    """The worker script in a process that sees no accelerator."""
    environment = {
        **os.environ,
        "CUDA_VISIBLE_DEVICES": "-1",
        "PYTHONPATH": os.pathsep.join(sys.path),
        # What is compiled is small: to optimise it would take the longest of all.
        "XLA_FLAGS": "--xla_backend_optimization_level=0",
    }
    command = [sys.executable, "-W", "ignore", str(WORKER), *map(str, arguments)]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def finish(process, timeout=1800):
    try:
        output, _ = process.communicate(timeout=timeout)
    finally:
        process.kill()
    assert process.returncode == 0, output[-4000:]
    return output


@pytest.fixture(scope="module")
def mirrored(tmp_path_factory):
    """The folder and the output of training over two logical CPUs."""
    folder = tmp_path_factory.mktemp("mirrored")
    return folder, finish(start("mirrored", folder))


def test_fit_over_two_devices_drops_and_learns_as_on_one(mirrored):
    folder, _ = mirrored
    one, two = (dict(np.load(folder / f"{name}.npz")) for name in ("one", "two"))
    assert len(one) == len(two) == 2 * (4 + 7 + 6)
    for path, expected in one.items():
        np.testing.assert_allclose(two[path], expected, rtol=0, atol=1e-5, err_msg=path)


def test_draw_over_two_devices_draws_and_learns_as_on_one(mirrored):
    folder, _ = mirrored
    one, two = (dict(np.load(folder / f"drawn_by_{name}.npz")) for name in ("one", "two"))
    for (path, expected), ours in zip(one.items(), two.values(), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-5, err_msg=path)


def test_command_trains_over_two_devices_as_on_one(mirrored):
    folder, output = mirrored
    assert output.count("Strategy: mirrored, 2 replicas") == 2  # begun, and gone on with
    curve = "curves/batch16-layer-seed1"
    one, two = (read_metrics(folder / name / curve) for name in ("one", "two"))
    assert len(one) == 2
    for expected, row in zip(one, two, strict=True):
        for figure in ("loss", "validation_nll", "test_nll"):
            assert row[figure] == pytest.approx(expected[figure], rel=1e-4), figure
    for name, strategy in (("one", None), ("two", "mirrored, 2 replicas")):
        assert json.loads((folder / name / "summary.json").read_text())["strategy"] == strategy


def test_figures_of_batch_norm_over_two_devices_are_those_of_its_model(mirrored):
    """The replicas share its moving statistics."""
    folder, _ = mirrored
    curve = folder / "two" / "curves" / "batch16-batch-seed1"
    images, labels = distribution_worker.DIGITS.test
    logits = keras.models.load_model(curve / MODEL)(images)
    nll = keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
    assert read_metrics(curve)[-1]["test_nll"] == pytest.approx(np.mean(nll), rel=1e-5)


def test_two_processes_descend_as_one(tmp_path):
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(2)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        ports = [one.getsockname()[1] for one in sockets]
    for process in [start("workers", tmp_path, index, *ports) for index in range(2)]:
        finish(process)
    expected = distribution_worker.descend(
        tf.distribute.get_strategy(), distribution_worker.X, distribution_worker.Y
    )
    for index in range(2):
        weights = np.load(tmp_path / f"worker{index}.npz").values()
        for ours, theirs in zip(weights, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6)
    # Keras' own `fit` still fails there, with a Dense too (keras#20585): hence the loop above.
    for index in range(2):
        failure = (tmp_path / f"fit{index}.txt").read_text()
        assert "ValueError: Attempt to convert a value (PerReplica" in failure


def test_strategy_is_checked_before_anything_is_written(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="mirrored, tpu.*Received: strategy='horovod'$"):
        make_strategy("horovod", [128])
    monkeypatch.setattr(tf.distribute.MirroredStrategy, "num_replicas_in_sync", 3)
    with pytest.raises(ValueError, match="over the 3 devices.*batch sizes 128, 32$"):
        run("mnist", "smoke", strategy="mirrored", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_folder_of_another_strategy_is_refused(tmp_path):
    facts = {"experiment": "mnist", "strategy": "mirrored, 2 replicas"}
    facts |= settle(mnist.EXPERIMENT, "smoke", {}).as_json()
    (tmp_path / "summary.json").write_text(json.dumps(facts))
    with pytest.raises(
        ValueError, match="strategy='mirrored, 2 replicas'.*Received: strategy=None"
    ):
        run("mnist", "smoke", out=tmp_path)

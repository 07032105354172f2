"""The runner, the training and the report, on the smallest networks."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import keras
import numpy as np
import pytest

from tf_layernorm.data.mnist import Digits
from tf_layernorm.experiments import mnist, report, runner
from tf_layernorm.experiments.training import MODEL, chunk_size, read_metrics

CONFIG = replace(mnist.PRESETS["smoke"], hidden=(8, 8))
RNG = np.random.default_rng(0)


def part(count):
    labels = RNG.integers(0, 10, count).astype("int32")
    images = RNG.integers(0, 40, (count, 784)).astype("uint8")
    images[np.arange(count), labels] = 255
    return images, labels


DIGITS = Digits(part(48), part(20), part(30), "made up")


def run_curve(folder, epochs, norm="layer", batch_size=4):
    return mnist.run_curve(
        CONFIG, DIGITS, folder, norm=norm, seed=1, variant=batch_size, epochs=epochs, verbose=0
    )


def figures(rows):
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


def weights(folder):
    return keras.models.load_model(folder / MODEL).get_weights()


@pytest.fixture(scope="module")
def one_epoch(tmp_path_factory):
    """The folder and the figures of one epoch with layer norm."""
    folder = tmp_path_factory.mktemp("one_epoch")
    return folder, run_curve(folder, 1)


def test_train_resumed_ends_where_the_uninterrupted_ends(tmp_path):
    norm = "batch"  # it has the most to keep: weights, optimizer and moving averages
    whole = run_curve(tmp_path / "whole", 3, norm)
    run_curve(tmp_path / "resumed", 1, norm)
    # As if killed between the figures of the second epoch and its model.
    with (tmp_path / "resumed" / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"epoch": 2, "loss": 0.0, "seconds": 0.0}) + "\n")
    resumed = run_curve(tmp_path / "resumed", 3, norm)
    assert [row["epoch"] for row in resumed] == [1, 2, 3]
    assert figures(resumed) == figures(whole)
    for ours, theirs in zip(weights(tmp_path / "resumed"), weights(tmp_path / "whole")):
        np.testing.assert_array_equal(ours, theirs)


def test_train_finished_does_nothing(one_epoch):
    folder, rows = one_epoch
    before = (folder / MODEL).stat().st_mtime_ns
    assert run_curve(folder, 1) == rows
    assert (folder / MODEL).stat().st_mtime_ns == before


def test_train_figures_are_those_of_the_kept_model(one_epoch):
    folder, (row,) = one_epoch
    model = keras.models.load_model(folder / MODEL)
    images, labels = DIGITS.test
    wrong = (model.predict(images, verbose=0).argmax(-1) != labels).mean()
    assert row["test_error"] == pytest.approx(wrong, abs=1e-6)
    assert int(model.optimizer.iterations) == 12


def test_train_that_diverges_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(mnist.keras.optimizers, "Adam", lambda *_: keras.optimizers.SGD(1e30))
    with pytest.raises(FloatingPointError, match="Received: "):
        run_curve(tmp_path, 3, "none")
    assert all(math.isfinite(row["loss"]) for row in read_metrics(tmp_path))


def test_chunked_updates_are_the_single_updates(one_epoch, tmp_path, monkeypatch):
    folder, chunked = one_epoch
    monkeypatch.setattr(mnist, "chunk_size", lambda steps: 1)
    single = run_curve(tmp_path, 1)
    assert chunked[0]["loss"] == pytest.approx(single[0]["loss"], rel=1e-5)
    for ours, theirs in zip(weights(folder), weights(tmp_path)):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize("steps,size", [(13750, 50), (429, 39), (27, 27), (109, 1), (1, 1)])
def test_chunk_size_divides(steps, size):
    assert chunk_size(steps) == size


@pytest.mark.parametrize("batch_size,unbiased", [(4, True), (128, False)])
def test_model_normalises_where_the_paper_does(batch_size, unbiased):
    def kinds(norm):
        layers = mnist.build_model(CONFIG, norm, batch_size).layers
        return [type(layer).__name__ for layer in layers if layer.count_params()]

    assert kinds("layer") == ["LNDense", "LNDense", "Dense"]
    assert kinds("batch") == ["Dense", "BatchNorm"] * 3
    assert kinds("none") == ["Dense", "Dense", "Dense"]
    layers = mnist.build_model(CONFIG, "batch", batch_size).layers
    found = [layer.unbiased for layer in layers if type(layer).__name__ == "BatchNorm"]
    assert found == [unbiased] * 3


def test_model_is_the_papers():
    model = mnist.build_model(mnist.PRESETS["paper"], "layer", 128)
    assert model.count_params() == 1_796_010 + 2_000
    optimizer = model.optimizer
    assert (optimizer.epsilon, optimizer.beta_1, optimizer.beta_2) == (1e-8, 0.9, 0.999)
    with pytest.raises(ValueError, match="Received: norm='weight'"):
        mnist.build_model(CONFIG, "weight", 4)


def test_loss_is_right_down_to_where_the_figure_ends():
    loss = mnist.build_model(CONFIG, "none", 4).loss
    logits = np.array([[16.0] + [0.0] * 9], "float32")
    expected = math.log1p(9 * math.exp(-16.0))
    assert float(loss(np.array([0]), logits)) == pytest.approx(expected, abs=1.2e-7)


def rows(errors):
    """A curve of these test errors."""
    keys = ("test_nll", "loss", "seconds")
    return [
        {"epoch": e + 1, "test_error": x, **dict.fromkeys(keys, 0.5)} for e, x in enumerate(errors)
    ]


CURVES = {
    ("batch4", "layer"): {1: rows([0.30, 0.10]), 2: rows([0.32, 0.12])},
    ("batch4", "batch"): {1: rows([0.5, 0.4, 0.3]), 2: rows([0.4])},
    ("batch4", "none"): {},
}


def test_results_compare_at_an_epoch_that_all_norms_reached():
    found = report.results(mnist, CURVES, 1000)
    layer, batch = found["results"]
    assert (layer["epoch"], layer["seeds"]) == (2, [1, 2])
    assert layer["test_error"] == pytest.approx(0.11)
    assert layer["test_error_sd"] == pytest.approx(0.02 / math.sqrt(2))
    assert layer["test_error_se"] == pytest.approx(math.sqrt(0.11 * 0.89 / 1000))
    assert (batch["epoch"], batch["seeds"], batch["test_error"]) == (2, [1], 0.4)
    assert batch["test_error_sd"] is None
    assert found["left_out"] == ["batch4-batch-seed2 (epoch 1)"]


@pytest.mark.parametrize(
    "size,verdict", [(1000, "layer norm is lower than batch norm"), (4, "no difference between")]
)
def test_text_calls_a_difference_one_beyond_two_standard_errors(size, verdict):
    summary = {"data": "made up", **report.results(mnist, CURVES, size)}
    text = report.text(mnist, summary)
    assert f"batch size 4, test error, %: {verdict}" in text
    assert "| 11.00 ± 1.41" in text and "batch4-batch-seed2 (epoch 1)" in text


def test_plan_goes_seed_by_seed_and_takes_a_pattern():
    names = [curve.name for curve in runner.plan(mnist, CONFIG, ["layer", "none"], 2, "batch32-*")]
    assert names == [f"batch32-{norm}-seed{seed}" for seed in (1, 2) for norm in ("layer", "none")]


@pytest.mark.parametrize(
    "options",
    [
        {"name": "imagenet"},
        {"preset": "large"},
        {"norms": ["group"]},
        {"norms": []},
        {"seeds": 0},
        {"epochs": 0},
        {"epochs": 3},
        {"curves": "batch7-*"},
    ],
    ids=str,
)
def test_run_refuses_before_it_writes(options, tmp_path):
    options = {"name": "mnist", "preset": "smoke", "out": tmp_path / "out", **options}
    with pytest.raises(ValueError, match="Received: "):
        runner.run(options.pop("name"), **options)
    assert not (tmp_path / "out").exists()


def test_run_refuses_a_folder_of_another_config(tmp_path):
    facts = {"experiment": "mnist", "config": {"epochs": 2}}
    (tmp_path / runner.SUMMARY).write_text(json.dumps({**facts, "results": []}))
    assert runner.claim(tmp_path, facts)["results"] == []
    with pytest.raises(ValueError, match="another --out.*Received: config="):
        runner.claim(tmp_path, {**facts, "config": {"epochs": 3}})


def test_draw_takes_an_experiment_of_one_variant(tmp_path):
    experiment = SimpleNamespace(
        FIGURES=mnist.FIGURES, PANELS=mnist.PANELS[1:], HEADLINE="one", title=str.title
    )
    summary = {"data": "made up", **report.results(experiment, CURVES, 1000)}
    report.draw(experiment, CURVES, summary, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")

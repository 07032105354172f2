"""Runs: what every curve is given, and what the folder says."""

import dataclasses
import json

import pytest
import toy

from tf_layernorm.experiments import runner
from tf_layernorm.experiments.runner import CURVES, PICTURE, SUMMARY, TABLE


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    toy.register(monkeypatch)


@pytest.fixture
def trained(monkeypatch):
    """What each curve is given, in the place of training it."""
    given = []

    def train(folder, training, **options):
        given.append((folder, training, options))
        folder.mkdir(parents=True)
        row = {"epoch": 1, "loss": 1.0, "validation_loss": 1.0, "seconds": 1.0}
        lines = [json.dumps({**row, "epoch": e + 1}) for e in range(options["epochs"])]
        (folder / "metrics.jsonl").write_text("\n".join(lines) + "\n")
        figures = {"test_loss": float(len(given)), "test_share": 0.5}
        test = {"epochs": options["epochs"], "kept": 1, "figures": figures}
        (folder / "test.json").write_text(json.dumps(test))

    monkeypatch.setattr(runner, "train", train)
    # It takes most of the time.
    monkeypatch.setattr(runner.picture, "draw", lambda *arguments: arguments[-1].touch())
    return given


@pytest.fixture
def curves(monkeypatch):
    """The arguments of each call of the experiment's `curve`."""
    given = []

    def curve(config, data, norm, seed):
        given.append((config, data, norm, seed))
        return toy.curve(config, data, norm, seed)

    changed = dataclasses.replace(toy.EXPERIMENT, curve=curve)
    monkeypatch.setattr(toy, "EXPERIMENT", changed)
    return given


def test_every_curve_gets_its_own_seed_norm_and_config(tmp_path, trained, curves):
    runner.run("toy", out=tmp_path, learning_rate=0.5, verbose=0)
    cells = [
        (slope, norm, seed) for seed in (1, 2) for slope in (1.0, 2.0) for norm in ("layer", "none")
    ]
    assert [(config.slope, norm, seed) for config, _, norm, seed in curves] == cells
    assert all(config.learning_rate == 0.5 for config, *_ in curves)
    assert [data.train[1][0] / data.train[0][0, :1] for _, data, *_ in curves] == pytest.approx(
        [slope for slope, *_ in cells]
    )
    assert [options["seed"] for *_, options in trained] == [seed for *_, seed in cells]
    for (folder, _, options), (slope, norm, seed) in zip(trained, cells, strict=True):
        assert folder == tmp_path / CURVES / f"slope{slope:g}-{norm}-seed{seed}"
        assert options == {
            **{"seed": seed, "epochs": 3, "kept": toy.EXPERIMENT.kept},
            **{"untrained": True, "verbose": 0},
        }


def test_summary_has_each_cell_in_its_place(tmp_path, trained, capsys):
    summary = runner.run("toy", out=tmp_path, seeds=1, verbose=0)
    assert [(row["variant"], row["norm"], row["test_loss"]) for row in summary["results"]] == [
        *[("slope1", "layer", 1.0), ("slope1", "none", 2.0)],
        *[("slope2", "layer", 3.0), ("slope2", "none", 4.0)],
    ]
    assert json.loads((tmp_path / SUMMARY).read_text()) == summary
    assert summary["cases"] == {"validation": 20, "test": 30}
    assert {"versions", "machine", "date", "data", "config", "grid"} <= summary.keys()
    assert "| slope 1 | layer norm | 3 " in (tmp_path / TABLE).read_text()
    output = capsys.readouterr().out
    assert "4 curves, 2 minutes with the preset's sizes on two cores" in output
    assert output.splitlines()[-1].startswith(
        f"In {tmp_path}: summary.json, summary.md, curves.png"
    )
    assert output.count(" to go for ") == 3
    assert {path.name for path in tmp_path.iterdir()} == {SUMMARY, TABLE, PICTURE, CURVES}


def test_finished_run_needs_no_data_and_more_seeds_or_epochs_go_on(tmp_path, trained, monkeypatch):
    runner.run("toy", out=tmp_path, seeds=1, verbose=0)
    with monkeypatch.context() as patch:
        patch.setattr(toy, "EXPERIMENT", dataclasses.replace(toy.EXPERIMENT, load=None))
        runner.run("toy", out=tmp_path, seeds=1, verbose=0)
    assert len(trained) == 4
    runner.run("toy", out=tmp_path, seeds=2, verbose=0)
    assert [options["seed"] for *_, options in trained[4:]] == [2] * 4


def test_run_of_a_grid_of_any_field(tmp_path, trained, curves):
    runner.run("toy", out=tmp_path, norms=["all"], seeds=1, slope=1.0, batch_size=[4, 8], verbose=0)
    names = [folder.name for folder, *_ in trained]
    assert names == ["slope1-batch_size4-all-seed1", "slope1-batch_size8-all-seed1"]
    assert [training.steps for _, training, _ in trained] == [10, 5]


@pytest.mark.parametrize(
    "options",
    [
        {"name": "imagenet"},
        {"preset": "large"},
        {"norms": ["group"]},
        {"norms": []},
        {"seeds": 0},
        {"epochs": 0},
        {"curves": "slope7-*"},
        {"strategy": "horovod"},
        {"layers": 3},
    ],
    ids=str,
)
def test_run_refuses_before_it_writes(options, tmp_path):
    options = {"name": "toy", "preset": "smoke", "out": tmp_path / "out", **options}
    with pytest.raises(ValueError, match="Received: "):
        runner.run(options.pop("name"), **options)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("there", "message"),
    [
        ({"experiment": "draw"}, "a run of draw: give another --out.*Received: experiment='toy'"),
        (
            {"config": {"learning_rate": 0.5}},
            "learning_rate=0.5: give another --out.*Received: learning_rate=0.05",
        ),
        ({"grid": {"slope": [1.0]}}, r"slope=\[1.0\].*Received: slope=\[1.0, 2.0\]"),
        ({"config": {"dropout": 0.5}}, "dropout=0.5.*Received: dropout=None"),
        ({"strategy": "tpu, 8 replicas"}, "strategy='tpu, 8 replicas'.*Received: strategy=None"),
    ],
    ids=str,
)
def test_run_refuses_a_folder_of_another_run_by_name(there, message, tmp_path, trained):
    facts = {"experiment": "toy", "config": {}, "grid": {"slope": [1.0, 2.0]}, **there}
    (tmp_path / SUMMARY).write_text(json.dumps(facts))
    with pytest.raises(ValueError, match=message):
        runner.run("toy", out=tmp_path)
    assert not trained and json.loads((tmp_path / SUMMARY).read_text()) == facts


def test_data_dir_asks_for_the_full_data(tmp_path, trained, curves):
    runner.run("toy", "smoke", out=tmp_path, data_dir="somewhere", verbose=0)
    assert {config.data for config, *_ in curves} == {"full"}

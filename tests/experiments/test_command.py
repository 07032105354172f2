"""The command, as a user types it."""

import dataclasses
import functools
import json
import os
import socket
import subprocess
import sys
import time

import pytest
import toy

from tf_layernorm.cli import main
from tf_layernorm.data import mnist as digits
from tf_layernorm.experiments import runner

PROGRAM = """
import sys, _tf_layernorm_command
sys.argv[1:] = {arguments!r}
try:
    _tf_layernorm_command.main()
finally:
    print("tensorflow" in sys.modules, file=sys.stderr)
"""


@pytest.fixture
def toys(monkeypatch):
    toy.register(monkeypatch)


@pytest.fixture
def given(monkeypatch, toys):
    """The keywords of each call of `runner.run`."""
    calls = []
    monkeypatch.setattr(runner, "run", lambda name, **options: calls.append((name, options)))
    return calls


def refused(command, capsys):
    with pytest.raises(SystemExit) as end:
        main(command)
    assert end.value.code == 2
    error = capsys.readouterr().err
    assert "Traceback" not in error
    return error


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--help"], "run an experiment"),
        (["run", "mnist", "--help"], "of the hidden layers (paper: 1000,1000, small"),
        (["list"], "mnist: Permutation-invariant MNIST"),
        (["--version"], "TensorFlow 2."),
    ],
    ids=str,
)
def test_what_needs_no_tensorflow_does_not_wait_for_it(arguments, told):
    start = time.perf_counter()
    program = PROGRAM.format(arguments=arguments)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert told in done.stdout and done.stderr == "False\n"
    assert time.perf_counter() - start < 30  # less than a second, on a machine that is free


def test_usage_errors_need_no_tensorflow_either():
    program = PROGRAM.format(arguments=["run", "mnist", "--layers", "3"])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 2 and "--layers" in done.stderr
    assert done.stderr.endswith("False\n")


def test_every_option_reaches_the_run(given):
    main(["run", "toy"])
    options = "--preset smoke --norm none,all --seeds 4 --curves *-seed1 --data-dir D --download"
    options += " --out O --strategy mirrored --slope 1 2.5 --hidden 3,4 --batch-size 8"
    options += " --epochs 7 --learning-rate 0.25 --fancy true --data full"
    main(["run", "toy", *options.split()])
    nothing = {"norms": None, "seeds": None, "curves": "*", "data_dir": None, "download": False}
    assert given == [
        ("toy", {"preset": "small", "out": None, "strategy": None, **nothing}),
        (
            "toy",
            {
                **{"preset": "smoke", "norms": ["none", "all"], "seeds": 4, "curves": "*-seed1"},
                **{"data_dir": "D", "download": True, "out": "O", "strategy": "mirrored"},
                **{"slope": [1.0, 2.5], "hidden": (3, 4), "batch_size": 8, "epochs": 7},
                **{"learning_rate": 0.25, "fancy": True, "data": "full"},
            },
        ),
    ]


def test_former_names_of_flags_go_on_working(given):
    main(["run", "toy", "--slopes", "3"])
    assert given[0][1]["slope"] == 3.0


def test_help_has_the_fields_comments_and_values(toys, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        main(["run", "toy", "--help"])
    output = capsys.readouterr().out
    assert "of the points, 100 % of it (small: 1 2, smoke: 1)" in output
    assert "units of the layers (3,2)" in output and "whether it is (false)" in output


def test_list_tells_what_presets_cost(toys, capsys):
    assert main(["list"]) == 0
    output = capsys.readouterr().out
    assert "toy: A line (section 9.9)" in output
    assert "small    8 curves, about 4 minutes on two cores" in output


def test_an_experiments_own_command_runs(toys, capsys):
    assert main(["paint", "--out", "a.png"]) == 0
    assert capsys.readouterr().out == "painted\na.png\n"


def test_run_prints_its_table_and_again_without_training(toys, tmp_path, capsys, monkeypatch):
    command = ["run", "toy", "--preset", "smoke", "--norm", "layer", "--out", str(tmp_path)]
    assert main(command) == 0
    output = capsys.readouterr().out
    table = output[output.index("|  ") :]
    assert "Data: points; made up" in output and "| slope 1 | layer norm |" in table.replace(
        "|         |", ""
    )
    changed = dataclasses.replace(toy.EXPERIMENT, load=None, curve=None)
    monkeypatch.setattr(toy, "EXPERIMENT", changed)
    assert main(command) == 0
    assert capsys.readouterr().out.strip() == table.strip()


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (KeyboardInterrupt(), 130, "same command"),
        (FloatingPointError("Diverged"), 1, "is kept"),
        (PermissionError(13, "Permission denied", "x"), 2, "Permission denied: 'x'"),
        (ModuleNotFoundError("no", name="mlxtend"), 2, "pip install 'tf_layernorm[experiments]'"),
    ],
    ids=["interrupted", "diverged", "unwritable", "missing"],
)
def test_run_that_ends_early_says_what_is_left(
    error, code, told, toys, tmp_path, capsys, monkeypatch
):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(runner, "train", fail)
    with pytest.raises(SystemExit) as end:
        main(["run", "toy", "--out", str(tmp_path)])
    assert end.value.code == code
    assert told in capsys.readouterr().err


def test_a_fault_of_the_program_keeps_its_traceback(toys, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise ValueError("Shapes are incompatible. Received: shapes")

    monkeypatch.setattr(runner, "train", fail)  # a function of this module, not of ours
    with pytest.raises(ValueError, match="incompatible"):
        main(["run", "toy", "--out", str(tmp_path)])


def test_out_below_a_file_is_one_line(toys, tmp_path, capsys):
    (tmp_path / "file").touch()
    error = refused(["run", "toy", "--out", str(tmp_path / "file" / "run")], capsys)
    assert error.startswith("tf-layernorm: ") and "Not a directory" in error
    assert error.count("\n") == 1


def test_run_refuses_a_changed_config(toys, tmp_path, capsys):
    summary = {"experiment": "toy", "config": {"learning_rate": 9.0}}
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    assert "another --out" in refused(["run", "toy", "--out", str(tmp_path)], capsys)


def test_run_of_the_full_data_never_waits_for_a_network(tmp_path, capsys, monkeypatch):
    def network(*_):
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", network)
    nowhere = functools.partial(digits.load_mnist, prepared_dir=tmp_path / "tfds")
    monkeypatch.setattr(digits, "load_mnist", nowhere)
    command = ["run", "mnist", "--preset", "paper", "--out", str(tmp_path / "run")]
    assert "--data-dir" in refused(command, capsys)
    raw = tmp_path / "raw"
    raw.mkdir()
    assert "are missing" in refused([*command, "--data-dir", str(raw)], capsys)
    for name in digits.FILES:
        (raw / name).write_bytes(b"no gzip")
    error = refused([*command, "--data-dir", str(raw)], capsys)
    last = error.splitlines()[-1]  # after TFDS' progress bars
    assert last.startswith("tf-layernorm: `data_dir` must hold whole files of mnist.")
    assert not (tmp_path / "run").exists()


def test_table1_prints_the_table_and_what_the_paper_says_of_weight_norm(capsys):
    assert main(["table1"]) == 0
    output = capsys.readouterr().out
    assert "24 of 24" in output
    assert "weight norm" in output

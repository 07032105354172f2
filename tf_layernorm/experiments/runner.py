"""What all experiments share: a folder a run, a curve a sub-folder, and a summary of what is there.

An experiment is a module with

* `Config`, a frozen dataclass with the fields `data` ("full" or "packaged"), `epochs`, `seeds` and
  `batch_size` or `batch_sizes`, and `PRESETS`, a dict of them;
* `NORMS`, the names that `--norm` takes (`DEFAULT_NORMS`, where those it doesn't need to take are
  fewer), and `variants(config)`, a dict of what else tells curves apart (as batch sizes) by name;
* `load(config, data_dir, download)`, data with `source`, a text, and `test_size`;
* `run_curve(config, data, folder, norm=, seed=, variant=, epochs=, verbose=)`, which trains one
  model by `training.train`;
* `FIGURES` and `PANELS`, what the report's table and picture show, with `HEADLINE`, `NOTE`,
  `title(variant)`, and `PAPER`, what the paper says; `RACE`, where the paper claims speed: the
  figure by which the report tells how soon each norm reaches the best without any; `AXIS`, where
  the picture's x axis isn't the epoch: a figure that every epoch logs.
"""

import dataclasses
import fnmatch
import importlib
import json
import os
import platform
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tf_layernorm.experiments import report
from tf_layernorm.experiments.strategies import described, make_strategy
from tf_layernorm.experiments.training import read_metrics

EXPERIMENTS = ("mnist", "draw", "handwriting")
SUMMARY, CURVES = "summary.json", "curves"


@dataclasses.dataclass(frozen=True)
class Curve:
    """One training run among those of an experiment."""

    variant: str
    norm: str
    seed: int

    @property
    def name(self) -> str:
        """The name of its folder, which `--curves` matches."""
        return f"{self.variant}-{self.norm}-seed{self.seed}"


def plan(
    experiment: Any,
    config: Any,
    norms: Sequence[str] | None = None,
    seeds: int | None = None,
    pattern: str = "*",
) -> list[Curve]:
    """The curves to run, seed by seed, so that what is there first already compares all norms.

    Args:
        experiment: The experiment's module.
        config: Its `Config`.
        norms: Some of its `NORMS`. Defaults to its `DEFAULT_NORMS`, or all.
        seeds: Number of seeds, counted from 1. Defaults to the config's.
        pattern: Shell pattern that a curve's name must match, such as `"batch4-*"`.

    Raises:
        ValueError: If a norm is unknown, `seeds` is below 1, or nothing matches.
    """
    norms = getattr(experiment, "DEFAULT_NORMS", experiment.NORMS) if norms is None else norms
    seeds = config.seeds if seeds is None else seeds
    unknown = [norm for norm in norms if norm not in experiment.NORMS]
    if unknown or not norms:
        raise ValueError(
            f"`norm` must name some of {', '.join(experiment.NORMS)}. Received: norm={norms!r}"
        )
    if seeds < 1:
        raise ValueError(f"`seeds` must be at least 1. Received: seeds={seeds}")
    curves = [
        Curve(variant, norm, seed)
        for seed in range(1, seeds + 1)
        for variant in experiment.variants(config)
        for norm in norms
    ]
    chosen = [curve for curve in curves if fnmatch.fnmatch(curve.name, pattern)]
    if not chosen:
        raise ValueError(
            f"`curves` matches none of {[curve.name for curve in curves]}. "
            f"Received: curves={pattern!r}"
        )
    return chosen


def claim(out: Path, facts: dict[str, Any]) -> dict[str, Any]:
    """What the folder's `summary.json` says, or `facts` if it has none.

    Raises:
        ValueError: If the folder holds another experiment, config or strategy.
    """
    path = out / SUMMARY
    if not path.exists():
        return facts
    there = json.loads(path.read_text())
    for key in ("experiment", "config", "strategy"):
        if there.get(key) != facts.get(key):
            raise ValueError(
                f"{out} holds a run with {key}={there.get(key)!r}: give another --out, or delete "
                f"it. Received: {key}={facts.get(key)!r}"
            )
    return there


def run(
    name: str,
    preset: str = "small",
    *,
    norms: Sequence[str] | None = None,
    seeds: int | None = None,
    epochs: int | None = None,
    curves: str = "*",
    data_dir: str | None = None,
    download: bool = False,
    out: str | Path | None = None,
    strategy: str | None = None,
    verbose: Any = None,
) -> dict[str, Any]:
    """Runs an experiment, or what is left of it, and reports all that its folder then holds.

    Several calls may fill one folder, also at once with different `curves`.

    Args:
        name: One of `EXPERIMENTS`.
        preset: One of the experiment's `PRESETS`.
        norms: Which norms to run. Defaults to all of the experiment.
        seeds: Number of seeds. Defaults to the preset's.
        epochs: Epoch to stop at, for the beginning of a longer run. Defaults to the preset's.
        curves: Shell pattern of the curves to run.
        data_dir: Folder with the raw files of the full data set, only read. Together with
            `download` it makes every preset use the full data.
        download: Whether data may be fetched from the network.
        out: Folder of the run. Defaults to `runs/NAME-PRESET`.
        strategy: Name of a strategy, see `strategies.make_strategy`. Defaults to `None`: one
            device.
        verbose: As in `keras.Model.fit`. Defaults to a progress bar on a terminal, else a line an
            epoch.

    Returns:
        The contents of `summary.json`.

    Raises:
        ValueError: If an argument is unknown or out of range, the data isn't there, or the folder
            holds a run of another `Config` or strategy.
    """
    experiment = load_experiment(name)
    if preset not in experiment.PRESETS:
        raise ValueError(
            f"`preset` must be one of {', '.join(experiment.PRESETS)}. Received: preset={preset!r}"
        )
    config = experiment.PRESETS[preset]
    if data_dir is not None or download:
        config = dataclasses.replace(config, data="full")
    if epochs is not None and not 1 <= epochs <= config.epochs:
        raise ValueError(
            f"`epochs` must lie in 1..{config.epochs}, the preset's. Received: epochs={epochs}"
        )
    epochs = config.epochs if epochs is None else epochs
    verbose = (1 if sys.stdout.isatty() else 2) if verbose is None else verbose
    chosen = plan(experiment, config, norms, seeds, curves)

    out = Path(f"runs/{name}-{preset}" if out is None else out)
    # Through JSON, so that tuples compare equal to the lists in the file.
    facts = {"experiment": name, "config": json.loads(json.dumps(dataclasses.asdict(config)))}
    devices = make_strategy(strategy, config)
    facts["strategy"] = described(strategy, devices)
    facts = claim(out, facts)
    folders = {curve: out / CURVES / curve.name for curve in chosen}
    left = [curve for curve in chosen if len(read_metrics(folders[curve])) < epochs]
    if left or "data" not in facts:
        data = experiment.load(config, data_dir, download)
        facts |= {"data": data.source, "test_size": data.test_size}
        facts |= {"versions": _versions(), "machine": _machine()}
        print(f"{name}, preset {preset}, into {out}\nData: {data.source}", flush=True)
        if strategy:
            print(f"Strategy: {facts['strategy']}; batch norm sees its replica's share of a batch")
        _write(out, facts)
    for i, curve in enumerate(left):
        print(f"\n[{i + 1} of {len(left)}] {curve.name}", flush=True)
        with devices.scope():
            experiment.run_curve(
                config,
                data,
                folders[curve],
                norm=curve.norm,
                seed=curve.seed,
                variant=experiment.variants(config)[curve.variant],
                epochs=epochs,
                verbose=verbose,
            )
        summarise(experiment, config, out, facts)
    summary = summarise(experiment, config, out, facts)
    print("\n" + report.text(experiment, summary), flush=True)
    return summary


def load_experiment(name: str) -> Any:
    """The module of an experiment, by name."""
    if name not in EXPERIMENTS:
        raise ValueError(
            f"The experiment must be one of {', '.join(EXPERIMENTS)}. Received: name={name!r}"
        )
    return importlib.import_module(f"tf_layernorm.experiments.{name}")


def summarise(experiment: Any, config: Any, out: Path, facts: dict[str, Any]) -> dict[str, Any]:
    """Writes `summary.json` and `curves.png` from the curves that the folder holds."""
    rows = {
        (variant, norm): {
            int(folder.name.rpartition("seed")[2]): read_metrics(folder)
            for folder in sorted((out / CURVES).glob(f"{variant}-{norm}-seed*"))
        }
        for variant in experiment.variants(config)
        for norm in experiment.NORMS
    }
    summary = facts | report.results(experiment, rows, facts["test_size"])
    _write(out, summary)
    report.draw(experiment, rows, summary, out / "curves.png")
    return summary


def _write(out: Path, summary: dict[str, Any]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    unfinished = out / f".{SUMMARY}-{os.getpid()}"
    unfinished.write_text(json.dumps(summary, indent=1) + "\n")
    os.replace(unfinished, out / SUMMARY)


def _versions() -> dict[str, str]:
    import tf_layernorm

    names = ("tensorflow", "keras", "numpy")
    versions = {"python": platform.python_version(), "tf_layernorm": tf_layernorm.__version__}
    return versions | {name: version(name) for name in names}


def _machine() -> str:
    import tensorflow as tf

    gpus = len(tf.config.list_physical_devices("GPU"))
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPU cores, {gpus} GPUs"

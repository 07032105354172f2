"""A run: a folder, a sub-folder for each curve, and a summary of what is there."""

import datetime
import functools
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tf_layernorm.experiments import picture, report
from tf_layernorm.experiments.experiment import Experiment
from tf_layernorm.experiments.files import read_json, write_json, write_whole
from tf_layernorm.experiments.registry import find
from tf_layernorm.experiments.results import Cell, is_finished, read_curve, results
from tf_layernorm.experiments.settings import Curve, Settings, identity, plan, settle
from tf_layernorm.experiments.strategies import described, make_strategy
from tf_layernorm.experiments.training import train

SUMMARY, TABLE, PICTURE, CURVES = "summary.json", "summary.md", "curves.png", "curves"


def run(
    name: str,
    preset: str = "small",
    *,
    norms: Sequence[str] | None = None,
    seeds: int | None = None,
    curves: str = "*",
    data_dir: str | None = None,
    download: bool = False,
    out: str | Path | None = None,
    strategy: str | None = None,
    verbose: Any = None,
    **changes: Any,
) -> dict[str, Any]:
    """Runs an experiment, or what is left of it, and reports all that its folder then holds.

    Several calls may fill one folder, also at once with different `curves`.

    Args:
        name: The name of an experiment.
        preset: One of the experiment's presets.
        norms: Which norms to run. Defaults to those of the experiment.
        seeds: Number of seeds. Defaults to the preset's.
        curves: Shell pattern of the curves to run.
        data_dir: Folder with the raw files of the full data set, only read. Together with
            `download` it makes every preset use the full data.
        download: Whether data may be fetched from the network.
        out: Folder of the run. Defaults to `runs/NAME-PRESET`.
        strategy: Name of a strategy, see `strategies.make_strategy`. Defaults to `None`: one
            device.
        verbose: As in `keras.Model.fit`. Defaults to a progress bar on a terminal, else a line an
            epoch.
        **changes: Fields of the experiment's `Config`; a list of values makes a grid.

    Returns:
        The contents of `summary.json`.

    Raises:
        ValueError: If an argument is unknown or out of range, the data isn't there, or the folder
            holds a run of another `Config` or strategy.
    """
    experiment = find(name)
    if data_dir is not None or download:
        changes = {"data": "full"} | changes
    settings = settle(experiment, preset, changes)
    seeds = experiment.presets[preset].seeds if seeds is None else seeds
    chosen = plan(experiment, settings, norms, seeds, curves)
    devices = make_strategy(strategy, [curve.config.batch_size for curve in chosen])
    out = Path(f"runs/{name}-{preset}" if out is None else out)
    facts = {"experiment": name, **settings.as_json(), "strategy": described(strategy, devices)}
    facts = claim(experiment, out, facts)

    here = Run(experiment, settings, out, facts)
    left = [curve for curve in chosen if not here.is_finished(curve)]
    if left or "data" not in facts:
        load = functools.cache(lambda config: experiment.load(config, data_dir, download))
        data = load(here.data_config(chosen[0]))
        facts |= {"data": data.source, "cases": dict(data.cases)}
        facts |= {"versions": _versions(), "machine": _machine()}
        facts |= {"date": datetime.date.today().isoformat()}
        print(f"{name}, preset {preset}, into {out}\nData: {data.source}", flush=True)
        if strategy:
            print(f"Strategy: {facts['strategy']}; batch norm sees its replica's share of a batch")
    summary = here.summarise()
    verbose = (1 if sys.stdout.isatty() else 2) if verbose is None else verbose
    begun = time.perf_counter()
    if left:
        print(_forecast(experiment, preset, left), flush=True)
    for i, curve in enumerate(left):
        print(f"\n[{i + 1} of {len(left)}] {curve.name}", flush=True)
        data = load(here.data_config(curve))
        with devices.scope():
            train(
                here.folder(curve),
                experiment.curve(curve.config, data, curve.norm, curve.seed),
                seed=curve.seed,
                epochs=curve.config.epochs,
                kept=experiment.kept,
                untrained=experiment.untrained,
                verbose=verbose,
            )
        summary = here.summarise()
        togo = (time.perf_counter() - begun) / (i + 1) * (len(left) - i - 1)
        if togo:
            print(f"About {_duration(togo / 60)} to go for {len(left) - i - 1} more", flush=True)
    print("\n" + report.text(experiment, summary))
    print(f"\nIn {out}: {SUMMARY}, {TABLE}, {PICTURE}, {CURVES}/; tensorboard --logdir {out}")
    return summary


@dataclass(frozen=True)
class Run:
    """The folder of a run."""

    experiment: Experiment
    settings: Settings
    out: Path
    facts: dict[str, Any]

    def folder(self, curve: Curve) -> Path:
        """The folder of a curve."""
        return self.out / CURVES / curve.name

    def is_finished(self, curve: Curve) -> bool:
        """Whether there is nothing left to do for a curve."""
        return is_finished(self.experiment, read_curve(self.folder(curve)), curve.config.epochs)

    def data_config(self, curve: Curve) -> Any:
        """The `Config` to load a curve's data with: the same for all where data don't differ."""
        read = {name for name in self.settings.grid if self.experiment.axis(name).data}
        for point, config in self.settings.points():
            if all(point[name] == getattr(curve.config, name) for name in read):
                return config
        raise AssertionError(curve)

    def cells(self) -> list[Cell]:
        """What the folder holds."""
        cells = []
        for point, _ in self.settings.points():
            variant, label = self.experiment.variant(point), self.experiment.describe(point)
            for norm in self.experiment.norms:
                prefix = "-".join(filter(None, (variant, norm.name, "seed")))
                found = sorted((self.out / CURVES).glob(f"{prefix}*"))
                seeds = {int(folder.name.removeprefix(prefix)): folder for folder in found}
                curves = {seed: read_curve(seeds[seed]) for seed in sorted(seeds)}
                cells.append(Cell(variant, label, norm.name, curves))
        return cells

    def summarise(self) -> dict[str, Any]:
        """Writes the summary and the picture of the curves that the folder holds."""
        cells = self.cells()
        summary = self.facts | results(self.experiment, cells, self.facts["cases"])
        write_json(self.out / SUMMARY, summary)
        text = f"# {self.experiment.title}\n\n{report.text(self.experiment, summary, None)}\n"
        write_whole(self.out / TABLE, lambda path: path.write_text(text))
        picture.draw(self.experiment, cells, summary, self.out / PICTURE)
        return summary


def claim(experiment: Experiment, out: Path, facts: dict[str, Any]) -> dict[str, Any]:
    """`facts`, with what the folder's `summary.json` has besides.

    Raises:
        ValueError: If the folder holds another experiment, or a run with other settings.
    """
    there = read_json(out / SUMMARY)
    if there is None:
        return facts
    if there["experiment"] != experiment.name:
        raise ValueError(
            f"{out} holds a run of {there['experiment']}: give another --out, or delete it. "
            f"Received: experiment={experiment.name!r}"
        )
    theirs, ours = identity(experiment, there), identity(experiment, facts)
    for key in theirs | ours:
        if theirs.get(key) != ours.get(key):
            raise ValueError(
                f"{out} holds a run with {key}={theirs.get(key)!r}: give another --out, or delete "
                f"it. Received: {key}={ours.get(key)!r}"
            )
    if "cases" not in there and "test_size" in there:  # of a run of version 0.1.0
        parts = {figure.of for figure in experiment.figures if figure.of}
        there["cases"] = dict.fromkeys(parts, there.pop("test_size"))
    return there | facts


def _forecast(experiment: Experiment, preset: str, curves: Sequence[Curve]) -> str:
    base = experiment.presets[preset]
    minutes = sum(base.minutes * curve.config.epochs / base.config.epochs for curve in curves)
    count = f"{len(curves)} curve{'s' * (len(curves) > 1)}"
    if not minutes:
        return count
    return f"{count}, {_duration(minutes)} with the preset's sizes on two cores"


def _duration(minutes: float) -> str:
    if minutes < 1:
        return "a minute"
    return f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:.1f} hours"


def _versions() -> dict[str, str]:
    import tf_layernorm

    names = ("tensorflow", "keras", "numpy")
    versions = {"python": platform.python_version(), "tf_layernorm": tf_layernorm.__version__}
    return versions | {name: version(name) for name in names}


def _machine() -> str:
    import tensorflow as tf

    gpus = len(tf.config.list_physical_devices("GPU"))
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPU cores, {gpus} GPUs"

"""What the curves of a run come to: figures over seeds, and how soon a norm is as good as none."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tf_layernorm.experiments.experiment import Experiment, Figure
from tf_layernorm.experiments.files import read_json

METRICS, TEST, UNTRAINED = "metrics.jsonl", "test.json", "untrained.json"
PATIENCE = 10  # evaluations without a gain, before a curve counts as trained out

Rows = Sequence[Mapping[str, float]]


@dataclass(frozen=True)
class Measured:
    """What the folder of a curve holds.

    Attributes:
        rows: The figures of each epoch.
        test: Those of the kept model, with `epochs`, after how many it was tested; or `None`.
        untrained: Those before the first update, or `None`.
    """

    rows: Rows = ()
    test: Mapping[str, Any] | None = None
    untrained: Mapping[str, float] | None = None

    def figures(self, epoch: int, kept: Figure | None) -> dict[str, float]:
        """The figures of a curve that ends at an epoch: of its kept epoch, and its test."""
        row = dict(self.rows[epoch - 1] if kept is None else best_row(self.rows[:epoch], kept))
        tested = self.test is not None and self.test["epochs"] == epoch
        return row | (self.test["figures"] if self.test and tested else {})


@dataclass(frozen=True)
class Cell:
    """The curves of a norm at a point of the grid, by seed."""

    variant: str
    label: str  # the point of the grid, for people
    norm: str
    seeds: Mapping[int, Measured] = field(default_factory=dict)


def read_metrics(folder: Path) -> list[dict[str, float]]:
    """The figures of the epochs done, one dict each; none if there is no such file."""
    path = folder / METRICS
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def read_curve(folder: Path) -> Measured:
    """What the folder of a curve holds."""
    return Measured(read_metrics(folder), read_json(folder / TEST), read_json(folder / UNTRAINED))


def best_row(rows: Sequence[Any], figure: Figure) -> Any:
    """The first of the rows with the best value of a figure."""
    return (max if figure.higher else min)(rows, key=lambda row: row[figure.key])


def is_finished(experiment: Experiment, curve: Measured, epochs: int) -> bool:
    """Whether a curve has come to an epoch and, at its end, has been tested."""
    if len(curve.rows) < epochs:
        return False
    found = curve.figures(len(curve.rows), experiment.kept)
    return all(figure.key in found for figure in experiment.figures if not figure.optional)


def results(
    experiment: Experiment, cells: Sequence[Cell], cases: Mapping[str, int]
) -> dict[str, Any]:
    """Mean and spread over seeds at the last epoch that every norm of a variant has reached.

    Args:
        experiment: The experiment; its `figures` are reported.
        cells: All curves there are.
        cases: The number of cases of each part, for the binomial standard errors.

    Returns:
        `results`, a list with a dict for each cell; `left_out`, the curves that end earlier and are
        not in the results; `untrained`, the figures before training; `race`, if there is one.
    """
    rows: list[dict[str, Any]] = []
    left_out: list[str] = []
    for variant in dict.fromkeys(cell.variant for cell in cells):
        here = [cell for cell in cells if cell.variant == variant]
        lengths = [max((len(c.rows) for c in cell.seeds.values()), default=0) for cell in here]
        epoch = min((length for length in lengths if length), default=0)
        for cell in here:
            used = {s: c for s, c in cell.seeds.items() if epoch and len(c.rows) >= epoch}
            left_out += [
                f"{variant}-{cell.norm}-seed{seed} (epoch {len(curve.rows)})"
                for seed, curve in cell.seeds.items()
                if seed not in used
            ]
            if used:
                rows.append(_row(experiment, cell, used, epoch, cases))
    summary: dict[str, Any] = {"results": rows, "left_out": left_out}
    untrained = [
        {"variant": cell.variant, "label": cell.label, "norm": cell.norm, "seed": seed}
        | dict(curve.untrained)
        for cell in cells
        for seed, curve in cell.seeds.items()
        if curve.untrained
    ]
    if untrained:
        summary["untrained"] = untrained
    if experiment.race:
        summary["race"] = race(experiment.race, experiment.baseline, cells)
    return summary


def _row(
    experiment: Experiment,
    cell: Cell,
    used: Mapping[int, Measured],
    epoch: int,
    cases: Mapping[str, int],
) -> dict[str, Any]:
    row: dict[str, Any] = {"variant": cell.variant, "label": cell.label, "norm": cell.norm}
    row |= {"epoch": epoch, "seeds": sorted(used)}
    seconds = sum(r["seconds"] for curve in used.values() for r in curve.rows[:epoch])
    row["minutes"] = round(seconds / 60 / len(used), 2)
    found = [curve.figures(epoch, experiment.kept) for curve in used.values()]
    if experiment.kept:
        row["kept"] = [int(figures["epoch"]) for figures in found]
    for figure in experiment.figures:
        values = [figures.get(figure.key) for figures in found]
        if any(value is None for value in values):
            continue  # not tested yet
        mean = float(np.mean(values))  # type: ignore[arg-type]
        row[figure.key] = mean
        spread = float(np.std(values, ddof=1)) if len(used) > 1 else None  # type: ignore[arg-type]
        row[figure.key + "_sd"] = spread
        if figure.of:
            row[figure.key + "_se"] = math.sqrt(mean * (1 - mean) / cases[figure.of])
    return row


def standard_error(row: Mapping[str, Any], key: str) -> float:
    """Of the mean over seeds: what seeds and, for a share, the choice of cases add up to."""
    spread = (row[key + "_sd"] or 0.0) / math.sqrt(len(row["seeds"]))
    return math.hypot(spread, row.get(key + "_se", 0.0))


def race(figure: Figure, baseline: str, cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """How soon each norm reaches the best that the baseline ever does, seed by seed.

    Args:
        figure: What is compared, at every epoch.
        baseline: The name of the norm to compare with.
        cells: All curves there are.

    Returns:
        A dict for each curve with a baseline of its seed. `best` is the baseline's, at `epoch` and
        after `minutes`; `budget_limited` if it might have become better, since fewer than ten
        evaluations followed. `reached` is the epoch at which the norm is as good, or `None`, with
        the `share` of the baseline's updates and the `time_share` that it took; `then` is the best
        that it had been by the baseline's `minutes`.
    """
    sign = -1 if figure.higher else 1
    baselines = {cell.variant: cell.seeds for cell in cells if cell.norm == baseline}
    lines = []
    for cell in cells:
        theirs = baselines.get(cell.variant, {})
        for seed in sorted(cell.seeds.keys() & theirs) if cell.norm != baseline else ():
            if not (cell.seeds[seed].rows and theirs[seed].rows):
                continue
            (base, base_time), (ours, our_time) = (
                (
                    sign * np.array([row[figure.key] for row in rows]),
                    np.cumsum([row["seconds"] for row in rows]),
                )
                for rows in (theirs[seed].rows, cell.seeds[seed].rows)
            )
            best = int(base.argmin())
            line: dict[str, Any] = {"variant": cell.variant, "label": cell.label}
            line |= {"norm": cell.norm, "seed": seed}
            line |= {"best": sign * float(base[best]), "epoch": best + 1}
            line["minutes"] = round(base_time[best] / 60, 2)
            line["budget_limited"] = len(base) - best <= PATIENCE
            first = int((ours <= base[best]).argmax()) if ours.min() <= base[best] else None
            line |= {"reached": None, "share": None, "time_share": None}
            if first is not None:
                line |= {"reached": first + 1, "share": (first + 1) / (best + 1)}
                line["time_share"] = float(our_time[first] / base_time[best])
            by_then = ours[our_time <= base_time[best]]
            line["then"] = sign * float(by_then.min()) if len(by_then) else None
            lines.append(line)
    return lines

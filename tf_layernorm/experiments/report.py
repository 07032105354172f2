"""The table of an experiment, its differences, and who was first, as text."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from tf_layernorm.experiments.experiment import Experiment, Figure
from tf_layernorm.experiments.results import PATIENCE, standard_error

WIDTH = 100  # of a terminal

Row = Mapping[str, Any]


@dataclass(frozen=True)
class _Column:
    """A column of the table. The narrow table leaves out the ones with the highest `rank` first."""

    head: str
    cells: list[str]
    rank: int = 0


def text(experiment: Experiment, summary: Mapping[str, Any], width: int | None = WIDTH) -> str:
    """The table, as Markdown, and which of its differences are more than two standard errors.

    Args:
        experiment: The experiment.
        summary: What its `summary.json` holds.
        width: Characters that the table may be wide. `None`: any number.
    """
    columns = _columns(experiment, summary["results"])
    told: list[str] = []
    if width is not None:
        columns, told = _narrow(columns, width)
    said = ["± is the standard deviation over seeds.", *told, experiment.note]
    lines = [*_markdown(columns), "", " ".join(filter(None, said)), f"Data: {summary['data']}."]
    if experiment.paper_note:
        lines.append(f"The paper: {experiment.paper_note}.")
    if summary["left_out"]:
        lines.append("Not finished, so not in the table: " + ", ".join(summary["left_out"]) + ".")
    lines += _untrained(experiment, summary)
    return "\n".join([*lines, "", *_verdicts(experiment, summary), *_race(experiment, summary)])


def table(experiment: Experiment, summary: Mapping[str, Any]) -> str:
    """The whole table, as Markdown."""
    return "\n".join(_markdown(_columns(experiment, summary["results"])))


def _number(figure: Figure, value: float) -> str:
    return f"{value * figure.scale:.{figure.digits}f}"


def _columns(experiment: Experiment, rows: Sequence[Row]) -> list[_Column]:
    columns = [
        _Column("", [row["label"] for row in rows]),
        _Column("norm", [experiment.norm(row["norm"]).label for row in rows]),
        _Column("epochs", [str(row["epoch"]) for row in rows], 1),
        _Column("seeds", [str(len(row["seeds"])) for row in rows], 1),
    ]
    for place, figure in enumerate(experiment.figures):
        if figure.optional and not any(figure.key in row for row in rows):
            continue
        cells, errors, papers = [], [], []
        for row in rows:
            sd = row.get(figure.key + "_sd")
            cell = _number(figure, row[figure.key]) if figure.key in row else "not yet"
            cells.append(cell + (f" ± {_number(figure, sd)}" if sd is not None else ""))
            error = row.get(figure.key + "_se")
            errors.append("" if error is None else _number(figure, error))
            paper = experiment.paper.get(f"{row['variant']}-{row['norm']}") or {}
            paper = paper or experiment.paper.get(row["norm"], {})
            papers.append(f"{paper[figure.key]:g}" if figure.key in paper else "")
        columns.append(_Column(figure.label, cells, 0 if place == 0 else 2 + place))
        if any(papers):
            columns.append(_Column("paper", papers, 0 if place == 0 else 2 + place))
        if any(errors):
            columns.append(_Column("binomial s.e.", errors, 100 + place))
    if experiment.kept:
        kept = [", ".join(map(str, row.get("kept", ()))) for row in rows]
        columns.append(_Column("kept epoch", kept, 99))
    return [*columns, _Column("min a curve", [f"{row['minutes']:.1f}" for row in rows], 2)]


def _narrow(columns: list[_Column], width: int) -> tuple[list[_Column], list[str]]:
    """The columns that fit, and sentences on those that all rows share and on those left out."""
    said: list[str] = []
    constant = [
        column
        for column in columns
        if column.head not in ("norm", "min a curve")
        and column.rank < 3
        and len(column.cells) > 1
        and len(set(column.cells)) == 1
    ]
    if constant:
        told = [f"{column.head} {column.cells[0]}".strip() for column in constant]
        said.append(f"All rows: {', '.join(told)}.")
    columns = [column for column in columns if column not in constant]
    left_out: list[str] = []
    while len(_markdown(columns)[0]) > width and any(column.rank for column in columns):
        last = max(column.rank for column in columns)
        left_out += [column.head for column in columns if column.rank == last]
        columns = [column for column in columns if column.rank != last]
    if left_out:
        heads = ", ".join(dict.fromkeys(reversed(left_out)))
        said.append(f"In summary.md also: {heads}.")
    return columns, said


def _markdown(columns: Sequence[_Column]) -> list[str]:
    table = [[column.head for column in columns]]
    table += [list(cells) for cells in zip(*(column.cells for column in columns))]
    widths = [max(len(line[i]) for line in table) for i in range(len(columns))]
    lines = [
        "| " + " | ".join(cell.ljust(size) for cell, size in zip(line, widths)) + " |"
        for line in table
    ]
    lines.insert(1, "|" + "|".join("-" * (size + 2) for size in widths) + "|")
    return lines


def _prefix(row: Row) -> str:
    return f"{row['label']}, " if row["label"] else ""


def _untrained(experiment: Experiment, summary: Mapping[str, Any]) -> Iterator[str]:
    for row in summary.get("untrained", ()):
        found = [
            f"{figure.label} {_number(figure, row[figure.key])}"
            for figure in experiment.figures
            if figure.key in row
        ]
        name = experiment.norm(row["norm"]).label
        yield f"Untrained, {_prefix(row)}{name}, seed {row['seed']}: {', '.join(found)}."


def _verdicts(experiment: Experiment, summary: Mapping[str, Any]) -> Iterator[str]:
    for figure in (figure for figure in experiment.figures if figure.of or figure.compare):
        for a, b in combinations(summary["results"], 2):
            single = min(len(a["seeds"]), len(b["seeds"])) < 2 and not figure.of
            if a["variant"] != b["variant"] or single or not {figure.key} <= a.keys() & b.keys():
                continue
            better, worse = sorted((a, b), key=lambda row: row[figure.key], reverse=figure.higher)
            gap = abs(a[figure.key] - b[figure.key])
            error = math.hypot(standard_error(a, figure.key), standard_error(b, figure.key))
            names = [experiment.norm(row["norm"]).label for row in (better, worse)]
            if gap >= 2 * error:
                way = "higher" if figure.higher else "lower"
                verdict = f"{names[0]} is {way} than {names[1]}"
            else:
                verdict = f"no difference between {names[0]} and {names[1]}"
            digits = f"{_number(figure, gap)} ± {_number(figure, error)}"
            yield f"{_prefix(a)}{figure.label}: {verdict} (apart by {digits})."


def _race(experiment: Experiment, summary: Mapping[str, Any]) -> Iterator[str]:
    figure = experiment.race
    if figure is None:
        return
    for row in summary.get("race", ()):
        baseline, norm = (experiment.norm(n).label for n in (experiment.baseline, row["norm"]))
        limited = f", with fewer than {PATIENCE} after it: budget-limited" * row["budget_limited"]
        line = f"{_prefix(row)}seed {row['seed']}: {baseline}'s best {figure.label} is "
        line += f"{_number(figure, row['best'])} (epoch {row['epoch']}{limited}); {norm} "
        if row["reached"] is None:
            line += "doesn't reach it"
        else:
            line += f"reaches it at epoch {row['reached']}, with {row['share']:.2f} of the updates "
            line += f"and {row['time_share']:.2f} of the time"
        if row["then"] is not None:
            line += f", and at equal time is at {_number(figure, row['then'])}"
        yield line + "."

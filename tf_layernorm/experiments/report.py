"""The table and the picture of an experiment, from the figures of its curves."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

Rows = Sequence[dict[str, float]]  # one curve: the figures of each epoch
Curves = Mapping[tuple[str, str], Mapping[int, Rows]]  # of each (variant, norm): by seed

BASELINE = "none"
COLOURS = {"layer": "C0", "batch": "C1", "all": "C2", "none": "C7"}
NAMES = {"layer": "layer norm", "batch": "batch norm", "all": "all normalised", "none": "no norm"}
PATIENCE = 10  # evaluations without a gain, before a curve counts as trained out


@dataclass(frozen=True)
class Figure:
    """A logged figure, and how people read it."""

    key: str  # its name in `metrics.jsonl`
    label: str
    scale: float = 1.0  # what to multiply it by
    digits: int = 2  # after the point, in the table
    share: bool = False  # a share of the test cases, so it has a binomial standard error
    compare: bool = False  # its differences are judged by their standard errors, as a share's are
    log: bool = False  # on a logarithmic axis


def results(experiment: Any, curves: Curves, test_size: int) -> dict[str, Any]:
    """Mean and spread over seeds at the last epoch that every norm of a variant has reached.

    Args:
        experiment: The experiment's module; its `FIGURES` are reported.
        curves: All curves there are.
        test_size: Number of test cases, for the binomial standard error.

    Returns:
        `results`, a list with a dict for each variant and norm, and `left_out`, the curves that
        end earlier and are not in the results.
    """
    rows, left_out = [], []
    for variant in dict.fromkeys(variant for variant, _ in curves):
        norms = {n: seeds for (v, n), seeds in curves.items() if v == variant}
        lengths = {n: max(map(len, seeds.values()), default=0) for n, seeds in norms.items()}
        epoch = min((length for length in lengths.values() if length), default=0)
        for norm, seeds in norms.items():
            used = {s: c for s, c in seeds.items() if epoch and len(c) >= epoch}
            short = {s: c for s, c in seeds.items() if s not in used}
            left_out += [f"{variant}-{norm}-seed{s} (epoch {len(c)})" for s, c in short.items()]
            if not used:
                continue
            row: dict[str, Any] = {"variant": variant, "norm": norm, "epoch": epoch}
            row["seeds"] = sorted(used)
            row["minutes"] = sum(r["seconds"] for c in used.values() for r in c[:epoch])
            row["minutes"] = round(row["minutes"] / 60 / len(used), 2)
            for figure in experiment.FIGURES:
                values = [curve[epoch - 1][figure.key] for curve in used.values()]
                mean = float(np.mean(values))
                row[figure.key] = mean
                row[figure.key + "_sd"] = float(np.std(values, ddof=1)) if len(used) > 1 else None
                if figure.share:
                    row[figure.key + "_se"] = math.sqrt(mean * (1 - mean) / test_size)
            rows.append(row)
    summary = {"results": rows, "left_out": left_out}
    if hasattr(experiment, "RACE"):
        summary["race"] = race(experiment.RACE.key, curves)
    return summary


def race(key: str, curves: Curves) -> list[dict[str, Any]]:
    """How soon each norm reaches the best that the baseline ever does, seed by seed.

    Args:
        key: The figure, lower is better.
        curves: All curves there are.

    Returns:
        A dict for each curve with a baseline of its seed. `best` is the baseline's, at `epoch` and
        after `minutes`; `budget_limited` if it might have come lower, since fewer than ten
        evaluations followed. `reached` is the epoch at which the norm is as low, or `None`, with
        the `share` of the baseline's updates and the `time_share` that it took; `then` is the
        lowest it had come by the baseline's `minutes`.
    """
    lines = []
    for (variant, norm), seeds in curves.items():
        baselines = curves.get((variant, BASELINE), {})
        for seed in sorted(seeds.keys() & baselines) if norm != BASELINE else ():
            if not (seeds[seed] and baselines[seed]):
                continue
            (base, base_time), (ours, our_time) = (
                (np.array([row[key] for row in rows]), np.cumsum([row["seconds"] for row in rows]))
                for rows in (baselines[seed], seeds[seed])
            )
            best = int(base.argmin())
            line: dict[str, Any] = {"variant": variant, "norm": norm, "seed": seed}
            line |= {"best": float(base[best]), "epoch": best + 1}
            line["minutes"] = round(base_time[best] / 60, 2)
            line["budget_limited"] = len(base) - best <= PATIENCE
            first = int((ours <= base[best]).argmax()) if ours.min() <= base[best] else None
            line |= {"reached": None, "share": None, "time_share": None}
            if first is not None:
                line |= {"reached": first + 1, "share": (first + 1) / (best + 1)}
                line["time_share"] = float(our_time[first] / base_time[best])
            by_then = ours[our_time <= base_time[best]]
            line["then"] = float(by_then.min()) if len(by_then) else None
            lines.append(line)
    return lines


def standard_error(row: dict[str, Any], key: str) -> float:
    """Of the mean over seeds: what seeds and, for a share, the choice of cases add up to."""
    spread = (row[key + "_sd"] or 0.0) / math.sqrt(len(row["seeds"]))
    return math.hypot(spread, row.get(key + "_se", 0.0))


def text(experiment: Any, summary: dict[str, Any]) -> str:
    """The table, as Markdown, and which of its differences are more than two standard errors."""
    head = ["", "norm", "epoch", "seeds"]
    for figure in experiment.FIGURES:
        head += [figure.label] + ["binomial s.e."] * figure.share
    head += ["paper", "min a curve"]
    table = [head]
    for row in summary["results"]:
        cells = [experiment.title(row["variant"]), NAMES[row["norm"]]]
        cells += [str(row["epoch"]), str(len(row["seeds"]))]
        for figure in experiment.FIGURES:
            mean, sd = row[figure.key] * figure.scale, row[figure.key + "_sd"]
            cell = f"{mean:.{figure.digits}f}"
            if sd is not None:
                cell += f" ± {sd * figure.scale:.{figure.digits}f}"
            cells.append(cell)
            if figure.share:
                cells.append(f"{row[figure.key + '_se'] * figure.scale:.{figure.digits}f}")
        table.append([*cells, experiment.PAPER, f"{row['minutes']:.1f}"])
    widths = [max(len(line[i]) for line in table) for i in range(len(head))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |"
        for line in table
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    lines += ["", f"± is the standard deviation over seeds. {experiment.NOTE}"]
    lines += [f"Data: {summary['data']}."]
    if summary["left_out"]:
        lines.append("Not finished, so not in the table: " + ", ".join(summary["left_out"]) + ".")
    return "\n".join(lines + ["", *_verdicts(experiment, summary), *_race(experiment, summary)])


def _race(experiment: Any, summary: dict[str, Any]) -> list[str]:
    lines = []
    for row in summary.get("race", ()):
        figure, norm = experiment.RACE, NAMES[row["norm"]]
        value = f"{row['best'] * figure.scale:.{figure.digits}f}"
        limited = f", with fewer than {PATIENCE} after it: budget-limited" * row["budget_limited"]
        line = f"{experiment.title(row['variant'])}, seed {row['seed']}: {NAMES[BASELINE]}'s best "
        line += f"{figure.label} is {value} (epoch {row['epoch']}{limited}); {norm} "
        if row["reached"] is None:
            line += "doesn't reach it"
        else:
            line += f"reaches it at epoch {row['reached']}, with {row['share']:.2f} of the updates "
            line += f"and {row['time_share']:.2f} of the time"
        if row["then"] is not None:
            line += f", and at equal time is at {row['then'] * figure.scale:.{figure.digits}f}"
        lines.append(line + ".")
    return lines


def _verdicts(experiment: Any, summary: dict[str, Any]) -> list[str]:
    lines = []
    for figure in (figure for figure in experiment.FIGURES if figure.share or figure.compare):
        for a, b in combinations(summary["results"], 2):
            single = min(len(a["seeds"]), len(b["seeds"])) < 2 and not figure.share
            if a["variant"] != b["variant"] or single:
                continue
            low, high = sorted((a, b), key=lambda row: row[figure.key])
            gap = high[figure.key] - low[figure.key]
            error = math.hypot(standard_error(a, figure.key), standard_error(b, figure.key))
            names = f"{NAMES[low['norm']]} and {NAMES[high['norm']]}"
            if gap >= 2 * error:
                verdict = f"{NAMES[low['norm']]} is lower than {NAMES[high['norm']]}"
            else:
                verdict = f"no difference between {names}"
            numbers = f"{gap * figure.scale:.2f} ± {error * figure.scale:.2f}"
            title = experiment.title(a["variant"])
            lines.append(f"{title}, {figure.label}: {verdict} (apart by {numbers}).")
    return lines


def draw(experiment: Any, curves: Curves, summary: dict[str, Any], path: Path) -> None:
    """The experiment's `PANELS` over epochs, or over its `AXIS`: mean and range over seeds.

    Each variant has a column.
    """
    from matplotlib.figure import Figure as Canvas
    from matplotlib.ticker import MaxNLocator
    from PIL import Image

    variants = list(dict.fromkeys(row["variant"] for row in summary["results"]))
    panels = experiment.PANELS
    axis = getattr(experiment, "AXIS", Figure("epoch", "epoch"))
    if not variants:
        return
    canvas = Canvas(figsize=(4.6 * len(variants), 3.1 * len(panels)), layout="constrained")
    axes = canvas.subplots(len(panels), len(variants), squeeze=False, sharey="row", sharex="col")
    for row in summary["results"]:
        column = variants.index(row["variant"])
        seeds = curves[row["variant"], row["norm"]]
        x = [r[axis.key] for r in seeds[row["seeds"][0]][: row["epoch"]]]
        for figure, ax in zip(panels, axes[:, column]):
            values = np.array(
                [[r[figure.key] for r in seeds[s][: row["epoch"]]] for s in row["seeds"]]
            )
            values *= figure.scale
            colour = COLOURS[row["norm"]]
            ax.plot(x, values.mean(0), color=colour, label=NAMES[row["norm"]], lw=1.5)
            ax.fill_between(x, values.min(0), values.max(0), color=colour, alpha=0.25, lw=0)
    for i, figure in enumerate(panels):
        axes[i, 0].set_ylabel(figure.label)
        if figure.log:
            axes[i, 0].set_yscale("log")
        for ax in axes[i]:
            ax.grid(alpha=0.3)
            if axis.log:
                ax.set_xscale("log")
            else:
                ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    for column, variant in enumerate(variants):
        count = max(len(r["seeds"]) for r in summary["results"] if r["variant"] == variant)
        seeds_text = "1 seed" if count == 1 else f"mean and range of {count} seeds"
        axes[0, column].set_title(f"{experiment.title(variant)} ({seeds_text})")
        axes[-1, column].set_xlabel(axis.label)
    axes[0, 0].legend()
    canvas.suptitle(
        f"{experiment.HEADLINE}\n{summary['data'].partition(';')[0]}", fontsize="medium", wrap=True
    )
    canvas.savefig(path, dpi=100)
    # A palette makes it a third of the size, for notebooks and README files.
    Image.open(path).quantize(64).save(path, optimize=True)

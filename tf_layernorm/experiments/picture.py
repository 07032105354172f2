"""The picture of an experiment: its figures over training, mean and range over seeds."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tf_layernorm.experiments.experiment import Experiment
from tf_layernorm.experiments.files import write_whole
from tf_layernorm.experiments.results import Cell


def draw(
    experiment: Experiment, cells: Sequence[Cell], summary: Mapping[str, Any], path: Path
) -> None:
    """Draws the experiment's `panels`, a row each, with a column for each point of the grid."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator
    from PIL import Image

    labels = {row["variant"]: row["label"] for row in summary["results"]}
    if not labels:
        return
    curves = {(cell.variant, cell.norm): cell.seeds for cell in cells}
    columns = list(labels)
    logged = [curve.rows for cell in cells for curve in cell.seeds.values()]
    panels = [
        figure
        for figure in experiment.panels
        if not figure.optional or all(figure.key in row for rows in logged for row in rows)
    ]
    canvas = Figure(figsize=(4.6 * len(labels), 3.1 * len(panels)), layout="constrained")
    axes = canvas.subplots(len(panels), len(labels), squeeze=False, sharey="row", sharex="col")
    for row in summary["results"]:
        norm = experiment.norm(row["norm"])
        rows = [curves[row["variant"], norm.name][s].rows[: row["epoch"]] for s in row["seeds"]]
        x = [r[experiment.x.key] for r in rows[0]]
        for figure, ax in zip(panels, axes[:, columns.index(row["variant"])]):
            values = figure.scale * np.array([[r[figure.key] for r in curve] for curve in rows])
            ax.plot(x, values.mean(0), color=norm.colour, label=norm.label, lw=1.5)
            ax.fill_between(x, values.min(0), values.max(0), color=norm.colour, alpha=0.25, lw=0)
    for figure, line in zip(panels, axes):
        line[0].set_ylabel(figure.label)
        if figure.log:
            line[0].set_yscale("log")
        for ax in line:
            ax.grid(alpha=0.3)
            if experiment.x.log:
                ax.set_xscale("log")
            else:
                ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    for column, (variant, label) in enumerate(labels.items()):
        count = max(len(r["seeds"]) for r in summary["results"] if r["variant"] == variant)
        seeds = "1 seed" if count == 1 else f"mean and range of {count} seeds"
        axes[0, column].set_title(f"{label} ({seeds})" if label else seeds)
        axes[-1, column].set_xlabel(experiment.x.label)
    axes[0, 0].legend()
    canvas.suptitle(
        f"{experiment.title}\n{summary['data'].partition(';')[0]}", fontsize="medium", wrap=True
    )

    def save(unfinished: Path) -> None:
        canvas.savefig(unfinished, dpi=150)
        # A palette makes it a third of the size, for notebooks and README files.
        Image.open(unfinished).quantize(64).save(unfinished, optimize=True)

    write_whole(path, save)

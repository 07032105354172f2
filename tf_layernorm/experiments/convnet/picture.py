"""The share of active units by their distance from the border, as a picture of a whole run."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tf_layernorm.experiments.convnet import EXPERIMENT
from tf_layernorm.experiments.files import read_json, write_whole
from tf_layernorm.experiments.results import read_curve
from tf_layernorm.experiments.runner import CURVES, SUMMARY

Shares = Mapping[str, float]


def draw_border(run: str | Path, out: str | Path | None = None, *, layers: int = 3) -> Path:
    """Draws active units by distance, before and after training: mean and range over seeds.

    Args:
        run: Folder of a run of this experiment.
        out: The `.png` to write. Defaults to `border.png` in that folder.
        layers: How many convolutions to show, from the first on. Defaults to `3`.

    Returns:
        The path of the picture.

    Raises:
        ValueError: If the folder holds no tested curve of this experiment.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator
    from PIL import Image

    summary = read_json(Path(run) / SUMMARY) or {}
    folders = sorted((Path(run) / CURVES).glob("*"))
    moments: dict[str, dict[str, list[Shares]]] = {"before training": {}, "trained": {}}
    for folder in folders:
        curve, norm = read_curve(folder), folder.name.split("-")[-2]
        if curve.untrained and curve.test:
            moments["before training"].setdefault(norm, []).append(curve.untrained)
            moments["trained"].setdefault(norm, []).append(curve.test["figures"])
    if summary.get("experiment") != EXPERIMENT.name or not moments["trained"]:
        raise ValueError(
            "`run` must be the folder of a run of `convnet` with a finished curve. "
            f"Received: run={str(run)!r}"
        )
    first = next(iter(moments["trained"].values()))[0]
    names = [f"conv{k}" for k in range(1, layers + 1) if f"active_conv{k}_0" in first]

    canvas = Figure(figsize=(3.6 * len(names), 6.2), layout="constrained")
    axes = canvas.subplots(2, len(names), squeeze=False, sharex="col", sharey=True)
    for (moment, found), line in zip(moments.items(), axes):
        for name, ax in zip(names, line):
            if name == names[0]:
                pixels = by_distance(first, "input")
                ax.plot(100 * pixels, "k:", lw=1, label="pixels that aren't black")
            for kind in (norm for norm in EXPERIMENT.norms if norm.name in found):
                y = 100 * np.array([by_distance(shares, name) for shares in found[kind.name]])
                ax.plot(y.mean(0), color=kind.colour, label=kind.label, marker=".")
                x = np.arange(y.shape[1])
                ax.fill_between(x, y.min(0), y.max(0), color=kind.colour, alpha=0.2, lw=0)
            ax.set_title(f"{name.replace('conv', 'convolution ')}, {moment}", fontsize="medium")
            ax.grid(alpha=0.3)
        line[0].set_ylabel("active units, %")
    for ax in axes[-1]:
        ax.set_xlabel("pixels from the border")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    canvas.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    canvas.suptitle(
        f"How often units are active, mean and range over seeds\n{summary['data']}",
        fontsize="medium",
        wrap=True,
    )
    path = Path(run) / "border.png" if out is None else Path(out)

    def save(unfinished: Path) -> None:
        canvas.savefig(unfinished, dpi=100, format="png")
        Image.open(unfinished).quantize(64).save(unfinished, format="png", optimize=True)

    write_whole(path, save)
    return path


def by_distance(shares: Mapping[str, Any], layer: str) -> np.ndarray:
    """The shares of a layer of `activity.active_shares`, from the border inwards."""
    pattern = re.compile(rf"active_{layer}_(\d+)")
    found = {int(m[1]): value for key, value in shares.items() if (m := pattern.fullmatch(key))}
    return np.array([found[distance] for distance in sorted(found)])

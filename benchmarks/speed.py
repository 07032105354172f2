"""Time of a train step and of a forward pass, side by side in one run.

    python benchmarks/speed.py --peers torch=PYTHON,jax=PYTHON --out benchmarks/results

Candidates are interleaved and each counts with its fastest repeat. Only ratios mean anything on
another machine. A Keras candidate counts with the better of XLA on and off. Other libraries take
part where this environment has them, or the one whose interpreter `--peers` names.
"""

import argparse
import importlib.util
import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from environment import environment
from peers import CELLS, MODULES, Run, timed

LABELS = {
    "fused": "tf_layernorm",
    "RNN(cell)": "keras RNN, our cell",
    "RNN(Keras cell)": "keras RNN, Keras' cell",
    "Keras plain": "Keras, no norm",
    "GEMM floor": "matrix products only",
    "torch": "torch.nn, no norm",
}
SHAPES = ((8, 200, 64, 400), (64, 100, 240, 240), (128, 64, 256, 256))  # B, T, D, H


class Peer:
    """Another library's candidate, which runs in a process of its own."""

    def __init__(self, python: str, library: str, cell: str, shape: tuple[int, ...]) -> None:
        command = [python, str(Path(__file__).with_name("peers.py")), library, cell]
        self.process = subprocess.Popen(
            [*command, *map(str, shape)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def time(self, kind: str) -> float:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(kind + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self) -> None:
        self.process.communicate()


def find_peers(option: str | None) -> dict[str, str]:
    """The Python interpreter of every library that is there or named."""
    named = dict(pair.split("=", 1) for pair in option.split(",")) if option else {}
    unknown = set(named) - set(MODULES.values())
    if unknown:
        raise ValueError(f"`--peers` must name some of {set(MODULES.values())}. Received: {option}")
    return {
        library: named.get(module, sys.executable)
        for library, module in MODULES.items()
        if module in named or importlib.util.find_spec(module)
    }


def best_times(timers: dict[str, Callable[[], float]], repeats: int) -> dict[str, float]:
    """Milliseconds of each candidate's fastest repeat, all of them taking turns."""
    times = {name: math.inf for name in timers}
    for _ in range(repeats):
        for name, timer in timers.items():
            timer()  # compiles, and meets another process still spinning, or cores asleep
            times[name] = min(times[name], timer())
    return times


def best_of_jit(times: dict[str, float]) -> dict[str, float]:
    """One figure a candidate, the better of its two."""
    best: dict[str, float] = {}
    for name, value in times.items():
        name = name.partition(", jit=")[0]
        best[name] = min(best.get(name, math.inf), value)
    return best


def measure(
    cells: list[str], shapes: list[tuple[int, ...]], repeats: int, found: dict[str, str]
) -> list[dict[str, Any]]:
    """A row of milliseconds for each cell, shape and kind of step."""
    import tensorflow as tf
    from candidates import keras_candidates

    rows = []
    for cell in cells:
        for shape in shapes:
            batch, steps, features, units = shape
            x = tf.random.stateless_normal([batch, steps, features], seed=[0, 0])
            candidates = keras_candidates(cell, x, units)
            peers = {
                library: Peer(python, library, cell, shape)
                for library, python in found.items()
                if cell in CELLS[library]
            }
            for k, kind in enumerate(("train", "forward")):
                timers = {name: _timer(runs[k]) for name, runs in candidates.items()}
                timers |= {library: _peer_timer(peer, kind) for library, peer in peers.items()}
                times = best_times(timers, repeats)
                row = {"cell": cell, "shape": shape, "kind": kind, "ms": times}
                rows.append(row)
                fused = best_of_jit(times)["fused"]
                ratios = {n: round(v / fused, 2) for n, v in best_of_jit(times).items()}
                print(
                    f"{cell:9} {shape} {kind:7} fused {fused:6.1f} ms; times fused:",
                    ratios,
                    flush=True,
                )
            for peer in peers.values():
                peer.close()
    return rows


def faster(rows: list[dict[str, Any]], earlier: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each candidate with the faster of two runs: all of a process can be slow."""
    before = {(row["cell"], *row["shape"], row["kind"]): row["ms"] for row in earlier}
    result = []
    for row in rows:
        other = before.get((row["cell"], *row["shape"], row["kind"]), {})
        ms = {name: min(time, other.get(name, time)) for name, time in row["ms"].items()}
        result.append(row | {"ms": ms})
    return result


def _timer(run: Run) -> Callable[[], float]:
    return lambda: timed(run)


def _peer_timer(peer: Peer, kind: str) -> Callable[[], float]:
    return lambda: peer.time(kind)


def geometric_means(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """For each cell and kind, the time over that of ours, as the geometric mean of the shapes."""
    means = {}
    for cell, kind in sorted({(row["cell"], row["kind"]) for row in rows}):
        best = [best_of_jit(r["ms"]) for r in rows if (r["cell"], r["kind"]) == (cell, kind)]
        means[f"{cell} {kind}"] = {
            name: math.exp(sum(math.log(b[name] / b["fused"]) for b in best) / len(best))
            for name in best[0]
        }
    return means


def draw(means: dict[str, dict[str, float]], path: Path) -> None:
    """A bar for each candidate: how many times as long as ours it takes."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    cells = list(dict.fromkeys(name.split()[0] for name in means))[::-1]
    figure, axes = plt.subplots(
        2, len(cells), figsize=(3.8 * len(cells), 5.2), squeeze=False, layout="constrained"
    )
    names = [f"{cell} {kind}" for kind in ("train", "forward") for cell in cells]
    for axis, name in zip(axes.flat, names, strict=True):
        labels = [LABELS.get(label, label) for label in means[name]][::-1]
        values = list(means[name].values())[::-1]
        colors = ["C0" if label == "tf_layernorm" else "C7" for label in labels]
        bars = axis.barh(labels, values, color=colors)
        axis.bar_label(bars, fmt="%.2f", padding=2, fontsize=8)
        axis.set_title(name)
        axis.set_xlim(0, 1.15 * max(values))
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=8)
    figure.supxlabel("time / time of tf_layernorm", fontsize=10)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--cells", default="LSTM,GRU,SimpleRNN", help="comma-separated")
    parser.add_argument(
        "--shape",
        type=int,
        nargs=4,
        action="append",
        metavar=("B", "T", "D", "H"),
        help="instead of the three; may be given several times",
    )
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument(
        "--peers", metavar="MODULE=PYTHON,...", help="interpreters with torch, jax, ... beside ours"
    )
    parser.add_argument("--out", type=Path, help="folder for speed.json and speed.png")
    parser.add_argument(
        "--earlier", type=Path, help="speed.json of a run before: the faster of both counts"
    )
    arguments = parser.parse_args()
    shapes = [tuple(shape) for shape in arguments.shape or SHAPES]
    found = find_peers(arguments.peers)
    earlier = json.loads(arguments.earlier.read_text())["rows"] if arguments.earlier else []
    rows = measure(arguments.cells.split(","), shapes, arguments.repeats, found)
    rows = faster(rows, earlier)
    means = geometric_means(rows)
    for name, ratios in means.items():
        print(name, {k: round(v, 2) for k, v in ratios.items()})
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        result = {**environment(), "rows": rows, "times_fused": means}
        (arguments.out / "speed.json").write_text(json.dumps(result, indent=1) + "\n")
        draw(means, arguments.out / "speed.png")


if __name__ == "__main__":
    main()

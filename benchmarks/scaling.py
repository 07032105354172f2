"""Time, peak memory and compile time of a train step against T, H and B.

    python benchmarks/scaling.py --out benchmarks/results

Ours against `keras.layers.RNN` over our cell, each with and without XLA around the whole step (the
passes of ours are compiled in any case, then as two programs). Peak memory is the largest resident
size of a process minus that before its first step. Every measurement is of several fresh processes:
the fastest time, the median of the rest, and all peaks.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from environment import environment

BASE = {"B": 32, "T": 200, "H": 256}
SWEEPS = {
    "T": (100, 200, 400, 800, 1600),
    "H": (128, 256, 512, 1024),
    "B": (1, 8, 32, 128),
}
NAMES = {"B": "batch", "T": "length", "H": "units"}
FEATURES = 64


def measure(label: str, cell: str, batch: int, steps: int, units: int, repeats: int) -> None:
    """Prints one measurement as JSON."""
    import resource

    import tensorflow as tf
    from candidates import make_layer, steps_of

    def peak() -> float:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    name, _, jit = label.partition(", jit=")
    x = tf.random.stateless_normal([batch, steps, FEATURES], seed=[0, 0])
    train, _ = steps_of(make_layer(name, cell, units), x, jit=jit == "True")
    tf.function(tf.square, jit_compile=True)(x)  # what any first program of XLA's takes
    before = peak()
    start = time.perf_counter()
    train()
    first = time.perf_counter() - start
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        train()
        times.append(time.perf_counter() - start)
    row = {"name": label, "B": batch, "T": steps, "H": units, "ms": 1e3 * min(times)}
    print(json.dumps(row | {"compile_s": first - min(times), "peak_mib": peak() - before}))


def in_a_process(
    label: str, cell: str, sizes: dict[str, int], repeats: int, limit: float | None = None
) -> dict[str, Any]:
    """`measure` in a fresh process. Raises `subprocess.TimeoutExpired` after `limit` seconds."""
    command = [sys.executable, __file__, "--cell", cell, "--repeats", str(repeats)]
    command += ["--one", label, *[str(sizes[k]) for k in "BTH"]]
    result = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    if result.returncode:
        raise RuntimeError(result.stderr)
    return json.loads(result.stdout.splitlines()[-1])


def in_processes(label: str, cell: str, sizes: dict[str, int], repeats: int) -> dict[str, Any]:
    """Of three processes the fastest time, the median compile time and peak, and all peaks."""
    rows = [in_a_process(label, cell, sizes, repeats) for _ in range(3)]
    peaks = sorted(row["peak_mib"] for row in rows)
    return rows[0] | {
        "ms": min(row["ms"] for row in rows),
        "compile_s": statistics.median(row["compile_s"] for row in rows),
        "peak_mib": statistics.median(peaks),
        "peaks_mib": peaks,
    }


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Time and peak memory, a column a sweep, on logarithmic axes."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import NullLocator

    sweeps = list(dict.fromkeys(row["sweep"] for row in rows))
    figure, axes = plt.subplots(
        2, len(sweeps), figsize=(3.4 * len(sweeps), 5), squeeze=False, layout="constrained"
    )
    lines = [
        ("fused, jit=True", "tf_layernorm, under XLA", "C0", "o-"),
        ("fused, jit=False", "tf_layernorm, as two programs", "C0", "o:"),
        ("RNN(cell), jit=True", "keras RNN, our cell, under XLA", "C7", "o-"),
        ("RNN(cell), jit=False", "keras RNN, our cell, without XLA", "C7", "o:"),
    ]
    for column, sweep in zip(axes.T, sweeps, strict=True):
        for name, label, color, style in lines:
            line = [row for row in rows if (row["sweep"], row["name"]) == (sweep, name)]
            sizes = [row[sweep] for row in line]
            for axis, key in zip(column, ("ms", "peak_mib"), strict=True):
                values = [row[key] for row in line]
                axis.loglog(sizes, values, style, color=color, label=label, markersize=4)
                axis.set_xticks(sizes, map(str, sizes))
                axis.xaxis.set_minor_locator(NullLocator())
                axis.yaxis.set_major_formatter("{x:,.0f}")
                axis.yaxis.set_minor_formatter("")
                axis.spines[["top", "right"]].set_visible(False)
        fixed = ", ".join(f"{NAMES[k]} {v}" for k, v in BASE.items() if k != sweep)
        column[0].set_title(f"against {NAMES[sweep]} ({fixed})", fontsize=9)
        column[1].set_xlabel(NAMES[sweep])
    axes[0, 0].set_ylabel("a train step, ms")
    axes[1, 0].set_ylabel("peak memory of it, MiB")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--cell", default="LSTM", choices=("LSTM", "GRU", "SimpleRNN"))
    parser.add_argument("--sweeps", default="T,H,B", help="comma-separated")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, help="folder for scaling.json and scaling.png")
    parser.add_argument("--one", nargs=4, metavar=("LABEL", "B", "T", "H"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        label, *sizes = arguments.one
        measure(label, arguments.cell, *map(int, sizes), arguments.repeats)
        return
    rows: list[dict[str, Any]] = []
    for sweep in arguments.sweeps.split(","):
        for value in SWEEPS[sweep]:
            for name in ("fused", "RNN(cell)"):
                for jit in (True, False):
                    label, sizes = f"{name}, jit={jit}", BASE | {sweep: value}
                    row = in_processes(label, arguments.cell, sizes, arguments.repeats)
                    rows.append({"sweep": sweep} | row)
                    print(rows[-1], flush=True)
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        result = {**environment(), "cell": arguments.cell, "features": FEATURES, "rows": rows}
        (arguments.out / "scaling.json").write_text(json.dumps(result, indent=1) + "\n")
        draw(rows, arguments.out / "scaling.png")


if __name__ == "__main__":
    main()

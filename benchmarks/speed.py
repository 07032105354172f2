"""Time of a train step and of a forward pass, side by side in one run.

    python benchmarks/speed.py --out benchmarks/results

Candidates are interleaved and each counts with its fastest repeat. Only ratios mean anything on
another machine. A Keras candidate counts with the better of XLA on and off.
"""

import argparse
import json
import math
import os
import platform
import time
from pathlib import Path
from typing import Any

SHAPES = ((8, 200, 64, 400), (64, 100, 240, 240), (128, 64, 256, 256))  # B, T, D, H


def best_times(runs: dict[str, Any], repeats: int) -> dict[str, float]:
    """Milliseconds of each run's fastest repeat, all runs taking turns."""
    for run in runs.values():
        run()  # compiles
    times = {name: math.inf for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            times[name] = min(times[name], 1e3 * (time.perf_counter() - start))
    return times


def best_of_jit(times: dict[str, float]) -> dict[str, float]:
    """One figure a candidate, the better of its two."""
    best: dict[str, float] = {}
    for name, value in times.items():
        name = name.partition(", jit=")[0]
        best[name] = min(best.get(name, math.inf), value)
    return best


def measure(cells: list[str], repeats: int) -> list[dict[str, Any]]:
    """A row of milliseconds for each cell, shape and kind of step."""
    import tensorflow as tf
    from candidates import keras_candidates

    rows = []
    for cell in cells:
        for shape in SHAPES:
            batch, steps, features, units = shape
            x = tf.random.stateless_normal([batch, steps, features], seed=[0, 0])
            candidates = keras_candidates(cell, x, units)
            for k, kind in enumerate(("train", "forward")):
                times = best_times({name: c[k] for name, c in candidates.items()}, repeats)
                row = {"cell": cell, "shape": shape, "kind": kind, "ms": times}
                rows.append(row)
                fused = best_of_jit(times)["fused"]
                ratios = {n: round(v / fused, 2) for n, v in best_of_jit(times).items()}
                print(
                    f"{cell:9} {shape} {kind:7} fused {fused:6.1f} ms; times fused:",
                    ratios,
                    flush=True,
                )
    return rows


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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--cells", default="LSTM,GRU,SimpleRNN", help="comma-separated")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--out", type=Path, help="folder for speed.json")
    arguments = parser.parse_args()
    rows = measure(arguments.cells.split(","), arguments.repeats)
    means = geometric_means(rows)
    for name, ratios in means.items():
        print(name, {k: round(v, 2) for k, v in ratios.items()})
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        machine = f"{platform.machine()}, {os.cpu_count()} cores"
        result = {"machine": machine, "rows": rows, "times_fused": means}
        (arguments.out / "speed.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Time of `predict` without XLA, where the sequence layers take their portable loop.

    python benchmarks/portable.py --out benchmarks/results

That is what Keras does on a machine without a GPU unless a model is compiled with
`jit_compile=True`, and what an export holds. Beside it: the same layer with `use_fused=True`, whose
loop is compiled all the same; Keras' loop over our cell; Keras' layer without a norm. Candidates
are interleaved and each counts with its fastest repeat. Only ratios mean anything elsewhere.
"""

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from environment import environment
from speed import SHAPES, best_times


def timer(layer: Any, x: Any) -> Callable[[], float]:
    """Milliseconds of `predict` on one batch, without XLA but for what the layer compiles."""
    import keras

    model = keras.Sequential([keras.Input((None, x.shape[-1])), layer])
    model.compile(jit_compile=False)

    def milliseconds() -> float:
        start = time.perf_counter()
        model.predict_on_batch(x)
        return 1e3 * (time.perf_counter() - start)

    return milliseconds


def measure(cells: list[str], shapes: list[tuple[int, ...]], repeats: int) -> list[dict[str, Any]]:
    """A row of milliseconds for each cell and shape."""
    import numpy as np
    from candidates import make_layer

    import tf_layernorm as tfln

    rows = []
    for cell in cells:
        for shape in shapes:
            *sizes, units = shape
            x = np.random.default_rng(0).normal(size=sizes).astype("float32")
            compiled = getattr(tfln, f"LN{cell}")(units, return_sequences=True, use_fused=True)
            layers = {"portable": make_layer("fused", cell, units), "use_fused=True": compiled}
            for name in ("RNN(cell)", "Keras plain"):
                layers[name] = make_layer(name, cell, units)
            times = best_times({n: timer(layer, x) for n, layer in layers.items()}, repeats)
            rows.append({"cell": cell, "shape": shape, "ms": times})
            ratios = {name: round(v / times["portable"], 2) for name, v in times.items()}
            print(
                f"{cell:9} {shape} portable {times['portable']:6.1f} ms; times portable:",
                ratios,
                flush=True,
            )
    return rows


def geometric_means(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """For each cell, the time over that of the portable loop, as the mean of the shapes."""
    means = {}
    for cell in sorted({row["cell"] for row in rows}):
        times = [row["ms"] for row in rows if row["cell"] == cell]
        means[cell] = {
            name: math.exp(sum(math.log(t[name] / t["portable"]) for t in times) / len(times))
            for name in times[0]
        }
    return means


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--cells", default="LSTM,GRU,SimpleRNN", help="comma-separated")
    parser.add_argument(
        "--shape", type=int, nargs=4, metavar=("B", "T", "D", "H"), help="instead of the three"
    )
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--out", type=Path, help="folder for portable.json")
    arguments = parser.parse_args()
    shapes = [tuple(arguments.shape)] if arguments.shape else list(SHAPES)
    rows = measure(arguments.cells.split(","), shapes, arguments.repeats)
    means = geometric_means(rows)
    for name, ratios in means.items():
        print(name, {k: round(v, 2) for k, v in ratios.items()})
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        result = {**environment(), "rows": rows, "times_portable": means}
        (arguments.out / "portable.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

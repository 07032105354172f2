"""Where the time of the fused recurrence goes: its step built up from the bare products.

    python benchmarks/breakdown.py --out benchmarks/results

The candidates are the products alone, the cell without a norm, with one of its norms, and with all;
what one takes longer than another is what the difference costs. Interleaved, all under XLA, each
with its fastest repeat. The instructions in the bodies of the two loops, as XLA compiles them for
this machine, are counted beside.
"""

import argparse
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from environment import environment
from speed import SHAPES, best_times, timed

TERMS = {
    "LSTM": ((), ("kernel",), ("recurrent",), ("state",), ("kernel", "recurrent", "state")),
    "GRU": ((), ("kernel",), ("recurrent",), ("kernel", "recurrent")),
}


def instructions(hlo: str) -> list[dict[str, int]]:
    """How often each operation stands in the body of each loop, without what costs nothing."""
    blocks = re.split(r"\n(?=%|ENTRY)", hlo)
    by_name = {block.split()[0].lstrip("%"): block for block in blocks if block.startswith("%")}
    free = {"parameter", "get-tuple-element", "tuple", "constant", "bitcast"}
    counts = []
    for body in re.findall(r"body=%?([\w.\-]+)", hlo):
        found = re.findall(r"= (?:\([^=]*?\)|\S+) ([a-z][\w\-]*)\(", by_name[body])
        counts.append(dict(Counter(name for name in found if name not in free)))
    return counts


def measure(cell: str, shape: tuple[int, ...], repeats: int) -> dict[str, Any]:
    """Milliseconds of each candidate, and the instructions in the loops of the whole cell."""
    import tensorflow as tf
    from candidates import gemm_floor, steps_of, train_step

    import tf_layernorm as tfln

    tf.get_logger().setLevel("ERROR")  # a function a layer is what it warns of
    *sizes, units = shape
    x = tf.random.stateless_normal(sizes, seed=[0, 0])
    runs = {"products": gemm_floor(cell, x, units)}
    for normalize in TERMS[cell]:
        layer = getattr(tfln, f"LN{cell}")(units, normalize=normalize, return_sequences=True)
        runs["+".join(normalize) or "no norm"] = steps_of(layer, x, jit=True)
    row: dict[str, Any] = {"cell": cell, "shape": shape}
    for k, kind in enumerate(("train", "forward")):
        timers = {name: (lambda run=pair[k]: timed(run)) for name, pair in runs.items()}
        row[kind] = best_times(timers, repeats)

    train, given = train_step(layer, x, jit=True)
    row["loops"] = instructions(train.experimental_get_compiler_ir(*given)(stage="optimized_hlo"))
    return row


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--cells", default="LSTM,GRU", help="comma-separated")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--out", type=Path, help="folder for breakdown.json")
    arguments = parser.parse_args()
    rows = []
    for cell in arguments.cells.split(","):
        for shape in SHAPES:
            row = measure(cell, shape, arguments.repeats)
            rows.append(row)
            print(cell, shape)
            for kind in ("train", "forward"):
                print(f"  {kind:7} ms", {k: round(v, 1) for k, v in row[kind].items()})
            print("  in the loops' bodies", row["loops"], flush=True)
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        result = {**environment(), "rows": rows}
        (arguments.out / "breakdown.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

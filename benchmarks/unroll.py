"""Compile time and time of a train step, with `unroll=True` and with the loop.

    python benchmarks/unroll.py --out benchmarks/results

The sizes are those of `scaling.py`, the lengths those of a digit read row by row, of a pen line and
of a digit read pixel by pixel. What takes longer than `--limit`, Python's start and tracing
included, is stopped, and longer sequences of its kind are not tried.
"""

import argparse
import json
import subprocess
from pathlib import Path
from typing import Any

from environment import environment
from scaling import BASE, in_a_process

LENGTHS = (28, 200, 784)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--cells", default="LSTM,GRU,SimpleRNN", help="comma-separated")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--limit", type=float, default=300, help="seconds for a measurement")
    parser.add_argument("--out", type=Path, help="folder for unroll.json")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for cell in arguments.cells.split(","):
        for name in ("fused", "unrolled"):
            for length in LENGTHS:
                sizes = BASE | {"T": length}
                row: dict[str, Any] = {"cell": cell, "name": name, **sizes}
                try:
                    label = f"{name}, jit=True"
                    row = in_a_process(label, cell, sizes, arguments.repeats, arguments.limit) | row
                except subprocess.TimeoutExpired:
                    row["stopped_after_s"] = arguments.limit
                rows.append(row)
                print(row, flush=True)
                if "stopped_after_s" in row:
                    break
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        text = json.dumps({**environment(), "rows": rows}, indent=1) + "\n"
        (arguments.out / "unroll.json").write_text(text)


if __name__ == "__main__":
    main()

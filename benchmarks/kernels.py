"""A profile of the fused train step: the time of every kernel that XLA made of it, in groups.

    python benchmarks/kernels.py --out benchmarks/results

On one core, where kernels don't overlap. A kernel counts with its median times how often it runs.
Groups are by what a kernel is: a matrix product, a write into a buffer over time, a concatenation
or copy, a sum (over units or cases) with what is fused into it, other element-wise work.
"""

import argparse
import json
import os
import platform
import re
import statistics
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from environment import environment
from speed import SHAPES

GROUPS = {  # by the first name that a kernel's own contains
    "concatenations and copies": ("concat", "copy", "pad"),
    "writes over time": ("dynamic-update-slice",),
    "sums": ("dot_fusion", "reduce"),
    "element-wise": ("fusion", "wrapped", "add", "multiply"),
    "products": ("MatMul", "dot"),
}


def group(kernel: str) -> str:
    """Which of `GROUPS` a kernel is in."""
    return next((g for g, names in GROUPS.items() if any(n in kernel for n in names)), "others")


def durations(folder: str) -> dict[str, list[float]]:
    """Microseconds of every event that TensorFlow's profiler wrote, by name."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace()
    (file,) = Path(folder).rglob("*.xplane.pb")
    space.ParseFromString(file.read_bytes())
    events = defaultdict(list)
    for plane in space.planes:
        for line in plane.lines:
            for event in line.events:
                name = plane.event_metadata[event.metadata_id].name
                events[name].append(event.duration_ps / 1e6)
    return events


def bodies(hlo: str) -> list[set[str]]:
    """The names of the instructions of the whole program and of each loop's body."""
    blocks = re.split(r"\n(?=%|ENTRY)", hlo)
    entry = next(block for block in blocks if block.startswith("ENTRY"))
    by_name = {block.split()[0].lstrip("%"): block for block in blocks if block.startswith("%")}
    loops = [by_name[name] for name in re.findall(r" while\(.*body=%?([\w.\-]+)", entry)]
    return [set(re.findall(r"^ +(?:ROOT )?%?([\w.\-]+) =", b, re.M)) for b in (entry, *loops)]


def measure(cell: str, shape: tuple[int, ...], repeats: int) -> dict[str, Any]:
    """Milliseconds of each group of kernels, outside the loops and in either of them."""
    import tensorflow as tf
    from candidates import make_layer, train_step

    *sizes, units = shape
    x = tf.random.stateless_normal(sizes, seed=[0, 0])
    layer = make_layer("fused", cell, units)
    layer.build(x.shape)
    train, given = train_step(layer, x, jit=True)
    train(*given)
    with tempfile.TemporaryDirectory() as folder:
        with tf.profiler.experimental.Profile(folder):
            for _ in range(repeats):
                train(*given)
        events = durations(folder)
    names = bodies(train.experimental_get_compiler_ir(*given)(stage="optimized_hlo"))
    row: dict[str, Any] = {"cell": cell, "shape": shape, "ms": {}}
    for place, kernels in zip(("outside", "forward", "backward"), names, strict=True):
        times: dict[str, float] = defaultdict(float)
        for kernel in kernels & events.keys():
            if not kernel.startswith("while"):
                runs = len(events[kernel]) / repeats
                times[group(kernel)] += statistics.median(events[kernel]) * runs / 1e3
        row["ms"][place] = dict(sorted(times.items(), key=lambda item: -item[1]))
    return row


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--cells", default="LSTM,GRU,SimpleRNN", help="comma-separated")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--out", type=Path, help="folder for kernels.json")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # before TensorFlow counts the cores
    rows = []
    for cell in arguments.cells.split(","):
        for shape in SHAPES:
            row = measure(cell, shape, arguments.repeats)
            rows.append(row)
            total = sum(ms for times in row["ms"].values() for ms in times.values())
            print(f"{cell} {shape}: {total:.1f} ms, of which in %")
            for place, times in row["ms"].items():
                print(f"  {place:9}", {k: round(100 * v / total, 1) for k, v in times.items()})
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        result = {**environment(), "machine": f"{platform.machine()}, 1 core", "rows": rows}
        (arguments.out / "kernels.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Writes the tables of the documentation from `results/` and the benchmarks' JSON.

    python -m benchmarks.tables          # rewrites every marked table
    python -m benchmarks.tables --list   # names the tables there are

A marked table stands in any Markdown file between two lines of their own:

    <!-- table: mnist-paper -->
    <!-- end -->
"""

import argparse
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
BENCHMARKS = ROOT / "benchmarks" / "results"
MARKED = re.compile(r"(<!-- table: ([\w-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
CELLS = ("SimpleRNN", "LSTM", "GRU")
PEERS = {
    "RNN(cell)": "`keras.layers.RNN` over our cell",
    "RNN(Keras cell)": "`keras.layers.RNN` over Keras' cell, no norm",
    "Keras plain": "Keras' layer, no norm",
    "GEMM floor": "the step's matrix products alone",
    "torch": "`torch.nn`'s layer, no norm",
    "TorchScript LN": "TorchScript LN-LSTM",
    "jax scan LN": "`jax.lax.scan` LN-LSTM",
    "TensorFlow Addons LN": "TensorFlow Addons' LN-LSTM",
}


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def geometric_mean(values: Sequence[float]) -> float:
    """The n-th root of the product."""
    return math.exp(sum(map(math.log, values)) / len(values))


def speed(found: Mapping[str, Any]) -> str:
    """Times over ours, the geometric mean over the shapes."""
    times = found["times_fused"]
    kinds = [f"{cell} {kind}" for cell in CELLS for kind in ("train", "forward")]
    kinds = [kind for kind in kinds if kind in times]
    rows = [
        [label, *(f"{times[kind][name]:.2f}" if name in times[kind] else "" for kind in kinds)]
        for name, label in PEERS.items()
        if any(name in times[kind] for kind in kinds)
    ]
    return markdown(["time over ours", *kinds], rows)


def speed_in_short(found: Mapping[str, Any]) -> str:
    """The rows and columns of `speed` that the README shows."""
    times = {k: v for k, v in found["times_fused"].items() if not k.startswith("Simple")}
    shown = ("RNN(cell)", "Keras plain", "torch", "GEMM floor")
    chosen = {kind: {name: row[name] for name in shown} for kind, row in times.items()}
    return speed({"times_fused": chosen})


def addition(found: Mapping[str, Any]) -> str:
    """Mean and standard deviation over the seeds after the last epoch, on unseen sums."""
    import numpy as np

    rows = []
    for layer in dict.fromkeys(row["layer"] for row in found["rows"]):
        here = [row for row in found["rows"] if row["layer"] == layer]
        characters = [100 * row["val_accuracy"][-1] for row in here]
        sums = [100 * row["right_sums"] for row in here]
        cells = [f"{np.mean(v):.1f} ± {np.std(v, ddof=1):.1f}" for v in (characters, sums)]
        seconds = np.mean([row["cpu_seconds"][-1] for row in here])
        rows.append([f"`{layer}`", *cells, f"{seconds:.0f}"])
    return markdown(["", "characters right, %", "sums wholly right, %", "CPU-seconds"], rows)


def breakdown(found: Mapping[str, Any]) -> str:
    """What each norm adds, over the bare products."""
    terms = list(dict.fromkeys(term for row in found["rows"] for term in row["train"]))
    rows = []
    for cell in CELLS:
        for kind in ("train", "forward"):
            here = [row[kind] for row in found["rows"] if row["cell"] == cell]
            if here:
                cells = [
                    f"{geometric_mean([r[term] / r['products'] for r in here]):.2f}"
                    if all(term in r for r in here)
                    else ""
                    for term in terms
                ]
                rows.append([f"{cell}, {kind}", *cells])
    return markdown(["time over the products'", *terms], rows)


def kernels(found: Mapping[str, Any]) -> str:
    """Where a train step's time goes on one core, in per cent, the mean over the shapes."""
    shares: dict[str, list[dict[str, float]]] = {}
    for row in found["rows"]:
        outside = dict(row["ms"]["outside"])
        parts = {"products outside the loops": outside.pop("products", 0.0)}
        for where in ("forward", "backward"):
            for name, ms in row["ms"][where].items():
                name = "products in them" if name == "products" else name
                parts[name] = parts.get(name, 0.0) + ms
        parts["all else"] = sum(outside.values())
        whole = sum(parts.values())
        shares.setdefault(row["cell"], []).append({k: 100 * v / whole for k, v in parts.items()})
    names = list(dict.fromkeys(k for rows in shares.values() for row in rows for k in row))
    table = [
        [cell, *(f"{sum(r.get(name, 0.0) for r in rows) / len(rows):.0f}" for name in names)]
        for cell, rows in shares.items()
    ]
    return markdown(["% of a train step", *names], table)


def litert(found: Mapping[str, Any]) -> str:
    """A forward pass in LiteRT and in TensorFlow, at each batch size, and the files."""
    times = list(dict.fromkeys(name for row in found["rows"] for name in row["ms"]))
    table = []
    for cell in dict.fromkeys(row["cell"] for row in found["rows"]):
        here = [row for row in found["rows"] if row["cell"] == cell]
        cells = [", ".join(f"{row['ms'][name]:.1f}" for row in here) for name in times]
        sizes = [f"{here[0]['kB'][name]:,.0f}" for name in ("loop", "unrolled")]
        table.append([cell, *cells, *sizes])
    batches = ", ".join(dict.fromkeys(str(row["shape"][0]) for row in found["rows"]))
    head = [f"ms at batch {batches}", *times, "file with the loop, kB", "unrolled, kB"]
    return markdown(head, table)


MAKERS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "speed": speed,
    "speed_one_core": speed,
    "lengths": speed,
    "breakdown": breakdown,
    "kernels": kernels,
    "litert": litert,
    "addition": addition,
    "speed_in_short": speed_in_short,
}
# Tables made of another's file.
FILES = {"speed_in_short": "speed"}


def names() -> list[str]:
    """The tables there are: the runs in `results/`, and those of the benchmarks."""
    runs = sorted(path.parent.name for path in RESULTS.glob("*/summary.json"))
    return runs + [name for name in MAKERS if _file(name).exists()]


def _file(name: str) -> Path:
    return BENCHMARKS / f"{FILES.get(name, name)}.json"


def table(name: str) -> str:
    """A table, and below it where, with what and when it was measured.

    Raises:
        ValueError: If there is no such table.
    """
    if name not in names():
        raise ValueError(f"The table must be one of {', '.join(names())}. Received: {name!r}")
    if name in MAKERS:
        found = json.loads(_file(name).read_text())
        text = MAKERS[name](found)
    else:
        from tf_layernorm.experiments import report
        from tf_layernorm.experiments.registry import find

        found = json.loads((RESULTS / name / "summary.json").read_text())
        text = report.table(find(found["experiment"]), found)
    return f"{text}\n\n{measured(found)}\n"


def measured(found: Mapping[str, Any]) -> str:
    """Where, with what and when."""
    titles = {"tensorflow": "TensorFlow", "keras": "Keras"}
    versions = [f"{titles[k]} {v}" for k, v in found.get("versions", {}).items() if k in titles]
    return f"({', '.join([found['machine'], *versions, found['date']])})"


def rewritten(text: str) -> str:
    """A page with its marked tables as they are now."""
    return MARKED.sub(lambda match: match[1] + table(match[2]) + match[4], text)


def pages() -> Iterator[Path]:
    """The Markdown files of the repository with marked tables."""
    for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]):
        if MARKED.search(path.read_text()):
            yield path


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--list", action="store_true", help="only name the tables")
    if parser.parse_args().list:
        print("\n".join(names()))
        return
    for path in pages():
        text = path.read_text()
        if rewritten(text) != text:
            path.write_text(rewritten(text))
            print(f"{path.relative_to(ROOT)}: rewritten")


if __name__ == "__main__":
    main()

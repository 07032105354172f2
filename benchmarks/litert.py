"""What a layer costs in LiteRT: time of its interpreter, size of the file, time to convert.

    python benchmarks/litert.py --out benchmarks/results

`export_litert` leaves batch size and length open; its loop writes into tensors, which LiteRT has,
instead of TensorArrays, which it hasn't. Beside it: the same layer and Keras' layer without a norm,
unrolled, which need a known length. `TensorFlow` is both forms of the loop in `predict` without
XLA. Candidates are interleaved and each counts with its fastest repeat, on one thread.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from environment import environment
from speed import best_times

SHAPES = ((1, 100, 64, 128), (8, 100, 64, 128))  # B, T, D, H


def make_model(name: str, cell: str, shape: tuple[int, ...]) -> Any:
    """A model of one layer, its length open but for the unrolled ones."""
    import keras

    import tf_layernorm as tfln

    _, steps, features, units = shape
    unroll = name != "loop"
    layers = {"Keras unrolled": getattr(keras.layers, cell)}
    layer = layers.get(name, getattr(tfln, f"LN{cell}"))
    inputs = keras.Input((steps if unroll else None, features))
    return keras.Sequential([inputs, layer(units, return_sequences=True, unroll=unroll)])


def interpreter(path: Path, x: Any) -> Callable[[], float]:
    """Milliseconds of a file in LiteRT's interpreter."""
    from ai_edge_litert.interpreter import Interpreter

    loaded = Interpreter(str(path), num_threads=1)
    (signature,) = loaded.get_signature_list()
    runner = loaded.get_signature_runner(signature)
    (name,) = runner.get_input_details()
    return lambda: milliseconds(lambda: runner(**{name: x}))


def tensorflow(model: Any, x: Any, by_scatter: bool) -> Callable[[], float]:
    """Milliseconds of the portable loop in TensorFlow without XLA, in one of its two forms."""
    import tensorflow as tf

    from tf_layernorm.recurrent.arrays import scatter_arrays

    # Traced here: a Keras layer keeps nothing of the form that it was traced in.
    with scatter_arrays() if by_scatter else nullcontext():
        call = tf.function(lambda x: model(x, training=False)).get_concrete_function(
            tf.TensorSpec([None, None, x.shape[-1]])
        )
    tensor = tf.constant(x)
    return lambda: milliseconds(lambda: call(tensor).numpy())


def milliseconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return 1e3 * (time.perf_counter() - start)


def measure(cells: list[str], shapes: list[tuple[int, ...]], repeats: int) -> list[dict[str, Any]]:
    """A row of milliseconds, kilobytes and seconds for each cell and shape."""
    import numpy as np
    import tensorflow as tf

    from tf_layernorm.export import export_litert

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    rows = []
    for cell in cells:
        for shape in shapes:
            x = np.random.default_rng(0).normal(size=shape[:3]).astype("float32")
            timers, kilobytes, seconds = {}, {}, {}
            with tempfile.TemporaryDirectory() as folder:
                for name in ("loop", "unrolled", "Keras unrolled"):
                    model, path = make_model(name, cell, shape), Path(folder, f"{name}.tflite")
                    seconds[name] = milliseconds(lambda m=model, p=path: export_litert(m, p)) / 1e3
                    kilobytes[name] = path.stat().st_size / 1e3
                    timers[f"LiteRT, {name}"] = interpreter(path, x)
                    if name == "loop":
                        timers["TensorFlow, TensorArrays"] = tensorflow(model, x, False)
                        timers["TensorFlow, as in LiteRT"] = tensorflow(model, x, True)
                times = best_times(timers, repeats)
            row = {"cell": cell, "shape": shape, "ms": times, "kB": kilobytes, "convert s": seconds}
            rows.append(row)
            print(f"{cell:9} {shape}")
            for unit in ("ms", "kB", "convert s"):
                print(f"  {unit:9}", {n: round(v, 2) for n, v in row[unit].items()}, flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--cells", default="LSTM,GRU,SimpleRNN", help="comma-separated")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--out", type=Path, help="folder for litert.json")
    arguments = parser.parse_args()
    rows = measure(arguments.cells.split(","), list(SHAPES), arguments.repeats)
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        result = {**environment(), "rows": rows}
        (arguments.out / "litert.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""MNIST digits read row by row: the LN-LSTM beside Keras' LSTM without a norm, equal but for it.

    python benchmarks/mnist_rows.py --out benchmarks/results

Trains on the 3,500 packaged digits and tests on 1,000 others, with each seed's initial weights and
order of the digits; nothing is chosen by the test digits. A blank row is constant but not zero.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from environment import environment

UNITS, BATCH = 128, 128


def train(norm: bool, seed: int, epochs: int) -> dict[str, float]:
    """Test error in percent, and test NLL, after training."""
    import keras

    from tf_layernorm import LNLSTM
    from tf_layernorm.data.mnist import load_packaged

    def prepared(part: tuple[Any, Any]) -> tuple[Any, Any]:
        images, labels = part
        return (images.reshape(-1, 28, 28) / 255.0 - 0.1307).astype("float32") / 0.3081, labels

    keras.utils.set_random_seed(seed)
    digits = load_packaged()
    layer = LNLSTM(UNITS) if norm else keras.layers.LSTM(UNITS, use_cudnn=False)
    model = keras.Sequential([keras.Input((28, 28)), layer, keras.layers.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-3), loss, metrics=["accuracy"], jit_compile=True)
    x, y = prepared(digits.train)
    size = len(x) // BATCH * BATCH  # all batches of one size, so that XLA compiles the step once
    model.fit(x[:size], y[:size], BATCH, epochs, verbose=0)
    nll, accuracy = model.evaluate(*prepared(digits.test), batch_size=500, verbose=0)
    return {"error": 100 * (1 - accuracy), "nll": nll}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="folder for mnist_rows.json")
    arguments = parser.parse_args()
    rows = []
    for seed in range(1, arguments.seeds + 1):
        for name in ("LNLSTM", "keras.layers.LSTM"):
            row = {"name": name, "seed": seed, "epochs": arguments.epochs}
            rows.append(row | train(name == "LNLSTM", seed, arguments.epochs))
            print(rows[-1], flush=True)
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        result = {**environment(), "units": UNITS, "batch": BATCH, "rows": rows}
        (arguments.out / "mnist_rows.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

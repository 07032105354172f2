"""Keras' example of number addition, with Keras' recurrent layers and with ours.

    python benchmarks/addition.py --out results --picture docs/addition.png

The task and the network are those of "Sequence to sequence learning for performing number
addition" (https://keras.io/examples/nlp/addition_rnn): read the characters of "321+54", written
backwards, and write those of "375". An encoder of 128 units, its last output repeated, a decoder of
128 units and a softmax; Adam(1e-3), batches of 128, 45,000 sums to train on and 5,000 others to
validate with. Only the class of the two recurrent layers differs. A curve takes about 75
CPU-seconds; what is in --out already is not trained again.
"""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
from environment import environment

from tf_layernorm import LNGRU, LNLSTM

LAYERS = {
    "keras.layers.LSTM": keras.layers.LSTM,
    "keras.layers.GRU": keras.layers.GRU,
    "LNLSTM": LNLSTM,
    "LNGRU": LNGRU,
}
CHARACTERS = " +0123456789"
DIGITS = 3
LONGEST = 2 * DIGITS + 1


def additions(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Different sums of two numbers of up to three digits: questions and answers, one-hot.

    Shapes: (count, 7, 12) and (count, 4, 12), bool. The questions are written backwards.
    """
    rng = np.random.default_rng(seed)
    sums: dict[tuple[int, int], str] = {}  # a + b and b + a are one sum
    while len(sums) < count:
        a, b = (int(rng.integers(10**digits)) for digits in rng.integers(1, DIGITS + 1, 2))
        sums.setdefault((min(a, b), max(a, b)), f"{a}+{b}")
    pairs = list(sums)
    rng.shuffle(pairs)  # small numbers came first
    questions = [sums[pair].ljust(LONGEST)[::-1] for pair in pairs]
    answers = [str(sum(pair)).ljust(DIGITS + 1) for pair in pairs]
    codes = {
        character: row for character, row in zip(CHARACTERS, np.eye(len(CHARACTERS), dtype=bool))
    }
    return tuple(  # type: ignore[return-value]
        np.array([[codes[character] for character in text] for text in texts])
        for texts in (questions, answers)
    )


def build_model(layer: type[keras.layers.Layer], units: int = 128) -> keras.Sequential:
    return keras.Sequential(
        [
            keras.Input((LONGEST, len(CHARACTERS))),
            layer(units),
            keras.layers.RepeatVector(DIGITS + 1),
            layer(units, return_sequences=True),
            keras.layers.Dense(len(CHARACTERS), activation="softmax"),
        ]
    )


class Clock(keras.callbacks.Callback):
    """Seconds since the fit began, compiling and evaluating included, at each epoch's end."""

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        self.start = time.perf_counter(), time.process_time()

    def on_epoch_end(self, epoch: int, logs: dict[str, float]) -> None:
        logs["seconds"] = time.perf_counter() - self.start[0]
        logs["cpu_seconds"] = time.process_time() - self.start[1]


def train(name: str, seed: int, count: int, epochs: int, units: int) -> dict[str, Any]:
    """One curve: a fit's history, and the share of the validation sums that are wholly right."""
    keras.utils.set_random_seed(seed)
    questions, answers = additions(count, seed)
    held_out = count // 10
    model = build_model(LAYERS[name], units)
    model.compile(keras.optimizers.Adam(1e-3), "categorical_crossentropy", metrics=["accuracy"])
    fit = model.fit(
        questions[held_out:],
        answers[held_out:],
        batch_size=128,
        epochs=epochs,
        validation_data=(questions[:held_out], answers[:held_out]),
        callbacks=[Clock()],
        verbose=2,
    )
    written = model.predict(questions[:held_out], batch_size=500, verbose=0).argmax(axis=-1)
    right = (written == answers[:held_out].argmax(axis=-1)).all(axis=-1).mean()
    return {"layer": name, "seed": seed, "right_sums": float(right), **fit.history}


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Validation accuracy over epochs and over seconds: the mean of the seeds and their range."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True, layout="constrained")
    for name in dict.fromkeys(row["layer"] for row in rows):
        curves = [row for row in rows if row["layer"] == name]
        accuracy = np.array([row["val_accuracy"] for row in curves])
        epochs = np.arange(1, accuracy.shape[1] + 1)
        seconds = np.mean([row["cpu_seconds"] for row in curves], axis=0)
        ours = name.startswith("LN")
        style = {"color": "C0" if ours else "C7", "ls": "--" if name.endswith("GRU") else "-"}
        for axis, x in zip(axes, (epochs, seconds)):
            axis.fill_between(
                x, accuracy.min(0), accuracy.max(0), color=style["color"], alpha=0.2, lw=0
            )
            axis.plot(x, accuracy.mean(0), lw=2, label=name, **style)
    axes[0].set(xlabel="epoch", ylabel="characters right, unseen sums", ylim=(None, 1.0))
    axes[0].set_xticks(epochs)
    axes[1].set(xlabel="seconds of processor time, compiling included")
    axes[1].set_xlim(left=0)
    for axis in axes:
        axis.yaxis.set_major_formatter(matplotlib.ticker.PercentFormatter(1.0))
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.3)
    axes[1].legend(frameon=False, loc="lower right")
    figure.suptitle("Learning to add: Keras' own example, with and without layer norm")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--layers", nargs="+", default=list(LAYERS), choices=LAYERS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--count", type=int, default=50_000, help="sums; a tenth to validate with")
    parser.add_argument("--units", type=int, default=128)
    parser.add_argument("--out", type=Path, required=True, help="folder for addition.json")
    parser.add_argument("--picture", type=Path, help="PNG of the curves")
    arguments = parser.parse_args()
    settings = {name: getattr(arguments, name) for name in ("epochs", "count", "units")}
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / "addition.json"
    result = json.loads(path.read_text()) if path.exists() else {**settings, "rows": []}
    if {name: result[name] for name in settings} != settings:
        parser.error(f"{path} holds another run. Received: {settings}")
    result |= environment()
    done = {(row["layer"], row["seed"]) for row in result["rows"]}
    for seed in range(1, arguments.seeds + 1):
        for name in arguments.layers:
            if (name, seed) in done:
                continue
            print(f"{name}, seed {seed} of {arguments.seeds}", flush=True)
            result["rows"].append(train(name, seed, **settings))
            unfinished = path.with_suffix(".unfinished")
            unfinished.write_text(json.dumps(result, indent=1) + "\n")
            unfinished.replace(path)
    for row in result["rows"]:
        print(
            f"{row['layer']:17} seed {row['seed']}: right are {row['val_accuracy'][-1]:.3f} of the "
            f"characters, {row['right_sums']:.3f} of the sums; {row['cpu_seconds'][-1]:.0f} CPU-s"
        )
    if arguments.picture:
        draw(result["rows"], arguments.picture)


if __name__ == "__main__":
    main()

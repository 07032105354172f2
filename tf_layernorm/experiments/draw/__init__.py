"""Section 6.4: DRAW on binarised MNIST, with and without layer norm in its LSTMs.

The paper trains DRAW with 64 glimpses and LSTMs of 256 units by Adam at a batch size of 128, and
puts a layer norm on the LSTMs' state, eq. (29)-(31). It says that the norm makes it converge about
twice as fast and gives the bound after 200 epochs; Figure 4 shows the first 100.
"""

import argparse
import os
from dataclasses import dataclass
from typing import Any, Literal

from tf_layernorm.experiments import norms
from tf_layernorm.experiments.experiment import (
    Axis,
    Command,
    Experiment,
    Figure,
    Preset,
    Training,
)


@dataclass(frozen=True)
class Config:
    """What one network and its training are."""

    data: Literal["packaged", "full"] = "packaged"  # "full": 70,000 binary digits; else 5,000
    glimpses: int = 64  # steps in which a digit is drawn
    units: int = 256  # of the encoder and of the decoder
    latent: int = 100  # size of z; the DRAW paper's, as the windows' sizes: this paper gives none
    read_size: int = 2  # filters a side of the reading window
    write_size: int = 5  # and of the writing window
    batch_size: int = 128  # digits a batch
    epochs: int = 200  # of training
    learning_rate: float = 1e-3  # Adam's default
    adam_epsilon: float = 1e-8  # Adam's published value; Keras' default is 1e-7
    clip_norm: float = 10.0  # of all gradients together, as in public DRAW code; not in the paper


PRESETS = {
    "paper": Preset(Config(data="full"), minutes=5000),
    "small": Preset(Config(glimpses=16, units=128, latent=32, batch_size=32, epochs=15), minutes=5),
    "smoke": Preset(
        Config(glimpses=4, units=16, latent=8, batch_size=100, epochs=2), seeds=1, minutes=0.5
    ),
}
NORMALIZE: dict[str, tuple[str, ...]] = {
    "layer": ("state",),  # the paper's, eq. (29)-(31)
    "none": (),
    "all": ("kernel", "recurrent", "state"),  # eq. (20)-(22), as the paper's other LSTMs
}
FIGURES = (
    Figure("test_bound", "test bound, nats", compare=True),
    Figure("test_reconstruction", "its reconstruction"),
    Figure("test_kl", "its KL"),
    Figure("bound", "training bound"),
)
PANELS = (Figure("bound", "training bound, nats"), Figure("test_bound", "test bound, nats"))


def load(config: Config, data_dir: str | None, download: bool) -> Any:
    """The digits that `config` asks for: `data.binarized_mnist.BinaryDigits`."""
    from tf_layernorm.data.binarized_mnist import load_binarized_mnist, load_packaged

    if config.data == "packaged":
        return load_packaged()
    return load_binarized_mnist(data_dir, download=download)


def curve(config: Config, digits: Any, norm: str, seed: int) -> Training:
    """How one network is trained and measured."""
    from tf_layernorm.data.order import batches_in_order, shuffled_batches
    from tf_layernorm.experiments.draw.model import build_model
    from tf_layernorm.experiments.training import held_out

    parts = {
        "validation": batches_in_order((digits.validation,), 500),
        "test": batches_in_order((digits.test,), 500),
    }
    return Training(
        build=lambda: build_model(config, norm, seed),
        batches=lambda epoch: shuffled_batches((digits.train,), config.batch_size, seed, epoch),
        steps=len(digits.train) // config.batch_size,
        evaluate=lambda model: held_out(model, parts),
    )


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model", required=True, metavar="DIR", help="folder of one curve of a run"
    )
    parser.add_argument("--out", default="digits.png", metavar="PNG", help="default: digits.png")
    parser.add_argument("--count", type=int, default=64, metavar="N", help="digits (default: 64)")
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help="of the noise (default: 1)"
    )


def _draw(**options: Any) -> str:
    from tf_layernorm.experiments.draw.pictures import draw

    replaced = " (replaced)" * os.path.exists(options["out"])
    return "\n".join(f"{path}{replaced}" for path in draw(**options))


EXPERIMENT = Experiment(
    name="draw",
    section="6.4",
    title="DRAW on binarised MNIST (section 6.4, as Figure 4)",
    config=Config,
    presets=PRESETS,
    axes=(Axis("glimpses", "glimpses", "{} glimpses"),),
    norms=(norms.LAYER, norms.NONE, norms.ALL),
    default_norms=("layer", "none"),
    figures=FIGURES,
    panels=PANELS,
    load=load,
    curve=curve,
    race=Figure("validation_bound", "validation bound in nats"),
    note=(
        "The bound is on the negative log likelihood, with one sample a digit; lower is better. "
        "The training bound is the mean over the epoch's batches as trained."
    ),
    # After 200 epochs on the fixed binarisation, one run each.
    paper={"layer": {"test_bound": 82.09}, "none": {"test_bound": 82.36}},
    commands=(
        Command(
            "draw",
            "draw digits with a network of `run draw`, and show how it draws: beside the .png go a "
            "picture of the canvas after each glimpse, with the window, and the same as a .gif",
            _arguments,
            _draw,
        ),
    ),
)

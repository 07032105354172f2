"""Section 6.7: conv nets with layer norm, batch norm and others.

The paper says only that layer norm speeds conv nets up over none but that batch norm is better than
both, and why it thinks so: units near the border of an image are rarely active, so a layer's units
differ too much to share a mean. It names no network, no data and no numbers. Here: a small network
on digits, and ConvPool-CNN-C on CIFAR-10, for which others have published figures.
"""

import argparse
from dataclasses import dataclass, replace
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

    data: Literal["packaged", "full"] = "packaged"  # "packaged": 5,000 digits; "full": all there is
    network: Literal["small", "conv_pool"] = "small"  # on MNIST; ConvPool-CNN-C on CIFAR-10
    batch_size: int = 128  # images a batch
    epochs: int = 15  # passes over the training images
    learning_rate: float = 1e-3  # Adam's, in the first epochs
    constant_epochs: int = 0  # how long it stays
    decay_epochs: int = 0  # in how many it then falls to 0, in a line; 0: it never does
    adam_epsilon: float = 1e-8  # Adam's published value; Keras' default is 1e-7

    def __post_init__(self) -> None:
        if self.network == "conv_pool" and self.data == "packaged":
            raise ValueError(
                "ConvPool-CNN-C needs CIFAR-10, which isn't packaged: give --data full, --data-dir "
                "or --download. Received: network='conv_pool', data='packaged'"
            )


PRESETS = {
    "paper": Preset(
        Config("full", "conv_pool", 100, 200, constant_epochs=100, decay_epochs=100), seeds=3
    ),
    "small": Preset(Config(), minutes=0.8),
    "smoke": Preset(Config(batch_size=500, epochs=2), seeds=1, minutes=0.2),
}
FIGURES = (
    Figure("test_error", "test error, %", scale=100, of="test"),
    Figure("test_nll", "test NLL", digits=4),
    Figure("loss", "training NLL", digits=6),
    Figure("active_conv1_0", "conv 1's units active at the border, %", scale=100, digits=0),
    Figure("active_conv1_10", "10 pixels inside, %", scale=100, digits=0),
)
PANELS = (
    Figure("loss", "training NLL", log=True),
    Figure("validation_error", "validation error, %", scale=100),
)


def load(config: Config, data_dir: str | None, download: bool) -> Any:
    """The images that `config` asks for, as `(cases, height, width, channels)`."""
    from tf_layernorm.data import cifar10, mnist

    if config.network == "conv_pool":
        return cifar10.load_cifar10(data_dir, download=download)
    packaged = config.data == "packaged"
    digits = mnist.load_packaged() if packaged else mnist.load_mnist(data_dir, download=download)
    parts: dict[str, Any] = {part: getattr(digits, part) for part in digits.cases}
    square = {part: (x.reshape(-1, 28, 28, 1), y) for part, (x, y) in parts.items()}
    return replace(digits, **square)  # type: ignore[arg-type]


def curve(config: Config, images: Any, norm: str, seed: int) -> Training:
    """How one network is trained and measured."""
    from tf_layernorm.data.order import batches_in_order, shuffled_batches
    from tf_layernorm.experiments.convnet.activity import active_shares
    from tf_layernorm.experiments.convnet.model import build_model
    from tf_layernorm.experiments.training import held_out

    def figures(model: Any, part: str) -> dict[str, float]:
        found = held_out(model, {part: batches_in_order(getattr(images, part), 500)})
        nll, accuracy = found[f"{part}_loss"], found[f"{part}_accuracy"]
        return {f"{part}_nll": nll, f"{part}_error": round(1 - accuracy, 6)}

    def test(model: Any) -> dict[str, float]:
        shares = active_shares(model, batches_in_order(images.test, 500))
        return figures(model, "test") | shares

    return Training(
        build=lambda: build_model(config, norm, images.train[0]),
        batches=lambda epoch: shuffled_batches(images.train, config.batch_size, seed, epoch),
        steps=len(images.train[1]) // config.batch_size,
        evaluate=lambda model: figures(model, "validation"),
        test=test,
    )


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_folder", metavar="DIR", help="folder of a run of `convnet`")
    parser.add_argument("--out", metavar="PNG", help="default: border.png in that folder")


def _draw(run_folder: str, out: str | None) -> str:
    from tf_layernorm.experiments.convnet.picture import draw_border

    return str(draw_border(run_folder, out))


EXPERIMENT = Experiment(
    name="convnet",
    section="6.7",
    title="Conv nets (section 6.7)",
    config=Config,
    presets=PRESETS,
    axes=(Axis("network", "", "{}", data=True),),
    norms=(
        replace(norms.LAYER, label="layer norm over all units"),
        norms.CHANNEL,
        norms.INSTANCE,
        norms.RMS,
        norms.WEIGHT,
        norms.BATCH,
        norms.NONE,
    ),
    figures=FIGURES,
    panels=PANELS,
    load=load,
    curve=curve,
    default_norms=("layer", "channel", "instance", "batch", "none"),
    untrained=True,
    race=Figure("validation_nll", "validation NLL", digits=4),
    note="Batch norm's training NLL is that with the batch's own statistics.",
    paper={
        # Zhang & Sennrich (2019). Their "layer norm" of images averages over the places of each
        # channel, which is instance norm.
        "conv_pool-instance": {"test_error": 10.49},
        "conv_pool-rms": {"test_error": 8.83},
        "conv_pool-weight": {"test_error": 8.28},
        "conv_pool-batch": {"test_error": 8.25},
        "conv_pool-none": {"test_error": 8.96},
    },
    paper_note=(
        "section 6.7 has no numbers, only that layer norm trains faster than none and that batch "
        "norm is better than both; those beside ConvPool-CNN-C are of Zhang & Sennrich (2019)"
    ),
    commands=(
        Command(
            "border",
            "draw how often the units of a run of `convnet` are active, by their distance from the "
            "border of the image",
            _arguments,
            _draw,
        ),
    ),
)

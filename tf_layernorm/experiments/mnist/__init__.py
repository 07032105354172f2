"""Section 6.6: permutation-invariant MNIST with layer norm, batch norm and none.

The paper trains a network of two hidden layers of 1,000 ReLUs on the 784 pixels, at batch sizes
128 and 4, with layer norm on the hidden layers or batch norm on all; Figure 6 shows the training
NLL and the test error over 60 epochs. It says neither the learning rate nor what the curves end at.
"""

from dataclasses import dataclass
from typing import Any, Literal

from tf_layernorm.experiments import norms
from tf_layernorm.experiments.experiment import Axis, Experiment, Figure, Preset, Training


@dataclass(frozen=True)
class Config:
    """What one network and its training are."""

    data: Literal["packaged", "full"] = "packaged"  # "full": MNIST; "packaged": 5,000 digits of it
    hidden: tuple[int, ...] = (1000, 1000)  # units of the hidden layers
    batch_size: int = 128  # digits a batch
    unbiased_up_to: int = 4  # up to this batch size, batch norm divides by n - 1
    epochs: int = 60  # the paper's figure ends there
    learning_rate: float = 1e-3  # Adam's; the paper doesn't give it
    adam_epsilon: float = 1e-8  # Adam's published value; Keras' default is 1e-7


SIZES = {"batch_size": (128, 4)}
PRESETS = {
    "paper": Preset(Config(data="full"), grid=SIZES, minutes=20),
    "small": Preset(Config(epochs=10), seeds=2, grid=SIZES, minutes=0.7),
    "smoke": Preset(
        Config(hidden=(32, 32), epochs=2), seeds=1, grid={"batch_size": (128, 32)}, minutes=0.1
    ),
}
FIGURES = (
    Figure("test_error", "test error, %", scale=100, of="test"),
    Figure("test_nll", "test NLL", digits=4),
    Figure("loss", "training NLL", digits=6),
)
PANELS = (
    Figure("loss", "training NLL", log=True),
    Figure("test_error", "test error, %", scale=100),
)


def load(config: Config, data_dir: str | None, download: bool) -> Any:
    """The digits that `config` asks for: `data.mnist.Digits`."""
    from tf_layernorm.data.mnist import load_mnist, load_packaged

    return load_packaged() if config.data == "packaged" else load_mnist(data_dir, download=download)


def curve(config: Config, digits: Any, norm: str, seed: int) -> Training:
    """How one network is trained and measured."""
    from tf_layernorm.data.order import batches_in_order, shuffled_batches
    from tf_layernorm.experiments.mnist.model import build_model, chunk_size
    from tf_layernorm.experiments.training import held_out

    steps = len(digits.train[1]) // config.batch_size
    chunk = chunk_size(steps)
    parts = {
        "validation": batches_in_order(digits.validation, 500),
        "test": batches_in_order(digits.test, 500),
    }

    def evaluate(model: Any) -> dict[str, float]:
        found = held_out(model, parts)
        figures = {}
        for part in parts:
            figures[f"{part}_nll"] = found[f"{part}_loss"]
            # The accuracy is a float32: six digits tell every share of 10,000 cases.
            figures[f"{part}_error"] = round(1 - found[f"{part}_accuracy"], 6)
        return figures

    return Training(
        build=lambda: build_model(config, norm),
        batches=lambda epoch: shuffled_batches(
            digits.train, config.batch_size, seed, epoch, chunk=chunk
        ),
        steps=steps,
        evaluate=evaluate,
        chunk=max(chunk, 1),
    )


EXPERIMENT = Experiment(
    name="mnist",
    section="6.6",
    title="Permutation-invariant MNIST (section 6.6, as Figure 6)",
    config=Config,
    presets=PRESETS,
    axes=(Axis("batch_size", "batch", "batch size {}"),),
    norms=(norms.LAYER, norms.BATCH, norms.RMS, norms.WEIGHT, norms.NONE),
    default_norms=("layer", "batch", "none"),
    figures=FIGURES,
    panels=PANELS,
    load=load,
    curve=curve,
    note=(
        "Training NLL is the mean over the epoch's batches as trained: batch norm with the "
        "batch's own statistics."
    ),
    paper_note="Figure 6 has no numbers; its axis of the test error goes from 0.5 to 2.5 %",
    renamed={"batch_sizes": "batch_size"},
)

"""MNIST read as a sequence: row by row, pixel by pixel, or pixel by pixel in a random order.

Not in the paper, but where recurrent norms are compared since: Cooijmans et al. (2016) read the 784
pixels with an LSTM of 100 units, with and without recurrent batch norm, in order and permuted. No
number for layer norm has been published. Training is theirs: RMSProp, all gradients together cut to
a norm of 1, and the epoch with the lowest validation error is tested. But initial states are zeros.

A trap: with a single pixel x as the input of a step, LN(W x) = sign(x) LN(W), so layer norm wipes
out the grey value. Here every network reads the pair (x, 1) instead, unless `raw`.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

from tf_layernorm.experiments import norms
from tf_layernorm.experiments.experiment import Axis, Experiment, Figure, Preset, Training


@dataclass(frozen=True)
class Config:
    """What one network and its training are."""

    data: Literal["packaged", "full"] = "packaged"  # "full": MNIST; "packaged": 5,000 digits of it
    reading: Literal["rows", "pixels", "permuted"] = "permuted"  # how a digit becomes a sequence
    pool: int = 1  # pixels are means of so many by so many; rows aren't
    raw: bool = False  # a pixel x is the only input of its step, not (x, 1)
    cell: Literal["lstm", "gru"] = "lstm"  # LNLSTM or LNGRU
    units: int = 100  # of the recurrent layer
    batch_size: int = 100  # digits a batch
    epochs: int = 200  # at most so many in Cooijmans et al.
    learning_rate: float = 1e-3  # RMSProp's
    decay: float = 0.9  # of RMSProp's mean square
    clip_norm: float = 1.0  # of all gradients together

    def __post_init__(self) -> None:
        if self.pool < 1 or 28 % self.pool:
            raise ValueError(f"`pool` must divide 28, a side. Received: pool={self.pool}")


READINGS = {"reading": ("rows", "permuted")}
PRESETS = {
    "paper": Preset(Config(data="full"), seeds=1, minutes=800),
    "small": Preset(Config(pool=2, epochs=15), grid=READINGS, minutes=1),
    "smoke": Preset(
        Config(reading="rows", units=8, batch_size=500, epochs=2), seeds=1, minutes=0.2
    ),
}
FIGURES = (
    Figure("test_error", "test error, %", scale=100, of="test"),
    Figure("test_nll", "test NLL", digits=3),
    Figure("validation_error", "validation error, %", scale=100, of="validation"),
    Figure("loss", "training NLL", digits=3),
)
PANELS = (
    Figure("loss", "training NLL", log=True),
    Figure("validation_error", "validation error, %", scale=100),
)


def load(config: Config, data_dir: str | None, download: bool) -> Any:
    """The digits that `config` asks for; of MNIST's, 10,000 validate, as in Cooijmans et al."""
    from tf_layernorm.data.mnist import load_mnist, load_packaged

    if config.data == "packaged":
        return load_packaged()
    import numpy as np

    digits = load_mnist(data_dir, download=download)
    (x, y), (held_x, held_y) = digits.train, digits.validation
    kind = digits.source.partition(":")[0]
    return replace(
        digits,
        train=(x[5000:], y[5000:]),
        validation=(np.concatenate([held_x, x[:5000]]), np.concatenate([held_y, y[:5000]])),
        source=f"{kind}: 50,000 / 10,000 / 10,000 digits, validation is train[:10000] in TFDS' "
        "order",
    )


def curve(config: Config, digits: Any, norm: str, seed: int) -> Training:
    """How one network is trained and measured."""
    from tf_layernorm.data.order import batches_in_order, shuffled_batches
    from tf_layernorm.experiments.seqmnist.model import build_model
    from tf_layernorm.experiments.training import held_out

    def figures(model: Any, part: str) -> dict[str, float]:
        found = held_out(model, {part: batches_in_order(getattr(digits, part), 500)})
        nll, accuracy = found[f"{part}_loss"], found[f"{part}_accuracy"]
        return {f"{part}_nll": nll, f"{part}_error": round(1 - accuracy, 6)}

    return Training(
        build=lambda: build_model(config, norm),
        batches=lambda epoch: shuffled_batches(digits.train, config.batch_size, seed, epoch),
        steps=len(digits.train[1]) // config.batch_size,
        evaluate=lambda model: figures(model, "validation"),
        test=lambda model: figures(model, "test"),
    )


EXPERIMENT = Experiment(
    name="seqmnist",
    section="2",
    title="MNIST as a sequence",
    config=Config,
    presets=PRESETS,
    axes=(Axis("reading", "", "{}"), Axis("cell", "", "{}")),
    norms=(norms.LAYER, norms.NONE),
    figures=FIGURES,
    panels=PANELS,
    load=load,
    curve=curve,
    kept=Figure("validation_error", "validation error"),
    race=Figure("validation_nll", "validation NLL", digits=3),
    paper={
        # Cooijmans et al. (2016), table 1: an LSTM of 100 units, one run each.
        "pixels-lstm-none": {"test_error": 1.1},
        "permuted-lstm-none": {"test_error": 9.8},
    },
    paper_note=(
        "no such experiment; beside ours are the errors of Cooijmans et al. (2016), whose "
        "published code draws the pixels of `permuted` with replacement, which loses 37 % of them"
    ),
)

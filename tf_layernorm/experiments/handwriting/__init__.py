"""Section 6.5: Graves' handwriting synthesis with and without layer norm in its LSTMs.

The paper trains the network that Graves (2013) made for IAM-OnDB: three LSTM layers of 400 units, a
window over the text that the first one moves, and a mixture of 20 Gaussians for the next point; by
Adam on lines of 500 points, 8 at a time. Figure 5 shows the training and test NLL of a line over
200,000 updates, on axes from 0 to -900: layer norm comes down faster, to a comparable end.
"""

import argparse
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

STATISTICS = "pen.json"  # beside a model: what standardises its points, and its alphabet


@dataclass(frozen=True)
class Config:
    """What one network and its training are."""

    data: Literal["packaged", "full"] = "packaged"  # "full": pen data; "packaged": made of fonts
    lines: int = 2000  # to make of fonts
    units: int = 400  # of each of the three layers
    components: int = 20  # Gaussians of the output
    window: int = 10  # Gaussians over the text
    advance: float = 0.05  # characters a point that the untrained window moves
    bias_spread: float = 0.1  # of the LSTMs' first biases; see `build_model`
    batch_size: int = 8  # lines a batch
    length: int = 500  # points to cut a line to
    updates: int = 500  # between two evaluations, which is what an epoch is here
    epochs: int = 400  # the paper's figure ends at 200,000 updates
    learning_rate: float = 1e-3  # Adam's; the paper doesn't give it
    adam_epsilon: float = 1e-8  # Adam's published value; Keras' default is 1e-7
    clip_norm: float = 10.0  # of all gradients together, of the NLL a point
    compiled: bool = True  # whether an update is one XLA program, which takes a while to compile


PRESETS = {
    "paper": Preset(Config(data="full"), minutes=7000),
    "small": Preset(Config(units=100, length=200, updates=100, epochs=15), seeds=1, minutes=4),
    # The network of `small` with real pens, trained out.
    "pens": Preset(Config(data="full", units=100, length=200, updates=200, epochs=60), minutes=14),
    "smoke": Preset(
        Config(
            lines=40,
            units=12,
            components=3,
            window=3,
            length=40,
            updates=3,
            epochs=2,
            compiled=False,
        ),
        seeds=1,
        minutes=0.3,
    ),
}
NORMALIZE: dict[str, tuple[str, ...]] = {
    "layer": ("kernel", "recurrent", "state"),  # eq. (20)-(22)
    "none": (),
}
FIGURES = (
    Figure("validation_line_nll", "validation NLL a line", digits=1, compare=True),
    Figure("validation_nll", "a point", digits=3),
    Figure("line_nll", "training NLL a line", digits=1),
    Figure("nll", "training, a point", digits=3),
)
PANELS = (
    Figure("line_nll", "training NLL a line, nats"),
    Figure("validation_line_nll", "validation NLL a line, nats"),
)


def load(config: Config, data_dir: str | None, download: bool) -> Any:
    """The lines that `config` asks for: `batches.Lines`."""
    from tf_layernorm.data.handwriting import load as load_lines
    from tf_layernorm.experiments.handwriting.batches import Lines

    if config.data == "packaged":
        return Lines(load_lines(max_length=config.length, synthetic_lines=config.lines))
    if data_dir is None:
        raise ValueError(
            "Pen data can't be downloaded without registration: give the folder of IAM-OnDB's "
            "archives by --data-dir, or take a preset with synthetic lines. "
            f"Received: data_dir=None, download={download}"
        )
    return Lines(load_lines(data_dir, max_length=config.length))


def curve(config: Config, data: Any, norm: str, seed: int) -> Training:
    """How one network is trained and measured.

    What standardises the points goes beside the model: the targets are standardised as the inputs
    are, and whoever writes undoes it, so a layer inside the model would serve one of three.
    """
    from tf_layernorm.experiments.handwriting.batches import training_batches, validation_batches
    from tf_layernorm.experiments.handwriting.model import build_model
    from tf_layernorm.experiments.training import held_out

    lines = data.lines
    validation = validation_batches(config, lines)

    def evaluate(model: Any) -> dict[str, float]:
        found = held_out(model, {"validation": validation})
        figures = {key: found[key] for key in ("validation_nll", "validation_line_nll")}
        return figures | {"updates": int(model.optimizer.iterations.numpy())}

    return Training(
        build=lambda: build_model(config, norm, len(lines.alphabet)),
        batches=lambda epoch: training_batches(config, lines, seed, epoch * config.updates),
        steps=config.updates,
        evaluate=evaluate,
        files={STATISTICS: lines.statistics()},
    )


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", help="what to write")
    parser.add_argument(
        "--model", required=True, metavar="DIR", help="folder of one curve of a run"
    )
    parser.add_argument(
        "--bias",
        type=float,
        default=0.5,
        help="0: as various as the network is; the larger, the more regular (default: 0.5)",
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="(default: 1)")
    parser.add_argument("--count", type=int, default=3, metavar="N", help="lines (default: 3)")
    parser.add_argument(
        "--prime",
        metavar="NPZ",
        help="go on in the style of this line: an .npz file of `offsets` (T, 2), y upwards, "
        "`end_of_stroke` (T,) and `text`",
    )
    parser.add_argument("--out", default="page.png", metavar="PNG", help="default: page.png")


def _write(**options: Any) -> str:
    from tf_layernorm.experiments.handwriting.writing import write_page

    return write_page(**options)


EXPERIMENT = Experiment(
    name="handwriting",
    section="6.5",
    title="Handwriting synthesis (section 6.5, as Figure 5)",
    config=Config,
    presets=PRESETS,
    axes=(Axis("length", "length", "length {}", data=True),),
    norms=(norms.LAYER, norms.NONE),
    figures=FIGURES,
    panels=PANELS,
    load=load,
    curve=curve,
    race=Figure("validation_line_nll", "validation NLL a line", digits=1),
    x=Figure("updates", "updates", log=True),
    note=(
        "NLL is in nats, in standardised offsets as Graves'; that of training is the mean over the "
        "epoch's batches as trained."
    ),
    paper_note="Figure 5 has no numbers; its axes of the NLL a line go from 0 to -900",
    commands=(
        Command(
            "write",
            "write a text with a network of `run handwriting`, several times, into a picture",
            _arguments,
            _write,
        ),
    ),
)

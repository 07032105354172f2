"""Section 6.5: Graves' handwriting synthesis with and without layer norm in its LSTMs."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from tf_layernorm import LNLSTM, LNLSTMCell
from tf_layernorm._arguments import Tensor, serializable
from tf_layernorm.attention import WindowCell
from tf_layernorm.data.handwriting import Handwriting, steps_per_epoch
from tf_layernorm.data.handwriting import batches as line_batches
from tf_layernorm.data.handwriting import load as load_lines
from tf_layernorm.data.pen import ALPHABET, Line
from tf_layernorm.experiments.report import Figure
from tf_layernorm.experiments.training import train
from tf_layernorm.mixture import MixtureHead, MixtureNLL, mixture_nll

STATISTICS = "pen.json"  # beside a model: what standardises its points, and its alphabet


@dataclass(frozen=True)
class Config:
    """What one run of the experiment is. Another `Config` needs another folder."""

    data: str = "packaged"  # "full": the pen data in --data-dir; "packaged": lines made of fonts
    lines: int = 2000  # to make of fonts
    units: int = 400  # of each of the three layers
    components: int = 20  # Gaussians of the output
    window: int = 10  # Gaussians over the text
    advance: float = 0.05  # characters a point that the untrained window moves
    bias_spread: float = 0.1  # of the LSTMs' first biases; see `build_model`
    batch_size: int = 8
    length: int = 500  # points to cut a line to
    updates: int = 500  # between two evaluations, which is what an epoch is here
    epochs: int = 400  # the paper's figure ends at 200,000 updates
    learning_rate: float = 1e-3  # Adam's; the paper doesn't give it
    adam_epsilon: float = 1e-8  # Adam's published value; Keras' default is 1e-7
    clip_norm: float = 10.0  # of all gradients together, of the NLL a point
    compiled: bool = True  # whether an update is one XLA program, which takes a while to compile
    seeds: int = 3  # a seed sets the initial weights and the order of the lines


PRESETS = {
    "paper": Config(data="full"),
    "small": Config(units=100, length=200, updates=100, epochs=15, seeds=1),
    # The network of `small` with real pens, trained out: 12 minutes or more a curve.
    "pens": Config(data="full", units=100, length=200, updates=200, epochs=60),
    "smoke": Config(
        lines=40,
        units=12,
        components=3,
        window=3,
        length=40,
        updates=3,
        epochs=2,
        compiled=False,
        seeds=1,
    ),
}
NORMALIZE: dict[str, tuple[str, ...]] = {
    "layer": ("kernel", "recurrent", "state"),  # eq. (20)-(22)
    "none": (),
}
NORMS = tuple(NORMALIZE)

FIGURES = (
    Figure("validation_line_nll", "validation NLL a line", digits=1, compare=True),
    Figure("validation_nll", "a point", digits=3),
    Figure("line_nll", "training NLL a line", digits=1),
    Figure("nll", "a point", digits=3),
)
PANELS = (
    Figure("line_nll", "training NLL a line, nats"),
    Figure("validation_line_nll", "validation NLL a line, nats"),
)
RACE = Figure("validation_line_nll", "validation NLL a line", digits=1)
AXIS = Figure("updates", "updates", log=True)
HEADLINE = "Handwriting synthesis (section 6.5, as Figure 5)"
NOTE = (
    "NLL is in nats, in standardised offsets as Graves'; that of training is the mean over the "
    "epoch's batches as trained."
)
PAPER = "axis 0 to -900"  # Figure 5 has no numbers but its axes'


def variants(config: Config) -> dict[str, int]:
    """The only one, named after the length that lines are cut to."""
    return {f"length{config.length}": config.length}


def title(variant: str) -> str:
    """What people call a variant."""
    return variant.replace("length", "length ")


@serializable
class LineNLL(keras.metrics.Mean):
    """The mean over lines of the NLL of all their points."""

    def update_state(self, y_true: Tensor, y_pred: Tensor, sample_weight: Any = None) -> None:
        nll = mixture_nll(y_true, y_pred)
        nll = nll if sample_weight is None else nll * ops.cast(sample_weight, nll.dtype)
        super().update_state(ops.sum(nll, axis=-1))


def build_model(config: Config, norm: str, symbols: int = len(ALPHABET)) -> keras.Model:
    """The compiled network, from points and characters to the mixture of the next point.

    Three LSTM layers, of which the first moves the window over the text; the input and what the
    window shows go to all of them, and all of them to the output. The biases start from small
    random numbers: the first point of a line is the zero vector, so that with zero biases the first
    state has no variance, where the gradient of layer norm is 1 / sqrt(epsilon).

    Args:
        config: The run's `Config`.
        norm: `"layer"` or `"none"`.
        symbols: Size of the alphabet. Defaults to Graves' 57.

    Raises:
        ValueError: If `norm` is unknown.

    Example:

    >>> from tf_layernorm.experiments.handwriting import PRESETS, build_model
    >>> build_model(PRESETS["paper"], "none").count_params()
    3650151
    """
    if norm not in NORMS:
        raise ValueError(f"`norm` must be one of {NORMS}. Received: norm={norm!r}")
    options: dict[str, Any] = {
        "units": config.units,
        "normalize": NORMALIZE[norm],
        "bias_initializer": keras.initializers.RandomNormal(stddev=config.bias_spread),
    }
    points = keras.Input((None, 3), name="points")
    characters = keras.Input((None, symbols), name="characters")
    lstm = LNLSTMCell(**options, name="cell")
    cell = WindowCell(lstm, symbols, config.window, config.advance, name="window")
    first = keras.layers.RNN(cell, return_sequences=True, name="first")
    read = first(points, initial_state=cell.initial_state(characters))
    hidden = [read[..., : config.units]]
    shown = read[..., config.units :]
    for name in ("second", "third"):
        inputs = ops.concatenate([points, shown, hidden[-1]], axis=-1)
        hidden.append(LNLSTM(**options, return_sequences=True, name=name)(inputs))
    outputs = MixtureHead(config.components, name="next")(ops.concatenate(hidden, axis=-1))
    model = keras.Model({"points": points, "characters": characters}, outputs)
    adam = keras.optimizers.Adam(
        config.learning_rate, 0.9, 0.999, config.adam_epsilon, global_clipnorm=config.clip_norm
    )
    model.compile(
        adam,
        MixtureNLL(),
        weighted_metrics=[
            keras.metrics.MeanMetricWrapper(mixture_nll, name="nll"),
            LineNLL(name="line_nll"),
        ],
        jit_compile=config.compiled,
    )
    return model


@dataclass(frozen=True)
class Lines:
    """The lines of a run, as `runner` takes data."""

    lines: Handwriting

    @property
    def source(self) -> str:
        """What the lines are, and the constant by which NLLs of other units differ."""
        constant = self.lines.statistics()["nats_per_point"]
        return f"{self.lines.source}; in the tablet's units the NLL is {constant:.3f} a point more"

    @property
    def test_size(self) -> int:
        """Number of lines to validate with."""
        return len(self.lines.validation)


def load(config: Config, data_dir: str | None, download: bool) -> Lines:
    """The lines that `config` asks for."""
    if config.data == "packaged":
        return Lines(load_lines(max_length=config.length, synthetic_lines=config.lines))
    if data_dir is None:
        raise ValueError(
            "Pen data can't be downloaded without registration: give the folder of IAM-OnDB's "
            "archives by --data-dir, or take a preset with synthetic lines. "
            f"Received: data_dir=None, download={download}"
        )
    return Lines(load_lines(data_dir, max_length=config.length))


def training_batches(config: Config, data: Handwriting, seed: int, update: int) -> tf.data.Dataset:
    """The batches to train on from an update on, without end."""
    per_pass = steps_per_epoch(data.train, config.batch_size, (config.length,))
    first, skipped = divmod(update, per_pass)
    return _batches(config, data, data.train, seed=seed, first_epoch=first).skip(skipped)


def validation_batches(config: Config, data: Handwriting) -> tf.data.Dataset:
    """The lines to validate with, once."""
    count = math.ceil(len(data.validation) / config.batch_size)
    dataset = _batches(config, data, data.validation)
    # Else Keras warns that the data ran out.
    return dataset.apply(tf.data.experimental.assert_cardinality(count))


def _batches(
    config: Config, data: Handwriting, lines: Sequence[Line], **options: Any
) -> tf.data.Dataset:
    def weighed(inputs: dict[str, Tensor], targets: Tensor) -> Any:
        # Padding is at the end, where nothing after it can see it: it needs no mask but this.
        weights = tf.cast(inputs["mask"], tf.float32)
        inputs = {name: inputs[name] for name in ("points", "characters")}
        return inputs, targets, weights

    options |= {"lengths": (config.length,), "alphabet": data.alphabet}
    return line_batches(lines, data.mean, data.std, config.batch_size, **options).map(weighed)


def run_curve(
    config: Config,
    data: Lines,
    folder: Path,
    *,
    norm: str,
    seed: int,
    variant: int,
    epochs: int,
    verbose: Any = "auto",
) -> Sequence[dict[str, float]]:
    """Trains one network, or goes on with it; returns the figures of its epochs."""
    lines = data.lines

    def build() -> keras.Model:
        keras.utils.set_random_seed(seed)
        return build_model(config, norm, len(lines.alphabet))

    validation = validation_batches(config, lines)

    def evaluate(model: keras.Model) -> dict[str, float]:
        found = model.evaluate(validation, verbose=0, return_dict=True)
        figures = {f"validation_{name}": found[name] for name in ("nll", "line_nll")}
        return figures | {"updates": int(model.optimizer.iterations.numpy())}

    folder.mkdir(parents=True, exist_ok=True)
    (folder / STATISTICS).write_text(json.dumps(lines.statistics(), indent=1) + "\n")
    return train(
        folder,
        build,
        lambda epoch: training_batches(config, lines, seed, epoch * config.updates),
        evaluate,
        epochs=epochs,
        steps=config.updates,
        verbose=verbose,
    )

"""What an experiment is: one declared thing, which the command, the runner and the report read.

This module and the `__init__` of each experiment import neither TensorFlow nor Keras, so that the
command knows its flags before it waits for them.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

Point = Mapping[str, Any]  # the values of the fields that vary, at one point of the grid


class Data(Protocol):
    """What `Experiment.load` returns."""

    @property
    def source(self) -> str:
        """What the data is and where it came from, for people."""

    @property
    def cases(self) -> Mapping[str, int]:
        """The number of cases of each part, such as `{"validation": 5000, "test": 10000}`."""


@dataclass(frozen=True)
class Norm:
    """One of the normalisations that an experiment compares."""

    name: str  # on the command line and in folders' names
    label: str  # in tables and pictures
    colour: str


@dataclass(frozen=True)
class Figure:
    """A logged figure, and how people read it."""

    key: str  # its name among those that `evaluate` and `test` return
    label: str
    scale: float = 1.0  # what to multiply it by
    digits: int = 2  # after the point, in the table
    higher: bool = False  # higher is better
    of: str = ""  # the part of the data of which it is a share: it has a binomial standard error
    compare: bool = False  # its differences are judged by their standard errors, as a share's are
    log: bool = False  # on a logarithmic axis
    optional: bool = False  # only where the data has what it takes


@dataclass(frozen=True)
class Axis:
    """A field of the `Config` that tells curves apart, also where it has one value."""

    field: str
    name: str  # in folders' names, before the value
    label: str  # with braces for the value, as "batch size {}"
    data: bool = False  # whether `load` reads it


@dataclass(frozen=True)
class Preset:
    """A run that the command knows by name.

    Attributes:
        config: The `Config` of its curves, but for the fields of the grid.
        seeds: Number of seeds.
        grid: The fields that vary, each with its values.
        minutes: What a curve takes on two cores, measured.
    """

    config: Any
    seeds: int = 3
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    minutes: float = 0.0


@dataclass(frozen=True)
class Command:
    """A command of an experiment's own, as `draw`.

    Attributes:
        name: Its name, after `tf-layernorm`.
        help: One sentence.
        arguments: Adds its arguments to an `argparse` parser.
        run: Takes them by name; returns what to print, the last line naming what it wrote.
    """

    name: str
    help: str
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[..., str]


@dataclass(frozen=True)
class Training:
    """How one curve is trained and measured.

    Attributes:
        build: Makes the compiled model; seeds are set before.
        batches: Makes the training data, without end, from an epoch on (0 is the first). An epoch's
            order must depend on the seed and its number alone.
        steps: Updates an epoch, which is what lies between two evaluations.
        evaluate: Figures of a model, after each epoch.
        test: Figures of the kept model, after the last epoch only.
        chunk: Updates an element of `batches`.
        files: What goes beside the model as JSON, by file name.
    """

    build: "Callable[[], keras.Model]"
    batches: "Callable[[int], tf.data.Dataset]"
    steps: int
    evaluate: "Callable[[keras.Model], dict[str, float]]"
    test: "Callable[[keras.Model], dict[str, float]] | None" = None
    chunk: int = 1
    files: Mapping[str, Any] = field(default_factory=dict)


def _always(config: Any, norm: str) -> bool:
    return True


@dataclass(frozen=True)
class Experiment:
    """An experiment of the paper.

    Attributes:
        name: Its name on the command line, and of its folder.
        section: The paper's section.
        title: The heading of its picture.
        config: Its `Config`: a frozen dataclass of plain values, each with a comment, which is the
            help of its flag. It has at least `data`, "packaged" or "full", and `epochs`.
        presets: Its runs by name; `small` is the default.
        axes: The fields that name curves.
        norms: What it compares.
        figures: The columns of its table.
        panels: The rows of its picture.
        load: The data of a `Config`, from a folder that is only read or, if allowed, the network.
        curve: The training of one curve, of a `Config`, data, the name of a norm and a seed.
        note: What a reader of the table must know.
        default_norms: Those to run, where it isn't all.
        sensible: Whether a norm is run with a `Config`, as where a gain is varied without a norm.
        baseline: The norm with which `race` compares.
        race: The figure by which the report tells how soon each norm reaches the baseline's best.
        x: What the picture's horizontal axis is: a figure of every epoch.
        kept: The figure whose best epoch is the result; `None`: the last epoch is.
        untrained: Whether the network is also measured before its first update.
        paper: The paper's numbers as a reader sees them, by norm (or by "variant-norm") and figure.
        paper_note: What the paper shows where it has no numbers.
        commands: Commands of its own.
        renamed: Former names of fields, for old folders and flags.
    """

    name: str
    section: str
    title: str
    config: type
    presets: Mapping[str, Preset]
    axes: tuple[Axis, ...]
    norms: tuple[Norm, ...]
    figures: tuple[Figure, ...]
    panels: tuple[Figure, ...]
    load: Callable[[Any, str | None, bool], Data]
    curve: Callable[[Any, Any, str, int], Training]
    note: str = ""
    default_norms: tuple[str, ...] | None = None
    sensible: Callable[[Any, str], bool] = _always
    baseline: str = "none"
    race: Figure | None = None
    x: Figure = Figure("epoch", "epoch")
    kept: Figure | None = None
    untrained: bool = False
    paper: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    paper_note: str = ""
    commands: tuple[Command, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)

    def norm(self, name: str) -> Norm:
        """The norm of that name.

        Raises:
            ValueError: If there is none.
        """
        for norm in self.norms:
            if norm.name == name:
                return norm
        names = ", ".join(norm.name for norm in self.norms)
        raise ValueError(f"`norm` must name some of {names}. Received: norm={name!r}")

    def axis(self, name: str) -> Axis:
        """How a field names curves: as declared, or for any other by its own name."""
        for axis in self.axes:
            if axis.field == name:
                return axis
        return Axis(name, name, name.replace("_", " ") + " {}", data=True)

    def variant(self, point: Point) -> str:
        """The name of a point of the grid in folders' names, as "batch4"."""
        return "-".join(self.axis(key).name + _text(value) for key, value in point.items())

    def describe(self, point: Point) -> str:
        """A point of the grid for people, as "batch size 4"."""
        return ", ".join(
            self.axis(key).label.format(_text(value, ", ")) for key, value in point.items()
        )


def _text(value: Any, separator: str = "x") -> str:
    if isinstance(value, (tuple, list)):
        return separator.join(map(_text, value))
    return f"{value:g}" if isinstance(value, float) else str(value)

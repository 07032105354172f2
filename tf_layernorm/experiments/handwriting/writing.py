"""Handwriting from a trained network: `tf-layernorm write`."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import keras
import numpy as np
import tensorflow as tf

from tf_layernorm.attention import window_weights
from tf_layernorm.data.pen import UNKNOWN, Line, encode, standardise
from tf_layernorm.experiments.files import write_whole
from tf_layernorm.experiments.handwriting import STATISTICS
from tf_layernorm.experiments.training import MODEL
from tf_layernorm.export import StepModel, step_model
from tf_layernorm.mixture import sample_points

LONGEST_TEXT = 200  # characters, with those of a line to continue
STEPS_A_CHARACTER = 100  # where a network that never comes to the end of a text is stopped
_WINDOW = 2  # its place among the states: the first layer's, behind h and c


@dataclass(frozen=True)
class Written:
    """A line that a network wrote.

    Attributes:
        points: float32 `(T, 3)`: offsets in the tablet's units and end of stroke.
        window: float32 `(T, C + 1)`: how much of each character, and of the one after the last, the
            window let through at each point.
        ended: Whether the network came to the end of the text by itself.
    """

    points: np.ndarray
    window: np.ndarray
    ended: bool


def check_request(text: str, count: int, bias: float, prime: Line | None) -> None:
    """Raises a `ValueError` if an argument of `Writer.write` is out of its range."""
    if not text.strip():
        raise ValueError(f"`text` must not be empty. Received: text={text!r}")
    length = len(text) if prime is None else len(prime.text) + 1 + len(text)
    if length > LONGEST_TEXT:
        raise ValueError(
            f"`text` must have at most {LONGEST_TEXT} characters, together with those of a line "
            f"to continue. Received: {length} characters"
        )
    if count < 1:
        raise ValueError(f"`count` must be at least 1. Received: count={count}")
    if not 0 <= bias < np.inf:
        raise ValueError(f"`bias` must be at least 0. Received: bias={bias}")


class Writer:
    """A trained network that writes texts.

    Args:
        folder: Folder of one curve of `tf-layernorm run handwriting`, with its `model.keras` and
            `pen.json`.

    Raises:
        ValueError: If the folder has no such files.
    """

    def __init__(self, folder: str | Path) -> None:
        folder = Path(folder)
        missing = [name for name in (MODEL, STATISTICS) if not (folder / name).exists()]
        if missing:
            raise ValueError(
                f"The folder must be one of the curves of `tf-layernorm run handwriting`, as "
                f"runs/handwriting-small/curves/NAME. It has no {' and no '.join(missing)}. "
                f"Received: model={str(folder)!r}"
            )
        statistics = json.loads((folder / STATISTICS).read_text())
        self.alphabet = tuple(statistics["alphabet"])
        self.mean = np.array(statistics["mean"], np.float32)
        self.std = np.array(statistics["std"], np.float32)
        self.step: StepModel = step_model(keras.models.load_model(folder / MODEL))
        self._step = tf.function(self.step, reduce_retracing=True)

    def seen(self, text: str) -> str:
        """The text as the network sees it, with `data.pen.UNKNOWN` for what it doesn't know."""
        return "".join(c if c in self.alphabet else UNKNOWN for c in text)

    def write(
        self,
        text: str,
        *,
        count: int = 1,
        bias: float = 0.5,
        seed: int = 1,
        prime: Line | None = None,
    ) -> list[Written]:
        """Writes a text, point by point, several times.

        A line ends as Graves' do: when the window lets through more of the place behind the text
        than of any character. If that never happens, after 100 points a character.

        Args:
            text: What to write.
            count: How many times.
            bias: At least 0; the larger, the more regular. See `mixture.sample_points`.
            seed: Seed of the samples.
            prime: A line whose style the writing goes on with: the network reads it first.

        Raises:
            ValueError: If an argument is out of its range.
        """
        check_request(text, count, bias, prime)
        whole = text if prime is None else f"{prime.text} {text}"
        codes = np.tile(encode(whole, self.alphabet), (count, 1))
        rng, step = np.random.default_rng(seed), self._step
        states = self.step.initial_states(tf.one_hot(codes, len(self.alphabet)))
        point, begin = np.zeros((count, 3), np.float32), 0
        if prime is not None:
            begin = len(prime.text) + 1
            read = standardise(prime, self.mean, self.std)
            for row in read[:-1]:
                _, *states = step([np.tile(row, (count, 1)), *states])
            point = np.tile(read[-1], (count, 1))
        places = np.arange(1, len(whole) + 2)
        points: list[np.ndarray] = []
        windows: list[np.ndarray] = []
        ended = np.zeros(count, bool)
        lengths = np.zeros(count, int)
        while not ended.all() and len(points) < STEPS_A_CHARACTER * len(text):
            outputs, *states = step([point, *states])
            window = np.array(window_weights(states[_WINDOW], places))
            ended |= window[:, -1] > window[:, :-1].max(1)
            lengths += ~ended
            point = sample_points(outputs, rng, bias)
            points.append(point)
            windows.append(window[:, begin:])
        scale = np.append(self.std, 1).astype(np.float32)
        shift = np.append(self.mean, 0).astype(np.float32)
        lines = zip(np.stack(points, 1) * scale + shift, np.stack(windows, 1), lengths, ended)
        return [Written(p[:n], w[:n], bool(e)) for p, w, n, e in lines]


def load_prime(path: str | Path) -> Line:
    """A line to continue: an `.npz` file with the fields of `data.pen.Line`."""
    try:
        with np.load(path, allow_pickle=False) as file:
            offsets, ends = file["offsets"], file["end_of_stroke"]
            line = Line(offsets.astype("float32"), ends.astype(bool), str(file["text"]), "")
    except (OSError, KeyError, TypeError, ValueError, BadZipFile) as error:
        raise ValueError(
            "`prime` must be an .npz file with `offsets` (T, 2), `end_of_stroke` (T,) and `text`. "
            f"Received: prime={str(path)!r}, {error}"
        ) from None
    if offsets.ndim != 2 or offsets.shape != (len(ends), 2) or not len(ends):
        raise ValueError(
            "`prime` must hold `offsets` of shape (T, 2) and `end_of_stroke` of shape (T,). "
            f"Received: shapes {offsets.shape} and {ends.shape}"
        )
    return line


def strokes(points: np.ndarray) -> list[np.ndarray]:
    """The strokes of a line of offsets and ends of stroke, each `(n, 2)`, from where it began."""
    path, ends = points[:, :2].cumsum(0), np.flatnonzero(points[:, 2]) + 1
    return [stroke for stroke in np.split(path, ends) if len(stroke)]


def draw_ink(ax: Any, points: np.ndarray) -> None:
    """Draws a line of offsets as ink, one curve a stroke, on Matplotlib axes."""
    for stroke in strokes(points):
        # The cap makes a dot of a stroke of one point.
        ax.plot(*stroke.T, color="#1a237e", lw=0.9, solid_capstyle="round", marker="")
        if len(stroke) == 1:
            ax.plot(*stroke.T, color="#1a237e", marker=".", ms=2)
    ax.set_aspect("equal")
    ax.set_axis_off()


def draw_page(lines: Sequence[np.ndarray], heading: str, path: str | Path) -> None:
    """Draws lines of offsets below one another into a picture."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 1.2 * len(lines) + 0.4), layout="constrained")
    for ax, points in zip(figure.subplots(len(lines), 1, squeeze=False)[:, 0], lines):
        draw_ink(ax, points)
    figure.suptitle(heading, fontsize="small", parse_math=False)
    write_whole(Path(path), lambda unfinished: figure.savefig(unfinished, dpi=120))


def write_page(
    text: str,
    model: str | Path,
    out: str | Path = "page.png",
    *,
    count: int = 3,
    bias: float = 0.5,
    seed: int = 1,
    prime: str | Path | None = None,
) -> str:
    """What `tf-layernorm write` does; returns what it says.

    Args:
        text: What to write.
        model: Folder of one curve of a run.
        out: The picture.
        count: How many times to write it.
        bias: See `mixture.sample_points`.
        seed: Seed of the samples.
        prime: File of a line to continue, see `load_prime`.

    Raises:
        ValueError: If an argument is out of its range, before anything is written.
    """
    out = Path(out)
    if out.suffix != ".png":
        raise ValueError(f"`out` must be a .png file. Received: out={str(out)!r}")
    line = None if prime is None else load_prime(prime)
    check_request(text, count, bias, line)
    writer = Writer(model)
    seen, replaced = writer.seen(text), out.exists()
    lines = writer.write(text, count=count, bias=bias, seed=seed, prime=line)
    draw_page([line.points for line in lines], f"{seen}   (bias {bias:g})", out)
    said = []
    unknown = sorted({a for a, b in zip(text, seen) if a != b})
    if unknown:
        said.append(
            f"Not in the alphabet, so written as the unknown symbol {UNKNOWN}: "
            + " ".join(map(repr, unknown))
        )
    endless = sum(not line.ended for line in lines)
    if endless:
        said.append(f"{endless} of {count} did not come to the text's end and were stopped.")
    page = f"{out}{' (replaced)' * replaced}: {count} of {text!r}, bias {bias:g}, seed {seed}"
    return "\n".join([*said, page])

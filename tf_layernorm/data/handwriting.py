"""Handwritten lines as pen offsets with their text: sources, preprocessing as Graves', batches."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tf_layernorm.data.buckets import bucket_by_length

# Graves' 57: all else, digits first, is one generic symbol. His choice of punctuation is unknown.
UNKNOWN = "\N{REPLACEMENT CHARACTER}"
ALPHABET = (UNKNOWN, *" .,'", *"ABCDEFGHIJKLMNOPQRSTUVWXYZ", *"abcdefghijklmnopqrstuvwxyz")
OUTLIER = 20.0  # standard deviations
MARGIN = 8  # characters kept beyond the share of a cut line, since letters take unequal time


@dataclass(frozen=True)
class Line:
    """A line of writing.

    Attributes:
        offsets: float32 `(T, 2)`, x and y from the point before in the tablet's units, y upwards;
            the first is zero, and the first of a later stroke is the move with the pen lifted.
        end_of_stroke: bool `(T,)`, True on the last point of a stroke.
        text: What is written.
        writer: Who wrote it.
    """

    offsets: np.ndarray
    end_of_stroke: np.ndarray
    text: str
    writer: str


@dataclass(frozen=True)
class Handwriting:
    """Lines to train on and to validate with, and what standardises them.

    Attributes:
        source: What the lines are and where they came from, for people.
        train: The lines to train on, cut to the longest length.
        validation: The other lines, by other writers.
        mean: float32 `(2,)`, of the training set's offsets before the cut.
        std: float32 `(2,)`, likewise.
        counts: What was cut, left out or unusual, by name.
        alphabet: The symbols, the unknown one first.
    """

    source: str
    train: list[Line]
    validation: list[Line]
    mean: np.ndarray
    std: np.ndarray
    counts: dict[str, float] = field(default_factory=dict)
    alphabet: tuple[str, ...] = ALPHABET

    def statistics(self) -> dict[str, Any]:
        """What a trained model must keep, for JSON.

        `nats_per_point` is added to the standardised NLL of a point for that of raw offsets.
        """
        return {
            "source": self.source,
            "mean": self.mean.tolist(),
            "std": self.std.tolist(),
            "nats_per_point": float(np.log(self.std).sum()),
            "alphabet": list(self.alphabet),
        }


def load(
    data_dir: str | Path | None = None,
    *,
    seed: int = 0,
    max_length: int | None = 500,
    synthetic_lines: int = 2000,
) -> Handwriting:
    """Real lines from a folder, or synthetic ones where there is none.

    Args:
        data_dir: Folder with IAM-OnDB's archives or with `unipen_lines.npz`; only read. `None`:
            lines drawn from single-stroke fonts.
        seed: Seed of synthetic lines, and of the split by writer of lines that have no split.
        max_length: Steps to cut lines to; `None` keeps them whole.
        synthetic_lines: Number of lines to draw from fonts.

    Returns:
        The `Handwriting`.

    Raises:
        ValueError: If `data_dir` holds neither, or its files are damaged or of another layout.

    Example:

    >>> from tf_layernorm.data.handwriting import load
    >>> data = load(synthetic_lines=20)
    >>> data.source.split(":")[0], len(data.alphabet), data.train[0].offsets.shape[1]
    ('synthetic lines', 57, 2)
    """
    from tf_layernorm.data import pen_lines

    if data_dir is not None:
        raise ValueError(f"No pen data is read yet. Received: data_dir={str(data_dir)!r}")
    source, counts = pen_lines.describe(synthetic_lines, seed), dict[str, float]()
    parts = split_by_writer(pen_lines.draw_lines(synthetic_lines, seed), seed)
    return prepare(source, *parts, counts, max_length)


def prepare(
    source: str,
    train: list[Line],
    validation: list[Line],
    counts: dict[str, float],
    max_length: int | None,
) -> Handwriting:
    """Takes the statistics of the training lines, counts outliers, cuts."""
    # The first offset of a line is no move of the pen.
    moves = np.concatenate([line.offsets[1:] for line in train]).astype(np.float64)
    mean, std = moves.mean(0), moves.std(0)
    far = np.abs((moves - mean) / std)
    counts = counts | {
        f"offsets beyond {OUTLIER:g} std": int((far > OUTLIER).any(1).sum()),
        "largest offset in std": round(float(far.max()), 1),
    }
    if max_length is not None:
        lines = [*train, *validation]
        counts["lines cut"] = sum(len(line.offsets) > max_length + 1 for line in lines)
        train = [cut(line, max_length) for line in train]
        validation = [cut(line, max_length) for line in validation]
    figures = mean.astype(np.float32), std.astype(np.float32)
    return Handwriting(source, train, validation, *figures, counts)


def cut(line: Line, max_length: int) -> Line:
    """The first `max_length` steps of a line, with the text in proportion and a little more.

    More, since where each letter is written isn't known: what is written must be in the text, and
    the window needn't reach the text's end.
    """
    count = len(line.offsets)
    if count <= max_length + 1:
        return line
    share = math.ceil(len(line.text) * (max_length + 1) / count) + MARGIN
    return replace(
        line,
        offsets=line.offsets[: max_length + 1],
        end_of_stroke=line.end_of_stroke[: max_length + 1],
        text=line.text[:share],
    )


def split_by_writer(
    lines: list[Line], seed: int, share: float = 0.1
) -> tuple[list[Line], list[Line]]:
    """Parts lines for training and for validation so that no writer is in both.

    Writers come in an order given by `seed`, and go to the validation part as long as it has at
    most `share` of the lines with them.
    """
    counts: dict[str, int] = {}
    for line in lines:
        counts[line.writer] = counts.get(line.writer, 0) + 1
    room, held_out = share * len(lines), set[str]()
    for i in np.random.default_rng(seed).permutation(len(counts)):
        writer = sorted(counts)[i]
        if counts[writer] <= room:
            room -= counts[writer]
            held_out.add(writer)
    train = [line for line in lines if line.writer not in held_out]
    return train, [line for line in lines if line.writer in held_out]


def encode(text: str, alphabet: Sequence[str] = ALPHABET) -> np.ndarray:
    """The places of a text's characters in the alphabet, int32; 0 for those it lacks.

    Example:

    >>> from tf_layernorm.data.handwriting import encode
    >>> encode("a B7").tolist()
    [31, 1, 6, 0]
    """
    places = {symbol: i for i, symbol in enumerate(alphabet)}
    return np.array([places.get(character, 0) for character in text], np.int32)


def standardise(line: Line, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    """A line as the network sees it: float32 `(T, 3)`, offsets and end of stroke.

    The first offset stays zero: Graves' null vector, from which the first move is predicted.
    """
    offsets = (line.offsets - mean) / std
    offsets[:1] = 0
    return np.column_stack([offsets, line.end_of_stroke]).astype(np.float32)


def steps_per_epoch(lines: Sequence[Line], batch_size: int, lengths: Sequence[int]) -> int:
    """How many batches `batches` makes of an epoch with a seed, where small ones are left out."""
    buckets = np.searchsorted(lengths, [len(line.offsets) - 1 for line in lines])
    return int(sum(np.bincount(buckets) // batch_size))


def batches(
    lines: Sequence[Line],
    mean: np.ndarray,
    std: np.ndarray,
    batch_size: int = 8,
    *,
    lengths: Sequence[int] = (500,),
    alphabet: Sequence[str] = ALPHABET,
    seed: int | None = None,
    first_epoch: int = 0,
) -> tf.data.Dataset:
    """A `tf.data` pipeline over lines, each step's target the point after it.

    Args:
        lines: The lines.
        mean: The mean of each axis that is taken off.
        std: The standard deviation of each axis that is divided by.
        batch_size: Lines a batch.
        lengths: Lengths to pad to, increasing: a batch has lines of one bucket.
        alphabet: Symbols of the characters.
        seed: `None` for one pass, the last batch of a length as small as it comes. With a seed the
            pipeline has no end: its epoch e holds whole batches only, in an order that depends on
            `(seed, e)` alone, so that a resumed run sees what an uninterrupted one would have seen.
        first_epoch: With a seed, the epoch to begin with.

    Returns:
        A dataset of `({"points": (B, T, 3), "mask": (B, T), "characters": (B, C, A)}, target)`:
        points and the target `(B, T, 3)` are offsets and end of stroke, float32, zero at the
        padding, where the Boolean mask is False; characters are one-hot float32, all zero at the
        padding, C the longest text's length.

    Raises:
        ValueError: If an epoch has no whole batch.
    """
    if seed is not None and steps_per_epoch(lines, batch_size, lengths) == 0:
        raise ValueError(
            f"{len(lines)} lines make no batch. "
            f"Received: batch_size={batch_size}, lengths={tuple(lengths)}"
        )
    points = tf.ragged.stack([standardise(line, mean, std) for line in lines])
    codes = tf.ragged.stack([encode(line.text, alphabet) for line in lines])
    longest = max(len(line.text) for line in lines)

    def example(i: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        line, code = points[i].to_tensor(shape=(None, 3)), codes[i]
        steps = tf.concat([line[:-1], line[1:]], axis=1)
        padding = [[0, longest - tf.shape(code)[0]]]
        code = tf.ensure_shape(tf.pad(code, padding, constant_values=-1), [longest])
        return steps, tf.one_hot(code, len(alphabet))

    def split(steps: tuple[tf.Tensor, tf.Tensor], characters: tf.Tensor) -> Any:
        both, mask = steps
        # As much as is known before a batch comes, for those who compile.
        length = lengths[0] if len(lengths) == 1 else None
        size = None if seed is None else batch_size
        both, mask = tf.ensure_shape(both, [size, length, 6]), tf.ensure_shape(mask, [size, length])
        characters = tf.ensure_shape(characters, [size, longest, len(alphabet)])
        inputs = {"points": both[..., :3], "mask": mask, "characters": characters}
        return inputs, both[..., 3:]

    def epoch(indices: tf.data.Dataset, drop_remainder: bool) -> tf.data.Dataset:
        return bucket_by_length(
            indices.map(example), lengths, batch_size, drop_remainder=drop_remainder
        ).map(split)

    def shuffled(number: tf.Tensor) -> tf.data.Dataset:
        order = tf.random.experimental.stateless_shuffle(
            tf.range(len(lines)), seed=tf.stack([tf.constant(seed, tf.int64), number])
        )
        return epoch(tf.data.Dataset.from_tensor_slices(order), True)

    if seed is None:
        dataset = epoch(tf.data.Dataset.range(len(lines)), False)
    else:
        epochs = tf.data.Dataset.range(first_epoch, np.iinfo(np.int64).max)
        dataset = epochs.flat_map(shuffled)
    # With the autotuner on, the end of an iterator waits for its sleep, which doubles each time.
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.prefetch(2).with_options(options)

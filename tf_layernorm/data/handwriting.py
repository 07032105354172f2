"""Handwritten lines as pen offsets with their text: sources, preprocessing as Graves', batches."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tf_layernorm.data.buckets import bucket_by_length
from tf_layernorm.data.order import shuffled_epochs, without_autotuner
from tf_layernorm.data.pen import ALPHABET, Line, cut, encode, split_by_writer, standardise

OUTLIER = 20.0  # standard deviations


@dataclass(frozen=True)
class Handwriting:
    """Lines to train on and to validate with, and what standardises them.

    Attributes:
        source: What the lines are, where they came from, and what was cut, left out or unusual,
            for people.
        train: The lines to train on.
        validation: The other lines, by other writers.
        mean: float32 `(2,)`, the mean of the training lines' offsets.
        std: float32 `(2,)`, their standard deviation.
        counts: What was cut, left out or unusual, by name.
        alphabet: The symbols, the unknown one first.
    """

    source: str
    train: list[Line]
    validation: list[Line]
    mean: np.ndarray
    std: np.ndarray
    counts: dict[str, float]
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
    prepared_dir: str | Path | None = None,
    synthetic_lines: int = 2000,
) -> Handwriting:
    """Real lines from a folder, or synthetic ones where there is none.

    Args:
        data_dir: Folder with IAM-OnDB's archives, with UNIPEN's distribution `train_r01_v07`, or
            with `unipen_lines.npz`; only read. `None`: lines drawn from single-stroke fonts.
        seed: Seed of synthetic lines, and of the split by writer of lines that have no split.
        max_length: Steps to cut lines to; `None` keeps them whole.
        prepared_dir: Where TFDS keeps prepared data. Defaults to TFDS' own folder.
        synthetic_lines: Number of lines to draw from fonts.

    Returns:
        The `Handwriting`.

    Raises:
        ValueError: If `data_dir` holds none of them or several, or files that are damaged or of
            another layout.

    Example:

    >>> from tf_layernorm.data.handwriting import load
    >>> data = load(synthetic_lines=20)
    >>> data.source.split(",")[0], len(data.alphabet), data.train[0].offsets.shape[1]
    ('synthetic lines', 57, 2)
    """
    from tf_layernorm.data import iam_ondb_files, pen_lines, unipen_files, unipen_lines

    if data_dir is None:
        source = pen_lines.describe(synthetic_lines, seed)
        parts = split_by_writer(pen_lines.draw_lines(synthetic_lines, seed), seed)
        return prepare(source, *parts, {}, max_length)
    folder = Path(data_dir)
    places = {
        unipen_lines.FILE: list(folder.glob(unipen_lines.FILE)),
        "IAM-OnDB": iam_ondb_files.sources(folder),
        f"UNIPEN's {unipen_files.NAME}": unipen_files.sources(folder),
    }
    found = [name for name, paths in places.items() if paths]
    if len(found) != 1:
        raise ValueError(
            f"`data_dir` must hold one of: {', '.join(places)}. It holds "
            f"{' and '.join(found) or 'none of them'}.\n"
            f"{iam_ondb_files.INSTRUCTIONS}\n{unipen_files.INSTRUCTIONS}\n"
            f"Received: data_dir={str(data_dir)!r}"
        )
    # TFDS takes seconds to import.
    if found == ["IAM-OnDB"]:
        from tf_layernorm.data import iam_ondb

        return prepare(*iam_ondb.read(folder, prepared_dir), max_length)
    if found == [unipen_lines.FILE]:
        source, lines, counts = unipen_lines.read(folder)
    else:
        from tf_layernorm.data import unipen

        source, lines, counts = unipen.read(folder, prepared_dir)
    return prepare(source, *split_by_writer(lines, seed), counts, max_length)


def prepare(
    source: str,
    train: list[Line],
    validation: list[Line],
    counts: dict[str, float],
    max_length: int | None,
) -> Handwriting:
    """Cuts lines, leaves out those without a step, takes statistics, counts outliers."""
    counts = dict(counts)
    parts = [train, validation]
    if max_length is not None:
        longer = sum(len(line.offsets) > max_length + 1 for part in parts for line in part)
        counts[f"lines cut to {max_length} steps"] = longer
        parts = [[cut(line, max_length) for line in part] for part in parts]
    short = sum(len(line.offsets) < 2 for part in parts for line in part)
    counts["lines of one point left out"] = short
    train, validation = ([line for line in part if len(line.offsets) > 1] for part in parts)

    # The first offset of a line is no move of the pen.
    moves = np.concatenate([line.offsets[1:] for line in train]).astype(np.float64)
    mean, std = moves.mean(0), moves.std(0)
    for name, part in (("training", train), ("validation", validation)):
        moves = np.concatenate([line.offsets[1:] for line in part])
        far = np.abs((moves - mean) / std).max(1)
        counts[f"{name} offsets beyond {OUTLIER:g} std, kept"] = int((far > OUTLIER).sum())
        counts[f"largest {name} offset in std"] = round(float(far.max()), 1)
    source = (
        f"{source}; {len(train):,} lines to train on, {len(validation):,} to validate with ("
        + ", ".join(f"{name}: {value:,}" for name, value in counts.items() if value)
        + ")"
    )
    figures = mean.astype(np.float32), std.astype(np.float32)
    return Handwriting(source, train, validation, *figures, counts)


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
    points = _ragged([standardise(line, mean, std) for line in lines])
    codes = _ragged([encode(line.text, alphabet) for line in lines])
    longest = max(len(line.text) for line in lines)

    def example(i: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        line, code = points[i], codes[i]
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

    def shuffled(order: tf.Tensor) -> tf.data.Dataset:
        return epoch(tf.data.Dataset.from_tensor_slices(order), True)

    if seed is None:
        dataset = epoch(tf.data.Dataset.range(len(lines)), False)
    else:
        dataset = shuffled_epochs(len(lines), seed, first_epoch, shuffled)
    return without_autotuner(dataset.prefetch(2))


def _ragged(rows: list[np.ndarray]) -> tf.RaggedTensor:
    return tf.RaggedTensor.from_row_lengths(np.concatenate(rows), [len(row) for row in rows])

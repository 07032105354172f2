"""One handwritten line: offsets of the pen and what they say, and what is done to such lines."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

# Graves' 57: all else, digits first, is one generic symbol. His choice of punctuation is unknown.
UNKNOWN = "\N{REPLACEMENT CHARACTER}"
ALPHABET = (UNKNOWN, *" .,'", *"ABCDEFGHIJKLMNOPQRSTUVWXYZ", *"abcdefghijklmnopqrstuvwxyz")
MARGIN = 8  # characters; in synthetic lines the share of the points is off by up to 4


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


def cut(line: Line, max_length: int) -> Line:
    """The first `max_length` steps of a line, with the text in proportion and a little more.

    More, since where each letter is written isn't known: what is written must be in the text, and
    the window needn't reach the text's end.
    """
    count = max_length + 1  # the last point is a target only
    if len(line.offsets) <= count:
        return line
    share = math.ceil(len(line.text) * count / len(line.offsets)) + MARGIN
    return replace(
        line,
        offsets=line.offsets[:count],
        end_of_stroke=line.end_of_stroke[:count],
        text=line.text[:share],
    )


def split_by_writer(
    lines: Sequence[Line], seed: int, share: float = 0.1
) -> tuple[list[Line], list[Line]]:
    """Parts lines for training and for validation so that no writer is in both.

    Writers come in an order given by `seed`; each goes to the validation part unless it then has
    more than `share` of all lines.

    Raises:
        ValueError: If that leaves a part empty.
    """
    counts = Counter(line.writer for line in lines)
    room, held_out = share * len(lines), set[str]()
    for writer in np.random.default_rng(seed).permutation(sorted(counts)).tolist():
        if counts[writer] <= room:
            room -= counts[writer]
            held_out.add(writer)
    if not held_out:
        raise ValueError(
            f"Too few writers to hold some out for validation, at most {share:.0%} of the lines. "
            f"Received: lines of writers {dict(counts)}"
        )
    train = [line for line in lines if line.writer not in held_out]
    return train, [line for line in lines if line.writer in held_out]


def encode(text: str, alphabet: Sequence[str] = ALPHABET) -> np.ndarray:
    """The places of a text's characters in the alphabet, int32; 0 for those that it lacks.

    Example:

    >>> from tf_layernorm.data.pen import encode
    >>> encode("a B7").tolist()
    [31, 1, 6, 0]
    """
    places = {symbol: i for i, symbol in enumerate(alphabet)}
    return np.array([places.get(character, 0) for character in text], np.int32)


def standardise(line: Line, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    """A line as the network sees it: float32 `(T, 3)`, offsets and end of stroke.

    The first offset stays zero: Graves' null vector, from which the first move is predicted.
    """
    offsets = (line.offsets - np.asarray(mean)) / np.asarray(std)
    offsets[:1] = 0
    return np.column_stack([offsets, line.end_of_stroke]).astype(np.float32)

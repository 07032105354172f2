"""Synthetic handwriting: text drawn with single-stroke fonts by made-up writers.

The fonts were created by A. V. Hershey at the U.S. National Bureau of Standards; James Hurt made
the format in which the package Hershey-Fonts brings them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files

import numpy as np

from tf_layernorm.data.pen import Line

TEXT = "northanger_abbey.txt"
# The dot of i and j comes first in the fonts, the bar of these last; a pen draws both last.
DOTTED, CROSSED = "ij", "ftx"
Glyph = tuple[list[np.ndarray], float]  # strokes of complex points, and the width
STEP = 0.7  # font units between the points of a path, before it is sampled in time


@dataclass(frozen=True)
class Writer:
    """How someone writes; lengths are in the font's units, of which a capital has 21."""

    name: str
    font: str  # "futural" prints, "scripts" joins letters
    size: float  # tablet units a font unit
    width: float  # of letters, relative to their height
    slant: float  # shift to the right a unit of height
    spacing: float  # further space between printed letters
    speed: float  # along a straight path, a step
    caution: float  # how much bends slow the pen down
    roundness: float  # over what length a corner is smoothed
    wobble: float  # by how much letters differ from one another
    tremor: float  # noise of each point
    drift: float  # slope and waves of the base line
    forms: int  # seed of the writer's own letter shapes

    @classmethod
    def random(cls, name: str, rng: np.random.Generator) -> "Writer":
        """A writer at random."""
        font = str(rng.choice(["futural", "scripts"]))
        return cls(
            name=name,
            font=font,
            size=rng.uniform(9, 20),
            width=rng.uniform(0.7, 1.15),
            slant=rng.uniform(-0.15, 0.55) if font == "futural" else rng.uniform(-0.45, 0.25),
            spacing=rng.uniform(-3, 2),
            speed=rng.uniform(1.3, 2.6),
            caution=rng.uniform(0.5, 3),
            roundness=rng.uniform(0.7, 1.6),
            wobble=rng.uniform(0.3, 1.2),
            tremor=rng.uniform(0.02, 0.08),
            drift=rng.uniform(0, 1),
            forms=int(rng.integers(2**32)),
        )


def lines_per_writer(count: int) -> int:
    """Twenty, or fewer where that makes less than twenty writers."""
    return max(1, min(20, count // 20))


def describe(count: int, seed: int) -> str:
    """What `draw_lines` makes, for people."""
    return (
        f"synthetic lines, which nobody wrote: {count:,} pieces of a novel by Jane Austen drawn "
        f"with Hershey's single-stroke fonts, {lines_per_writer(count)} a made-up writer, "
        f"seed {seed}"
    )


def draw_lines(count: int, seed: int = 0) -> list[Line]:
    """Draws lines of at most 39 characters, the same for the same arguments.

    Args:
        count: Number of lines.
        seed: Seed of the writers, the texts and the movements.

    Returns:
        The lines, writer by writer.

    Example:

    >>> from tf_layernorm.data.pen_lines import draw_lines
    >>> line = draw_lines(1, seed=3)[0]
    >>> line.writer, line.offsets.shape[1], bool(line.end_of_stroke[-1])
    ('synthetic-0', 2, True)
    """
    rng = np.random.default_rng(seed)
    words, each = _words(), lines_per_writer(count)
    lines = []
    for i in range(count):
        if i % each == 0:
            writer = Writer.random(f"synthetic-{i // each}", rng)
        lines.append(write(_cut_out(words, rng), writer, rng))
    return lines


@cache
def _words() -> list[str]:
    text = files("tf_layernorm.data").joinpath(TEXT).read_text("utf-8")
    lines = text.splitlines()
    return " ".join(line for line in lines if line[:1] != "#" and "CHAPTER" not in line).split()


def _cut_out(words: list[str], rng: np.random.Generator) -> str:
    """Whole words from a place at random, until the line has its length."""
    length, first = rng.integers(10, 40), rng.integers(len(words) - 40)
    text = words[first]
    for word in words[first + 1 :]:
        if len(text) + 1 + len(word) > length:
            break
        text += " " + word
    return text


def write(text: str, writer: Writer, rng: np.random.Generator) -> Line:
    """One line of text in a writer's hand.

    Args:
        text: The text, of printable ASCII.
        writer: The writer.
        rng: Source of what differs from line to line.

    Raises:
        ValueError: If the fonts lack a character, or there is nothing to draw.
    """
    if not text.strip() or not set(text) <= set(_font(writer.font)):
        raise ValueError(f"`text` must be printable ASCII, and not empty. Received: text={text!r}")
    slope, wave, phase = writer.drift * rng.normal(size=3) * (0.01, 0.5, 3)
    strokes = []
    for path in _paths(text, writer, rng):
        points = _move(_smooth(path, writer.roundness), writer)
        points += 1j * (slope * points.real + wave * np.sin(points.real / 60 + phase))
        noise = rng.normal(size=(2, len(points))) * writer.tremor
        x, y = points.real + noise[0], points.imag + noise[1]
        strokes.append(np.column_stack([x * writer.width + y * writer.slant, y]))
    # A tablet counts in whole units.
    positions = np.rint(np.concatenate(strokes) * writer.size).astype(np.float32)
    end = np.zeros(len(positions), bool)
    end[np.cumsum([len(points) for points in strokes]) - 1] = True
    offsets = np.diff(positions, axis=0, prepend=positions[:1])
    return Line(offsets, end, text, writer.name)


@cache
def _font(name: str) -> dict[str, Glyph]:
    """Each character's strokes, from its left edge and the base line, and its width."""
    from HersheyFonts import HersheyFonts

    font = HersheyFonts()
    font.load_default_font(name)
    glyphs = {}
    for character, glyph in font.all_glyphs.items():
        strokes = [
            np.array([complex(x - glyph.left_offset, 9 - y) for x, y in stroke])
            for stroke in glyph.strokes
        ]
        if character in DOTTED:
            strokes = strokes[1:] + strokes[:1]
        glyphs[character] = strokes, float(glyph.char_width)
    return glyphs


@lru_cache(2)
def _letterforms(name: str, seed: int) -> dict[str, Glyph]:
    """A writer's own shapes: each letter of the font, bent a little, always in the same way."""
    rng = np.random.default_rng(seed)

    def bent(stroke: np.ndarray) -> np.ndarray:
        return stroke + 0.45 * (rng.normal(size=(len(stroke), 2)) @ (1, 1j))

    font = _font(name).items()
    return {character: ([bent(s) for s in strokes], width) for character, (strokes, width) in font}


def _paths(text: str, writer: Writer, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Corner points of the strokes, in the order in which a pen draws them."""
    font, joined = _letterforms(writer.font, writer.forms), writer.font == "scripts"
    x = 0.0
    for word in text.split(" "):
        body: list[np.ndarray] = []
        marks: list[np.ndarray] = []
        for previous, character in zip(" " + word, word):
            strokes, width = font[character]
            size, turn, rise = rng.normal(size=3) * (0.05, 0.03, 0.4) * writer.wobble
            strokes = [(1 + size) * np.exp(1j * turn) * s + x + 1j * rise for s in strokes]
            x += width * (1 + size) + (0 if joined else writer.spacing)
            marked = character in DOTTED + CROSSED and len(strokes) > 1
            late = [strokes.pop()] if marked else []
            if joined and character.islower():
                before = [body.pop()] if previous.islower() else []
                strokes = [np.concatenate(before + strokes)]
            body += strokes
            # Who joins letters dots and crosses them when the word is done.
            (marks if joined else body).extend(late)
        yield from body + marks
        x += font[" "][1] * rng.uniform(0.6, 1.2)


def _smooth(path: np.ndarray, roundness: float) -> np.ndarray:
    """A path through the corner points, at even distances, with its corners rounded."""
    from scipy.ndimage import gaussian_filter1d

    length = np.append(0, np.cumsum(np.abs(np.diff(path))))
    places = np.linspace(0, length[-1], max(2, int(length[-1] / STEP)))
    return gaussian_filter1d(np.interp(places, length, path), roundness / STEP, mode="nearest")


def _move(path: np.ndarray, writer: Writer) -> np.ndarray:
    """Points of a path at even times: the pen is slow where it starts, ends and turns."""
    way = np.diff(path)
    turn = np.append(0, np.abs(np.angle(way[1:] * np.conj(way[:-1]))))
    from_start = np.arange(len(way))
    from_end = STEP * np.minimum(from_start, from_start[::-1])
    speed = writer.speed * (0.4 + 0.6 * np.minimum(1, from_end / 5)) / (1 + writer.caution * turn)
    time = np.append(0, np.cumsum((np.abs(way) + 1e-9) / speed))
    times = np.append(np.arange(0, time[-1] - 0.5), time[-1])
    return np.interp(times, time, path)

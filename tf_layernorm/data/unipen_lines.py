"""Transcribed lines from UNIPEN, real pen data, from the file `unipen_lines.npz`.

`tf_layernorm.data.unipen` reads such lines from UNIPEN's own distribution.
"""

import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tf_layernorm.data.pen import Line

FILE = "unipen_lines.npz"
KEYS = ("dxdy", "end_of_stroke", "offsets", "text", "writer", "hz")
THINNED = "lines thinned from 200 points a second"
MENDED = "transcripts with backslashes mended"
HZ = 100  # 24 points a character in the median; IAM-OnDB has about 20


def read(folder: str | Path) -> tuple[str, list[Line], dict[str, float]]:
    """All lines of the file, at 100 points a second.

    Lines of 200 points a second lose every second point of a stroke, but neither its first nor its
    last. Transcripts hold quotation marks as `\\"`; the backslash is taken away.

    Args:
        folder: Folder that holds the file.

    Returns:
        What the lines are, for people; the lines; and counts of what was changed.

    Raises:
        ValueError: If the file is damaged or holds something else.
    """
    path = Path(folder) / FILE
    try:
        # `np.load` of a path leaves the file open where it isn't an archive.
        with path.open("rb") as file, np.load(file) as archive:
            arrays = {key: archive[key] for key in KEYS}
        if arrays["dxdy"].shape != (arrays["offsets"][-1], 2):
            raise ValueError("offsets don't end where dxdy does")
    except (KeyError, ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(
            f"Expected an .npz file with the arrays {', '.join(KEYS)} ({error}). "
            f"Received: {str(path)!r}"
        ) from error
    offsets, first = arrays["dxdy"].astype(np.float32), arrays["offsets"]
    end = np.unpackbits(arrays["end_of_stroke"])[: len(offsets)].astype(bool)
    counts: dict[str, float] = {THINNED: 0, MENDED: 0}
    lines = []
    for i, text in enumerate(arrays["text"].tolist()):
        line = Line(
            offsets[first[i] : first[i + 1]],
            end[first[i] : first[i + 1]],
            text.replace('\\"', '"'),
            str(arrays["writer"][i]),
        )
        counts[MENDED] += line.text != text
        if arrays["hz"][i] == 2 * HZ:
            counts[THINNED] += 1
            line = thin(line)
        lines.append(line)
    return describe("UNIPEN", lines), lines, counts


def describe(source: str, lines: Sequence[Line]) -> str:
    """What the lines are, for people."""
    writers = len({line.writer for line in lines})
    return (
        f"{source} (Guyon et al. 1994), {len(lines):,} transcribed lines by {writers} writers, "
        f"{HZ} points a second; not IAM-OnDB"
    )


def thin(line: Line) -> Line:
    """A line with every second point of each stroke, and the stroke's last."""
    starts = np.flatnonzero(np.append(True, line.end_of_stroke[:-1]))
    place = np.arange(len(line.offsets))
    place -= np.repeat(starts, np.diff(np.append(starts, len(place))))
    kept = (place % 2 == 0) | line.end_of_stroke
    positions = np.cumsum(line.offsets, axis=0)[kept]
    offsets = np.diff(positions, axis=0, prepend=positions[:1])
    return Line(offsets, line.end_of_stroke[kept], line.text, line.writer)

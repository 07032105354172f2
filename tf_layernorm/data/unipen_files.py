"""The files of UNIPEN's distribution, packed or unpacked, and the written lines that they hold.

`data/8/SITE/FILE.dat` (category 8, text) names the files that it includes and, in `.SEGMENT`, what
is written by which components of the pen data; the documents included say how the pen was sampled.
See `unipen.def` of the distribution's authors for the format.
"""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from tf_layernorm.data.archives import read_files

NAME = "train_r01_v07"
# The sites of English sentences, evenly sampled in time, and their segments of category 8.
SITES = {"bba": 63, "bbb": 51, "bbc": 61, "bbd": 858, "cec": 604, "sta": 156}
HOMEPAGE = "https://doi.org/10.5281/zenodo.1195803"
INSTRUCTIONS = f"""\
UNIPEN's {NAME} is free for research: {HOMEPAGE}. Put into one folder
its archive unipen-CDROM-{NAME}.tgz, or what is in that, the folders data and include."""
LEFT_OUT = "segments of more than one written line left out"
ABSENT = "segments left out, whose components aren't there"

_SITE = "|".join(SITES)
_WANTED = re.compile(rf"(?:^|/)((?:data/8|include)/(?:{_SITE})/.*\.(?:dat|doc))$")
_INCLUDE = re.compile(r"^\.INCLUDE\s+(\S+)", re.MULTILINE)
_SEGMENT = re.compile(r'^\.SEGMENT\s+TEXT\s+(\S+)\s+\S+\s+"((?:\\.|[^"\\])*)"', re.M | re.S)
_ESCAPES = {"t": "\t", "n": "\n"}


def sources(folder: Path) -> list[Path]:
    """The archive or the folders of UNIPEN that a folder holds."""
    for root in (folder, folder / NAME, folder / "unipen" / "CDROM" / NAME):
        if all((root / part).is_dir() for part in ("data/8", "include")):
            return [
                root / part / site
                for part in ("data/8", "include")
                for site in SITES
                if (root / part / site).is_dir()
            ]
    return sorted(
        path for suffix in ("tgz", "tar.gz") for path in folder.glob(f"*{NAME}*.{suffix}")
    )


def read_lines(folder: Path) -> tuple[dict[str, dict[str, Any]], dict[str, int]]:
    """All segments that are one written line, by file and number, and counts of those left out.

    Raises:
        ValueError: If the files are absent, cut off or of another layout than expected.
    """
    texts = {}
    for place in sources(folder):
        for name, content in read_files(place, _WANTED.search):
            found = _WANTED.search(Path(name).as_posix())
            assert found is not None
            texts[found[1]] = content.decode("latin-1")
    counts: Counter[str] = Counter({LEFT_OUT: 0, ABSENT: 0})
    lines = {}
    for name in sorted(texts):
        if name.startswith("data/8/"):
            for key, line in _segments(name, texts):
                site = name.split("/")[2]
                counts[f"segments of {site}"] += 1
                if line is None:
                    counts[ABSENT] += 1
                elif not is_one_line(line["offsets"], line["end_of_stroke"]):
                    counts[LEFT_OUT] += 1
                else:
                    lines[key] = line
    if not lines:
        raise ValueError(
            "Expected files data/8/SITE/FILE.dat with segments of text, and the files that they "
            f"include, of the sites {', '.join(SITES)}.\n{INSTRUCTIONS}\n"
            f"Received: data_dir={str(folder)!r}"
        )
    return lines, dict(counts)


def is_one_line(offsets: np.ndarray, end_of_stroke: np.ndarray) -> bool:
    """Whether all is written in one line, and not continued in a line below.

    It is continued if the longest way back between two strokes is more than half of the width, and
    what comes after is below what comes before, by the medians, by more than a quarter of the
    height.
    """
    positions = np.cumsum(offsets, axis=0)
    strokes = np.split(positions, np.flatnonzero(end_of_stroke)[:-1] + 1)
    ways = [after[0, 0] - before[-1, 0] for before, after in pairwise(strokes)]
    if not ways:
        return True
    k = int(np.argmin(ways)) + 1
    first, second = np.concatenate(strokes[:k]), np.concatenate(strokes[k:])
    width, height = np.ptp(positions, axis=0)
    below = np.median(first[:, 1]) - np.median(second[:, 1])
    return not (-min(ways) > width / 2 and below > height / 4)


def _segments(name: str, texts: dict[str, str]) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Key and line of each segment of a file; `None` if its components aren't there."""
    paths = [f"include/{path}" for path in _INCLUDE.findall(texts[name])]
    paths = [path for path in paths if not path.endswith(".lex")]  # word lists
    missing = [path for path in paths if path not in texts]
    if missing:
        raise ValueError(f"Expected {missing[0]}, which {name} includes. Received: no such file")
    document = "\n".join([*(texts[path] for path in paths), texts[name]])
    hz, writer = (_value(name, document, key) for key in ("POINTS_PER_SECOND", "WRITER_ID"))
    components = _components(name, document)
    for number, (span, label) in enumerate(_SEGMENT.findall(texts[name])):
        ends = re.fullmatch(r"(\d+)-(\d+)", span)
        first, last = map(int, ends.groups()) if ends else (0, -1)
        strokes = [points for down, points in components[first : last + 1] if down]
        line = None
        if strokes and last < len(components):
            positions = np.concatenate(strokes)
            end = np.zeros(len(positions), bool)
            end[np.cumsum([len(stroke) for stroke in strokes]) - 1] = True
            line = {
                "offsets": np.diff(positions, axis=0, prepend=positions[:1]),
                "end_of_stroke": end,
                "text": re.sub(r"\\(.)", lambda c: _ESCAPES.get(c[1], c[1]), label),
                "writer": f"{name.split('/')[2]}/{writer}",
                "points_per_second": int(hz),
            }
        yield f"{name.removeprefix('data/8/')}#{number}", line


def _components(name: str, document: str) -> list[tuple[bool, np.ndarray]]:
    """Whether the pen is down, and the points, x and y, of each component.

    The pen lifted without a point is none: segments don't count it.
    """
    columns = _value(name, document, "COORD").split()
    components = []
    for block in re.split(r"^\.", document, flags=re.MULTILINE):
        keyword, _, numbers = block.partition("\n")
        if keyword.strip() in ("PEN_DOWN", "PEN_UP") and numbers.strip():
            try:
                points = np.array(numbers.split(), np.float32).reshape(-1, len(columns))
                points = points[:, [columns.index("X"), columns.index("Y")]]
            except ValueError as error:
                raise ValueError(
                    f"Expected points of the numbers {columns} ({error}). Received: {name!r}"
                ) from error
            components.append((keyword.strip() == "PEN_DOWN", points))
    return components


def _value(name: str, document: str, keyword: str) -> str:
    found = re.search(rf"^\.{keyword}[ \t]+(\S.*?)[ \t\r]*$", document, re.MULTILINE)
    if found is None:
        raise ValueError(f"Expected .{keyword} in what the file includes. Received: {name!r}")
    return found[1]

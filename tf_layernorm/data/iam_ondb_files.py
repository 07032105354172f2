"""The files of IAM-OnDB, packed or unpacked, and the lines that they hold."""

import re
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tf_layernorm.data.archives import read_files

# A part is a folder, or the archive of it that comes first.
PARTS = {
    "lineStrokes": ("lineStrokes-all.tar.gz",),
    "ascii": ("ascii-all.tar.gz",),
    "original": ("original-xml-part.tar.gz", "original-xml-all.tar.gz"),
}
TASK = "task1.tar.gz"
# Each split's list of forms, and how many the original list holds.
LISTS = {
    "train": ("trainset.txt", 775),
    "validation_1": ("testset_v.txt", 192),
    "validation_2": ("testset_t.txt", 216),
    "test": ("testset_f.txt", 544),
}
LINE_BREAK = "%%%%%%%%%%%"
HOMEPAGE = "https://fki.tic.heia-fr.ch/databases/iam-on-line-handwriting-database"
INSTRUCTIONS = f"""\
IAM-OnDB is free for non-commercial research, and not to be passed on. Register at
{HOMEPAGE} and put into one folder, packed or
unpacked: lineStrokes-all.tar.gz, ascii-all.tar.gz, task1.tar.gz (the lists trainset.txt,
testset_v.txt, testset_t.txt, testset_f.txt) and, for who wrote what, original-xml-part.tar.gz."""


def sources(folder: Path) -> list[Path]:
    """The archives, folders and lists of IAM-OnDB that a folder holds."""
    places = [_locate(folder, part) for part in PARTS]
    return [place for place in places if place is not None] + _lists(folder)


def read_splits(folder: Path) -> tuple[dict[str, dict[str, dict[str, Any]]], dict[str, int]]:
    """All lines of all lists, by split and line id, and counts of what they lack.

    Raises:
        ValueError: If a file is absent, cut off or of another layout than expected.
    """
    lists = _read_lists(folder)
    texts = {
        Path(name).stem: _transcripts(name, content)
        for name, content in _files(folder, "ascii", r"\w+-\w+\.txt")
    }
    writers = {}
    if _locate(folder, "original") is not None:
        files = _files(folder, "original", r"strokes\w\.xml")
        writers = dict(_writer(name, content) for name, content in files)
    strokes: dict[str, dict[int, tuple[np.ndarray, np.ndarray]]] = defaultdict(dict)
    for name, content in _files(folder, "lineStrokes", r"\w+-\w+-\d+\.xml"):
        form, _, number = Path(name).stem.rpartition("-")
        strokes[form][int(number)] = _pen(name, content)

    counts: Counter[str] = Counter()
    splits: dict[str, dict[str, dict[str, Any]]] = {}
    for split, forms in lists.items():
        counts[f"forms in {LISTS[split][0]}"] = len(forms)
        splits[split] = {}
        for form in forms:
            written, lines = strokes.get(form, {}), texts.get(form, [])
            if not written or not lines:
                counts["forms listed but absent"] += 1  # such as z01-000z
            elif len(written) != len(lines):
                counts["forms left out, whose transcripts don't match"] += 1
                counts["lines of such forms"] += len(written)
            else:
                counts["lines whose writer is unknown"] += len(lines) * (form not in writers)
                for place, text in zip(sorted(written), lines):
                    offsets, end_of_stroke = written[place]
                    splits[split][f"{form}-{place:02}"] = {
                        "offsets": offsets,
                        "end_of_stroke": end_of_stroke,
                        "text": text,
                        "writer": writers.get(form, "unknown"),
                        "form": form,
                    }
        if not splits[split]:
            raise ValueError(
                f"Expected strokes and transcripts of the forms in {LISTS[split][0]}, but {folder} "
                f"has both of none. Received: forms={forms[:3]}"
            )
    return splits, dict(+counts)


def _locate(folder: Path, part: str) -> Path | None:
    # An archive has a check sum; a folder may be half unpacked.
    places = [folder / name for name in (*PARTS[part], part)]
    return next((place for place in places if place.exists()), None)


def _files(folder: Path, part: str, pattern: str) -> Iterator[tuple[str, bytes]]:
    """Path and contents of the files of a part whose names match."""
    place = _locate(folder, part)
    if place is None:
        raise ValueError(
            f"Expected {PARTS[part][0]}, or the folder {part} that is in it.\n{INSTRUCTIONS}\n"
            f"Received: data_dir={str(folder)!r}"
        )
    count = 0
    for name, content in read_files(place, lambda name: re.fullmatch(pattern, Path(name).name)):
        count += 1
        yield name, content
    if count == 0:
        raise ValueError(
            f"Expected files whose names match {pattern}, as in {part}/a01/a01-000/. "
            f"Received: {str(place)!r}"
        )


def _lists(folder: Path) -> list[Path]:
    names = [name for name, _ in LISTS.values()]
    files = [folder / TASK] + [path for name in names for path in sorted(folder.rglob(name))]
    return [path for path in files if path.is_file()]


def _read_lists(folder: Path) -> dict[str, list[str]]:
    contents: dict[str, bytes] = {}
    for path in _lists(folder):
        packed = path.name == TASK
        for name, content in (
            read_files(path, lambda name: True) if packed else [(path.name, path.read_bytes())]
        ):
            contents.setdefault(Path(name).name, content)
    # The ids have a space before them.
    lists = {
        split: contents.get(name, b"").decode("latin-1").split()
        for split, (name, _) in LISTS.items()
    }
    missing = [LISTS[split][0] for split, forms in lists.items() if not forms]
    if missing:
        raise ValueError(
            f"Expected {TASK}, or its lists of forms: {', '.join(missing)} absent or empty.\n"
            f"{INSTRUCTIONS}\nReceived: data_dir={str(folder)!r}"
        )
    return lists


def _transcripts(name: str, content: bytes) -> list[str]:
    _, found, block = content.decode("latin-1").partition("CSR:")
    if not found:
        raise ValueError(f"Expected a block that begins with CSR:. Received: {name!r}")
    # Not `splitlines`, which takes bytes such as 0x85 for the end of a line.
    lines = block.replace(LINE_BREAK, "\n").split("\n")
    return [line.strip() for line in lines if line.strip()]


def _xml(name: str, content: bytes) -> ET.Element:
    try:
        return ET.fromstring(content)
    except ET.ParseError as error:
        raise ValueError(f"Expected a whole XML file ({error}). Received: {name!r}") from error


def _writer(name: str, content: bytes) -> tuple[str, str]:
    described = _xml(name, content).find("General/*[@writerID]")
    if described is None:
        raise ValueError(f"Expected a writerID within General. Received: {name!r}")
    form = Path(name).parent.name + Path(name).stem.removeprefix("strokes")
    return form, described.attrib["writerID"]


def _pen(name: str, content: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Offsets, y upwards, and ends of strokes of the XML of one line."""
    strokes = _xml(name, content).findall("StrokeSet/Stroke")
    try:
        points = [
            [(int(point.attrib["x"]), -int(point.attrib["y"])) for point in stroke]
            for stroke in strokes
            if len(stroke)
        ]
        positions = np.concatenate(points).astype(np.float32)
    except (KeyError, ValueError) as error:
        raise ValueError(
            f"Expected StrokeSet/Stroke/Point with whole numbers x and y ({error!r}). "
            f"Received: {name!r}"
        ) from error
    end = np.zeros(len(positions), bool)
    end[np.cumsum([len(stroke) for stroke in points]) - 1] = True
    return np.diff(positions, axis=0, prepend=positions[:1]), end

"""The tasks that sentence vectors are judged by: SICK, MR, CR, SUBJ, MPQA, from the user's files.

None of them may be passed on, so a folder of the user's is read: SentEval's, with a folder a task
(`MR/rt-polarity.pos`), or the distributions' own files, side by side or still in their archives.
"""

import csv
import io
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

# Of each task the files that may hold its positive and negative sentences, best known name first.
CLASSIFICATION = {
    "MR": (("rt-polarity.pos", "rt-polarity.neg"),),
    "CR": (("custrev.pos", "custrev.neg"),),
    "SUBJ": (("subj.subjective", "subj.objective"), ("quote.tok.gt9.5000", "plot.tok.gt9.5000")),
    "MPQA": (("mpqa.pos", "mpqa.neg"),),
}
SICK = ("SICK_train.txt", "SICK_trial.txt", "SICK_test_annotated.txt")
TASKS = ("SICK", *CLASSIFICATION)
_ARCHIVES = (".zip", ".tar", ".tgz", ".tar.gz", ".tar.xz", ".tar.bz2")


@dataclass(frozen=True)
class Classification:
    """Sentences of two or more classes.

    Attributes:
        name: The task's name.
        sentences: In the files' order, the positive (or subjective) ones first.
        labels: int `(N,)`; 1 is positive, or subjective.
        source: What was read, and what of it was left out.
    """

    name: str
    sentences: list[str]
    labels: np.ndarray
    source: str


@dataclass(frozen=True)
class Pairs:
    """Pairs of sentences with their relatedness: `scores` are float64 `(N,)`, from 1 to 5."""

    first: list[str]
    second: list[str]
    scores: np.ndarray


@dataclass(frozen=True)
class Relatedness:
    """How related two sentences are: `train`, `validation` and `test` pairs."""

    name: str
    train: Pairs
    validation: Pairs
    test: Pairs
    source: str


def load_tasks(
    data_dir: str | Path, names: tuple[str, ...] = TASKS
) -> tuple[list[Classification | Relatedness], dict[str, str]]:
    """The tasks whose files are there.

    Args:
        data_dir: Folder of the user's. A file counts by its name, wherever below it lies: in
            folders as SentEval's, or in a `.tar` (`.gz`, `.xz`, `.bz2`) or `.zip`.
        names: Some of `TASKS`.

    Returns:
        The tasks, and of those that aren't there, by name, which files are missing.

    Raises:
        ValueError: If there is no such folder, a name is unknown, none of the tasks is there, or a
            file isn't what it should be.
    """
    unknown = [name for name in names if name not in TASKS]
    if unknown or not names:
        raise ValueError(f"The tasks must be some of {TASKS}. Received: names={names}")
    if not Path(data_dir).is_dir():
        raise ValueError(f"`data_dir` must be a folder. Received: data_dir={str(data_dir)!r}")
    files = _files(Path(data_dir), {file for name in names for file in _wanted(name)})
    tasks: list[Classification | Relatedness] = []
    missing = {}
    for name in names:
        choices = CLASSIFICATION.get(name, (SICK,))
        found = [choice for choice in choices if all(file in files for file in choice)]
        if found:
            contents = {file: files[file]() for file in found[0]}
            tasks.append(_sick(contents) if name == "SICK" else _classification(name, contents))
        else:
            missing[name] = ", ".join(file for file in choices[0] if file not in files)
    if not tasks:
        absent = "; ".join(f"{name}: {wanted}" for name, wanted in missing.items())
        raise ValueError(
            f"There are files of no task (missing are, of {absent}). "
            f"Received: data_dir={str(data_dir)!r}"
        )
    return tasks, missing


def _wanted(name: str) -> Iterator[str]:
    return (file for choice in CLASSIFICATION.get(name, (SICK,)) for file in choice)


def _files(data_dir: Path, wanted: set[str]) -> dict[str, Callable[[], bytes]]:
    """Readers of the wanted files: in folders and, where one isn't, in archives."""
    paths = sorted(path for path in data_dir.rglob("*") if path.is_file())
    files = {path.name: path.read_bytes for path in reversed(paths) if path.name in wanted}
    archives = (
        [path for path in paths if path.name.endswith(_ARCHIVES)] if files.keys() < wanted else []
    )
    for path in archives:
        for member in _members(path):
            name = Path(member).name
            if name in wanted and name not in files:
                files[name] = partial(_member, path, member)
    return files


def _members(path: Path) -> list[str]:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    with tarfile.open(path) as tar:
        return [member.name for member in tar if member.isfile()]


def _member(path: Path, name: str) -> bytes:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            return archive.read(name)
    with tarfile.open(path) as tar:
        file = tar.extractfile(name)
        assert file is not None  # a directory, which wasn't listed
        return file.read()


def decode(content: bytes, file: str) -> str:
    """The text of a file in UTF-8 or, as some of these are, in latin-1.

    Raises:
        ValueError: If it is empty or not text.
    """
    if not content.strip() or b"\0" in content:
        what = "holds bytes of 0" if b"\0" in content else "is empty"
        raise ValueError(f"A text file is expected, but it {what}. Received: {file}")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def read_lines(content: bytes, file: str) -> list[str]:
    """The lines of a text file, without their ends; blank ones stay.

    Only a line feed ends a line. `str.splitlines` also breaks at 0x85, which MR and SUBJ hold in
    the middle of sentences.
    """
    lines = decode(content, file).split("\n")
    return [line.strip(" \t\r") for line in (lines if lines[-1] else lines[:-1])]


def _classification(name: str, contents: dict[str, bytes]) -> Classification:
    parts = {file: read_lines(content, file) for file, content in contents.items()}
    sentences = [[line for line in lines if line] for lines in parts.values()]
    positive, negative = sentences
    blank = sum(map(len, parts.values())) - len(positive) - len(negative)
    nel = sum(line.count("\x85") for lines in sentences for line in lines)
    source = f"{name} from {', '.join(parts)}: {len(positive)} + {len(negative)} sentences"
    source += f", {blank} blank lines left out" * bool(blank)
    source += f", {nel} bytes 0x85 inside lines" * bool(nel)
    labels = np.repeat([1, 0], [len(positive), len(negative)])
    return Classification(name, positive + negative, labels, source)


def _sick(contents: dict[str, bytes]) -> Relatedness:
    parts = []
    for file, content in contents.items():
        text = io.StringIO(decode(content, file), newline="")  # the test file ends lines in CR LF
        rows = list(csv.DictReader(text, delimiter="\t", quoting=csv.QUOTE_NONE))
        try:
            scores = np.array([float(row["relatedness_score"]) for row in rows])
            parts.append(
                Pairs(
                    [row["sentence_A"].strip() for row in rows],
                    [row["sentence_B"].strip() for row in rows],
                    scores,
                )
            )
            valid = len(rows) > 0 and 1 <= scores.min() and scores.max() <= 5
        except (KeyError, TypeError, ValueError, AttributeError):
            valid = False
        if not valid:
            raise ValueError(
                "SICK's files must have tab-separated columns sentence_A, sentence_B and "
                f"relatedness_score, a number from 1 to 5. Received: {file}"
            )
    source = f"SICK: {', '.join(str(len(part.scores)) for part in parts)} pairs"
    train, validation, test = parts
    return Relatedness("SICK", train, validation, test, source)

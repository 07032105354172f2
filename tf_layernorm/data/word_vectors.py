"""Pretrained word vectors from files: word2vec's binary and text formats, and GloVe's text."""

from collections.abc import Container, Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np


def read_word_vectors(
    path: str | Path, words: Container[str] | None = None
) -> dict[str, np.ndarray]:
    """Word vectors by word, from a file as word2vec or GloVe write it.

    A name that ends in `.bin` is word2vec's binary format: a line "count size", then for each word
    its name, a space and its numbers as little-endian float32. Any other is text, a word and its
    numbers a line, with or without that first line. Of a word that comes twice the first counts.

    Args:
        path: The file.
        words: Only these words are kept, so that a part of a large file fits into memory. Defaults
            to `None`: all.

    Returns:
        float32 vectors of one size.

    Raises:
        ValueError: If there is no such file, or it isn't in its format.

    Example:

    >>> import pathlib, tempfile
    >>> from tf_layernorm.data.word_vectors import read_word_vectors
    >>> path = pathlib.Path(tempfile.mkdtemp(), "vectors.txt")
    >>> _ = path.write_text("cat 1 2\\ndog 3 4\\n")
    >>> read_word_vectors(path, {"dog"})
    {'dog': array([3., 4.], dtype=float32)}
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"Word vectors must be a file. Received: {str(path)!r}")
    vectors: dict[str, np.ndarray] = {}
    with path.open("rb") as file:
        read = _read_binary if path.suffix == ".bin" else _read_text
        for word, numbers in read(file, str(path), words):
            vectors.setdefault(word, numbers)
    return vectors


def is_word_vectors(path: Path) -> bool:
    """Whether a file's name is one of word vectors: `.bin`, `.vec`, or `glove...txt`."""
    return path.suffix in (".bin", ".vec") or path.name.lower().startswith("glove")


def _read_binary(
    file: BinaryIO, path: str, words: Container[str] | None
) -> Iterator[tuple[str, np.ndarray]]:
    header = file.readline(100).split()
    if len(header) != 2 or not all(part.isdigit() for part in header) or not int(header[1]):
        raise ValueError(
            f'A .bin file must begin with a line "count size". Received: {header[:3]} in {path}'
        )
    count, size = map(int, header)
    for i in range(count):
        letters = bytearray()
        while (letter := file.read(1)) not in (b" ", b""):
            letters += letter
        numbers = file.read(4 * size)
        if len(numbers) < 4 * size:
            raise ValueError(f"{count} words must follow. Received: {i} whole ones in {path}")
        # Some writers end a word's numbers with a line feed.
        word = bytes(letters).lstrip(b"\n").decode("utf-8", "replace")
        if words is None or word in words:
            yield word, np.frombuffer(numbers, "<f4")


def _read_text(
    file: BinaryIO, path: str, words: Container[str] | None
) -> Iterator[tuple[str, np.ndarray]]:
    size = None
    for number, line in enumerate(file, 1):
        parts = line.rstrip(b" \r\n").split(b" ")
        if number == 1 and len(parts) == 2 and all(part.isdigit() for part in parts):
            continue  # word2vec's "count size"
        if size is None:
            size = len(parts) - 1
        # GloVe's 840B holds words with spaces in them.
        letters = b" ".join(parts[:-size] if size else [])
        try:
            if not letters:
                raise ValueError
            word = letters.decode("utf-8")
            if words is None or word in words:
                yield word, np.array(parts[-size:], "float32")
        except ValueError:
            start = line[:60]
            raise ValueError(
                f"A line must hold a word and {size} numbers. Received: {start!r}, line {number} "
                f"of {path}"
            ) from None

"""Files of word vectors as word2vec and GloVe write them."""

import struct

import numpy as np
import pytest

from tf_layernorm.data.word_vectors import read_word_vectors

VECTORS = {"the": [0.5, -1, 2], "São": [1e-3, 3, 4], "New_York": [0, 0, 1]}


def write(path, form):
    if form == "bin":
        content = b"3 3\n" + b"".join(
            word.encode() + b" " + struct.pack("<3f", *vector) + b"\n" * (word == "the")
            for word, vector in VECTORS.items()
        )
    else:
        rows = [" ".join([word, *map(str, vector)]) for word, vector in VECTORS.items()]
        content = "\n".join(["3 3"] * (form == "vec") + rows + ["the 9 9 9"]).encode()
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("form", ["bin", "vec", "txt"])
def test_all_formats(tmp_path, form):
    path = write(tmp_path / f"vectors.{form}", form)
    found = read_word_vectors(path)
    assert list(found) == list(VECTORS)
    for word, vector in VECTORS.items():
        assert found[word].dtype == np.float32
        np.testing.assert_allclose(found[word], vector, rtol=1e-6)
    assert list(read_word_vectors(path, {"São", "elsewhere"})) == ["São"]


def test_words_with_spaces_in_them(tmp_path):
    path = tmp_path / "glove.txt"
    path.write_text("a 1 2\n. . . 3 4\n")
    assert read_word_vectors(path)[". . ."].tolist() == [3, 4]


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.bin", b"the 1 2\n", "count size"),
        ("a.bin", b"2 3\nthe " + bytes(12) + b"cat " + bytes(8), "Received: 1 whole ones"),
        ("a.txt", b"the 1 2\ncat 1\n", "2 numbers. Received: b'cat 1.*line 2"),
        ("a.txt", b"the 1 2\ncat 1 x\n", "Received: b'cat 1 x"),
        ("a.txt", b"the\n", "Received: b'the"),
        ("a.txt", b"\xff\xfe 1 2\n", "line 1"),
    ],
    ids=str,
)
def test_files_that_are_something_else(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_word_vectors(tmp_path / name)


def test_no_file(tmp_path):
    with pytest.raises(ValueError, match="must be a file. Received: '.*nowhere.txt'"):
        read_word_vectors(tmp_path / "nowhere.txt")

"""UNIPEN's own distribution: its format, damaged and missing files, and what TFDS prepares."""

import io
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest

from tf_layernorm.data import unipen, unipen_files, unipen_lines
from tf_layernorm.data.handwriting import load
from tf_layernorm.data.unipen_files import ABSENT, LEFT_OUT, read_lines

INCLUDES = """\
.VERSION 1.0
.INCLUDE {site}/a.lex
.INCLUDE {site}/a.doc
.INCLUDE {site}/data/{file}
"""
# A pen lifted without points is no component, one with points is; a stroke may end without .PEN_UP.
PEN = """\
.COMMENT A caf\xe9 between
 .PEN_DOWN and .PEN_UP
.WRITER_ID\tada 1
.H_LINE 627
.PEN_DOWN
0 10

4 12
.PEN_UP
.PEN_DOWN
9 7
.PEN_DOWN
20 10
30 11
.PEN_UP
33 12
.PEN_DOWN
40 10
.PEN_UP
.PEN_DOWN
2 -10
30 -11
.PEN_UP
"""
DIAGONALS = "".join(
    ".PEN_DOWN\n" + "".join(f"{y} {x + y} 0\n" for y in range(5)) + ".PEN_UP\n"
    for x in range(0, 50, 10)
)
FILES = {
    "data/8/cec/a.dat": INCLUDES.format(site="cec", file="a.dat")
    + '.SEGMENT TEXT 0-1 ? "The \\"first\\" \\\\ line ."\n'
    + '.SEGMENT TEXT 2-4 OK "with a lifted pen"\n'
    + '.SEGMENT WORD 2-4 OK "word"\n'
    + '.SEGMENT TEXT 0-5 OK "and continued below"\n'
    + '.SEGMENT TEXT 4-6 OK "beyond the end"\n'
    + '.SEGMENT TEXT 0:1-1 OK "from a point on"\n',
    "include/cec/a.doc": ".PAD\n  200\n.POINTS_PER_SECOND 100 \n.COORD  X Y\n.HIERARCHY TEXT\n",
    "include/cec/data/a.dat": PEN,
    "data/8/sta/sta1/b.dat": INCLUDES.format(site="sta", file="sta1/b.dat")
    + '.SEGMENT TEXT 0-4 OK "Y, then X, then time"\n',
    "include/sta/a.doc": ".POINTS_PER_SECOND 200\n.COORD Y X T\n",
    "include/sta/data/sta1/b.dat": ".WRITER_ID bob\n" + DIAGONALS,
    # Another site, and another category.
    "data/8/apa/c.dat": ".SEGMENT TEXT nonsense\n",
    "data/7/cec/c.dat": ".SEGMENT WORD nonsense\n",
}


def write_unpacked(folder, changes=None):
    for name, text in {**FILES, **(changes or {})}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode("latin-1"))
    return folder


def write_packed(folder):
    with tarfile.open(folder / "unipen-CDROM-train_r01_v07.tgz", "w:gz") as tar:
        for name, text in reversed(FILES.items()):
            content, member = text.encode("latin-1"), f"unipen/CDROM/train_r01_v07/{name}"
            info = tarfile.TarInfo(member)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return folder


def write_nested(folder):
    write_unpacked(folder / "unipen" / "CDROM" / "train_r01_v07")
    return folder


@pytest.mark.parametrize("write", [write_packed, write_unpacked, write_nested])
def test_segments_are_read_and_counted(tmp_path, write):
    lines, counts = read_lines(write(tmp_path))
    assert counts == {LEFT_OUT: 1, ABSENT: 2, "segments of cec": 5, "segments of sta": 1}
    assert {key: line["text"] for key, line in lines.items()} == {
        "cec/a.dat#0": 'The "first" \\ line .',
        "cec/a.dat#1": "with a lifted pen",
        "sta/sta1/b.dat#0": "Y, then X, then time",
    }
    first, second, third = lines.values()
    assert first["writer"] == "cec/ada 1" and third["writer"] == "sta/bob"
    assert [line["points_per_second"] for line in lines.values()] == [100, 100, 200]
    assert first["offsets"].dtype == np.float32
    np.testing.assert_array_equal(first["offsets"], [[0, 0], [4, 2], [5, -5]])
    np.testing.assert_array_equal(first["end_of_stroke"], [False, True, True])
    # The lifted pen's point is no point of the line.
    np.testing.assert_array_equal(second["offsets"], [[0, 0], [10, 1], [10, -1]])
    np.testing.assert_array_equal(second["end_of_stroke"], [False, True, True])
    np.testing.assert_array_equal(third["offsets"][1:5], [[1, 1]] * 4)
    np.testing.assert_array_equal(third["offsets"][5], [6, -4])


@pytest.mark.parametrize(
    ("start", "one"),
    [
        ((-40, -20), False),  # back to the margin, in a line below
        ((-40, 20), True),  # above
        ((-40, 0), True),  # a letter at the line's begin mended
        ((-20, -20), True),  # not half of the width
        ((10, -20), True),
    ],
    ids=str,
)
def test_a_line_is_continued_where_the_pen_goes_back_and_down(start, one):
    letters = np.array([[0, 0], [5, 10]] * 5, np.float32)
    moves = np.concatenate([[[0, 0]], np.diff(letters + np.arange(10)[:, None] * [5, 0], axis=0)])
    offsets = np.concatenate([moves, [start], moves[1:4]])
    end = np.isin(np.arange(14), (9, 13))
    assert unipen_files.is_one_line(offsets, end) is one


def test_one_stroke_is_one_line():
    assert unipen_files.is_one_line(np.zeros((3, 2)), np.array([False, False, True]))


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("include/cec/a.doc", ".COORD X Y\n", r"Expected .POINTS_PER_SECOND.*'data/8/cec/a.dat'"),
        ("include/cec/a.doc", ".POINTS_PER_SECOND 100\n", "Expected .COORD.*'data/8/cec/a.dat'"),
        (
            "include/cec/a.doc",
            ".POINTS_PER_SECOND 100\n.COORD R PHI\n",
            r"Expected points of the numbers \['R', 'PHI'\].*'data/8/cec/a.dat'",
        ),
        ("include/cec/data/a.dat", PEN.replace("4 12", "4"), "Expected points.*'data/8/cec/a.dat'"),
        ("include/cec/data/a.dat", PEN.replace("4 12", "4 x"), "Expected points.*could not conv"),
        ("include/cec/data/a.dat", PEN.replace(".WRITER_ID", ".W"), "Expected .WRITER_ID"),
        (
            "data/8/cec/a.dat",
            ".INCLUDE cec/none.doc\n.SEGMENT TEXT 0-1 OK \"a\"\n",
            "Expected include/cec/none.doc, which data/8/cec/a.dat includes. Received",
        ),
    ],
)  # fmt: skip
def test_a_file_of_another_layout_is_named(tmp_path, name, text, expected):
    write_unpacked(tmp_path, {name: text})
    with pytest.raises(ValueError, match=f"{expected}"):
        read_lines(tmp_path)


def test_a_distribution_without_segments_is_refused(tmp_path):
    write_unpacked(tmp_path)
    for name in ("data/8/cec/a.dat", "data/8/sta/sta1/b.dat"):
        (tmp_path / name).unlink()
    for folder in (tmp_path, tmp_path / "data"):
        with pytest.raises(ValueError, match="(?s)Expected .*zenodo.*Received: data_dir="):
            read_lines(folder)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 0.99], ids=str)
def test_an_archive_cut_off_is_named(tmp_path, share):
    [path] = write_packed(tmp_path).iterdir()
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(ValueError, match=f"cut off or damaged.*Received: .*{path.name}"):
        read_lines(tmp_path)


def test_tfds_prepares_lines_at_100_points_a_second(tmp_path):
    folder, prepared = tmp_path / "files", tmp_path / "prepared"
    folder.mkdir()
    source, lines, counts = unipen.read(write_packed(folder), prepared)
    assert source == (
        "a part of UNIPEN (Guyon et al. 1994), 3 transcribed lines by 2 writers, "
        "100 points a second; not IAM-OnDB"
    )
    assert counts == {LEFT_OUT: 1, ABSENT: 2, unipen_lines.THINNED: 1}
    [third] = (line for line in lines if line.writer == "sta/bob")
    np.testing.assert_array_equal(third.offsets[:4], [[0, 0], [2, 2], [2, 2], [6, -4]])
    # Read from the prepared copy; other files are told apart.
    [place] = (prepared / "unipen").glob("files_*")
    assert unipen.prepare(folder, prepared).data_path.parent == place
    write_unpacked(folder)
    assert unipen.prepare(folder, prepared).data_path.parent != place


def test_handwriting_finds_it_and_nothing_else_beside_it(tmp_path):
    folder, prepared = tmp_path / "files", tmp_path / "prepared"
    write_unpacked(folder)
    pen = "include/cec/data/{}.dat"
    writers = {pen.format(k): PEN.replace("ada 1", f"w{k}") for k in range(9)}
    head = INCLUDES.format(site="cec", file="{}.dat") + '.SEGMENT TEXT 0-1 OK "Nine"\n'
    write_unpacked(folder, writers | {f"data/8/cec/{k}.dat": head.format(k) for k in range(9)})
    data = load(folder, prepared_dir=prepared)
    assert data.source.startswith("a part of UNIPEN") and "not IAM-OnDB" in data.source
    assert len(data.train) == 11 and len(data.validation) == 1
    assert f"{LEFT_OUT}: 1" in data.source
    (folder / "trainset.txt").write_text(" a01-000u\n")
    with pytest.raises(ValueError, match="(?s)one of: .* holds IAM-OnDB and UNIPEN.*Received"):
        load(folder, prepared_dir=prepared)


def test_the_distribution_gives_the_lines_of_the_file(tmp_path):
    root = os.environ.get("TF_LAYERNORM_DATA")
    if root is None:
        pytest.skip("needs unipen_sample.tar.xz and unipen_lines.npz in the folder handwriting "
                    "under $TF_LAYERNORM_DATA")  # fmt: skip
    place = Path(root) / "handwriting"
    with tarfile.open(place / "unipen_sample.tar.xz") as tar:
        tar.extractall(tmp_path / "files", filter="data")
    _, lines, counts = unipen.read(tmp_path / "files", tmp_path / "prepared")
    _, file, _ = unipen_lines.read(place)
    # Three of the sample's files have other names than the distribution's.
    known = [
        file[i] for i in (*range(1042, 1047), 1093, 1094, *range(1017, 1033), *range(1426, 1430))
    ]
    known += [file[175], file[176]]

    def content(line):
        return line.text, line.offsets.tobytes(), line.end_of_stroke.tobytes()

    assert sorted(map(content, lines)) == sorted(map(content, known))
    writers = {line.text: line.writer for line in lines}
    same = [
        line.writer == writers[line.text] for line in known if not line.writer.startswith("cec")
    ]
    assert same == [True] * 6
    assert counts == {LEFT_OUT: 23, ABSENT: 0, unipen_lines.THINNED: 4}
    # Of the file's lines, chosen by hand, the rule keeps all but one, which looks like two.
    kept = [unipen_files.is_one_line(line.offsets, line.end_of_stroke) for line in file]
    assert len(kept) - sum(kept) == 1

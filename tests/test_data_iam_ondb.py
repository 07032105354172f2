"""IAM-OnDB: its quirks, its damaged and missing files, and what TFDS prepares."""

import io
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest

from tf_layernorm.data import iam_ondb, unipen_lines
from tf_layernorm.data.handwriting import load
from tf_layernorm.data.iam_ondb_files import read_splits

LISTS = {
    "trainset.txt": " a01-000u\n a01-001z\n z01-000z\n",
    "testset_v.txt": " b01-000u\n",
    "testset_t.txt": " c01-000u\n c01-001w\n",
    "testset_f.txt": " d01-000u",
}
TRANSCRIPTS = {
    "a01-000u": "A first line .\nCaf\xe9 \x85 and more\n",
    "a01-001z": "One line%%%%%%%%%%%and another\n",
    "b01-000u": "Validation\r\n",
    "c01-000u": "Of three lines\ntwo have a transcript\n",
    "c01-001w": "Kept\n",
    "d01-000u": "Test\n",
}
LINES = {form: text.count("\n") for form, text in TRANSCRIPTS.items()}
LINES |= {"a01-001z": 2, "c01-000u": 3}
# The third stroke has no point; the sensor's corner may be told in two children or in four.
XML = """<?xml version="1.0" encoding="ISO-8859-1"?>
<WhiteboardCaptureSession>
  <WhiteboardDescription><SensorLocation corner="top_left"/></WhiteboardDescription>
  <StrokeSet>
    <Stroke colour="black" start_time="0.0" end_time="0.1">
      <Point x="10" y="{y}" time="0.0"/><Point x="13" y="27" time="0.02"/>
    </Stroke>
    <Stroke colour="black" start_time="0.2" end_time="0.3"><Point x="9" y="30" time="0.2"/></Stroke>
    <Stroke colour="black" start_time="0.4" end_time="0.4"/>
  </StrokeSet>
</WhiteboardCaptureSession>"""
ARCHIVES = ["lineStrokes-all.tar.gz", "ascii-all.tar.gz", "original-xml-part.tar.gz"]


def contents():
    """Path and text of each file, by archive."""
    strokes, ascii_, original = {}, {}, {}
    for form, text in TRANSCRIPTS.items():
        place = f"{form[:3]}/{form[:-1]}"
        for k in range(LINES[form]):
            strokes[f"lineStrokes/{place}/{form}-{k + 1:02}.xml"] = XML.format(y=20 + k)
        ascii_[f"ascii/{place}/{form}.txt"] = f"OCR:\n\nscrap\n\nCSR:\n\n{text}"
        if form != "d01-000u":
            general = f'<General><Form id="{form}" writerID="10{form[1:3]}"/></General>'
            original[f"original/{place}/strokes{form[-1]}.xml"] = f"<Session>{general}</Session>"
    return dict(zip([*ARCHIVES, "task1.tar.gz"], [strokes, ascii_, original, LISTS]))


def write_packed(folder, order=list):
    for archive, files in contents().items():
        with tarfile.open(folder / archive, "w:gz") as tar:
            for name, text in order(files.items()):
                content, member = text.encode("latin-1"), tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    return folder


def write_packed_unsorted(folder):
    return write_packed(folder, order=reversed)


def write_unpacked(folder):
    for files in contents().values():
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(text.encode("latin-1"))
    return folder


@pytest.mark.parametrize("write", [write_packed, write_packed_unsorted, write_unpacked])
def test_lines_and_their_quirks_are_read_and_counted(tmp_path, write):
    splits, counts = read_splits(write(tmp_path))
    texts = {split: [line["text"] for line in lines.values()] for split, lines in splits.items()}
    assert texts == {
        "train": ["A first line .", "Caf\xe9 \x85 and more", "One line", "and another"],
        "validation_1": ["Validation"],
        "validation_2": ["Kept"],
        "test": ["Test"],
    }
    assert counts == {
        "forms in trainset.txt": 3,
        "forms in testset_v.txt": 1,
        "forms in testset_t.txt": 2,
        "forms in testset_f.txt": 1,
        "forms listed but absent": 1,
        "forms left out, whose transcripts don't match": 1,
        "lines of such forms": 3,
        "lines whose writer is unknown": 1,
    }
    assert list(splits["train"]) == ["a01-000u-01", "a01-000u-02", "a01-001z-01", "a01-001z-02"]
    line = splits["train"]["a01-000u-02"]
    assert line["writer"] == "1001" and line["form"] == "a01-000u"
    assert splits["test"]["d01-000u-01"]["writer"] == "unknown"
    # The file's y grows downwards: 21, 27, 30.
    assert line["offsets"].dtype == np.float32
    np.testing.assert_array_equal(line["offsets"], [[0, 0], [3, -6], [-4, -3]])
    np.testing.assert_array_equal(line["end_of_stroke"], [False, True, True])


def test_writers_are_not_needed(tmp_path):
    write_packed(tmp_path)
    (tmp_path / ARCHIVES[2]).unlink()
    splits, counts = read_splits(tmp_path)
    assert counts["lines whose writer is unknown"] == 7
    assert sum(map(len, splits.values())) == 7


@pytest.mark.parametrize("archive", [*ARCHIVES[:2], "task1.tar.gz"])
def test_an_absent_archive_is_named_with_where_to_get_it(tmp_path, archive):
    write_packed(tmp_path)
    (tmp_path / archive).unlink()
    with pytest.raises(ValueError, match=f"(?s)Expected {archive}.*Register.*Received: data_dir="):
        read_splits(tmp_path)


@pytest.mark.parametrize("archive", [*ARCHIVES, "task1.tar.gz"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 0.99], ids=str)
def test_an_archive_cut_off_is_named(tmp_path, archive, share):
    path = write_packed(tmp_path) / archive
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(ValueError, match=f"cut off or damaged.*Received: .*{archive}"):
        read_splits(tmp_path)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("lineStrokes/a01/a01-000/a01-000u-01.xml", XML[:300], "whole XML file"),
        ("lineStrokes/a01/a01-000/a01-000u-01.xml", "<Page/>", "StrokeSet/Stroke/Point"),
        ("lineStrokes/a01/a01-000/a01-000u-01.xml", XML.replace("x=", "u="), "whole numbers x"),
        ("ascii/a01/a01-000/a01-000u.txt", "A first line .\n", "CSR:"),
        ("original/a01/a01-000/strokesu.xml", "<Session/>", "writerID"),
    ],
)
def test_a_file_of_another_layout_is_named(tmp_path, name, text, expected):
    (write_unpacked(tmp_path) / name).write_text(text)
    with pytest.raises(ValueError, match=f"Expected .*{expected}.*Received: '.*{name}'"):
        read_splits(tmp_path)


def test_a_folder_of_another_layout_is_named(tmp_path):
    write_unpacked(tmp_path)
    for path in (tmp_path / "ascii").rglob("*.txt"):
        path.rename(path.with_suffix(".text"))
    with pytest.raises(ValueError, match="Expected files whose names match.*Received: '.*ascii'"):
        read_splits(tmp_path)


def test_lists_of_other_forms_are_named(tmp_path):
    (write_unpacked(tmp_path) / "testset_v.txt").write_text(" e01-000u\n")
    with pytest.raises(ValueError, match=r"testset_v.txt.*Received: forms=\['e01-000u'\]"):
        read_splits(tmp_path)


def test_tfds_prepares_graves_split(tmp_path):
    folder, prepared = tmp_path / "files", tmp_path / "prepared"
    folder.mkdir()
    data = load(write_packed(folder), prepared_dir=prepared)
    assert {line.text for line in data.train} == {
        "A first line .", "Caf\xe9 \x85 and more", "One line", "and another", "Kept", "Test",
    }  # fmt: skip
    assert [(line.text, line.writer) for line in data.validation] == [("Validation", "1001")]
    np.testing.assert_array_equal(data.validation[0].offsets, [[0, 0], [3, -7], [-4, -3]])
    assert data.source.startswith("lines in the layout of IAM-OnDB, but not IAM-OnDB")
    assert "forms listed but absent: 1" in data.source

    # Read from the prepared copy, which says what was left out too; other files are told apart.
    [place] = (prepared / "iam_ondb").glob("files_*")
    builder = iam_ondb.prepare(folder, prepared)
    assert builder.info.metadata["forms listed but absent"] == 1
    (folder / ARCHIVES[2]).unlink()
    assert iam_ondb.prepare(folder, prepared).data_path.parent.name != place.name


def test_real_pen_data_in_this_layout(tmp_path):
    root = os.environ.get("TF_LAYERNORM_DATA")
    if root is None:
        pytest.skip("needs iam_like.tar.xz in the folder handwriting under $TF_LAYERNORM_DATA")
    with tarfile.open(Path(root) / "handwriting" / "iam_like.tar.xz") as tar:
        tar.extractall(tmp_path, filter="data")
    splits, counts = read_splits(tmp_path)
    assert [len(lines) for lines in splits.values()] == [278, 40, 39, 43]
    assert list(counts.values()) == [43, 6, 6, 7]
    assert len({line["writer"] for line in splits["train"].values()}) == 43
    # They are lines of the other file, which tells y upwards and the ends of strokes as we do.
    _, lines, _ = unipen_lines.read(Path(root) / "handwriting")
    known = {(line.text, line.offsets.tobytes(), line.end_of_stroke.tobytes()) for line in lines}
    same = [
        (line["text"], line["offsets"].tobytes(), line["end_of_stroke"].tobytes()) in known
        for part in splits.values()
        for line in part.values()
    ]
    assert sum(same) > 200, sum(same)

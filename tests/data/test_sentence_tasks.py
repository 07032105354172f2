"""The readers of SICK, MR, CR, SUBJ and MPQA, on written files and on the real ones."""

import io
import os
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tf_layernorm.data.sentence_tasks import TASKS, load_tasks, read_lines

SICK_HEADER = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"
SICK_ROWS = '1\tA "quoted dog\tA cat\t4.5\tENTAILMENT', "2\tIt 's off\tIt\t1\tNEUTRAL"
FILES = {
    "MR/rt-polarity.pos": b"a fine\x85 film . \nanother\n",
    "MR/rt-polarity.neg": b"clich\xe9s .\n",
    "CR/custrev.pos": b"good\n\n",
    "CR/custrev.neg": b"bad\n \nworse\r\n",
    "SUBJ/subj.subjective": b"i think",
    "SUBJ/subj.objective": b"it is\n",
    "MPQA/mpqa.pos": b"yes\n",
    "MPQA/mpqa.neg": b"no\n",
    "SICK/SICK_train.txt": "\n".join([SICK_HEADER, *SICK_ROWS, ""]).encode(),
    "SICK/SICK_trial.txt": "\n".join([SICK_HEADER, SICK_ROWS[0]]).encode(),
    "SICK/SICK_test_annotated.txt": "\r\n".join([SICK_HEADER, *SICK_ROWS, ""]).encode(),
}


def write(folder, files=FILES):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def contents(tasks):
    """All that tasks hold, to compare."""
    return [
        (t.name, t.sentences, t.labels.tolist())
        if hasattr(t, "sentences")
        else [(p.first, p.second, p.scores.tolist()) for p in (t.train, t.validation, t.test)]
        for t in tasks
    ]


def test_the_traps_of_the_files(tmp_path):
    tasks, missing = load_tasks(write(tmp_path))
    sick, mr, cr, subj, mpqa = tasks
    assert missing == {} and [task.name for task in tasks] == list(TASKS)
    # 0x85 isn't a line's end, and what isn't UTF-8 is latin-1.
    assert mr.sentences == ["a fine\x85 film .", "another", "clichés ."]
    assert mr.labels.tolist() == [1, 1, 0] and "1 bytes 0x85" in mr.source
    assert cr.sentences == ["good", "bad", "worse"] and "2 blank lines" in cr.source
    assert subj.sentences == ["i think", "it is"] and "blank" not in subj.source
    assert sick.train.first == ['A "quoted dog', "It 's off"]
    np.testing.assert_array_equal(sick.test.scores, [4.5, 1])
    assert (sick.test.second, sick.test.first) == (sick.train.second, sick.train.first)
    assert len(sick.validation.scores) == 1


def test_all_layouts_are_one(tmp_path):
    expected = contents(load_tasks(write(tmp_path / "senteval"))[0])
    flat = {Path(name).name: content for name, content in FILES.items()}
    assert contents(load_tasks(write(tmp_path / "flat", flat))[0]) == expected
    # The distribution of SUBJ has other names.
    flat["quote.tok.gt9.5000"] = flat.pop("subj.subjective")
    flat["plot.tok.gt9.5000"] = flat.pop("subj.objective")
    packed = tmp_path / "packed"
    packed.mkdir()
    with zipfile.ZipFile(packed / "some.zip", "w") as archive:
        for name in ("rt-polarity.pos", "mpqa.neg", "SICK_train.txt"):
            archive.writestr("folder/" + name, flat.pop(name))
    with tarfile.open(packed / "rest.tar.xz", "w:xz") as archive:
        for name, content in flat.items():
            info = tarfile.TarInfo("./" + name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    assert contents(load_tasks(packed)[0]) == expected


def test_missing_tasks_are_named(tmp_path):
    write(tmp_path, {name: FILES[name] for name in ("MR/rt-polarity.pos", "MR/rt-polarity.neg")})
    write(tmp_path, {"CR/custrev.pos": FILES["CR/custrev.pos"]})
    tasks, missing = load_tasks(tmp_path, ("MR", "CR", "SICK"))
    assert [task.name for task in tasks] == ["MR"]
    assert missing["CR"] == "custrev.neg" and missing["SICK"].count(".txt") == 3


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("CR/custrev.pos", b"\x00\x01", "bytes of 0"),
        ("CR/custrev.pos", b" \n", "is empty"),
        ("SICK/SICK_trial.txt", b"a\tb\nc\td\n", "columns"),
        ("SICK/SICK_trial.txt", f"{SICK_HEADER}\n1\ta\tb\t0.5\tX\n".encode(), "from 1 to 5"),
        ("SICK/SICK_trial.txt", f"{SICK_HEADER}\n1\ta\tb\n".encode(), "columns"),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else value,
)
def test_files_that_are_something_else(tmp_path, name, content, message):
    write(tmp_path, FILES | {name: content})
    with pytest.raises(ValueError, match=f"{message}.* Received: {Path(name).name}"):
        load_tasks(tmp_path)


def test_folders_and_names_that_are_not_there(tmp_path):
    with pytest.raises(ValueError, match="no task .*rt-polarity.neg.*Received: data_dir="):
        load_tasks(tmp_path)
    with pytest.raises(ValueError, match="must be a folder. Received: data_dir='.*nowhere'"):
        load_tasks(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"some of .*Received: names=\('mr',\)"):
        load_tasks(tmp_path, ("mr",))


def test_only_line_feeds_end_lines():
    assert read_lines("a\x0bb\x1cc\u2028d\r\ne".encode(), "") == ["a\x0bb\x1cc\u2028d", "e"]


def test_the_real_files():
    root = os.environ.get("TF_LAYERNORM_DATA")
    if root is None:
        pytest.skip(
            "needs SICK, MR, CR, SUBJ, MPQA in the folder senteval under $TF_LAYERNORM_DATA"
        )
    (sick, *tasks), missing = load_tasks(Path(root) / "senteval")
    counts = {task.name: np.bincount(task.labels).tolist() for task in tasks}
    assert not missing
    assert counts == {
        "MR": [5331, 5331],
        "CR": [1366, 2405],  # the papers count 3,775: with the blank lines
        "SUBJ": [5000, 5000],
        "MPQA": [7292, 3311],  # and 10,606
    }
    sources = {task.name: task.source for task in tasks}
    assert "23 bytes 0x85" in sources["MR"] and "21 bytes 0x85" in sources["SUBJ"]
    assert "4 blank" in sources["CR"] and "3 blank" in sources["MPQA"]
    parts = (sick.train, sick.validation, sick.test)
    assert [len(part.scores) for part in parts] == [4500, 500, 4927]
    assert all(min(map(len, part.first + part.second)) > 0 for part in parts)

"""`tf-layernorm evaluate-sentences` and `encode`, and a run's data, with a network as it starts."""

import dataclasses

import numpy as np
import pytest

from tf_layernorm.cli import main
from tf_layernorm.data.sentences import read_corpus
from tf_layernorm.experiments.skipthoughts import PRESETS
from tf_layernorm.experiments.skipthoughts.evaluation import OwnText
from tf_layernorm.experiments.skipthoughts.text import build_model, load_text

WORDS = ("<eos>", "<unk>", "good", "bad", "film", "plot")
SMOKE = PRESETS["smoke"].config


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("skipthoughts")
    build_model(dataclasses.replace(SMOKE, size=3), "layer", WORDS).save(folder / "model.keras")
    return folder


@pytest.fixture
def tasks(tmp_path):
    (tmp_path / "MR").mkdir()
    (tmp_path / "MR" / "rt-polarity.pos").write_text("a good film\n" * 40)
    (tmp_path / "MR" / "rt-polarity.neg").write_text("bad\n\n" * 40)
    (tmp_path / "glove.txt").write_text("".join(f"{w} {i} {i % 2}\n" for i, w in enumerate(WORDS)))
    return tmp_path


def test_evaluate_sentences(folder, tasks, capsys):
    arguments = ["evaluate-sentences", "--data-dir", str(tasks), "--short", "--processes", "1"]
    assert main([*arguments, "--model", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "40 blank lines left out; 25.0 % of the words are unknown" in printed
    assert "SICK left out: SICK_train.txt" in printed
    assert "| the network |  |  |  | 100.0 |  |  |  |" in printed
    assert "| mean of its words |  |  |  | 100.0 |" in printed
    assert "| paper: Ours + LN | 0.854 | 0.785 | 0.277 | 79.5 | 82.6 | 93.4 | 89.0 |" in printed
    assert main([*arguments, "--vectors", str(tasks / "glove.txt"), "--tasks", "MR"]) == 0
    printed = capsys.readouterr().out
    assert "| mean of the vectors |  |  |  | 100.0 |" in printed and "SICK left out" not in printed


def test_encode(folder, tmp_path, capsys):
    text = tmp_path / "text.txt"
    text.write_text("Good film.\n\nbad plot\ngood film .\n")
    out = tmp_path / "new" / "vectors.npy"
    command = ["encode", "--model", str(folder), "--text", str(text), "--neighbours", "1"]
    assert main([*command, "--out", str(out)]) == 0
    found = np.load(out)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), [1, 0, 1, 1], rtol=1e-5)
    np.testing.assert_allclose(found[0], found[3], atol=1e-6)
    printed = capsys.readouterr().out
    assert printed.startswith("Good film.\n    good film .\n")
    assert "4 x 8, float32, a row a line; 25.0 % of the words are unknown; 1 blank" in printed


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["encode", "--model", "M", "--text", "T", "--out", "v.txt"], "must end in .npy"),
        (["encode", "--model", "M", "--text", "T", "--neighbours", "-1"], "neighbours=-1"),
        (["encode", "--model", "M", "--text", "nowhere"], "text='nowhere'"),
        (["evaluate-sentences", "--data-dir", "D"], "model=None, vectors=None"),
        (["evaluate-sentences", "--data-dir", "nowhere", "--model", "M"], "data_dir='nowhere'"),
        (["run", "skipthoughts", "--preset", "paper"], "BookCorpus"),
        (["run", "skipthoughts", "--folds", "1"], "folds=1"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_requests_end_in_a_line(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert message in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_a_folder_of_the_users(tasks):
    """Without a text of its own the novels are read; tasks and vectors beside it are found."""
    config = dataclasses.replace(SMOKE, cases=120)
    text = load_text(config, str(tasks))
    assert (
        text.source.startswith("six novels") and "vocabulary expanded by glove.txt" in text.source
    )
    assert "no SICK: SICK_train.txt" in text.source
    assert text.cases["MR"] == 80 and text.cases["pairs"] > 60
    assert set(text.vectors) == {"good", "bad", "film"} | (set(WORDS) & {*text.vectors})
    (tasks / "books.txt").write_text("".join(f"some words {i}\n" for i in range(3000)))
    config = dataclasses.replace(SMOKE, cases=40, held_out=0.1)
    text = load_text(config, str(tasks))
    assert "1 text files of the user's: books.txt" in text.source
    with pytest.raises(ValueError, match="must be a folder. Received: data_dir='.*nowhere'"):
        load_text(config, str(tasks / "nowhere"))
    with pytest.raises(ValueError, match="Text files with one sentence a line"):
        (tasks / "empty").mkdir()
        load_text(config, str(tasks / "empty"))


def test_pairs_and_files_of_a_text(tmp_path):
    for name in "ab":
        lines = "".join(f"{name}{i} x\n" + "\n" * (i % 50 == 49) for i in range(1000))
        (tmp_path / f"{name}.txt").write_text(lines)
    corpus = read_corpus(tmp_path, 0.2)
    own = OwnText(corpus, "test", 200)
    names = [sentence.split()[0] for sentence in own.sentences]
    assert [name[0] for name in names] == ["ab"[i] for i in own.files]
    assert abs(np.mean(own.files) - 0.5) < 0.02 and len(names) <= 200
    numbers = np.array([int(name[1:]) for name in names])
    first, second = own.pairs
    adjacent = own.adjacent == 1
    assert adjacent.sum() * 2 == len(adjacent)
    np.testing.assert_array_equal(numbers[second[adjacent]], numbers[first[adjacent]] + 1)
    assert (numbers[first[adjacent]] % 50 != 49).all()  # no pair crosses a blank line
    np.testing.assert_array_equal(own.files[first], own.files[second])
    assert np.mean(numbers[second[~adjacent]] == numbers[first[~adjacent]] + 1) < 0.1
    with pytest.raises(ValueError, match="must hold 20 sentences.*limit=20.*Received: "):
        OwnText(corpus, "test", 20)

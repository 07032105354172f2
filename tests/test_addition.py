"""The README's first picture in small: Keras' example of number addition."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from tf_layernorm import LNGRU

PATH = Path(__file__).parents[1] / "benchmarks" / "addition.py"


@pytest.fixture(scope="module")
def addition():
    sys.path.insert(0, str(PATH.parent))  # the folder of a script is where it finds its neighbours
    spec = importlib.util.spec_from_file_location("addition", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.path.remove(str(PATH.parent))
    return module


def text(addition, one_hot):
    return "".join(addition.CHARACTERS[k] for k in one_hot.argmax(axis=-1))


def test_questions_are_written_backwards_and_answers_are_their_sums(addition):
    questions, answers = addition.additions(500, seed=1)
    assert questions.shape == (500, 7, 12) and answers.shape == (500, 4, 12)
    assert (questions.sum(axis=-1) == 1).all() and (answers.sum(axis=-1) == 1).all()
    asked = [text(addition, question)[::-1].strip() for question in questions]
    for question, answer in zip(asked, answers):
        a, b = map(int, question.split("+"))
        assert int(text(addition, answer)) == a + b
    assert len({frozenset(question.split("+")) for question in asked}) == 500
    # Another seed, other sums; and no drift from small numbers to large ones.
    assert (addition.additions(500, seed=2)[0] != questions).any()
    digits = np.array([len(question) for question in asked])
    assert abs(digits[:250].mean() - digits[250:].mean()) < 0.5


def test_a_small_run_learns_is_kept_and_is_not_trained_again(
    addition, tmp_path, monkeypatch, capsys
):
    arguments = "addition.py --layers LNGRU --seeds 1 --epochs 2 --count 4000 --units 32".split()
    picture = tmp_path / "addition.png"
    arguments += ["--out", str(tmp_path), "--picture", str(picture)]
    monkeypatch.setattr(sys, "argv", arguments)
    addition.main()
    kept = (tmp_path / "addition.json").read_text()
    (row,) = addition.json.loads(kept)["rows"]
    assert row["layer"] == "LNGRU" and len(row["val_accuracy"]) == 2
    # The share of blanks among an answer's characters is what it starts from.
    assert row["val_accuracy"][-1] > 0.25 > row["right_sums"]
    assert np.all(np.diff(row["cpu_seconds"]) > 0)
    assert picture.stat().st_size > 10_000
    addition.main()
    assert (tmp_path / "addition.json").read_text() == kept
    assert "Epoch" not in capsys.readouterr().out.split("seed 1 of 1")[-1].split("LNGRU")[-1]
    monkeypatch.setattr(sys, "argv", [*arguments, "--units", "16"])
    with pytest.raises(SystemExit):
        addition.main()


def test_only_the_layers_differ(addition):
    ours, keras_own = (
        addition.build_model(layer, 16) for layer in (LNGRU, addition.LAYERS["keras.layers.GRU"])
    )
    assert [type(a) is type(b) for a, b in zip(ours.layers, keras_own.layers)] == [
        False,
        True,
        False,
        True,
    ]

"""Table 1: every cell, its text, the role of epsilon and of the sign."""

from dataclasses import replace

import numpy as np
import pytest

from tf_layernorm import layer_norm
from tf_layernorm.analysis import (
    Invariances,
    epsilon_changes,
    negative_scale,
    normalized,
    statistics,
    table1,
)
from tf_layernorm.analysis.transformations import CHANGES, largest_changes, transform

# y or n in the order of the paper's columns.
VERDICTS = {"batch": "ynyyyn", "weight": "ynynnn", "layer": "yynyny", "rms": "ynnyny"}
CELLS = [(n, c, v == "y") for n, row in VERDICTS.items() for c, v in zip(CHANGES, row)]
W = np.array([[1.0, 2.0], [3.0, -1.0], [0.0, 2.0]])
X = np.array([[1.0, 0.0], [2.0, 1.0], [-1.0, 3.0], [0.5, 0.5]])


@pytest.fixture(scope="module")
def table():
    return table1()


@pytest.mark.parametrize("norm, change, invariant", CELLS)
def test_table1_cell_is_as_in_the_paper(table, norm, change, invariant):
    largest = table.rows[norm].changes[change]
    assert largest < 1e-12 if invariant else largest > 0.5
    assert (change in table.rows[norm].invariant) == invariant


def test_table1_does_not_depend_on_the_sizes():
    assert table1(draws=5, units=17, inputs=8, cases=9, seed=1).agreeing == 24


def test_table1_text_shows_all_cells_and_the_contradiction(table):
    text = str(table)
    rows = [line for line in text.splitlines() if "norm  " in line]
    assert [line.split(" norm")[0] for line in rows] == ["batch", "weight", "layer", "RMS"]
    for line, verdicts in zip(rows, VERDICTS.values()):
        assert [w for w in line.split() if w in ("yes", "no")] == [
            {"y": "yes", "n": "no"}[v] for v in verdicts
        ]
    assert "24 of 24 verdicts as printed" in text
    assert "the table is right" in text
    assert max(map(len, text.splitlines())) <= 100


def test_table1_text_follows_the_numbers(table):
    changes = {**table.rows["weight"].changes, "data_scale": 0.0}
    other = replace(table, rows={**table.rows, "weight": Invariances("weight norm", changes)})
    assert other.agreeing == 23
    assert "23 of 24" in str(other) and "the sentence is right" in str(other)


@pytest.mark.parametrize("norm, change", [(n, c) for n, c, invariant in CELLS if invariant])
def test_epsilon_moves_an_invariant_output_in_proportion(norm, change):
    epsilons = np.array([1e-9, 1e-8, 1e-7])
    changes = epsilon_changes(norm, change, epsilons, draws=20)
    if change.endswith("shift"):  # sigma stays as it is
        assert changes.max() < 1e-12
    else:
        np.testing.assert_allclose(changes / changes[0], epsilons / epsilons[0], rtol=1e-3)


@pytest.mark.parametrize("norm", VERDICTS)
@pytest.mark.parametrize("change", ["matrix_scale", "data_scale"])
def test_negative_scale_flips_the_sign(norm, change):
    from_minus, from_plus = negative_scale(norm, change, draws=20)
    assert from_plus > 1.0
    # Weight norm isn't invariant to the scale of the data, so not up to a sign either.
    assert (from_minus < 1e-12) == (change in table1(draws=5).rows[norm].invariant)


def test_statistics_are_those_of_equation_5():
    a = X @ W.T
    for norm, mu, sigma in [
        ("none", np.zeros(3), np.ones(3)),
        ("batch", a.mean(0), a.std(0)),
        ("weight", np.zeros(3), np.sqrt([5.0, 10.0, 4.0])),
        ("layer", a.mean(1)[:, None], a.std(1)[:, None]),
        ("rms", np.zeros(3), np.sqrt((a**2).mean(1))[:, None]),
    ]:
        result = np.broadcast_arrays(*statistics(norm, W, X), a)[:2]
        np.testing.assert_allclose(result, np.broadcast_arrays(mu, sigma, a)[:2], atol=1e-15)


@pytest.mark.parametrize("norm, axis", [("layer", -1), ("batch", 0)])
def test_normalized_agrees_with_layer_norm(norm, axis):
    for epsilon in (0.0, 0.1):
        expected = layer_norm(X @ W.T, axis=axis, epsilon=epsilon)
        np.testing.assert_allclose(normalized(norm, W, X, epsilon), expected, atol=1e-14)


def test_transform_does_what_it_says():
    x = np.arange(1.0, 13.0).reshape(3, 4)
    kernel = np.arange(1.0, 9.0).reshape(4, 2)

    def ratio_and_shift(change, sign=1.0):
        rng = np.random.default_rng(0)
        (k,), y = transform(change, [kernel], x, rng, sign)
        return k / kernel, k - kernel, y / x, y - x

    assert np.ptp(ratio_and_shift("matrix_scale")[0]) < 1e-12
    assert ratio_and_shift("matrix_scale", -1.0)[0].max() < 0
    assert np.ptp(ratio_and_shift("matrix_shift")[1], axis=1).max() < 1e-12  # all units alike
    assert np.ptp(ratio_and_shift("matrix_shift")[1], axis=0).min() > 0.1
    assert len(np.unique(ratio_and_shift("vector_scale")[0].round(9))) == 2
    assert np.ptp(ratio_and_shift("vector_scale")[0], axis=0).max() < 1e-12
    assert np.ptp(ratio_and_shift("data_scale")[2]) < 1e-12
    assert np.ptp(ratio_and_shift("data_shift")[3], axis=0).max() < 1e-12  # all cases alike
    changed = np.ptp(ratio_and_shift("case_scale")[2].round(9), axis=1)
    assert changed.max() == 0 and (ratio_and_shift("case_scale")[2][:, 0] != 1).sum() == 1


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: table1(units=1), "Received: units=1"),
        (lambda: table1(cases=1), "Received: cases=1"),
        (lambda: table1(inputs=0), "Received: inputs=0"),
        (lambda: table1(draws=0), "Received: draws=0"),
        (lambda: negative_scale("layer", "case_scale"), "Received: change='case_scale'"),
        (lambda: epsilon_changes("layer", "scale", [1e-5]), "Received: change='scale'"),
        (lambda: statistics("group", W, X), "Received: norm='group'"),
        (lambda: statistics("layer", W[:1], X), "Received: units=1"),
        (lambda: statistics("batch", W, X[:1]), "Received: cases=1"),
        (lambda: statistics("layer", W * np.nan, X), "Received: weights="),
        (lambda: statistics("layer", W, X * np.inf), "Received: inputs="),
        (lambda: statistics("layer", W, X[0]), "Received: inputs="),
        (lambda: statistics("layer", W * 0, X), "Received: smallest sigma=0"),
        (lambda: statistics("weight", W * [[1], [0], [1]], X), "Received: smallest sigma=0"),
        (lambda: statistics("batch", W * [[1], [0], [1]], X), "Received: smallest sigma=0"),
        (lambda: statistics("rms", W, X * [[1], [0], [1], [1]]), "Received: smallest sigma=0"),
        (lambda: statistics("layer", np.full((3, 2), 0.1), X), "Received: smallest sigma="),
    ],
)
def test_senseless_inputs_are_refused(call, message):
    with np.errstate(invalid="ignore"), pytest.raises(ValueError, match=message):
        call()


def test_largest_changes_refuses_an_unknown_transformation():
    def draw(change):
        return (lambda kernels, x: x), [W.T], X

    with pytest.raises(ValueError, match="Received: change='case_shift'"):
        largest_changes(draw, 1, np.random.default_rng(0), ["case_shift"])

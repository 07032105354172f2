"""What curves come to: means, spreads, errors, verdicts, who was first; the table and picture."""

import math
from dataclasses import replace

import numpy as np
import pytest
import toy
from PIL import Image

from tf_layernorm.experiments import picture, report
from tf_layernorm.experiments.experiment import Figure
from tf_layernorm.experiments.results import Cell, Measured, is_finished, race, results

ERROR = Figure("error", "error, %", scale=100, of="test")
LOSS = Figure("loss", "loss", digits=3, compare=True)
PLAIN = replace(toy.EXPERIMENT, figures=(ERROR, LOSS), panels=(LOSS,), kept=None, untrained=False)


def rows(errors, seconds=30.0):
    """A curve of these errors."""
    return Measured(
        [
            {"epoch": e + 1, "error": x, "loss": 10 * x, "seconds": seconds}
            for e, x in enumerate(errors)
        ]
    )


CELLS = [
    Cell("v", "V", "layer", {1: rows([0.30, 0.10], 60), 2: rows([0.32, 0.12], 120)}),
    Cell("v", "V", "none", {1: rows([0.5, 0.4, 0.3]), 2: rows([0.4])}),
    Cell("v", "V", "all"),
]


def summary(cells, cases=1000, experiment=PLAIN):
    return {"data": "made up; more", **results(experiment, cells, {"test": cases})}


def test_results_compare_at_an_epoch_that_all_norms_reached():
    found = summary(CELLS)
    layer, none = found["results"]
    assert (layer["epoch"], layer["seeds"]) == (2, [1, 2])
    assert layer["error"] == pytest.approx(0.11)
    assert layer["error_sd"] == pytest.approx(0.02 / math.sqrt(2))
    assert layer["error_se"] == pytest.approx(math.sqrt(0.11 * 0.89 / 1000))
    assert layer["minutes"] == 3.0  # of one curve: 2 of a minute, 2 of two minutes, by two
    assert (none["epoch"], none["seeds"], none["error"], none["minutes"]) == (2, [1], 0.4, 1.0)
    assert none["error_sd"] is None
    assert found["left_out"] == ["v-none-seed2 (epoch 1)"]


def test_kept_epoch_and_its_test_are_the_result():
    kept = replace(PLAIN, kept=LOSS, figures=(*PLAIN.figures, Figure("exam", "exam")))
    curve = replace(rows([0.5, 0.2, 0.4]), test={"epochs": 3, "kept": 2, "figures": {"exam": 5.0}})
    (row,) = summary([Cell("", "", "layer", {1: curve})], experiment=kept)["results"]
    assert (row["error"], row["kept"], row["exam"]) == (0.2, [2], 5.0)
    assert is_finished(kept, curve, 3) and not is_finished(kept, curve, 4)
    # A test of an earlier end isn't one of this.
    early = replace(curve, test={**curve.test, "epochs": 2})
    assert not is_finished(kept, early, 3)
    found = summary([Cell("", "", "layer", {1: early})], experiment=kept)
    assert "exam" not in found["results"][0] and "not yet" in report.text(kept, found)
    higher = replace(kept, kept=replace(LOSS, higher=True))
    assert summary([Cell("", "", "layer", {1: curve})], experiment=higher)["results"][0][
        "kept"
    ] == [1]


def two(first, second, figure=LOSS, cases=1000):
    """The verdicts of two norms, each with its values of a figure, a seed each."""
    experiment = replace(PLAIN, figures=(figure,))

    def curve(value):
        return Measured([{"epoch": 1, figure.key: value, "seconds": 1.0}])

    cells = [
        Cell("v", "V", norm, {seed: curve(value) for seed, value in enumerate(values)})
        for norm, values in (("layer", first), ("none", second))
    ]
    text = report.text(experiment, summary(cells, cases, experiment))
    return [line for line in text.splitlines() if "apart by" in line]


@pytest.mark.parametrize(
    ("gap", "verdict"),
    [(1.99, "no difference between layer norm and no norm"), (2.01, "layer norm is lower than")],
)
def test_a_difference_is_one_beyond_two_standard_errors(gap, verdict):
    """Four seeds of standard deviation 2 each: the means' errors are 1, of their difference 1.4."""
    spread = np.array([-1, -1, 1, 1]) * math.sqrt(3)  # of variance 4, divided by n - 1
    error = math.sqrt(2)
    (line,) = two(10 + spread, 10 + gap * error + spread)
    assert f"V, loss: {verdict}" in line
    assert f"(apart by {gap * error:.3f} ± {error:.3f})" in line


def test_a_share_adds_the_error_of_its_cases():
    """25 % and 35 % of 100 cases: errors of 4.33 and 4.77 points, even from one seed."""
    (line,) = two([0.25], [0.35], ERROR, 100)
    assert "no difference" in line and "(apart by 10.00 ± 6.44)" in line
    (line,) = two([0.25], [0.35], ERROR, 1000)
    assert "layer norm is lower" in line and "(apart by 10.00 ± 2.04)" in line
    (line,) = two([0.2, 0.3], [0.3, 0.4], ERROR, 100)  # seeds' errors are 5 points each
    assert "(apart by 10.00 ± 9.57)" in line


def test_one_seed_gives_no_verdict_where_there_are_no_cases():
    assert two([1.0], [9.0]) == two([1.0], [8.9, 9.1]) == []


def test_higher_is_better_where_it_is():
    (line,) = two([1.0, 1.1], [9.0, 9.1], replace(LOSS, higher=True))
    assert "no norm is higher than layer norm" in line


def test_table_fits_a_terminal_and_says_what_it_leaves_out():
    many = tuple(Figure("error", f"a figure of many words {i}") for i in range(6))
    experiment = replace(PLAIN, figures=(ERROR, LOSS, *many), paper={"layer": {"error": 9.5}})
    found = summary(CELLS, experiment=experiment)
    table = [line for line in report.text(experiment, found).splitlines() if line[:1] == "|"]
    assert len(table) == 4 and len({len(line) for line in table}) == 1 and len(table[0]) <= 100
    assert "| layer norm | 2     | 11.00 ± 1.41 | 9.5   | 1.100 ± 0.141 |" in table[2]
    text = report.text(experiment, found)
    assert "All rows: V, epochs 2." in text and "In summary.md also: " in text
    assert "binomial s.e." in text and "v-none-seed2 (epoch 1)" in text
    whole = report.text(experiment, found, None)
    assert "| V | layer norm | 2      | 2     | 11.00 ± 1.41 | 9.5   | 0.99" in whole
    assert "a figure of many words 5" in whole and "In summary.md" not in whole


def test_paper_numbers_stand_by_norm_or_by_variant():
    experiment = replace(PLAIN, paper={"layer": {"error": 1.5}, "w-layer": {"error": 2.5}})
    cells = [Cell(v, v, "layer", {1: rows([0.1])}) for v in "vw"]
    lines = report.text(experiment, summary(cells, experiment=experiment)).splitlines()
    assert "| 1.5 " in lines[2] and "| 2.5 " in lines[3]


def curve(*losses):
    return Measured([{"loss": loss, "seconds": 60.0} for loss in losses])


@pytest.mark.parametrize("sign", [1, -1])
def test_race_tells_how_soon_the_baselines_best_is_reached(sign):
    def signed(*losses):
        return curve(*(sign * loss for loss in losses))

    cells = [
        Cell("g", "G", "layer", {1: signed(5, 3, 2, 1), 2: signed(9, 9), 3: signed(1)}),
        Cell("g", "G", "none", {1: signed(6, 4, 4, 2.5), 2: signed(5, *[6] * 11), 4: signed(1)}),
    ]
    first, second = race(replace(LOSS, higher=sign < 0), "none", cells)
    assert (first["seed"], first["best"], first["epoch"]) == (1, sign * 2.5, 4)
    assert (first["minutes"], first["reached"]) == (4.0, 3)
    assert (first["share"], first["time_share"]) == (0.75, 0.75)
    assert first["budget_limited"] and first["then"] == sign * 1
    assert (second["seed"], second["best"], second["epoch"]) == (2, sign * 5, 1)
    assert second["reached"] is None and not second["budget_limited"]
    assert second["then"] == sign * 9


def test_untrained_figures_stand_below_the_table():
    cells = [Cell("v", "V", "layer", {3: replace(rows([0.1]), untrained={"error": 0.9})})]
    assert "Untrained, V, layer norm, seed 3: error, % 90.00." in report.text(PLAIN, summary(cells))


def test_picture_shows_mean_and_range_in_the_norms_colour(tmp_path):
    found = summary(CELLS)
    picture.draw(PLAIN, CELLS, found, tmp_path / "curves.png")
    with Image.open(tmp_path / "curves.png") as image:
        colours = np.unique(np.asarray(image.convert("RGBA")).reshape(-1, 4)[:, :3], axis=0)
    blue = np.abs(colours - np.array([0x1F, 0x77, 0xB4])).max(1).min()  # Matplotlib's C0
    assert blue < 10
    picture.draw(PLAIN, [], summary([]), tmp_path / "none.png")
    assert [path.name for path in tmp_path.iterdir()] == ["curves.png"]

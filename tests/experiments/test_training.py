"""One curve: resuming, what is kept, what is measured when."""

import json
import math
from dataclasses import replace

import keras
import numpy as np
import pytest
import toy

from tf_layernorm.experiments.files import read_json, write_whole
from tf_layernorm.experiments.results import METRICS, TEST, UNTRAINED, read_metrics
from tf_layernorm.experiments.training import BEST, MODEL, train

DATA = toy.load(toy.Config(), None, False)
KEPT = toy.EXPERIMENT.kept


def curve(**changes):
    return replace(toy.curve(toy.Config(), DATA, "layer", 1), **changes)


def run(folder, epochs, training=None, **options):
    return train(folder, training or curve(), seed=1, epochs=epochs, verbose=0, **options)


def figures(rows):
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


def weights(path):
    return keras.models.load_model(path).get_weights()


def test_resumed_ends_where_the_uninterrupted_ends(tmp_path):
    whole = run(tmp_path / "whole", 3, kept=KEPT)
    run(tmp_path / "resumed", 1, kept=KEPT)
    # As if killed between the figures of the second epoch and its model.
    with (tmp_path / "resumed" / METRICS).open("a") as file:
        file.write(json.dumps({"epoch": 2, "loss": 0.0, "seconds": 0.0}) + "\n")
    resumed = run(tmp_path / "resumed", 3, kept=KEPT)
    assert [row["epoch"] for row in resumed] == [1, 2, 3]
    assert figures(resumed) == figures(whole)
    for name in (MODEL, BEST):
        for ours, theirs in zip(
            weights(tmp_path / "resumed" / name), weights(tmp_path / "whole" / name)
        ):
            np.testing.assert_array_equal(ours, theirs)
    assert (
        read_json(tmp_path / "resumed" / TEST)["figures"]
        == (read_json(tmp_path / "whole" / TEST)["figures"])
    )


def test_finished_does_nothing(tmp_path):
    rows = run(tmp_path, 1)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / MODEL, tmp_path / TEST)}
    assert run(tmp_path, 1, curve(batches=None, evaluate=None)) == rows
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_seed_sets_the_first_weights(tmp_path):
    def first(name, seed):
        seen = []
        untrained = curve(evaluate=lambda model: seen.append(model.get_weights()[0]) or {})
        options = dict(epochs=1, untrained=True, verbose=0)
        train(tmp_path / name, untrained, seed=seed, **options)
        return seen[0]

    one, again, two = first("one", 1), first("again", 1), first("two", 2)
    np.testing.assert_array_equal(one, again)
    assert (one != two).any()


def test_best_is_kept_and_tested_once_at_the_end(tmp_path):
    """The figures of validation are given: the second epoch's is the best."""
    given, tested = iter([3.0, 1.0, 2.0, 1.0, 0.5]), []

    def test(model):
        tested.append(model.get_weights())
        return {"test_loss": 7}

    training = curve(evaluate=lambda model: {"validation_loss": next(given)}, test=test)
    run(tmp_path, 4, training, kept=KEPT)
    assert len(tested) == 1
    assert read_json(tmp_path / TEST) == {"epochs": 4, "kept": 2, "figures": {"test_loss": 7.0}}
    model = keras.models.load_model(tmp_path / BEST)
    assert int(model.optimizer.iterations) == 2 * training.steps
    for ours, theirs in zip(tested[0], model.get_weights()):
        np.testing.assert_array_equal(ours, theirs)
    # Gone on with, it is another result.
    run(tmp_path, 5, training, kept=KEPT)
    assert read_json(tmp_path / TEST)["kept"] == 5 and len(tested) == 2


def test_higher_is_better_where_it_is(tmp_path):
    given = iter([1.0, 3.0, 2.0])
    training = curve(evaluate=lambda model: {"validation_loss": next(given)})
    run(tmp_path, 3, training, kept=replace(KEPT, higher=True))
    assert read_json(tmp_path / TEST)["kept"] == 2


def test_a_test_that_was_killed_is_made_up_for(tmp_path):
    def die(model):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, 1, curve(test=die))
    assert not (tmp_path / TEST).exists()
    run(tmp_path, 1, curve(batches=None))
    assert read_json(tmp_path / TEST)["epochs"] == 1


def test_last_is_kept_without_a_figure_and_files_go_beside_the_model(tmp_path):
    (row,) = run(tmp_path, 1)
    assert not (tmp_path / BEST).exists() and not (tmp_path / UNTRAINED).exists()
    assert read_json(tmp_path / "points.json") == {"slope": 1.0}
    model = keras.models.load_model(tmp_path / MODEL)
    x, y = DATA.validation
    loss = np.mean((model.predict(x, verbose=0) - y) ** 2)
    assert row["validation_loss"] == pytest.approx(loss, rel=1e-5)


def test_untrained_network_is_measured_before_its_first_update(tmp_path):
    run(tmp_path, 1, untrained=True)
    keras.utils.set_random_seed(1)
    x, y = DATA.test
    loss = np.mean((curve().build().predict(x, verbose=0) - y) ** 2)
    assert read_json(tmp_path / UNTRAINED)["test_loss"] == pytest.approx(loss, rel=1e-5)


def test_training_that_diverges_says_so(tmp_path):
    diverging = toy.curve(toy.Config(learning_rate=1e30), DATA, "layer", 1)
    with pytest.raises(FloatingPointError, match="Received: "):
        run(tmp_path, 3, diverging)
    assert all(math.isfinite(row["loss"]) for row in read_metrics(tmp_path))


def test_a_file_is_whole_or_not_there(tmp_path):
    path = tmp_path / "new" / "file.json"

    def fail(unfinished):
        unfinished.write_text("half")
        raise OSError("full")

    write_whole(path, lambda unfinished: unfinished.write_text("whole"))
    with pytest.raises(OSError, match="full"):
        write_whole(path, fail)
    assert [path.read_text()] == ["whole"] and list(path.parent.iterdir()) == [path]

"""How each experiment's parts hang together. A new one is checked by being registered."""

import dataclasses
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_layernorm.experiments import flags, norms, runner
from tf_layernorm.experiments.experiment import Norm
from tf_layernorm.experiments.registry import EXPERIMENTS, find
from tf_layernorm.experiments.results import read_curve
from tf_layernorm.experiments.settings import plan, settle


@pytest.fixture(scope="module", params=EXPERIMENTS)
def smoke(request):
    """An experiment, the first curve of its smallest run, and its data: loaded once."""
    experiment = find(request.param)
    settings = settle(experiment, "smoke", {})
    curve = plan(experiment, settings)[0]
    return experiment, curve, experiment.load(curve.config, None, False)


@pytest.fixture
def without_xla(monkeypatch):
    """Compiling takes most of the time, and has tests of its own."""
    function = tf.function
    monkeypatch.setattr(tf, "function", lambda *a, **k: function(*a, **{**k, "jit_compile": None}))


def training_of(smoke, seed=1, **changes):
    experiment, curve, data = smoke
    config = dataclasses.replace(curve.config, **changes)
    return experiment.curve(config, data, curve.norm, seed)


def built(smoke, seed, **changes):
    keras.utils.set_random_seed(seed)
    training = training_of(smoke, seed, **changes)
    return training.build(), training


def arrays(batch):
    return [np.asarray(part) for part in tf.nest.flatten(batch)]


def epochs(dataset, training, count):
    """The arrays of each of the first epochs."""
    steps = training.steps // training.chunk
    rows = [arrays(batch) for batch in dataset.take(steps * count)]
    assert len(rows) == steps * count
    return [rows[i * steps : (i + 1) * steps] for i in range(count)]


def equal(one, two):
    return all(
        a.shape == b.shape and (a == b).all()
        for left, right in zip(one, two, strict=True)
        for a, b in zip(left, right, strict=True)
    )


def outputs(model, training):
    """What the network computes in training from its first batch."""
    (batch,) = training.batches(0).take(1)
    if training.chunk > 1:
        batch = tf.nest.map_structure(lambda part: part[0], batch)
    x, *_ = keras.utils.unpack_x_y_sample_weight(batch)
    return arrays(model(x, training=True))


def test_seed_reaches_weights_and_noise(smoke):
    (one, training), (again, _), (two, _) = (built(smoke, seed) for seed in (1, 1, 2))
    for ours, theirs in zip(one.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert not equal([one.get_weights()], [two.get_weights()])
    first = outputs(one, training)
    assert equal([first], [outputs(again, training)])
    if not equal([first], [outputs(one, training)]):  # it draws noise, whose seed is the curve's
        for ours, theirs in zip(two.trainable_variables, one.trainable_variables, strict=True):
            ours.assign(theirs)
        assert not equal([first], [outputs(two, training)])


def test_resumed_run_sees_what_an_uninterrupted_one_sees(smoke):
    training = training_of(smoke)
    first, second = epochs(training.batches(0), training, 2)
    assert equal(epochs(training.batches(1), training, 1)[0], second)
    assert not equal(first, second)
    assert not equal(epochs(training_of(smoke, 2).batches(0), training, 1)[0], first)


def test_validation_and_test_are_not_swapped(smoke):
    experiment, curve, data = smoke
    if "test" not in {field.name for field in dataclasses.fields(data)}:
        assert not any(figure.key.startswith("test") for figure in experiment.figures)
        return

    def figures(data):
        model, training = built((experiment, curve, data), 1)
        found = training.evaluate(model)
        return found | (training.test(model) if training.test else {})

    # Validated first everywhere, so that noise is the same.
    before, after = figures(data), figures(dataclasses.replace(data, test=data.validation))
    validation = [key for key in before if key.startswith("validation")]
    tested = [key for key in before if key.startswith("test")]
    assert validation and tested
    assert all(before[key] == after[key] for key in validation)
    assert any(before[key] != after[key] for key in tested)


def test_optimizer_is_as_the_config_says(smoke):
    _, curve, _ = smoke
    names = {field.name for field in dataclasses.fields(curve.config)}
    changes = {"learning_rate": 0.00123, "adam_epsilon": 3e-5, "clip_norm": 0.77}
    model, _ = built(smoke, 1, **{k: v for k, v in changes.items() if k in names})
    optimizer = model.optimizer
    if isinstance(optimizer.get_config()["learning_rate"], float):
        assert float(optimizer.learning_rate) == pytest.approx(0.00123)
    if "adam_epsilon" in names:
        assert optimizer.epsilon == 3e-5
    if "clip_norm" in names:
        assert 0.77 in (optimizer.clipnorm, optimizer.global_clipnorm)


def test_norms_make_different_networks(smoke):
    experiment, curve, data = smoke
    found = {}
    for norm in (norm.name for norm in experiment.norms):
        if experiment.sensible(curve.config, norm):
            model, training = built((experiment, dataclasses.replace(curve, norm=norm), data), 1)
            shapes = [variable.shape for variable in model.trainable_variables]
            found[norm] = str(shapes), outputs(model, training)
    assert len(found) > 1
    for (one, (shapes, first)), (two, (others, second)) in itertools.combinations(found.items(), 2):
        # Of one seed, and so of one set of weights where those have the same shapes.
        assert shapes != others or not equal([first], [second]), f"{one} is {two}"


def test_declaration_holds_together(smoke):
    experiment, curve, _ = smoke
    helps = flags.comments(experiment.config)
    fields = {field.name for field in dataclasses.fields(experiment.config)}
    assert fields == helps.keys() and all(helps.values())
    assert {"data", "epochs", "batch_size"} <= fields
    assert {axis.field for axis in experiment.axes} <= fields
    assert {"paper", "small", "smoke"} <= experiment.presets.keys()
    names = {norm.name for norm in experiment.norms}
    assert set(experiment.default_norms or ()) <= names
    assert {prefix.split("-")[-1] for prefix in experiment.paper} <= names
    keys = {figure.key for figure in experiment.figures}
    assert all(numbers.keys() <= keys for numbers in experiment.paper.values())
    shared = {norm.name: norm for norm in vars(norms).values() if isinstance(norm, Norm)}
    for norm in experiment.norms:
        assert norm.colour == shared[norm.name].colour
    for preset in experiment.presets:
        settings = settle(experiment, preset, {})
        plan(experiment, settings, seeds=experiment.presets[preset].seeds)


def test_a_run_logs_all_that_is_reported(smoke, tmp_path, without_xla, capsys):
    experiment, curve, data = smoke
    options = dict(norms=[curve.norm], curves=curve.name, seeds=1, epochs=1, verbose=0)
    summary = runner.run(experiment.name, "smoke", out=tmp_path, **options)
    (row,) = summary["results"]
    figures = [figure for figure in experiment.figures if not figure.optional or figure.key in row]
    assert {figure.key for figure in figures} <= row.keys()
    assert {figure.of for figure in figures if figure.of} <= data.cases.keys()
    (logged,) = read_curve(tmp_path / runner.CURVES / curve.name).rows
    more = [figure for figure in (experiment.race, experiment.kept) if figure]
    panels = [panel for panel in experiment.panels if not panel.optional]
    assert {figure.key for figure in (*panels, experiment.x, *more)} <= logged.keys()
    assert "not yet" not in capsys.readouterr().out

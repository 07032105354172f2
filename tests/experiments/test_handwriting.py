"""Handwriting synthesis: the network, a run of it, and what it writes, on the smallest networks."""

import json
from dataclasses import asdict, replace

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_layernorm.attention import window_weights
from tf_layernorm.cli import main
from tf_layernorm.data.pen import UNKNOWN, encode, standardise
from tf_layernorm.experiments import handwriting, runner
from tf_layernorm.experiments.handwriting import batches, writing
from tf_layernorm.experiments.handwriting.model import build_model
from tf_layernorm.experiments.results import read_metrics
from tf_layernorm.experiments.training import MODEL
from tf_layernorm.mixture import mixture_nll, sample_points

SMOKE = handwriting.PRESETS["smoke"].config


@pytest.fixture(scope="module")
def data():
    return handwriting.load(SMOKE, None, False).lines


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of one curve, its summary and the curve's folder."""
    out = tmp_path_factory.mktemp("run")
    summary = runner.run("handwriting", "smoke", norms=["layer"], epochs=1, out=out, verbose=0)
    return summary, out / "curves" / "length40-layer-seed1"


@pytest.fixture(scope="module")
def network(run):
    return tf.function(keras.models.load_model(run[1] / MODEL))


@pytest.fixture(scope="module")
def writer(run):
    return writing.Writer(run[1])


@pytest.mark.parametrize("norm,count", [("none", 3_650_151), ("layer", 3_650_151 + 12_000)])
def test_model_is_graves(norm, count):
    model = build_model(handwriting.PRESETS["paper"].config, norm)
    assert model.count_params() == count
    optimizer = model.optimizer
    assert (optimizer.epsilon, optimizer.beta_1, optimizer.beta_2) == (1e-8, 0.9, 0.999)
    assert optimizer.global_clipnorm == 10.0 and model.jit_compile
    with pytest.raises(ValueError, match="Received: norm='batch'"):
        build_model(SMOKE, "batch")


def test_norms_differ_in_gammas_and_betas_alone():
    layer, none = (build_model(SMOKE, norm) for norm in ("layer", "none"))
    shapes = [{w.path: tuple(w.shape) for w in model.weights} for model in (layer, none)]
    more = {path.split("/")[-1] for path in shapes[0].keys() - shapes[1].keys()}
    assert more == {"kernel_gamma", "recurrent_gamma", "state_gamma", "state_beta"}
    assert shapes[1].items() <= shapes[0].items()


def test_first_gradients_are_tame():
    """From a zero point, state and bias the first state has no variance."""

    def gradient(spread):
        keras.utils.set_random_seed(1)
        model = build_model(replace(SMOKE, bias_spread=spread), "layer")
        first = model.get_layer("first")
        states = first.cell.initial_state(tf.one_hot([[1, 2]], 57))
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(first(tf.zeros((1, 2, 3)), initial_state=states)[..., :3])
        return float(tf.linalg.global_norm(tape.gradient(loss, first.trainable_variables)))

    assert gradient(SMOKE.bias_spread) < 30
    assert gradient(0.0) < 30


def test_run_reports_the_kept_model(run, data, network):
    summary, folder = run
    (row,) = read_metrics(folder)
    assert row["updates"] == SMOKE.updates
    points, nats, lines = 0.0, 0.0, len(data.validation)
    for inputs, targets, weights in batches.validation_batches(SMOKE, data):
        nats += float(tf.reduce_sum(mixture_nll(targets, network(inputs)) * weights))
        points += float(tf.reduce_sum(weights))
    assert row["validation_nll"] == pytest.approx(nats / points, rel=1e-4)
    assert row["validation_line_nll"] == pytest.approx(nats / lines, rel=1e-4)
    assert 0 < row["loss"] < 20 and row["loss"] == pytest.approx(row["nll"], rel=1e-3)
    assert "which nobody wrote" in summary["data"]
    constant = np.log(data.std).sum()
    assert f"the NLL is {constant:.3f} a point more" in summary["data"]
    assert (folder.parents[1] / "curves.png").stat().st_size > 5_000


def test_batches_resume_in_the_midst_of_a_pass(data):
    def texts(update, count):
        dataset = batches.training_batches(SMOKE, data, 1, update)
        return [np.array(inputs["characters"]) for inputs, _, _ in dataset.take(count)]

    whole = texts(0, 7)
    np.testing.assert_array_equal(texts(5, 2), whole[5:])  # a pass has 4
    assert not np.array_equal(whole[0], whole[4])


def test_step_by_step_is_the_network_on_whole_lines(network, writer, data):
    inputs, _, _ = next(iter(batches.validation_batches(SMOKE, data)))
    expected = np.array(network(inputs))
    states, step = writer.step.initial_states(inputs["characters"]), tf.function(writer.step)
    for t in range(expected.shape[1]):
        outputs, *states = step([inputs["points"][:, t], *states])
        np.testing.assert_allclose(outputs, expected[:, t], rtol=0, atol=1e-4)
    np.testing.assert_array_equal(states[4], inputs["characters"])


def test_padding_after_a_line_is_not_seen(network, data):
    inputs, _, _ = next(iter(batches.validation_batches(SMOKE, data)))
    points = np.array(inputs["points"])
    points[:, 20:] = 7.0
    changed = network({**inputs, "points": tf.constant(points)})
    np.testing.assert_allclose(changed[:, :20], network(inputs)[:, :20], rtol=0, atol=1e-6)


def test_writing_repeats_by_its_seed_and_stops_where_graves_does(writer, data):
    one, two = writer.write("ab c", count=2, seed=3)
    again = writer.write("ab c", count=2, seed=3)
    for line, other in zip((one, two), again):
        np.testing.assert_array_equal(line.points, other.points)
    other = writer.write("ab c", seed=4)[0]
    assert one.points.shape != other.points.shape or (one.points != other.points).any()
    step = tf.function(writer.step)
    for line in (one, two):
        assert line.ended and line.window.shape == (len(line.points), 5)
        # The network reads its own writing: the window passes the end after the last point.
        states = writer.step.initial_states(tf.one_hot(encode("ab c")[None], 57))
        read = (line.points - [*data.mean, 0]) / [*data.std, 1]
        for t, point in enumerate([np.zeros(3), *read]):
            _, *states = step([tf.constant(point[None], "float32"), *states])
            weights = np.array(window_weights(states[2], np.arange(1, 6)))[0]
            assert (weights[-1] > weights[:-1].max()) == (t == len(read))
            if t < len(read):
                np.testing.assert_allclose(weights, line.window[t], rtol=1e-3, atol=1e-5)


def test_writing_that_never_ends_is_stopped(writer, monkeypatch):
    monkeypatch.setattr(writing, "STEPS_A_CHARACTER", 2)
    (line,) = writer.write("abcdefghij")
    assert len(line.points) == 20 and not line.ended


def test_writing_goes_on_from_a_line(writer, data):
    (plain,), (primed,) = (writer.write("ab", prime=prime) for prime in (None, data.validation[0]))
    assert primed.window.shape[1:] == plain.window.shape[1:] == (3,)
    assert primed.points.shape != plain.points.shape or (primed.points != plain.points).any()


def test_a_line_to_go_on_from_is_read_point_by_point_once(writer, data, monkeypatch):
    read, biases, step = [], [], writer._step

    def recorded(inputs):
        read.append(np.array(inputs[0]))
        return step(inputs)

    def sampled(outputs, rng, bias):
        biases.append(bias)
        return sample_points(outputs, rng, bias)

    monkeypatch.setattr(writer, "_step", recorded)
    monkeypatch.setattr(writing, "sample_points", sampled)
    monkeypatch.setattr(writing, "STEPS_A_CHARACTER", 3)
    prime = data.validation[0]
    (line,) = writer.write("ab", prime=prime, bias=1.25)
    expected = standardise(prime, data.mean, data.std)
    np.testing.assert_allclose(np.concatenate(read[: len(expected)]), expected, atol=1e-6)
    # Then its own writing, a point later.
    own = (line.points - [*data.mean, 0]) / [*data.std, 1]
    written = np.concatenate(read[len(expected) :])
    count = min(len(own), len(written))
    np.testing.assert_allclose(written[:count], own[:count], atol=1e-4)
    assert count and set(biases) == {1.25}


def test_write_gives_the_writer_every_option(run, tmp_path, monkeypatch):
    given = []

    def write(self, text, **options):
        given.append((text, options))
        return [writing.Written(np.ones((2, 3), "float32"), np.ones((2, 2)), True)]

    monkeypatch.setattr(writing.Writer, "write", write)
    command = ["write", "abc", "--model", str(run[1]), "--out", str(tmp_path / "new" / "page.png")]
    main([*command, "--bias", "1.5", "--seed", "7", "--count", "2"])
    assert given == [("abc", {"count": 2, "bias": 1.5, "seed": 7, "prime": None})]
    assert (tmp_path / "new" / "page.png").exists()


def test_strokes_end_where_the_pen_lifts():
    points = np.array([[1, 0, 0], [1, 1, 1], [5, 0, 1], [1, 0, 0]], "float32")
    found = [stroke.tolist() for stroke in writing.strokes(points)]
    assert found == [[[1, 0], [2, 1]], [[7, 1]], [[8, 1]]]


def test_write_draws_a_page_and_tells_of_unknown_characters(run, data, tmp_path, capsys):
    np.savez(tmp_path / "prime.npz", **asdict(data.validation[0]))
    command = ["write", "a 7", "--model", str(run[1]), "--out", str(tmp_path / "page.png")]
    assert main([*command, "--count", "1", "--prime", str(tmp_path / "prime.npz")]) == 0
    assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")
    output = capsys.readouterr().out
    assert f"unknown symbol {UNKNOWN}: '7'" in output and "page.png" in output


@pytest.mark.parametrize(
    "options,message",
    [
        (["  "], "must not be empty"),
        (["a" * 201], "at most 200"),
        (["a", "--bias", "-1"], "Received: bias=-1.0"),
        (["a", "--count", "0"], "Received: count=0"),
        (["a", "--out", "page.jpg"], "must be a .png"),
        (["a", "--prime", "nowhere.npz"], "Received: prime="),
        (["a", "--model", "nowhere"], "has no model.keras and no pen.json"),
    ],
    ids=str,
)
def test_write_refuses_before_it_writes(run, options, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main(["write", "--model", str(run[1]), *options])
    assert end.value.code == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_pen_data_is_not_waited_for(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["run", "handwriting", "--preset", "paper", "--out", str(tmp_path / "run")])
    assert "--data-dir" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_statistics_stand_beside_the_model(run, data):
    statistics = json.loads((run[1] / handwriting.STATISTICS).read_text())
    assert statistics["mean"] == data.mean.tolist() and statistics["std"] == data.std.tolist()
    assert "".join(statistics["alphabet"]) == "".join(data.alphabet)
    line = data.validation[0]
    moved = standardise(line, np.array(statistics["mean"]), np.array(statistics["std"]))
    np.testing.assert_allclose(moved, standardise(line, data.mean, data.std), atol=1e-6)

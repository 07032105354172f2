"""DRAW against its equations in NumPy float64, and its experiment from training to pictures."""

import itertools
import re

import keras
import numpy as np
import pytest
import reference
import tensorflow as tf
from PIL import Image

from tf_layernorm.cli import main
from tf_layernorm.data.binarized_mnist import BinaryDigits
from tf_layernorm.experiments import draw
from tf_layernorm.experiments.draw import pictures
from tf_layernorm.experiments.draw.attention import filter_bank, read, window, write
from tf_layernorm.experiments.draw.model import build_model
from tf_layernorm.experiments.draw.network import DRAW
from tf_layernorm.experiments.settings import plan, settle
from tf_layernorm.experiments.training import MODEL, train

TINY = {"glimpses": 3, "units": 5, "latent": 2, "read_size": 2, "write_size": 3, "pixels": 4}


def bank(g, stride, variance, size, pixels):
    """F[i, a] of Gregor et al. (25), with the pixels counted from 1 as they do."""
    i, a = np.arange(1, size + 1)[:, None], np.arange(1, pixels + 1)
    gaussians = np.exp(-((a - (g + (i - size / 2 - 0.5) * stride)) ** 2) / (2 * variance))
    return gaussians / gaussians.sum(1, keepdims=True)


def filters(p, size, pixels):
    """F_X, F_Y and gamma from the five numbers of one case, Gregor et al. (21)-(24)."""
    gx, gy = (pixels + 1) / 2 * (p[:2] + 1)
    variance, stride, gamma = np.exp(p[2]), (pixels - 1) / (size - 1) * np.exp(p[3]), np.exp(p[4])
    columns, rows = (bank(g, stride, variance, size, pixels) for g in (gx, gy))
    return columns, rows, gamma


def reference_bound(images, noise, weights, normalize, size):
    """Bound, reconstruction and KL of each glimpse, written case by case from the equations."""
    cell = reference.LSTM(normalize=normalize)
    w, out = weights, []
    for x, epsilons in zip(images, noise.swapaxes(0, 1)):
        canvas, he, ce, hd, cd = w["first"]
        kl = []
        for epsilon in epsilons:
            columns, rows, gamma = filters(hd @ w["reader"][0] + w["reader"][1], *size[::2])
            error = x - reference.sigmoid(canvas)
            seen = [gamma * (rows @ image @ columns.T).ravel() for image in (x, error)]
            he, (_, ce) = cell.step(np.concatenate([*seen, hd])[None], (he, ce), w["encoder"])
            mu, log_sigma = np.split(he[0] @ w["posterior"][0] + w["posterior"][1], 2)
            sigma = np.exp(log_sigma)
            kl.append(0.5 * np.sum(mu**2 + sigma**2 - np.log(sigma**2) - 1))
            hd, (_, cd) = cell.step((mu + sigma * epsilon)[None], (hd, cd), w["decoder"])
            hd = hd[0]
            head = hd @ w["writer"][0] + w["writer"][1]
            columns, rows, gamma = filters(head[:5], *size[1:])
            patch = head[5:].reshape(size[1], size[1])
            canvas = canvas + rows.T @ patch @ columns / gamma
        p = reference.sigmoid(canvas)
        reconstruction = -np.sum(x * np.log(p) + (1 - x) * np.log(1 - p))
        out.append((reconstruction + sum(kl), reconstruction, kl))
    return out


def named(model):
    """The model's weights by part, float64."""
    parts = ("encoder", "decoder", "posterior", "reader", "writer")
    weights = {part: [v.numpy() for v in getattr(model, part).weights] for part in parts}
    return {**weights, "first": [value.numpy() for value in model.first]}


@pytest.mark.parametrize("norm", draw.NORMALIZE)
def test_bound_and_gradients_are_those_of_the_equations(norm):
    model = DRAW(**TINY, normalize=draw.NORMALIZE[norm], dtype="float64")
    model.build((None, 16))
    rng = np.random.default_rng(1)
    for variable in model.trainable_weights:
        variable.assign(variable + 0.3 * rng.normal(size=variable.shape))
    x = rng.integers(0, 2, (2, 16)).astype("float64")
    noise = rng.normal(size=(3, 2, 2))
    with tf.GradientTape() as tape:
        logits, kl = model.infer(x, noise)
        bound, reconstruction, total = model.bound(x, logits, kl)
        loss = tf.reduce_sum(bound)
    gradients = tape.gradient(loss, model.trainable_weights)

    def reference_of():
        weights = named(model)
        return reference_bound(x.reshape(2, 4, 4), noise, weights, draw.NORMALIZE[norm], (2, 3, 4))

    expected = reference_of()
    np.testing.assert_allclose(bound, [case[0] for case in expected], rtol=1e-10)
    np.testing.assert_allclose(reconstruction, [case[1] for case in expected], rtol=1e-10)
    np.testing.assert_allclose(kl, [case[2] for case in expected], rtol=1e-10)
    np.testing.assert_allclose(total, tf.reduce_sum(kl, -1), rtol=1e-12)

    # Central differences along one random direction a weight.
    step = 1e-5
    for variable, gradient in zip(model.trainable_weights, gradients, strict=True):
        kept, direction = variable.numpy(), rng.normal(size=variable.shape)
        values = []
        for sign in (1, -1):
            variable.assign(kept + sign * step * direction)
            values.append(sum(case[0] for case in reference_of()))
        variable.assign(kept)
        slope = (values[0] - values[1]) / (2 * step)
        assert np.sum(gradient * direction) == pytest.approx(slope, rel=1e-5, abs=1e-6), variable


def test_filter_bank_is_the_identity_on_a_sharp_grid_over_the_image():
    sharp = filter_bank(13.5, 1.0, 1e-4, size=28, pixels=28)
    np.testing.assert_allclose(sharp, np.eye(28), atol=1e-6)
    # The same from the five numbers, which say the image's centre and 28 filters over 28 pixels.
    at = window(tf.constant([[0.0, 0.0, -9.0, 0.0, 0.7]]), 28, 28)
    image = np.random.default_rng(0).normal(size=(1, 1, 28, 28)).astype("float32")
    np.testing.assert_allclose(read(image, at), np.exp(0.7) * image.reshape(1, -1), rtol=1e-6)
    written = write(tf.reshape(image, (1, -1)), at)
    np.testing.assert_allclose(written, np.exp(-0.7) * image[0], rtol=1e-6)


def test_window_is_not_transposed():
    # To the right by three pixels and down by one: x is the column.
    at = window(tf.constant([[6 / 29, 2 / 29, -9.0, -2.0, 0.0]]), 2, 28)
    ink = np.asarray(write(tf.ones((1, 4)), at))[0]
    rows, columns = np.average(np.indices((28, 28)).reshape(2, -1), axis=1, weights=ink.ravel())
    assert (columns, rows) == pytest.approx((16.5, 14.5), abs=1e-3)
    np.testing.assert_allclose(at.centre, [[16.5, 14.5]], rtol=1e-6)


def test_window_beside_the_image_is_finite_and_still_sums_to_one():
    extremes = itertools.product([1e3, -1e3, 1e6], [-1e3, 0.0, 1e3])
    parameters = tf.constant([[far, -far, log, log, log] for far, log in extremes])
    with tf.GradientTape() as tape:
        tape.watch(parameters)
        at = window(parameters, 5, 28)
        seen, written = read(tf.ones((9, 2, 28, 28)), at), write(tf.ones((9, 25)), at)
        loss = tf.reduce_sum(seen) + tf.reduce_sum(written)
    np.testing.assert_allclose(tf.reduce_sum(at.filters, -1), np.ones((9, 2, 5)), rtol=1e-5)
    assert np.isfinite(loss) and np.all(np.isfinite(tape.gradient(loss, parameters)))


@pytest.mark.parametrize(
    "options", [{"glimpses": 0}, {"latent": 0}, {"read_size": 1}, {"write_size": 1.5}], ids=str
)
def test_model_refuses(options):
    with pytest.raises(ValueError, match="Received: " + next(iter(options))):
        DRAW(**options)


def test_model_refuses_images_of_another_size():
    with pytest.raises(ValueError, match="784 pixels.*Received: input shape"):
        DRAW().build((None, 16))


def test_model_is_the_papers():
    config = draw.PRESETS["paper"].config
    plain = build_model(config, "none")
    # Two LSTMs (264 and 100 inputs), three heads, the first canvas and states.
    lstms = 4 * 256 * (264 + 256 + 1) + 4 * 256 * (100 + 256 + 1)
    sizes = [int(np.prod(v.shape)) for v in plain.trainable_weights]
    assert sum(sizes) == lstms + 257 * (200 + 5 + 30) + 784 + 4 * 256
    assert build_model(config, "layer").count_params() == plain.count_params() + 4 * 256
    optimizer = plain.optimizer
    assert (optimizer.epsilon, optimizer.beta_1, optimizer.beta_2) == (1e-8, 0.9, 0.999)
    assert plain.jit_compile is True
    with pytest.raises(ValueError, match="Received: norm='batch'"):
        build_model(config, "batch")


def test_compiled_gradient_is_the_eager_one():
    model = DRAW(**TINY)
    model.build((None, 16))
    x, noise = np.eye(4, 16, dtype="uint8"), np.ones((3, 4, 2), "float32")

    def gradients():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model.bound(x, *model.infer(x, noise))[0])
        return tape.gradient(loss, model.trainable_weights)

    for ours, theirs in zip(tf.function(gradients, jit_compile=True)(), gradients()):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


CONFIG = draw.Config(glimpses=2, units=6, latent=3, batch_size=20, epochs=2)
RNG = np.random.default_rng(0)


def strokes(count):
    """Digits of a kind: one vertical stroke each."""
    images = np.zeros((count, 28, 28), "uint8")
    for image, column in zip(images, RNG.integers(8, 20, count)):
        image[6:22, column : column + 2] = 1
    return images.reshape(count, 784)


DIGITS = BinaryDigits(strokes(60), strokes(20), strokes(20), "made up")


def run_curve(folder, epochs):
    training = draw.curve(CONFIG, DIGITS, "layer", 1)
    return train(folder, training, seed=1, epochs=epochs, verbose=0)


@pytest.fixture(scope="module")
def without_xla():
    """Keeps Keras from compiling, which takes most of the time and has its own test."""
    function = tf.function
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tf, "function", lambda *a, **k: function(*a, **{**k, "jit_compile": None}))
        yield


@pytest.fixture(scope="module")
def trained(tmp_path_factory, without_xla):
    """The folder and the figures of two epochs."""
    folder = tmp_path_factory.mktemp("curve")
    return folder, run_curve(folder, 2)


def test_training_lowers_the_bound_and_tells_its_parts(trained):
    _, rows = trained
    assert rows[1]["bound"] < rows[0]["bound"] < 784 * np.log(2) + 10
    for row in rows:
        for part in ("", "validation_", "test_"):
            parts = row[part + "reconstruction"] + row[part + "kl"]
            assert row[part + "bound"] == pytest.approx(parts, rel=1e-5)


def test_noise_goes_on_where_it_was_in_a_model_that_is_loaded(trained):
    model = keras.models.load_model(trained[0] / MODEL)
    assert int(model.draws) == 10  # six updates and four evaluations
    images, seen = strokes(3), []
    for draws in (10, 11, 10):
        model.draws.assign(draws)
        seen.append(model(images)[1].numpy())
    np.testing.assert_array_equal(seen[0], seen[2])
    assert (seen[0] != seen[1]).any() and int(model.draws) == 11


def opened(path):
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB")), getattr(image, "n_frames", 1)


def test_draw_shows_digits_and_their_making(trained, tmp_path, capsys):
    folder, _ = trained
    out = tmp_path / "new" / "digits.png"
    assert main(["draw", "--model", str(folder), "--out", str(out), "--count", "10"]) == 0
    names = ["digits.png", "digits-steps.png", "digits.gif"]
    assert re.findall(r"[\w-]+\.(?:png|gif)", capsys.readouterr().out) == names
    (digits, _), (steps, _), (_, frames) = (opened(out.parent / name) for name in names)
    assert digits.shape == (3 * 57 - 1, 4 * 57 - 1, 3)
    assert steps.shape == (8 * 57 - 1, 2 * 57 - 1, 3)
    assert frames == CONFIG.glimpses + 1
    red = (steps == pictures.RED).all(-1)
    assert red[:56, :56].any() and red[-56:, -56:].any()
    first = out.read_bytes()
    main(["draw", "--model", str(folder), "--out", str(out), "--count", "10", "--seed", "2"])
    assert out.read_bytes() != first


def test_box_spans_the_outermost_filters():
    # A grid over the whole image: from the middle of its first pixel to that of its last.
    corners = pictures.box(np.array([13.5, 13.5]), 27 / 4, 5, 28)
    assert corners == pytest.approx((1, 1, 55, 55))
    assert pictures.box(np.array([99.0, -99.0]), 1.0, 5, 28) == (55, 0, 55, 0)


@pytest.mark.parametrize(
    "options",
    [["--out", "digits.jpg"], ["--count", "0"], ["--model", "nowhere"]],
    ids=lambda options: options[0],
)
def test_draw_refuses_before_it_writes(options, trained, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main(["draw", "--model", str(trained[0]), "--out", "digits.png", *options])
    assert end.value.code == 2
    assert "Received: " in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


def test_draw_refuses_another_model_and_names_the_folder_of_one(trained, tmp_path):
    with pytest.raises(ValueError, match=f"such as .*{trained[0].name}.*Received: model="):
        pictures.load(trained[0].parent)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.save(tmp_path / MODEL)
    with pytest.raises(ValueError, match="Received: model=.*Sequential"):
        pictures.load(tmp_path)


def test_plan_leaves_the_ablation_to_those_who_ask():
    settings = settle(draw.EXPERIMENT, "smoke", {})
    assert [curve.norm for curve in plan(draw.EXPERIMENT, settings)] == ["layer", "none"]
    assert [curve.norm for curve in plan(draw.EXPERIMENT, settings, ["all"])] == ["all"]

"""The mixture density against float64 SciPy, and where public implementations turn to NaN."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from kinds import WRAPPERS, normal
from scipy.special import log_softmax, logsumexp
from scipy.stats import bernoulli, norm

from tf_layernorm.mixture import (
    MAX_ATANH_RHO,
    MIN_SIGMA,
    MixtureHead,
    MixtureNLL,
    mixture,
    mixture_nll,
    sample_points,
)

M = 3


def split(outputs):
    """Graves' parameters, from the text of `mixture` and not from its code."""
    pen, weights = outputs[..., 0], outputs[..., 1 : M + 1]
    means = outputs[..., M + 1 : 3 * M + 1].reshape(*pen.shape, M, 2)
    sigmas = MIN_SIGMA + np.exp(outputs[..., 3 * M + 1 : 5 * M + 1].reshape(*pen.shape, M, 2))
    r, limit = outputs[..., 5 * M + 1 :], MAX_ATANH_RHO
    r = np.logaddexp(0, r + limit) - np.logaddexp(0, r - limit) - limit
    return pen, log_softmax(weights, -1), means, sigmas, r


def reference_nll(points, outputs):
    """-log of the density, as that of x and that of y given x."""
    pen, log_weights, means, sigmas, r = split(outputs)
    x, y = points[..., None, 0], points[..., None, 1]
    log_x = norm.logpdf(x, means[..., 0], sigmas[..., 0])
    conditional = means[..., 1] + np.tanh(r) * sigmas[..., 1] * (x - means[..., 0]) / sigmas[..., 0]
    # 1 / cosh is sqrt(1 - tanh^2) without its cancellation.
    log_y = norm.logpdf(y, conditional, sigmas[..., 1] / np.cosh(r))
    log_pen = bernoulli.logpmf(points[..., 2].astype(int), 1 / (1 + np.exp(-pen)))
    return -logsumexp(log_weights + log_x + log_y, -1) - log_pen


def points_of(*shape, seed=3):
    points = normal(*shape, 3, seed=seed)
    points[..., 2] = points[..., 2] > 0
    return points


def outputs_of(*shape, sigma=None, rho=None):
    outputs = normal(*shape, 6 * M + 1)
    if sigma is not None:
        outputs[..., 3 * M + 1 : 5 * M + 1] = sigma
    if rho is not None:
        outputs[..., 5 * M + 1 :] = np.arctanh(rho)
    return outputs


@pytest.mark.parametrize("dtype,tolerance", [("float64", 1e-12), ("float32", 1e-5)])
def test_nll_is_scipys(dtype, tolerance):
    points, outputs = points_of(4, 5), outputs_of(4, 5)
    expected = reference_nll(points, outputs)
    nll = mixture_nll(points.astype(dtype), outputs.astype(dtype))
    assert nll.dtype == dtype
    np.testing.assert_allclose(nll, expected, rtol=tolerance, atol=tolerance)


def test_limits_leave_graves_density_alone():
    outputs = outputs_of(50, sigma=np.log(0.3), rho=0.99)
    _, _, log_sigmas, r, _ = mixture(outputs)
    np.testing.assert_allclose(np.exp(log_sigmas), 0.3 + MIN_SIGMA, rtol=1e-12)
    np.testing.assert_allclose(r, np.arctanh(0.99), rtol=1e-3)


@pytest.mark.parametrize(
    ("rho", "far", "compiled"),
    [
        *[(rho, far, "eager") for rho in (0.0, 0.999999, "beyond") for far in (0.0, 1e4)],
        (-0.999999, 1e4, "jit"),
    ],
)
def test_nll_and_gradient_stay_right_at_the_limits(rho, far, compiled):
    """Sigma at its floor: a float32 loss and gradient agree with float64, and none is capped."""
    outputs = outputs_of(6, sigma=-20.0, rho=None if rho == "beyond" else rho)
    if rho == "beyond":
        outputs[..., 5 * M + 1 :] = 50.0
    points = points_of(6)
    points[..., 1] += far
    outputs = outputs.astype("float32")
    points = points.astype("float32")

    @WRAPPERS[compiled]
    def both(points, outputs):
        with tf.GradientTape() as tape:
            tape.watch(outputs)
            nll = mixture_nll(points, outputs)
        return nll, tape.gradient(nll, outputs)

    nll, gradient = both(tf.constant(points), tf.constant(outputs))
    expected = reference_nll(points.astype("float64"), outputs.astype("float64"))
    np.testing.assert_allclose(nll, expected, rtol=2e-4)
    _, exact = both(tf.constant(points, "float64"), tf.constant(outputs, "float64"))
    assert np.isfinite(gradient).all()
    np.testing.assert_allclose(gradient, exact, rtol=2e-3, atol=1e-3 * np.abs(exact).max())
    # What wins back a component: its mean and its sigma are pulled as hard as the density says.
    pulls = np.abs(exact)[:, M + 1 : 5 * M + 1].max(axis=1)
    assert (pulls > 1e4 * max(far, 1e-2)).all()


def test_gradient_is_that_of_the_reference():
    points, outputs = points_of(2), outputs_of(2)
    watched = tf.constant(outputs)
    with tf.GradientTape() as tape:
        tape.watch(watched)
        nll = mixture_nll(points, watched)
    gradient, step = tape.gradient(nll, watched).numpy(), 1e-6
    for k in range(6 * M + 1):
        shift = step * np.eye(6 * M + 1)[k]
        rise = reference_nll(points, outputs + shift) - reference_nll(points, outputs - shift)
        np.testing.assert_allclose(gradient[:, k], rise / (2 * step), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("pen", [0.0, 1.0])
def test_pen_costs_what_it_costs(pen):
    outputs = np.zeros((1, 7), "float32")
    outputs[..., 0] = 300.0 * (1 - 2 * pen)
    point = np.array([[0.0, 0.0, pen]], "float32")
    nothing = mixture_nll(point, np.zeros((1, 7), "float32")) - np.log(2)
    assert float((mixture_nll(point, outputs) - nothing)[0]) == pytest.approx(300.0, rel=1e-5)


@pytest.mark.parametrize("bias", [0.0, 0.7])
def test_samples_follow_the_density(bias):
    outputs = outputs_of(1, sigma=-1.0, rho=0.8)
    outputs[:, 0] = 0.4
    drawn = sample_points(np.repeat(outputs, 40_000, 0), np.random.default_rng(0), bias)
    pen, log_weights, means, sigmas, r = (part[0] for part in split(outputs))
    weights = np.exp(log_softmax((1 + bias) * log_weights))
    mean = weights @ means
    sigmas, rho = sigmas * np.exp(-bias), np.tanh(r)
    cross = np.array([[[a * a, p * a * b], [p * a * b, b * b]] for (a, b), p in zip(sigmas, rho)])
    spread = means - mean
    covariance = np.einsum("m,mij->ij", weights, cross)
    covariance += np.einsum("m,mi,mj->ij", weights, spread, spread)
    error = np.sqrt(np.diag(covariance) / len(drawn))
    assert (np.abs(drawn[:, :2].mean(0) - mean) < 4 * error).all()
    np.testing.assert_allclose(np.cov(drawn[:, :2].T), covariance, rtol=0.03, atol=0.01)
    assert drawn[:, 2].mean() == pytest.approx(1 / (1 + np.exp(-pen)), abs=0.01)


def test_head_and_loss_train_and_come_back_from_a_file(tmp_path):
    model = keras.Sequential([keras.Input((None, 4)), MixtureHead(M)])
    model.compile("sgd", MixtureNLL())
    x = normal(2, 5, 4).astype("float32")
    points = points_of(2, 5).astype("float32")
    weight = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], "float32")
    points[0, 3:] = 1e3  # padding, whatever it holds
    nll = np.array(mixture_nll(points, model(x)))
    expected = float((nll * weight).sum() / weight.sum())
    found = model.evaluate(x, points, sample_weight=weight, verbose=0)
    assert found == pytest.approx(expected, rel=1e-5)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again(x), model(x))
    assert isinstance(again.loss, MixtureNLL)
    assert json.dumps(MixtureHead(M).get_config())


def test_head_gives_float32_under_a_half_policy():
    head = MixtureHead(M, dtype="mixed_bfloat16")
    assert head(normal(2, 4)).dtype == "float32"
    assert head(keras.Input((4,))).dtype == "float32"


def test_wrong_sizes_are_refused():
    with pytest.raises(ValueError, match="6 \\* components \\+ 1.*Received: shape"):
        mixture(np.zeros((2, 8)))
    with pytest.raises(ValueError, match="Received: components=0"):
        MixtureHead(0)

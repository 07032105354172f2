"""Exact Fisher information and KL against sampling, finite differences and textbook formulas."""

import numpy as np
import pytest
from scipy import stats

from tf_layernorm.analysis import GLM, fisher, fisher_kronecker, jacobian, kl, random_glm

NORMS = ("none", "batch", "weight", "layer")
FAMILIES = ("bernoulli", "gaussian", "poisson")


def log_probability(model, z, y):
    if model.family == "bernoulli":
        return stats.bernoulli.logpmf(y, 1 / (1 + np.exp(-z)))
    if model.family == "poisson":
        return stats.poisson.logpmf(y, np.exp(z))
    return stats.norm.logpdf(y, z, np.sqrt(model.phi))


def sample(model, z, size, rng):
    if model.family == "bernoulli":
        return rng.binomial(1, 1 / (1 + np.exp(-z)), size)
    if model.family == "poisson":
        return rng.poisson(np.exp(z), size)
    return rng.normal(z, np.sqrt(model.phi), size)


def steps(model, size):
    return size * np.eye(model.block * len(model.weights))


@pytest.mark.parametrize("norm", NORMS)
def test_jacobian_is_that_of_central_differences(norm):
    model, x = random_glm(norm, units=3, inputs=2, cases=7)
    differences = [
        (model.moved(d).natural(x) - model.moved(-d).natural(x)) / 2e-6 for d in steps(model, 1e-6)
    ]
    np.testing.assert_allclose(jacobian(model, x), np.moveaxis(differences, 0, -1), atol=1e-8)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("family", FAMILIES)
def test_fisher_is_the_mean_squared_score(norm, family):
    model, x = random_glm(norm, family, units=2, inputs=2, cases=5)
    if family == "gaussian":
        model = GLM(model.weights, model.bias, model.gain, norm, family, phi=0.5)
    y = sample(model, model.natural(x), (10000, 5, 2), np.random.default_rng(0))

    def score(d):
        plus, minus = (model.moved(s).natural(x) for s in (d, -d))
        return (log_probability(model, plus, y) - log_probability(model, minus, y)).sum(-1) / 2e-5

    scores = np.stack([score(d) for d in steps(model, 1e-5)])  # [P, samples, N]
    products = np.einsum("psn,qsn->pqs", scores, scores) / len(x)
    error = np.abs(products.mean(-1) - fisher(model, x))
    assert (error <= 5 * products.std(-1) / np.sqrt(10000) + 1e-6).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_kronecker_form_is_the_fisher_information(family):
    model, x = random_glm("none", family)
    np.testing.assert_allclose(fisher_kronecker(model, x), fisher(model, x), atol=1e-12)
    blocks = fisher(model, x).reshape(5, 5, 5, 5)  # unit, parameter, unit, parameter
    assert all(not blocks[i, :, j].any() for i in range(5) for j in range(5) if i != j)


@pytest.mark.parametrize("family", FAMILIES)
def test_kl_is_the_expected_log_ratio(family):
    model, x = random_glm("layer", family, units=2, inputs=2, cases=5)
    other = model.moved(np.random.default_rng(0).normal(size=8) / 3)
    z, new = model.natural(x), other.natural(x)
    if family == "gaussian":
        expected = (z - new) ** 2 / 2
    else:
        y = np.arange(2 if family == "bernoulli" else 200)[:, None, None]
        log_p, log_q = log_probability(model, z, y), log_probability(model, new, y)
        expected = np.sum(np.exp(log_p) * (log_p - log_q), axis=0)
    assert kl(model, other, x) == pytest.approx(expected.sum(-1).mean(), rel=1e-10)
    assert kl(model, model, x) == 0


def test_correlated_outputs_fill_the_off_diagonal_blocks():
    model, x = random_glm("weight", "bernoulli")
    whole = fisher(model, x, 0.5).reshape(5, 6, 5, 6)
    independent = fisher(model, x).reshape(5, 6, 5, 6)
    assert not independent[0, :, 1].any() and whole[0, :, 1].any()
    np.testing.assert_allclose(whole[0, :, 0], independent[0, :, 0], atol=1e-15)


W = np.ones((2, 3)) * [[1.0], [2.0]]


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: GLM(W[:1], norm="layer"), "Received: units=1"),
        (lambda: GLM(W * [[1], [0]]), "Received: weights="),
        (lambda: GLM(W * np.nan), "Received: weights="),
        (lambda: GLM(W[0]), "Received: weights="),
        (lambda: GLM(W, bias=np.ones(3)), "Received: bias="),
        (lambda: GLM(W, gain=np.array([1.0, np.inf])), "Received: gain="),
        (lambda: GLM(W, norm="rms"), "Received: norm='rms'"),
        (lambda: GLM(W, family="gamma"), "Received: family='gamma'"),
        (lambda: GLM(W, family="poisson", phi=2.0), "Received: phi=2"),
        (lambda: GLM(W, phi=-1.0), "Received: phi=-1"),
        (lambda: fisher(GLM(W, norm="batch"), np.ones((4, 3))), "Received: smallest sigma="),
        (lambda: fisher(GLM(W, norm="layer"), np.zeros((4, 3))), "Received: smallest sigma=0"),
        (lambda: fisher(GLM(W), np.full((4, 3), np.nan)), "Received: inputs="),
        (lambda: fisher_kronecker(GLM(W, norm="layer"), np.ones((4, 3))), "norm='layer'"),
    ],
)
def test_senseless_inputs_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()

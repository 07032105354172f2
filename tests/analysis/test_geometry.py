"""The claims of section 5.2, each with its number."""

from dataclasses import replace

import numpy as np
import pytest

from tf_layernorm.analysis import (
    chi,
    exact_gain_metric,
    fisher,
    fisher_blocks,
    gain_metric,
    gain_metric_growth,
    kl_ratios,
    layer_norm_block_errors,
    radial_gradients,
    random_glm,
    scaling_ratios,
    statistics,
)

NORMS = ("batch", "weight", "layer")
FAMILIES = ("bernoulli", "gaussian", "poisson")


@pytest.mark.parametrize("norm", ("none", *NORMS))
@pytest.mark.parametrize("family", FAMILIES)
def test_kl_over_its_quadratic_form_goes_to_1(norm, family):
    model, x = random_glm(norm, family)
    distances = np.abs(kl_ratios(model, x, [1e-1, 1e-2, 1e-3]) - 1)
    assert distances[2] < 5e-4 and distances[0] < 0.1
    if (norm, family) == ("none", "gaussian"):  # KL is quadratic
        assert distances.max() < 1e-8
    else:
        assert (distances[1:] < distances[:-1] / 4 + 1e-6).all()


@pytest.mark.parametrize("norm", ("none", *NORMS))
def test_chi_is_equation_14(norm):
    model, x = random_glm(norm, units=3, inputs=2, cases=7)
    mu, sigma = statistics(norm, model.weights, x)
    a_hat = (x @ model.weights.T - mu) / sigma
    for i in range(3):
        for d in range(2):
            step = np.zeros_like(model.weights)
            step[i, d] = 1e-6
            plus, minus = (statistics(norm, model.weights + s, x) for s in (step, -step))
            dmu, dsigma = (
                np.broadcast_to((p - m) / 2e-6, (7, 3))[:, i] for p, m in zip(plus, minus)
            )
            expected = x[:, d] - dmu - a_hat[:, i] * dsigma
            np.testing.assert_allclose(chi(model, x)[:, i, d], expected, atol=1e-8)


@pytest.mark.parametrize("norm", ("batch", "weight"))
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("correlation", (0.0, 0.5))
def test_blocks_of_equation_13_are_exact_for_batch_and_weight_norm(norm, family, correlation):
    model, x = random_glm(norm, family)
    exact = fisher(model, x, correlation)
    np.testing.assert_allclose(fisher_blocks(model, x, correlation), exact, atol=1e-12)


def test_blocks_of_equation_13_are_of_order_1_over_h_for_layer_norm():
    widths = [4, 8, 16, 32]
    errors = layer_norm_block_errors(widths)
    slopes = {k: np.polyfit(np.log(widths), np.log(v), 1)[0] for k, v in errors.items()}
    assert errors["off_diagonal"][0] > 0.15  # no small thing in a small layer
    assert -1.3 < slopes["off_diagonal"] < -0.7
    assert slopes["diagonal"] < -0.7
    # Each of H^2 neglected blocks is of order 1/H, so in the Frobenius norm it is 1 / sqrt(H).
    assert -0.7 < slopes["frobenius"] < -0.3


def test_gain_and_bias_entries_of_equation_13_are_exact_for_layer_norm_too():
    model, x = random_glm("layer", "bernoulli")
    bg = np.tile([False] * 4 + [True] * 2, 5)
    difference = fisher(model, x, 0.5) - fisher_blocks(model, x, 0.5)
    assert np.abs(difference[np.ix_(bg, bg)]).max() < 1e-12 < np.abs(difference).max()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "norm, unit, off", [("batch", 1, 1 / 2), ("weight", 1, 1 / 2), ("layer", None, 1 / 4)]
)
def test_doubling_the_weights_divides_the_curvature(norm, unit, off, family):
    model, x = random_glm(norm, family)
    ratios = scaling_ratios(model, x, unit=unit)
    expected = {"ww": 1 / 4, "ww_off": off, "mixed": 1 / 2, "bg": 1}
    assert ratios == pytest.approx(expected, rel=1e-9)


def test_every_entry_of_the_fisher_information_scales_alike():
    model, x = random_glm("layer", "bernoulli")
    doubled = fisher(replace(model, weights=2 * model.weights), x)
    factor = np.tile([1 / 2] * 4 + [1.0] * 2, 5)
    np.testing.assert_allclose(doubled, fisher(model, x) * np.outer(factor, factor), atol=1e-12)


def test_doubling_one_vector_changes_the_layer_normalised_model_itself():
    model, x = random_glm("layer")
    assert scaling_ratios(model, x, unit=1)["bg"] != pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("family", FAMILIES)
def test_gradient_is_orthogonal_to_the_scale(family):
    cosines = {}
    for norm in ("none", *NORMS):
        model, x = random_glm(norm, family)
        targets = np.random.default_rng(1).integers(0, 2, (50, 5)).astype(float)
        cosines[norm] = radial_gradients(model, x, targets)
    assert max(cosines["batch"]["vector"], cosines["weight"]["vector"]) < 1e-12
    assert cosines["layer"]["vector"] > 0.1
    assert max(cosines[norm]["matrix"] for norm in NORMS) < 1e-12
    assert cosines["layer"]["shift"] < 1e-12
    assert min(cosines[norm]["shift"] for norm in ("none", "batch", "weight")) > 0.1
    assert cosines["none"]["matrix"] > 0.1


@pytest.mark.parametrize("norm", ("none", "weight", "layer"))
@pytest.mark.parametrize("family", FAMILIES)
def test_gain_metric_is_the_gain_block_of_the_fisher_information(norm, family):
    model, x = random_glm(norm, family)
    np.testing.assert_allclose(
        gain_metric(model, x, 0.5), exact_gain_metric(model, x, 0.5), atol=1e-12
    )


def test_gain_metric_of_batch_norm_needs_a_covariance_that_does_not_know_the_data():
    gaussian, x = random_glm("batch", "gaussian")
    np.testing.assert_allclose(gain_metric(gaussian, x), exact_gain_metric(gaussian, x), atol=1e-12)
    bernoulli, x = random_glm("batch", "bernoulli")
    excess = np.diag(gain_metric(bernoulli, x)) / np.diag(exact_gain_metric(bernoulli, x)) - 1
    assert excess.min() > 0.1 and excess.max() < 1.0


def test_gain_metric_of_layer_norm_is_bounded():
    model, x = random_glm("layer", "gaussian")
    for scale in (1e-3, 1.0, 1e3):
        assert np.trace(exact_gain_metric(model, scale * x)) == pytest.approx(5)


@pytest.mark.parametrize(
    "norm, expected", [("batch", 1), ("layer", 1), ("weight", 100), ("none", 100)]
)
def test_gain_metric_grows_with_the_input_unless_batch_or_layer_normalised(norm, expected):
    model, x = random_glm(norm, "gaussian")
    assert gain_metric_growth(model, x, 10.0) == pytest.approx((expected, expected), rel=1e-9)
    if expected == 1:
        bernoulli, x = random_glm(norm, "bernoulli")
        assert gain_metric_growth(bernoulli, x, 10.0) == pytest.approx((1, 1), rel=1e-9)


def test_equation_13_is_refused_without_normalisation():
    with pytest.raises(ValueError, match="Received: norm='none'"):
        fisher_blocks(*random_glm("none"))

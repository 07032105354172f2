"""The length of the weights sets the learning rate of their direction."""

import numpy as np
import pytest

from tf_layernorm.analysis import GLM
from tf_layernorm.analysis.early_stopping import first_angles, teacher_data, train

INPUTS, TARGETS = teacher_data(units=5, inputs=8, cases=400)


def start(norm):
    return GLM(np.random.default_rng(1).normal(size=(5, 8)) / 3, norm=norm, family="bernoulli")


@pytest.mark.parametrize("norm", ["batch", "weight", "layer"])
def test_angle_of_a_step_falls_with_the_square_of_the_length(norm):
    angles = first_angles(start(norm), INPUTS, TARGETS, [1.0, 2.0, 4.0])
    np.testing.assert_allclose(angles / angles[0], [1, 1 / 4, 1 / 16], rtol=1e-4)


def test_angle_of_a_step_without_normalisation_falls_with_the_length_only():
    angles = first_angles(start("none"), INPUTS, TARGETS, [0.01, 0.02], 1e-6)
    assert angles[1] / angles[0] == pytest.approx(1 / 2, rel=0.01)


@pytest.mark.parametrize("norm", ["none", "batch", "weight", "layer"])
def test_training_turns_the_weights_less_and_less_if_normalised(norm):
    run = train(start(norm), INPUTS, TARGETS, steps=400)
    early, late = run.angles[50:100].mean(), run.angles[300:].mean()
    assert run.losses[300:].mean() < run.losses[:20].mean()
    if norm == "none":
        assert late > 0.9 * early and np.diff(run.lengths).min() < 0
    else:
        assert late < 0.75 * early
        assert np.diff(run.lengths).min() > 0  # the gradient is orthogonal to W


def test_a_step_is_one_of_gradient_descent():
    model = start("none")
    run = train(model, INPUTS, TARGETS, steps=2, batch=400, learning_rate=0.5)
    p = 1 / (1 + np.exp(-INPUTS @ model.weights.T))
    moved = model.weights - 0.5 * (p - TARGETS).T @ INPUTS / 400
    nats = -np.log(np.where(TARGETS == 1, p, 1 - p)).sum(1).mean()
    cosine = np.vdot(model.weights, moved) / np.linalg.norm(model.weights) / np.linalg.norm(moved)
    assert run.losses[0] == pytest.approx(nats)
    assert run.lengths == pytest.approx([np.linalg.norm(w) for w in (model.weights, moved)])
    assert run.angles[0] == pytest.approx(np.degrees(np.arccos(cosine)))


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: train(GLM(np.eye(5, 8)), INPUTS, TARGETS), "Received: family='gaussian'"),
        (lambda: train(start("layer"), INPUTS, TARGETS[:, :2]), "Received: targets of shape"),
        (lambda: train(start("layer"), INPUTS, TARGETS / 2), "Received: targets of shape"),
        (lambda: train(start("batch"), INPUTS, TARGETS, batch=1), "batch=1"),
        (lambda: train(start("layer"), INPUTS * np.nan, TARGETS), "Received: inputs="),
    ],
)
def test_senseless_inputs_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()

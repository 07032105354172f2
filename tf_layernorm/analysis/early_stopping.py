"""The implicit early stopping of section 5.2.2: a long weight vector is hard to turn."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import tensorflow as tf

from tf_layernorm._arguments import Tensor
from tf_layernorm.analysis.glm import GLM, natural_tensor
from tf_layernorm.analysis.norms import Array


@dataclass(frozen=True)
class Run:
    """What happened in each step of a training run.

    Args:
        lengths: Frobenius norm of W before the step.
        angles: Angle between W before and after the step, in degrees.
        losses: Negative log-likelihood of the step's cases, in nats per case.
    """

    lengths: Array
    angles: Array
    losses: Array


def teacher_data(
    units: int = 10, inputs: int = 20, cases: int = 2000, seed: int = 0
) -> tuple[Array, Array]:
    """Random cases and Bernoulli labels drawn from a random linear model: `(inputs, targets)`.

    The labels are noisy, so the gradient never dies out, whatever the normalisation.
    """
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(cases, inputs))
    logits = x @ rng.normal(size=(inputs, units)) / 2
    return x, (rng.random(logits.shape) < 1 / (1 + np.exp(-logits))).astype(np.float64)


def train(
    model: GLM,
    inputs: Array,
    targets: Array,
    *,
    steps: int = 2000,
    learning_rate: float = 1.0,
    batch: int = 50,
    seed: int = 0,
) -> Run:
    """Trains a Bernoulli GLM by plain SGD, at a learning rate that never changes.

    Args:
        model: Where to start.
        inputs: The cases, shape `(N, D)`.
        targets: 0 or 1, shape `(N, H)`.
        steps: Number of steps.
        learning_rate: For W, b and g alike.
        batch: Cases per step.
        seed: Seed of the choice of cases.

    Raises:
        ValueError: If the model isn't Bernoulli, or the data don't fit it or aren't finite.
    """
    if model.family != "bernoulli":
        raise ValueError(f"family must be 'bernoulli'. Received: family={model.family!r}")
    fits = model.natural(inputs).shape == np.shape(targets) and np.isin(targets, (0, 1)).all()
    if not fits or not 2 <= batch <= len(inputs):
        raise ValueError(
            "targets must be a 0 or 1 for each case and unit, and a batch 2 cases to all. "
            f"Received: targets of shape {np.shape(targets)}, batch={batch}"
        )
    rng = np.random.default_rng(seed)
    state = [tf.Variable(p) for p in (model.weights, model.bias, model.gain)]
    rate = tf.constant(learning_rate, tf.float64)
    record = []
    for _ in range(steps):
        chosen = rng.choice(len(inputs), batch, replace=False)
        x, y = tf.constant(inputs[chosen]), tf.constant(targets[chosen])
        record.append(_step(model.norm, x, y, rate, *state))
    lengths, angles, losses = np.array(record, np.float64).T
    return Run(lengths, np.degrees(angles), losses)


@tf.function(reduce_retracing=True)
def _step(
    norm: str, x: Tensor, y: Tensor, rate: Tensor, *state: tf.Variable
) -> tuple[Tensor, Tensor, Tensor]:
    with tf.GradientTape() as tape:
        logits = natural_tensor(norm, x, *state)
        nats = tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=logits)
        loss = tf.reduce_mean(tf.reduce_sum(nats, axis=1))
    gradients = tape.gradient(loss, state, unconnected_gradients="zero")
    before = tf.identity(state[0])
    for variable, gradient in zip(state, gradients):
        variable.assign_sub(rate * gradient)
    length = tf.norm(before)
    u, v = before / length, state[0] / tf.norm(state[0])
    # Unlike arccos(u . v), this is exact for small angles.
    return length, 2 * tf.atan2(tf.norm(u - v), tf.norm(u + v)), loss


def first_angles(
    model: GLM, inputs: Array, targets: Array, scales: Sequence[float], learning_rate: float = 1e-3
) -> Array:
    r"""The angle, in degrees, by which one step on all cases turns W when it starts from scale * W.

    In a normalised model the gradient is orthogonal to W and goes with 1 / scale, so the angle goes
    with 1 / scale^2: the length of W sets the learning rate of its direction.

    Args:
        model: A Bernoulli GLM.
        inputs: The cases, shape `(N, D)`.
        targets: 0 or 1, shape `(N, H)`.
        scales: Positive numbers.
        learning_rate: Of the step.
    """
    return np.array(
        [
            train(
                replace(model, weights=scale * model.weights),
                inputs,
                targets,
                steps=1,
                learning_rate=learning_rate,
                batch=len(inputs),
            ).angles[0]
            for scale in scales
        ]
    )

"""Generalised linear models with normalised summed inputs, and their Fisher information."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import tensorflow as tf

from tf_layernorm._arguments import Tensor
from tf_layernorm.analysis.norms import Array, normalized, statistics
from tf_layernorm.normalization import layer_norm


@dataclass(frozen=True)
class Family:
    r"""The $\eta$ of equation (10) and its two derivatives, as functions of $a + b$."""

    eta: Callable[[Array], Array]
    mean: Callable[[Array], Array]
    variance: Callable[[Array], Array]


FAMILIES = {
    "bernoulli": Family(
        lambda z: np.logaddexp(0.0, z),
        lambda z: (1.0 + np.tanh(z / 2)) / 2,
        lambda z: 1.0 / (4 * np.cosh(z / 2) ** 2),
    ),
    "gaussian": Family(lambda z: z**2 / 2, lambda z: z, np.ones_like),
    "poisson": Family(np.exp, np.exp, np.exp),
}


@dataclass(frozen=True)
class GLM:
    r"""H generalised linear models of one input, their summed inputs normalised together.

    $\log P(y \mid x) = \sum_i [z_i y_i - \eta(z_i)] / \phi + c(y, \phi)$, equation (10), with
    $z_i = g_i (a_i - \mu_i) / \sigma_i + b_i$ and $a = W x$. The parameters are
    $\theta = [w_1, b_1, g_1, \dots, w_H, b_H, g_H]$; without normalisation there is no $g$.

    Args:
        weights: $W$, shape `(H, D)`.
        bias: $b$, shape `(H,)`. Defaults to zeros.
        gain: $g$, shape `(H,)`. Defaults to ones.
        norm: "none", "batch" (its statistics are those of the cases it is given), "weight" or
            "layer".
        family: "bernoulli", "gaussian" or "poisson".
        phi: Dispersion: the variance of the Gaussian. 1 for the others.

    Raises:
        ValueError: If a parameter isn't finite or has another shape, if a weight vector is zero,
            or if a single unit is to be layer-normalised.

    Example:
        >>> model = GLM(np.array([[1.0, 0.0], [0.0, 2.0]]), norm="weight", family="bernoulli")
        >>> fisher(model, np.array([[1.0, 2.0]])).shape
        (8, 8)

    References:
        [Ba et al., 2016](https://arxiv.org/abs/1607.06450), section 5.2.2.
    """

    weights: Array
    bias: Array = field(default_factory=lambda: np.zeros(()))
    gain: Array = field(default_factory=lambda: np.ones(()))
    norm: str = "none"
    family: str = "gaussian"
    phi: float = 1.0

    def __post_init__(self) -> None:
        if self.norm not in ("none", "batch", "weight", "layer"):
            raise ValueError(
                f"norm must be 'none', 'batch', 'weight' or 'layer'. Received: norm={self.norm!r}"
            )
        if self.family not in FAMILIES:
            raise ValueError(
                f"family must be one of {list(FAMILIES)}. Received: family={self.family!r}"
            )
        if not self.phi > 0 or (self.phi != 1 and self.family != "gaussian"):
            raise ValueError(
                f"phi must be positive, and 1 for {self.family!r}. Received: phi={self.phi}"
            )
        weights = np.asarray(self.weights, np.float64)
        if weights.ndim != 2 or not np.isfinite(weights).all() or not weights.any(axis=1).all():
            raise ValueError(
                f"weights must be a finite matrix without zero rows. Received: weights={weights}"
            )
        if self.norm == "layer" and len(weights) < 2:
            raise ValueError(f"Layer norm needs at least 2 units. Received: units={len(weights)}")
        object.__setattr__(self, "weights", weights)
        for name in ("bias", "gain"):
            value = np.asarray(getattr(self, name), np.float64)
            if value.shape not in ((), weights.shape[:1]) or not np.isfinite(value).all():
                raise ValueError(
                    f"{name} must be {len(weights)} finite numbers. Received: {name}={value}"
                )
            object.__setattr__(self, name, np.broadcast_to(value, weights.shape[:1]))

    @property
    def block(self) -> int:
        """How many parameters one unit has: $D + 1$, or $D + 2$ with a gain."""
        return self.weights.shape[1] + (1 if self.norm == "none" else 2)

    def natural(self, inputs: Array) -> Array:
        r"""The natural parameters $z$, shape `(N, H)`."""
        if self.norm == "none":
            statistics("none", self.weights, inputs)  # its checks of the inputs
            return inputs @ self.weights.T + self.bias
        return self.gain * normalized(self.norm, self.weights, inputs) + self.bias

    def moved(self, delta: Array) -> "GLM":
        r"""The model at $\theta + \delta$."""
        d = delta.reshape(len(self.weights), self.block)
        size = self.weights.shape[1]
        gain = self.gain if self.norm == "none" else self.gain + d[:, size + 1]
        return replace(
            self, weights=self.weights + d[:, :size], bias=self.bias + d[:, size], gain=gain
        )


def jacobian(model: GLM, inputs: Array) -> Array:
    r"""$\partial z / \partial \theta$ by `tf.GradientTape.jacobian`, shape `(N, H, parameters)`.

    Through all statistics: batch norm's are functions of the weights and the given cases. Layer
    and batch norm are this package's `layer_norm`, over the units and over the cases.
    """
    n, h = model.natural(inputs).shape  # which checks the inputs
    arrays = (inputs, model.weights, model.bias, model.gain)
    parts = _jacobian(model.norm)(*(tf.constant(array, tf.float64) for array in arrays))
    w, b, g = (part.numpy().reshape(n, h, h, -1) for part in parts)
    unit = [w, b] if model.norm == "none" else [w, b, g]
    return np.concatenate(unit, axis=-1).reshape(n, h, -1)


@cache
def _jacobian(norm: str) -> Callable[..., Sequence[Tensor]]:
    """One compiled function for models and data of all sizes: tracing costs more than running."""

    def jacobian_of(x: Tensor, *parameters: Tensor) -> Sequence[Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(parameters)
            z = natural_tensor(norm, x, *parameters)
        return tape.jacobian(z, parameters, unconnected_gradients="zero")

    sizes = [(None, None), (None, None), (None,), (None,)]
    specs = [tf.TensorSpec(size, tf.float64) for size in sizes]
    return tf.function(jacobian_of).get_concrete_function(*specs)


def natural_tensor(norm: str, x: Tensor, weights: Tensor, bias: Tensor, gain: Tensor) -> Tensor:
    """`GLM.natural` in TensorFlow, which can differentiate it."""
    a = tf.matmul(x, weights, transpose_b=True)
    if norm == "none":
        return a + bias
    if norm == "weight":
        return gain * a / tf.norm(weights, axis=1) + bias
    return gain * layer_norm(a, axis=0 if norm == "batch" else -1, epsilon=0.0) + bias


def covariance(model: GLM, inputs: Array, correlation: float = 0.0) -> Array:
    r"""$\mathrm{Cov}[y \mid x] / \phi^2$, shape `(N, H, H)`, by equation (11).

    Args:
        model: The model.
        inputs: The cases, shape `(N, D)`.
        correlation: Of any two outputs given x. The outputs of the paper's H separate models are
            independent; (13) is written for any covariance.
    """
    deviation = np.sqrt(FAMILIES[model.family].variance(model.natural(inputs)) / model.phi)
    units = len(model.weights)
    correlations = (1 - correlation) * np.eye(units) + correlation
    return deviation[:, :, None] * correlations * deviation[:, None, :]


def fisher(model: GLM, inputs: Array, correlation: float = 0.0) -> Array:
    r"""The exact Fisher information (9): $E_x[J^\top \mathrm{Cov}[y \mid x] J] / \phi^2$.

    Args:
        model: The model, with P parameters.
        inputs: The cases over which to take the expectation, shape `(N, D)`.
        correlation: As in `covariance`.

    Returns:
        Shape `(P, P)`, in the order of the parameters.

    References:
        [Ba et al., 2016](https://arxiv.org/abs/1607.06450), equation (9).
    """
    j = jacobian(model, inputs)
    return _quadratic(j, covariance(model, inputs, correlation))


def _quadratic(j: Array, covariances: Array) -> Array:
    flat = (-1, j.shape[-1])
    return j.reshape(flat).T @ (covariances @ j).reshape(flat) / len(j)


def fisher_kronecker(model: GLM, inputs: Array) -> Array:
    r"""Equation (12): $E_x[\mathrm{Cov}[y|x]/\phi^2 \otimes [[x x^\top, x], [x^\top, 1]]]$.

    The Fisher information of the standard, not normalised, model in closed form; the arguments
    and the result are those of `fisher`.
    """
    if model.norm != "none":
        raise ValueError(f"(12) is for models without norm. Received: norm={model.norm!r}")
    covariances = covariance(model, inputs)
    ones = np.concatenate([inputs, np.ones((len(inputs), 1))], axis=1)
    return np.mean([np.kron(c, np.outer(x, x)) for c, x in zip(covariances, ones)], axis=0)


def kl(model: GLM, other: GLM, inputs: Array) -> float:
    r"""$\mathrm{KL}[P(y|x; \theta) \,\|\, P(y|x; \theta')]$, the mean over the cases.

    In an exponential family it is $[\eta(z') - \eta(z) - f(z)(z' - z)] / \phi$, summed over units.
    """
    family = FAMILIES[model.family]
    z, new = model.natural(inputs), other.natural(inputs)
    divergence = family.eta(new) - family.eta(z) - family.mean(z) * (new - z)
    return float(np.mean(np.sum(divergence, axis=1)) / model.phi)

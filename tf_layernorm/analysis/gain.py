"""Equations (32) to (35): the metric along the magnitude of the incoming weights."""

import numpy as np

from tf_layernorm.analysis.glm import GLM, covariance, fisher
from tf_layernorm.analysis.norms import Array, statistics


def gain_metric(model: GLM, inputs: Array, correlation: float = 0.0) -> Array:
    r"""The matrix M of $ds^2 = \frac12 \delta_g^\top M \delta_g$, as printed in (32) to (35).

    With $\hat a = (a - \mu) / \sigma$: layer norm (33), weight norm (34) and the standard model
    along $w_i / \lVert w_i \rVert$ (35) have $E_x[\mathrm{Cov}(y_i, y_j | x) \hat a_i \hat a_j] /
    \phi^2$ (in (35) as in (34), $\hat a_i = a_i / \lVert w_i \rVert$). Batch norm (32) has
    $E_x[\mathrm{Cov}[y | x]] / \phi^2$, which takes $\hat a$ to be independent of the covariance
    and uncorrelated between units.

    Args:
        model: The model.
        inputs: The cases, shape `(N, D)`.
        correlation: As in `covariance`.

    Returns:
        Shape `(H, H)`.

    Example:
        >>> from tf_layernorm.analysis import random_glm
        >>> model, inputs = random_glm("batch", "gaussian")
        >>> bool(np.allclose(gain_metric(model, inputs), np.eye(5)))
        True

    References:
        [Ba et al., 2016](https://arxiv.org/abs/1607.06450), equations (32) to (35).
    """
    covariances = covariance(model, inputs, correlation)
    if model.norm == "batch":
        return covariances.mean(axis=0)
    norm = "weight" if model.norm == "none" else model.norm
    mu, sigma = statistics(norm, model.weights, inputs)
    a_hat = (inputs @ model.weights.T - mu) / sigma
    return np.einsum("nij,ni,nj->ij", covariances, a_hat, a_hat) / len(inputs)


def exact_gain_metric(model: GLM, inputs: Array, correlation: float = 0.0) -> Array:
    r"""`gain_metric` from the exact Fisher information.

    The (g, g) block of a normalised model; of a standard model, $P^\top F P$ with the directions
    $w_i / \lVert w_i \rVert$ in the columns of P.
    """
    information = fisher(model, inputs, correlation)
    units, size = model.weights.shape
    directions = np.zeros((units, model.block, units))
    if model.norm == "none":
        unit = model.weights / np.linalg.norm(model.weights, axis=1, keepdims=True)
        directions[np.arange(units), :size, np.arange(units)] = unit
    else:
        directions[np.arange(units), size + 1, np.arange(units)] = 1.0
    p = directions.reshape(-1, units)
    return p.T @ information @ p


def gain_metric_growth(model: GLM, inputs: Array, factor: float = 10.0) -> tuple[float, float]:
    """How the metric grows when all inputs are multiplied by `factor`.

    Returns:
        The smallest and the largest ratio, over units, of the metric after to before: both 1 if
        it depends on the prediction error alone, `factor**2` if it scales with the input.
    """
    before = np.diag(exact_gain_metric(model, inputs))
    ratio = np.diag(exact_gain_metric(model, factor * inputs)) / before
    return float(ratio.min()), float(ratio.max())

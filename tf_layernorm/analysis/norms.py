"""The normalisations of equation (5) in NumPy float64, straight from the paper."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.float64]

NORMS = {"batch": "batch norm", "weight": "weight norm", "layer": "layer norm", "rms": "RMS norm"}


def statistics(
    norm: str, weights: Array, inputs: Array, epsilon: float = 0.0
) -> tuple[Array, Array]:
    r"""The $\mu$ and $\sigma$ of equation (5), in NumPy, straight from (2) and (3).

    Args:
        norm: "none", "batch", "weight", "layer" or "rms".
        weights: $W$, shape `(H, D)`; its rows are the paper's weight vectors $w_i$.
        inputs: shape `(N, D)`.
        epsilon: Added to the variance (to the squared length of $w_i$ in weight norm).

    Returns:
        `(mu, sigma)`, both broadcastable to the summed inputs, shape `(N, H)`.

    Raises:
        ValueError: If an array isn't finite, or the outputs have no spread to normalise by.

    Example:
        >>> mu, sigma = statistics("layer", np.eye(2), np.array([[1.0, 3.0]]))
        >>> mu.item(), sigma.item()
        (2.0, 1.0)

    References:
        [Ba et al., 2016](https://arxiv.org/abs/1607.06450), equations (2), (3) and (5).
    """
    if norm not in ("none", *NORMS):
        raise ValueError(f"norm must be 'none' or one of {list(NORMS)}. Received: norm={norm!r}")
    for name, array in (("weights", weights), ("inputs", inputs)):
        if np.ndim(array) != 2 or not np.isfinite(array).all():
            raise ValueError(f"{name} must be a finite matrix. Received: {name}={array}")
    if norm == "layer" and len(weights) < 2:
        raise ValueError(
            "Layer norm needs at least 2 units: one unit minus its own mean is 0. "
            f"Received: units={len(weights)}"
        )
    if norm == "batch" and len(inputs) < 2:
        raise ValueError(f"Batch norm needs at least 2 cases. Received: cases={len(inputs)}")
    summed = inputs @ weights.T
    none = np.zeros((1, 1))
    if norm == "none":
        return none, none + 1
    if norm == "weight":
        mu, variance, size = none, np.sum(weights**2, axis=1)[None], none
    else:
        axis = 0 if norm == "batch" else 1
        mu = none if norm == "rms" else summed.mean(axis, keepdims=True)
        variance = np.mean((summed - mu) ** 2, axis, keepdims=True)
        size = np.abs(summed).max(axis, keepdims=True)
    sigma = np.sqrt(variance + epsilon)
    # Equal summed inputs have a variance of rounding errors, not of 0: compare with their size.
    if (sigma <= 1e-12 * size).any():
        raise ValueError(
            f"{NORMS[norm]} divides by 0: a weight vector, a case or the spread of the summed "
            f"inputs is 0. Received: smallest sigma={sigma.min():.3g}"
        )
    return mu, sigma


def normalized(norm: str, weights: Array, inputs: Array, epsilon: float = 0.0) -> Array:
    r"""The normalised summed inputs $(a - \mu) / \sigma$ of equation (5), shape `(N, H)`.

    Gain, bias and nonlinearity come after it and can't see what it is invariant to. Arguments
    and errors are those of `statistics`.
    """
    mu, sigma = statistics(norm, weights, inputs, epsilon)
    return (inputs @ weights.T - mu) / sigma

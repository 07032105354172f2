"""Section 5.2, computed: what normalisation does to the geometry of the parameters."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tf_layernorm.analysis.glm import (
    FAMILIES,
    GLM,
    covariance,
    fisher,
    jacobian,
    kl,
)
from tf_layernorm.analysis.norms import Array, statistics


def random_glm(
    norm: str,
    family: str = "gaussian",
    *,
    units: int = 5,
    inputs: int = 4,
    cases: int = 50,
    seed: int = 0,
) -> tuple[GLM, Array]:
    """A model with random parameters, and random cases: `(model, inputs)`.

    The draws don't depend on `norm` and `family`, so that models can be compared.
    """
    rng = np.random.default_rng(seed)
    model = GLM(
        rng.normal(size=(units, inputs)),
        rng.normal(size=units) / 2,
        rng.uniform(0.5, 1.5, size=units),
        norm,
        family,
    )
    return model, rng.normal(size=(cases, inputs))


def kl_ratios(model: GLM, inputs: Array, sizes: Sequence[float], seed: int = 0) -> Array:
    r"""Equation (8): KL over $\frac12 \delta^\top F \delta$, for a random $\delta$ of each size.

    Args:
        model: The model at $\theta$.
        inputs: The cases, shape `(N, D)`.
        sizes: The lengths of $\delta$; its direction is the same for all.
        seed: Seed of the direction.

    Returns:
        One ratio a size; it goes to 1 as the size goes to 0.

    References:
        [Ba et al., 2016](https://arxiv.org/abs/1607.06450), equation (8).
    """
    information = fisher(model, inputs)
    direction = np.random.default_rng(seed).normal(size=len(information))
    direction /= np.linalg.norm(direction)
    quadratic = direction @ information @ direction / 2
    return np.array(
        [kl(model, model.moved(size * direction), inputs) / (size**2 * quadratic) for size in sizes]
    )


def chi(model: GLM, inputs: Array) -> Array:
    r"""The $\chi$ of equation (14), in closed form.

    $$\chi_i = x - \frac{\partial \mu_i}{\partial w_i}
        - \frac{a_i - \mu_i}{\sigma_i} \frac{\partial \sigma_i}{\partial w_i}$$

    With $\hat a = (a - \mu) / \sigma$ the two derivatives are $E[x]$ and
    $E[\hat a_i (x - E[x])]$ in batch norm, 0 and $w_i / \lVert w_i \rVert$ in weight norm, $x / H$
    and $\hat a_i x / H$ in layer norm.

    Returns:
        Shape `(N, H, D)`.
    """
    a_hat = _a_hat(model, inputs)[..., None]
    x = inputs[:, None]
    if model.norm == "batch":
        centered = x - x.mean(axis=0)
        return centered - a_hat * np.mean(a_hat * centered, axis=0)
    if model.norm == "weight":
        unit = model.weights / np.linalg.norm(model.weights, axis=1, keepdims=True)
        return x - a_hat * unit
    if model.norm == "layer":
        return x * (1 - (1 + a_hat**2) / len(model.weights))
    return np.broadcast_to(x, (*a_hat.shape[:2], x.shape[-1]))


def fisher_blocks(model: GLM, inputs: Array, correlation: float = 0.0) -> Array:
    r"""Equation (13), as printed: blocks $\bar F_{ij}$ made of $\chi_i$ and $\chi_j$ alone.

    Exact for batch and weight norm. For layer norm it leaves out that $\mu$ and $\sigma$ depend
    on all weight vectors: an approximation of order 1/H. Arguments and result are those of
    `fisher`.

    References:
        [Ba et al., 2016](https://arxiv.org/abs/1607.06450), equations (13) and (14).
    """
    if model.norm == "none":
        raise ValueError(f"(13) is for normalised models. Received: norm={model.norm!r}")
    _, sigma = statistics(model.norm, model.weights, inputs)
    a_hat = _a_hat(model, inputs)
    own = np.concatenate(
        [
            (model.gain / sigma)[..., None] * chi(model, inputs),
            np.ones_like(a_hat)[..., None],
            a_hat[..., None],
        ],
        axis=-1,
    )  # [N, H, D + 2]: the derivatives of z_i by w_i, b_i, g_i
    blocks = np.einsum("nij,nip,njq->ipjq", covariance(model, inputs, correlation), own, own)
    size = own.shape[1] * own.shape[2]
    return blocks.reshape(size, size) / len(inputs)


def _a_hat(model: GLM, inputs: Array) -> Array:
    mu, sigma = statistics(model.norm, model.weights, inputs)
    return (inputs @ model.weights.T - mu) / sigma


def scaling_ratios(
    model: GLM,
    inputs: Array,
    *,
    unit: int | None = None,
    factor: float = 2.0,
    correlation: float = 0.5,
) -> dict[str, float]:
    """What scaling weights, which leaves the outputs as they are, does to the Fisher information.

    The paper: doubling a weight vector halves the curvature along it. Exact: see Returns.

    Args:
        model: A normalised model.
        inputs: The cases, shape `(N, D)`.
        unit: The weight vector to scale (batch and weight norm). Defaults to `None`: all.
        factor: What to multiply by.
        correlation: As in `covariance`. Independent outputs have no off-diagonal blocks in batch
            and weight norm, and nothing to take a ratio of.

    Returns:
        For each kind of block, with i among the scaled units, the new block as a multiple of the
        old one. "ww": (w_i, w_i); "ww_off": (w_i, w_j), j another unit, scaled as well or not;
        "mixed": (w_i, b_j) and (w_i, g_j); "bg": blocks without weights.
    """
    scaled = np.arange(len(model.weights)) if unit is None else np.array([unit])
    weights = model.weights.copy()
    weights[scaled] *= factor
    before = fisher(model, inputs, correlation)
    after = fisher(replace(model, weights=weights), inputs, correlation)
    owner = np.repeat(np.arange(len(weights)), model.block)
    is_w = np.tile(np.arange(model.block) < weights.shape[1], len(weights))
    moving = is_w & np.isin(owner, scaled)
    same = owner[:, None] == owner
    kinds = {
        "ww": moving[:, None] & is_w & same,
        "ww_off": moving[:, None] & is_w & ~same,
        "mixed": moving[:, None] & ~is_w,
        "bg": ~is_w[:, None] & ~is_w,
    }
    return {
        kind: float(np.vdot(before[mask], after[mask]) / np.vdot(before[mask], before[mask]))
        for kind, mask in kinds.items()
    }


def radial_gradients(model: GLM, inputs: Array, targets: Array) -> dict[str, float]:
    r"""How far the gradient of the loss is from orthogonal to the directions of scale and shift.

    Args:
        model: The model.
        inputs: The cases, shape `(N, D)`.
        targets: $y$, shape `(N, H)`; the loss is the negative log-likelihood.

    Returns:
        Sizes of cosines between the gradient and, "vector": a weight vector (the largest over
        units), "matrix": the whole matrix, "shift": the same vector added to all weight vectors
        (the best of all vectors).
    """
    error = FAMILIES[model.family].mean(model.natural(inputs)) - targets
    gradient = np.einsum("ni,nip->p", error, jacobian(model, inputs)) / (len(inputs) * model.phi)
    w = model.weights
    dw = gradient.reshape(len(w), -1)[:, : w.shape[1]]
    lengths = np.linalg.norm(w, axis=1) * np.linalg.norm(dw, axis=1)
    return {
        "vector": float(np.max(np.abs(np.sum(w * dw, axis=1)) / lengths)),
        "matrix": float(np.abs(np.sum(w * dw)) / (np.linalg.norm(w) * np.linalg.norm(dw))),
        "shift": float(np.linalg.norm(dw.sum(0)) / (np.sqrt(len(w)) * np.linalg.norm(dw))),
    }


def layer_norm_block_errors(widths: Sequence[int], *, models: int = 10) -> dict[str, Array]:
    r"""What (13) leaves out for layer norm, by the number of units H.

    Args:
        widths: The numbers of units.
        models: How many random models to take the mean over (Gaussian, 4 inputs, 20 cases).

    Returns:
        Each relative to the largest diagonal entry of the exact Fisher information, "off_diagonal":
        the largest entry between two units, where (13) has 0; "diagonal": the largest error within
        a unit's own block. "frobenius": the whole error, relative in the Frobenius norm.
    """
    errors: dict[str, list[float]] = {"off_diagonal": [], "diagonal": [], "frobenius": []}
    for units, seed in itertools.product(widths, range(models)):
        model, inputs = random_glm("layer", units=units, cases=20, seed=seed)
        exact = fisher(model, inputs)
        difference = np.abs(exact - fisher_blocks(model, inputs))
        owner = np.repeat(np.arange(units), model.block)
        same = owner[:, None] == owner
        largest = np.diag(exact).max()
        errors["off_diagonal"].append(difference[~same].max() / largest)
        errors["diagonal"].append(difference[same].max() / largest)
        errors["frobenius"].append(float(np.linalg.norm(difference) / np.linalg.norm(exact)))
    return {k: np.reshape(v, (len(widths), models)).mean(axis=1) for k, v in errors.items()}

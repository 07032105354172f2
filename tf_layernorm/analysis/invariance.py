"""Table 1 of the paper, computed: which normalisation is invariant to which transformation."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tf_layernorm.analysis.norms import NORMS, Array, normalized
from tf_layernorm.analysis.transformations import (
    CHANGES,
    THRESHOLD,
    Draw,
    Invariances,
    largest_changes,
    render,
    transform,
)

# Where each row says yes: in the paper, and for RMS norm in Zhang & Sennrich (2019).
PRINTED = {
    "batch": {"matrix_scale", "vector_scale", "data_scale", "data_shift"},
    "weight": {"matrix_scale", "vector_scale"},
    "layer": {"matrix_scale", "matrix_shift", "data_scale", "case_scale"},
    "rms": {"matrix_scale", "data_scale", "case_scale"},
}


@dataclass(frozen=True)
class Table1:
    """The computed Table 1; `str()` renders it, beside what is printed in the papers."""

    rows: dict[str, Invariances]
    draws: int

    @property
    def agreeing(self) -> int:
        """How many of the 24 verdicts are the printed ones."""
        return sum(
            (change in row.invariant) == (change in PRINTED[norm])
            for norm, row in self.rows.items()
            for change in CHANGES
        )

    def __str__(self) -> str:
        weight_norm = self.rows["weight"].changes["data_scale"]
        sentence_holds = weight_norm < THRESHOLD
        return (
            f"Table 1, computed. Largest change of a normalised summed input over {self.draws} "
            "draws\n(float64, epsilon 0), and whether it is below 1e-9:\n\n"
            f"{render(self.rows.values())}\n\n"
            f"{self.agreeing} of {len(self.rows) * len(CHANGES)} verdicts as printed (batch, weight"
            " and layer norm: Table 1 of the paper;\nRMS norm: Zhang & Sennrich, 2019).\n"
            'Section 5.1 says in a sentence that "all the normalization methods" are invariant to\n'
            "re-scaling the data set. Its own Table 1 says that weight norm is not. The largest\n"
            f"change computed for weight norm is {weight_norm:.2g}: the "
            f"{'sentence' if sentence_holds else 'table'} is right."
        )


def table1(
    draws: int = 100, *, units: int = 5, inputs: int = 4, cases: int = 50, seed: int = 0
) -> Table1:
    """Computes Table 1: four normalisations under six transformations, with an epsilon of 0.

    Args:
        draws: How many times weights, data and each transformation are drawn.
        units: Number of weight vectors.
        inputs: Length of a weight vector.
        cases: Number of cases in the data set.
        seed: Seed of the draws.

    Returns:
        A `Table1`: `rows["layer"].changes["data_scale"]` is a number, `str()` the whole table.

    Raises:
        ValueError: If `units` or `cases` is less than 2, or `inputs` or `draws` less than 1.

    Example:
        >>> table = table1(draws=5)
        >>> sorted(table.rows["weight"].invariant)
        ['matrix_scale', 'vector_scale']

    References:
        [Ba et al., 2016](https://arxiv.org/abs/1607.06450), section 5.1.
    """
    rng = np.random.default_rng(seed)
    return Table1(
        {
            norm: Invariances(
                name, largest_changes(_drawer(norm, 0.0, units, inputs, cases, rng), draws, rng)
            )
            for norm, name in NORMS.items()
        },
        draws,
    )


def epsilon_changes(
    norm: str, change: str, epsilons: Sequence[float], *, draws: int = 100, seed: int = 0
) -> Array:
    """How far an epsilon moves one cell of Table 1: the largest change, by epsilon.

    The summed inputs have a variance of about 4, and every epsilon sees the same draws. Where the
    cell is a "yes", the change is of order epsilon / sigma^2 (not at all if sigma stays as it is,
    as in the re-centerings).

    Args:
        norm: "batch", "weight", "layer" or "rms".
        change: A key of `CHANGES`.
        epsilons: The values to try.
        draws: As in `table1`.
        seed: As in `table1`.

    Example:
        >>> small, large = epsilon_changes("layer", "matrix_scale", [1e-8, 1e-6], draws=5)
        >>> print(round(large / small))
        100
    """
    result = []
    for epsilon in epsilons:
        rng = np.random.default_rng(seed)
        draw = _drawer(norm, epsilon, 5, 4, 50, rng)
        result.append(largest_changes(draw, draws, rng, [change])[change])
    return np.array(result)


def negative_scale(
    norm: str, change: str = "matrix_scale", *, draws: int = 100, seed: int = 0
) -> tuple[float, float]:
    """Table 1 needs a positive scale: a negative one flips the sign of the output.

    Args:
        norm: "batch", "weight", "layer" or "rms".
        change: "matrix_scale" or "data_scale".
        draws: As in `table1`.
        seed: As in `table1`.

    Returns:
        The largest distance over the draws of the transformed output from minus the original,
        and from the original.

    Example:
        >>> from_minus, from_plus = negative_scale("layer", draws=5)
        >>> from_minus < 1e-9, from_plus > 1.0
        (True, True)
    """
    if change not in ("matrix_scale", "data_scale"):
        raise ValueError(
            f"change must be one that scales all outputs, 'matrix_scale' or 'data_scale'. "
            f"Received: change={change!r}"
        )
    rng = np.random.default_rng(seed)
    draw = _drawer(norm, 0.0, 5, 4, 50, rng)
    minus = plus = 0.0
    for _ in range(draws):
        forward, kernels, inputs = draw(change)
        before = forward(kernels, inputs)
        after = forward(*transform(change, kernels, inputs, rng, sign=-1.0))
        minus = max(minus, float(np.abs(after + before).max()))
        plus = max(plus, float(np.abs(after - before).max()))
    return minus, plus


def _drawer(
    norm: str, epsilon: float, units: int, inputs: int, cases: int, rng: np.random.Generator
) -> Draw:
    for name, value, least in (("units", units, 2), ("inputs", inputs, 1), ("cases", cases, 2)):
        if value < least:
            raise ValueError(f"{name} must be at least {least}. Received: {name}={value}")

    def forward(kernels: Sequence[Array], x: Array) -> Array:
        return normalized(norm, kernels[0].T, x, epsilon)

    return lambda change: (
        forward,
        [rng.normal(size=(inputs, units))],
        rng.normal(size=(cases, inputs)),
    )

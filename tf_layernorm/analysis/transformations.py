"""The six transformations of Table 1, and how much an output changes under each."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from tf_layernorm.analysis.norms import Array

Forward: TypeAlias = Callable[[Sequence[Array], Array], Array]
Draw: TypeAlias = Callable[[str], tuple[Forward, Sequence[Array], Array]]

CHANGES = {
    "matrix_scale": ("weight matrix", "re-scaling"),
    "matrix_shift": ("weight matrix", "re-centering"),
    "vector_scale": ("weight vector", "re-scaling"),
    "data_scale": ("data set", "re-scaling"),
    "data_shift": ("data set", "re-centering"),
    "case_scale": ("single case", "re-scaling"),
}
THRESHOLD = 1e-9


@dataclass(frozen=True)
class Invariances:
    """One row of Table 1: the largest output change under each of the six transformations.

    Args:
        name: What was measured.
        changes: Largest change of any output, by transformation (the keys of `CHANGES`).
    """

    name: str
    changes: dict[str, float]

    @property
    def invariant(self) -> set[str]:
        """The transformations that move the output by less than 1e-9."""
        return {key for key, change in self.changes.items() if change < THRESHOLD}

    def __str__(self) -> str:
        return render([self])


def render(rows: Iterable[Invariances]) -> str:
    """Rows of Table 1 as text, under their heading."""
    rows = list(rows)
    width = max(12, *(len(row.name) for row in rows))
    lines = [
        " " * width + "".join(f"{title[part]:>14}" for title in CHANGES.values()) for part in (0, 1)
    ]
    for row in rows:
        cells = (
            f"{'yes' if change in row.invariant else 'no'} {row.changes[change]:7.1e}"
            for change in CHANGES
        )
        lines.append(f"{row.name:<{width}}" + "".join(f"{cell:>14}" for cell in cells))
    return "\n".join(lines)


def transform(
    change: str,
    kernels: Sequence[Array],
    inputs: Array,
    rng: np.random.Generator,
    sign: float = 1.0,
) -> tuple[Sequence[Array], Array]:
    """Applies a random one of the transformations of Table 1 to kernels and inputs.

    Args:
        change: A key of `CHANGES`.
        kernels: Weight matrices in Keras' layout, units last: the paper's weight vectors are
            columns. They change together, as parts of one matrix.
        inputs: Cases along the first axis.
        rng: Draws the factor (2 to 10, or one over it), the shift, the vector and the case.
        sign: -1.0 makes the factor negative.

    Returns:
        The new `(kernels, inputs)`.
    """
    factor = sign * float(rng.uniform(2.0, 10.0)) ** rng.choice([-1, 1])
    if change == "matrix_scale":
        return [factor * kernel for kernel in kernels], inputs
    if change == "matrix_shift":
        shifts = [np.std(k) * rng.normal(size=(*k.shape[:-1], 1)) for k in kernels]
        return [kernel + shift for kernel, shift in zip(kernels, shifts)], inputs
    if change == "vector_scale":
        position = rng.random()
        kernels = [kernel.copy() for kernel in kernels]
        for kernel in kernels:
            kernel[..., int(position * kernel.shape[-1])] *= factor
        return kernels, inputs
    if change == "data_scale":
        return kernels, factor * inputs
    if change == "data_shift":
        return kernels, inputs + np.std(inputs) * rng.normal(size=inputs.shape[1:])
    if change == "case_scale":
        inputs = inputs.copy()
        inputs[rng.integers(len(inputs))] *= factor
        return kernels, inputs
    raise ValueError(f"change must be one of {list(CHANGES)}. Received: change={change!r}")


def largest_changes(
    draw: Draw,
    draws: int,
    rng: np.random.Generator,
    changes: Iterable[str] = tuple(CHANGES),
) -> dict[str, float]:
    """Measures one row of Table 1 for any function of kernels and inputs.

    Args:
        draw: Maps a key of `CHANGES` to a function of kernels and inputs, and to fresh kernels
            and inputs to call it on.
        draws: How many times each transformation is drawn.
        rng: Draws the transformations.
        changes: Which of `CHANGES` to measure.

    Returns:
        For each of them, the largest change of any output over all draws.
    """
    if draws < 1:
        raise ValueError(f"draws must be at least 1. Received: draws={draws}")
    worst = dict.fromkeys(changes, 0.0)
    for change in worst:
        for _ in range(draws):
            forward, kernels, inputs = draw(change)
            moved = forward(*transform(change, kernels, inputs, rng)) - forward(kernels, inputs)
            worst[change] = max(worst[change], float(np.abs(moved).max()))
    return worst

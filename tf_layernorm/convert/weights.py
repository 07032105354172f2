"""Reading arrays under the names and shapes of another library, and writing them into a layer."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from tf_layernorm.recurrent.layer import LNRNN

Array = np.ndarray[Any, Any]
Layer = TypeVar("Layer", bound=LNRNN)


def take(
    source: str, arrays: Mapping[str, Any], shapes: Mapping[str, str], prefix: str = ""
) -> dict[str, Array]:
    """The arrays that `shapes` names, as float64, or a `ValueError`.

    `shapes` are in terms of `D` inputs and `U` units, as `"D, 4U"`. The first array is the kernel
    and the second the recurrent kernel, whose smaller size is U.
    """
    found = {name: np.shape(arrays[key]) for name in shapes if (key := prefix + name) in arrays}
    units = min(found.get(list(shapes)[1], (0,)), default=0)

    def fits(shape: tuple[int, ...], expected: str) -> bool:
        sizes = [size.strip() for size in expected.split(",")]
        wanted = [int(s[:-1] or 1) * units if s.endswith("U") else s for s in sizes]
        return len(shape) == len(wanted) and all(
            w == "D" or int(w) == size for w, size in zip(wanted, shape, strict=True)
        )

    if len(found) < len(shapes) or not all(fits(found[name], shapes[name]) for name in shapes):
        expected = ", ".join(f"{prefix}{name} ({shape})" for name, shape in shapes.items())
        received = {name: np.shape(value) for name, value in arrays.items()}
        raise ValueError(
            f"{source} has the arrays {expected}, of D inputs and U units. Received: {received}"
        )
    return {name: np.asarray(arrays[prefix + name]).astype("float64") for name in shapes}


def reorder(array: Array, order: Sequence[int]) -> Array:
    """The equal blocks of the last axis in another order."""
    blocks = np.split(array, len(order), axis=-1)
    return np.concatenate([blocks[k] for k in order], axis=-1)


def filled(layer: Layer, weights: Sequence[Array], batch_size: int | None = None) -> Layer:
    """The layer, built and given its weights, the first of which is the kernel."""
    # Any number of timesteps will do, and an unrolled layer needs one.
    layer.build((batch_size, 1, len(weights[0])))
    layer.cell.set_weights(weights)
    return layer

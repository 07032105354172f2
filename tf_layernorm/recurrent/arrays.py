"""Tensors over time that a loop fills a step at a time, and what a loop needs of an empty one."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias

import tensorflow as tf

from tf_layernorm._arguments import Tensor

Array: TypeAlias = "tf.TensorArray | Tensor"

_by_scatter = ContextVar("by_scatter", default=False)


@contextmanager
def scatter_arrays() -> Iterator[None]:
    """Loops traced inside write into tensors: LiteRT and tf2onnx can't do TensorArrays.

    Outside XLA each such write may copy the whole tensor.
    """
    token = _by_scatter.set(True)
    try:
        yield
    finally:
        _by_scatter.reset(token)


def scatters() -> bool:
    """Whether `scatter_arrays` is on."""
    return _by_scatter.get()


def arrays_from(values: Sequence[Tensor], steps: Tensor | int) -> list[Array]:
    """Arrays of so many steps with these values at the first."""
    if scatters():
        tensors = [tf.tile(tf.zeros_like(v)[None], [steps, *[1] * len(v.shape)]) for v in values]
        return write(tensors, 0, values)
    arrays = [tf.TensorArray(v.dtype, steps, element_shape=v.shape) for v in values]
    return write(arrays, 0, values)


def arrays_of(tensors: Sequence[Tensor]) -> list[tf.TensorArray]:
    """Arrays that begin as these tensors, and take their place where nothing else needs them."""
    return [
        tf.TensorArray(v.dtype, length(v, 0), element_shape=v.shape[1:]).unstack(v) for v in tensors
    ]


def write(arrays: Sequence[Array], t: Tensor | int, values: Sequence[Tensor]) -> list[Array]:
    """The arrays with these values at step `t`."""
    return [
        tf.tensor_scatter_nd_update(a, [[t]], v[None]) if tf.is_tensor(a) else a.write(t, v)
        for a, v in zip(arrays, values, strict=True)
    ]


def stack(arrays: Sequence[Array]) -> list[Tensor]:
    """The arrays as tensors, time first."""
    return [a if tf.is_tensor(a) else a.stack() for a in arrays]


def length(x: Tensor, axis: int) -> Tensor | int:
    """The size of an axis, as a number where it is known."""
    return tf.shape(x)[axis] if x.shape[axis] is None else x.shape[axis]


def at_least_one_step(x: Tensor, axis: int = 0) -> Tensor:
    """`x`, or one step of zeros, for a loop's body to read where there is none."""
    if x.shape[axis]:
        return x
    padding: list[list[Tensor | int]] = [[0, 0] for _ in x.shape]
    padding[axis][1] = tf.maximum(1 - tf.shape(x)[axis], 0)
    return tf.pad(x, padding)

"""What the two loops over time share: arrays written a step at a time, masks, products."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import tensorflow as tf

from tf_layernorm._arguments import Tensor
from tf_layernorm.recurrent.xla.terms import Saved

_by_scatter = ContextVar("by_scatter", default=False)


@contextmanager
def scatter_buffers() -> Iterator[None]:
    """Loops traced inside write into tensors: LiteRT and tf2onnx can't do our TensorArrays.

    Outside XLA each such write may copy the whole tensor.
    """
    token = _by_scatter.set(True)
    try:
        yield
    finally:
        _by_scatter.reset(token)


def arrays_with(values: Saved, t: Any, steps: Any) -> tuple[Any, ...]:
    """Arrays of so many steps, with these values at step `t` and nothing yet at the others."""
    if _by_scatter.get():
        zeros = tuple(tf.tile(tf.zeros_like(v)[None], [steps, 1, 1]) for v in values)
        return write(zeros, t, values)
    arrays = (tf.TensorArray(v.dtype, steps, element_shape=v.shape) for v in values)
    return write(tuple(arrays), t, values)


def arrays_of(tensors: Saved) -> tuple[Any, ...]:
    """Arrays that begin as these tensors, and take their place where nothing else needs them."""
    return tuple(
        tf.TensorArray(v.dtype, length(v, 0), element_shape=v.shape[1:]).unstack(v) for v in tensors
    )


def write(arrays: tuple[Any, ...], t: Any, values: Saved) -> tuple[Any, ...]:
    return tuple(
        tf.tensor_scatter_nd_update(a, [[t]], v[None]) if tf.is_tensor(a) else a.write(t, v)
        for a, v in zip(arrays, values, strict=True)
    )


def stack(arrays: tuple[Any, ...]) -> Saved:
    return tuple(a if tf.is_tensor(a) else a.stack() for a in arrays)


class Step(NamedTuple):
    """The products with the inputs at step `t`, and what their normalisation multiplies by."""

    p: Tensor  # [T + 1, B, n]
    p_inverse: Tensor | None  # [T + 1, B, parts]
    t: Any

    def read(self) -> tuple[Tensor, Tensor | None]:
        return self.p[self.t], None if self.p_inverse is None else self.p_inverse[self.t]

    def read_in_parts(self, parts: int) -> tuple[list[Tensor], list[Tensor] | None]:
        """`read` with the products in equal parts, and a factor for each normalised part.

        Each is a slice of its own over time: XLA's CPU backend doesn't vectorise a kernel that cuts
        one into several.
        """
        inverse = self.p_inverse
        factors = None if inverse is None else _cut(inverse, self.t, inverse.shape[-1])
        return _cut(self.p, self.t, parts), factors


def _cut(x: Tensor, t: Any, parts: int) -> list[Tensor]:
    size = x.shape[-1] // parts
    shape = [1, tf.shape(x)[1], size]
    return [tf.slice(x, [t, 0, k * size], shape)[0] for k in range(parts)]  # [B, size]


def length(x: Tensor, axis: int) -> Any:
    return tf.shape(x)[axis] if x.shape[axis] is None else x.shape[axis]


def at_least_one_step(x: Tensor, axis: int = 0) -> Tensor:
    """`x`, or one step of zeros, for a loop's body to read where there is none."""
    if x.shape[axis]:
        return x
    padding: list[list[Any]] = [[0, 0] for _ in x.shape]
    padding[axis][1] = tf.maximum(1 - tf.shape(x)[axis], 0)
    return tf.pad(x, padding)


def product(x: Tensor, kernel: Tensor, dtype: Any, **options: Any) -> Tensor:
    return tf.cast(tf.matmul(x, kernel, **options), dtype)


def where(mask: Tensor | None, new: Saved, old: Saved) -> Saved:
    if mask is None:
        return new
    return tuple(tf.where(mask, n, o) for n, o in zip(new, old, strict=True))


def time_major_mask(mask: Tensor | None) -> Tensor | None:
    if mask is None:
        return None
    # Not by an index of None, which LiteRT can't apply to booleans.
    return at_least_one_step(tf.expand_dims(tf.transpose(mask), 2))  # [T, B, 1]


def time_major_shares(share: Tensor | None, n_states: int) -> tuple[Tensor, ...]:
    """Each state's share apart, [T, B or 1, U]: see `Step.read_in_parts`."""
    if share is None:
        return ()
    return tuple(
        at_least_one_step(s) for s in tf.split(tf.transpose(share, [1, 0, 2]), n_states, 2)
    )


def in_dtype(w: Any, dtype: Any) -> Any:
    return w._make(None if v is None else tf.cast(v, dtype) for v in w)

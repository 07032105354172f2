"""The loop over time, forward and backward, for any of the three cells.

The products with the inputs are one product before the loop, and the gradients by both kernels one
product each after it; the backward loop carries the gradients by the states and sums those by the
other weights. Shapes: B batch, T time, D features, U units, n units of all gates.

Tensors over time have one step more than there are, of inputs 0: there the states are the last
ones, and all gradients 0. So the states before each step and the gradients by the products are as
long, and the kernels' gradients are products of whole tensors.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from tf_layernorm._arguments import Tensor
from tf_layernorm.normalization import at_least_float32
from tf_layernorm.recurrent.xla.loop import (
    Step,
    arrays_of,
    arrays_with,
    at_least_one_step,
    in_dtype,
    length,
    product,
    stack,
    time_major_mask,
    time_major_shares,
    where,
    write,
)
from tf_layernorm.recurrent.xla.terms import Saved, batch_sum, center
from tf_layernorm.recurrent.zoneout import share_of, zone_out


class Residuals(NamedTuple):
    """What the backward pass needs of the forward pass, all of it time-major."""

    x: Tensor  # [T + 1, B, D]
    p: Tensor  # [T + 1, B, n], the products with the inputs
    p_inverse: Tensor | None  # [T + 1, B, ...]
    states: Saved  # [T + 1, B, U], before each step
    saved: Saved  # [T + 1, B, ...]


def _kernels(cell: Any, w: Any, dtype: Any) -> list[Tensor]:
    """The kernels in `dtype`; those of normalised products centred, before they lose digits."""
    kernels = (w.kernel, w.recurrent_kernel)
    sizes = cell.sizes(w.recurrent_kernel.shape[0])
    return [
        tf.cast(center(kernel, sizes) if normalized else kernel, dtype)
        for kernel, normalized in zip(kernels, cell.normalizes(w), strict=True)
    ]


def forward_pass(
    cell: Any,
    save: bool,
    x: Tensor,
    states: Saved,
    w: Any,
    mask: Any,
    recurrent_mask: Any,
    share: Any,
) -> tuple[Saved, Residuals]:
    """The last states and the residuals; without `save`, of the steps' results h alone."""
    dtype = at_least_float32(x.dtype.name)
    w = in_dtype(w, dtype)
    kernel, recurrent_kernel = _kernels(cell, w, x.dtype)
    steps, mask, shares = length(x, 1), time_major_mask(mask), time_major_shares(share, len(states))
    x = tf.pad(tf.transpose(x, [1, 0, 2]), [[0, 1], [0, 0], [0, 0]])  # [T + 1, B, D]
    p = product(x, kernel, dtype)
    p_inverse = cell.input_inverse(p, w)

    def step(t: Any, states: Saved) -> tuple[Saved, Saved]:
        h = states[0] if recurrent_mask is None else states[0] * recurrent_mask
        a = product(h, recurrent_kernel, dtype)
        new, saved = cell.forward(Step(p, p_inverse, t), a, states, w)
        new = zone_out(new, states, [s[t] for s in shares]) if shares else new
        new = tuple(tf.cast(n, old.dtype) for n, old in zip(new, states, strict=True))
        new = where(None if mask is None else mask[t], new, states)
        return new, saved if save else ()

    # Only the shapes and dtypes of this one are used: it is no part of the program.
    nothing = tuple(tf.zeros_like(v) for v in step(0, states)[1])
    kept = len(states) if save else 1

    def body(t: Tensor, states: Saved, before: Any, during: Any) -> Any:
        new, saved = step(t, states)
        return t + 1, new, write(before, t + 1, new[:kept]), write(during, t, saved)

    before = arrays_with(states[:kept], 0, steps + 1)
    during = arrays_with(nothing, steps, steps + 1)
    _, last, before, during = tf.while_loop(
        lambda t, *_: t < steps, body, (0, states, before, during)
    )
    return last, Residuals(x, p, p_inverse, stack(before), stack(during))


def backward_pass(
    cell: Any,
    residuals: Residuals,
    states: Saved,
    d_outputs: Tensor | None,
    d_last: Saved,
    w: Any,
    mask: Any,
    recurrent_mask: Any,
    share: Any,
) -> tuple[Tensor, Saved, Any]:
    """Gradients by the inputs, the initial states and the weights."""
    x, p, p_inverse, before, saved = residuals
    given, dtype = w, at_least_float32(x.dtype.name)
    w = in_dtype(w, dtype)
    kernel, recurrent_kernel = _kernels(cell, w, x.dtype)
    # Once, not in the loop: XLA's CPU backend takes longer for a product with a transposed matrix.
    recurrent_transposed = tf.transpose(recurrent_kernel)
    steps, mask = length(x, 0) - 1, time_major_mask(mask)
    shares = time_major_shares(share, len(states))
    if d_outputs is not None:
        d_outputs = at_least_one_step(d_outputs, axis=1)  # [B, T, U]
    a, *kept = saved
    d_states = tuple(tf.cast(d, dtype) for d in d_last)

    def step(
        t: Any, read: Saved, d_states: Saved, counts: Tensor
    ) -> tuple[Saved, Saved, dict[str, Tensor]]:
        if d_outputs is not None:
            d_states = (d_states[0] + tf.cast(d_outputs[:, t], dtype), *d_states[1:])
        at = None if mask is None else mask[t]
        nothing = tuple(tf.zeros_like(d) for d in d_states)
        d_new = d_valid = where(at, d_states, nothing)
        if shares:
            d_new = share_of(d_new, [s[t] for s in shares])
        p_t, a_t = (*read, a[t])[:2]  # a is not among them where both gradients are one
        inputs = p_t, None if p_inverse is None else p_inverse[t]
        old, saved = tuple(s[t] for s in before), (a_t, *(s[t] for s in kept))
        dp, da, d_old, by_weight = cell.backward(d_new, inputs, old, saved, w)
        dh = product(tf.cast(da, x.dtype), recurrent_transposed, dtype)
        if recurrent_mask is not None:
            dh *= tf.cast(recurrent_mask, dtype)
        d_old = (d_old[0] + dh, *d_old[1:])
        if shares:
            d_old = tuple(o + (v - n) for o, v, n in zip(d_old, d_valid, d_new, strict=True))
        if at is not None:
            passed = where(at, nothing, d_states)
            d_old = tuple(d + p for d, p in zip(d_old, passed, strict=True))
        sums = {
            name: batch_sum(d, counts)
            for name, d in by_weight.items()
            if getattr(w, name) is not None
        }
        return d_old, (dp,) if da is dp else (dp, da), sums

    # Only the shapes and dtypes of this one are used: it is no part of the program.
    ones = tf.ones_like(d_states[0][:, 0])
    shapes = step(0, (p[0], a[0]), d_states, ones)
    _, nothing, totals = tf.nest.map_structure(tf.zeros_like, shapes)

    # The gradients by the products take the products' place, a step late: of a tensor that a step
    # reads and then writes XLA makes a copy. So the first step writes 0 past the end, and there is
    # one more than there are: nothing of it counts, and the states' gradients are those before it.
    def body(
        k: Tensor, later: Saved, d_states: Saved, _: Saved, totals: Any, arrays: tuple[Any, ...]
    ) -> Any:
        t = steps - 1 - k
        arrays = write(arrays, t + 1, later)
        t = tf.maximum(t, 0)
        counts = ones * tf.cast(k < steps, dtype)
        read = tuple(array.read(t) for array in arrays)
        d_old, gradients, sums = step(t, read, d_states, counts)
        totals = {name: total + sums[name] for name, total in totals.items()}
        return k + 1, gradients, d_old, d_states, totals, arrays

    # Counted upwards: then XLA knows how often the loop runs, and needn't ask at each step.
    start = 0, nothing, d_states, d_states, totals, arrays_of((p, a)[: len(nothing)])
    _, _, _, d_states, by_weight, arrays = tf.while_loop(lambda k, *_: k <= steps, body, start)
    of_products = tuple(tf.cast(d, x.dtype) for d in stack(arrays))
    dp, da = of_products[0], of_products[-1]

    h = before[0]
    if recurrent_mask is not None:
        h *= recurrent_mask
    sizes = cell.sizes(w.recurrent_kernel.shape[0])
    names, inputs = ("kernel", "recurrent_kernel"), (x, h)
    for name, i, d, normalized in zip(names, inputs, (dp, da), cell.normalizes(w), strict=True):
        gradient = weight_product(i, d, dtype)
        by_weight[name] = center(gradient, sizes) if normalized else gradient
    dx = tf.transpose(product(dp, kernel, x.dtype, transpose_b=True)[:-1], [1, 0, 2])
    d_initial = tuple(tf.cast(d, s.dtype) for d, s in zip(d_states, states, strict=True))
    d_weights = (
        None if v is None else tf.cast(by_weight[name], v.dtype)
        for name, v in zip(given._fields, given, strict=True)
    )
    return dx, d_initial, given._make(d_weights)


def weight_product(inputs: Tensor, d: Tensor, dtype: Any) -> Tensor:
    """The sum over time and batch of the outer products of inputs and gradients."""
    rows = [tf.reshape(v, [-1, v.shape[-1]]) for v in (inputs, d)]  # [TB, n]
    return tf.cast(tf.matmul(rows[0], rows[1], transpose_a=True), dtype)

"""The loop over time, forward and backward, for any of the three cells.

The input part of every step is one product before the loop, and the gradient by `recurrent_kernel`
one product after it; the backward loop carries nothing but the gradients by the states. Shapes: B
batch, T time, D features, U units.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from tf_layernorm._arguments import Tensor
from tf_layernorm.normalization import at_least_float32
from tf_layernorm.recurrent.xla.loop import (
    Buffers,
    at_least_one_step,
    in_dtype,
    length,
    product,
    time_major,
    time_major_mask,
    where,
)
from tf_layernorm.recurrent.xla.terms import (
    Saved,
    gamma_gradient,
    sum_over_steps,
    term,
    term_gradient,
)
from tf_layernorm.recurrent.zoneout import split_share, zone_out


class Residuals(NamedTuple):
    """What the backward pass needs of the forward pass, all of it time-major."""

    x: Tensor  # [T, B, D]
    h: Tensor  # [T, B, U], after each step
    input_saved: Saved  # [T, B, ...]
    saved: Saved  # [T, B, ...]


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
    """The last states and the residuals, of which only h is filled if nothing is to be saved."""
    dtype = at_least_float32(x.dtype.name)
    w = in_dtype(w, dtype)
    units = w.recurrent_kernel.shape[0]
    x = tf.transpose(x, [1, 0, 2])  # [T, B, D]
    steps, mask, share = length(x), time_major_mask(mask), time_major(share)
    gamma = getattr(w, "kernel_gamma", None)
    z, input_saved = term(product(x, w.kernel, dtype), gamma, cell.sizes(units), cell.epsilon)
    if cell.bias(w) is not None:
        z += cell.bias(w)
    z = at_least_one_step(z)

    def step(t: Any, states: Saved) -> tuple[Saved, Saved]:
        h = states[0] if recurrent_mask is None else states[0] * recurrent_mask
        new, saved = cell.forward(z[t], product(h, w.recurrent_kernel, dtype), states, w)
        new = new if share is None else zone_out(new, states, share[t])
        new = tuple(tf.cast(n, old.dtype) for n, old in zip(new, states, strict=True))
        new = where(None if mask is None else mask[t], new, states)
        return new, (new[0], *saved) if save else (new[0],)

    # Only the shapes and dtypes of this one are used: it is no part of the program.
    buffers = Buffers(steps, step(0, states)[1])

    def body(t: Tensor, states: Saved, arrays: Any) -> Any:
        new, written = step(t, states)
        return t + 1, new, buffers.write(arrays, t, written)

    _, last, arrays = tf.while_loop(
        lambda t, *_: t < steps, body, (0, states, buffers.make()), maximum_iterations=steps
    )
    h, *saved = buffers.stack(arrays)
    return last, Residuals(x, h, input_saved, tuple(saved))


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
    x, h, input_saved, saved = residuals
    given, dtype = w, at_least_float32(x.dtype.name)
    w = in_dtype(w, dtype)
    units = w.recurrent_kernel.shape[0]
    steps, mask, share = length(x), time_major_mask(mask), time_major(share)
    if d_outputs is not None:
        d_outputs = at_least_one_step(tf.cast(tf.transpose(d_outputs, [1, 0, 2]), dtype))
    padded = tuple(at_least_one_step(s) for s in saved)

    def step(t: Any, d_states: Saved) -> tuple[Saved, Saved]:
        if d_outputs is not None:
            d_states = (d_states[0] + d_outputs[t], *d_states[1:])
        at = None if mask is None else mask[t]
        nothing = tuple(tf.zeros_like(d) for d in d_states)
        d_new = d_valid = where(at, d_states, nothing)
        if share is not None:
            d_new = tuple(s * d for s, d in zip(split_share(share[t], d_new), d_new, strict=True))
        dz, da, d_old, extra = cell.backward(d_new, tuple(s[t] for s in padded), w)
        dh = product(tf.cast(da, x.dtype), w.recurrent_kernel, dtype, transpose_b=True)
        if recurrent_mask is not None:
            dh *= tf.cast(recurrent_mask, dtype)
        d_old = (d_old[0] + dh, *d_old[1:])
        if share is not None:
            d_old = tuple(o + (v - n) for o, v, n in zip(d_old, d_valid, d_new, strict=True))
        if at is not None:
            passed = where(at, nothing, d_states)
            d_old = tuple(d + p for d, p in zip(d_old, passed, strict=True))
        return d_old, (dz, da, *extra)

    d_states = tuple(tf.cast(d, dtype) for d in d_last)
    buffers = Buffers(steps, step(0, d_states)[1])

    def body(t: Tensor, d_states: Saved, arrays: Any) -> Any:
        d_old, written = step(t, d_states)
        return t - 1, d_old, buffers.write(arrays, t, written)

    _, d_states, arrays = tf.while_loop(
        lambda t, *_: t >= 0, body, (steps - 1, d_states, buffers.make()), maximum_iterations=steps
    )
    dz, da, *extra = buffers.stack(arrays)

    before = tf.concat([states[0][None], h], axis=0)[:-1]  # [T, B, U]
    if recurrent_mask is not None:
        before *= recurrent_mask
    gamma = getattr(w, "kernel_gamma", None)
    dp = tf.cast(term_gradient(dz, gamma, cell.sizes(units), input_saved), x.dtype)
    gradients = {
        **cell.weight_gradients(dz, tuple(extra), saved, w),
        "kernel": weight_product(x, dp, dtype),
        "recurrent_kernel": weight_product(before, tf.cast(da, x.dtype), dtype),
        "kernel_gamma": gamma_gradient(dz, gamma, input_saved),
    }
    if cell.bias(w) is not None:
        gradients["bias"] = sum_over_steps(dz)
    dx = tf.transpose(product(dp, w.kernel, x.dtype, transpose_b=True), [1, 0, 2])
    d_initial = tuple(tf.cast(d, s.dtype) for d, s in zip(d_states, states, strict=True))
    d_weights = (
        None if v is None else tf.cast(gradients[name], v.dtype)
        for name, v in zip(given._fields, given, strict=True)
    )
    return dx, d_initial, given._make(d_weights)


def weight_product(inputs: Tensor, d: Tensor, dtype: Any) -> Tensor:
    """The sum over time and batch of the outer products of inputs and gradients."""
    rows = [tf.reshape(v, [-1, v.shape[-1]]) for v in (inputs, d)]  # [TB, n]
    return tf.cast(tf.matmul(rows[0], rows[1], transpose_a=True), dtype)

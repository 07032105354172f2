"""The recurrence over time, for the step of any cell.

A cell states one step as a function of two *terms*, x = LN(W_x x_t) and h = LN(W_h h_{t-1}), and
the old states. The rest is here: the products with the inputs are one product before the loop, and
the gradients with respect to both kernels one product each after it. The backward loop asks a
`tf.GradientTape` for the gradient of one step, and carries those with respect to the states.

Shapes: B batch, T time, D features, U units, n = gates * U. Tensors over time are time-major.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import tensorflow as tf

from tf_layernorm._arguments import Tensor
from tf_layernorm.normalization import at_least_float32
from tf_layernorm.recurrent.arrays import (
    Array,
    arrays_from,
    arrays_of,
    at_least_one_step,
    length,
    stack,
    write,
)
from tf_layernorm.recurrent.masks import taken, zone_out
from tf_layernorm.recurrent.products import Term, project

if TYPE_CHECKING:
    from tf_layernorm.recurrent.cell import LNCell

States = list[Tensor]
Weights = dict[str, Tensor]


class Constants(NamedTuple):
    """What is given or drawn for a whole sequence and takes no gradient."""

    mask: Tensor | None = None  # [B, T], False where a step leaves the states as they are
    recurrent_mask: Tensor | None = None  # [B, U], dropout of h in the product with it
    shares: tuple[Tensor, ...] = ()  # [B or 1, T, U], what zoneout takes of each new state

    def stopped(self) -> "Constants":
        mask, recurrent_mask = (None if v is None else tf.stop_gradient(v) for v in self[:2])
        return Constants(mask, recurrent_mask, tuple(map(tf.stop_gradient, self.shares)))

    def time_major(self) -> "Constants":
        mask, shares = self.mask, self.shares
        if mask is not None:
            # Not by an index of None, which LiteRT can't apply to booleans.
            mask = at_least_one_step(tf.expand_dims(tf.transpose(mask), 2))  # [T, B, 1]
        shares = tuple(at_least_one_step(tf.transpose(share, [1, 0, 2])) for share in shares)
        return Constants(mask, self.recurrent_mask, shares)

    def at(self, t: Tensor | int) -> tuple[Tensor | None, tuple[Tensor, ...]]:
        """The mask and the shares of one step."""
        return None if self.mask is None else self.mask[t], tuple(s[t] for s in self.shares)


class Residuals(NamedTuple):
    """What the backward pass needs of the forward pass."""

    inputs: Tensor  # [T, B, D]
    x: Tensor  # [T, B, n], W_x x
    x_inverse: Tensor | None  # [T, B, groups], what normalises it
    h: Tensor  # [T, B, n], W_h h
    h_inverse: Tensor | None  # [T, B, groups]
    states: States  # [T + 1, B, U], before each step, and the last ones


class _Pass:
    """What the forward and the backward pass both make of a cell's weights."""

    def __init__(self, cell: "LNCell", dtype: str, weights: Weights) -> None:
        self.dtype = at_least_float32(dtype)
        weights = {name: tf.cast(weight, self.dtype) for name, weight in weights.items()}
        self.kernels = [weights.pop(name) for name in ("kernel", "recurrent_kernel")]
        self.weights = weights
        self.terms: list[Term] = cell.terms(weights)
        self.kernel, self.recurrent_kernel = (
            # Centred before they lose digits.
            tf.cast(term.center(kernel), dtype)
            for term, kernel in zip(self.terms, self.kernels, strict=True)
        )


def forward_pass(
    cell: "LNCell",
    inputs: Tensor,
    states: States,
    weights: Weights,
    constants: Constants,
    *,
    sequences: bool,
    keep: bool = False,
    differentiable: bool = False,
    unroll: bool = False,
) -> tuple[Tensor | None, States, Residuals | None]:
    """Runs a cell over sequences [B, T, D].

    Args:
        cell: The cell.
        inputs: The sequences.
        states: The states to start from, [B, U] each.
        weights: The cell's weights.
        constants: The masks.
        sequences: Whether h after every step is wanted.
        keep: Whether the residuals are.
        differentiable: Whether TensorFlow is to differentiate the loop, and not `backward_pass`.
        unroll: Whether the loop is Python's.

    Returns:
        h after every step, [B, T, U], the last states, and the residuals; None for what isn't
        wanted.
    """
    given, constants = _Pass(cell, inputs.dtype.name, weights), constants.time_major()
    x_term, h_term = given.terms
    steps = length(inputs, 1)
    inputs = at_least_one_step(tf.transpose(inputs, [1, 0, 2]))
    x = project(inputs, given.kernel)
    x_inverse = x_term.inverse(x)
    read = _reader(x, x_inverse, x_term, differentiable, unroll)

    def step(t: Tensor | int, old: States) -> tuple[States, Tensor, Tensor | None]:
        h = old[0] if constants.recurrent_mask is None else old[0] * constants.recurrent_mask
        h = project(h, given.recurrent_kernel)
        h_inverse = h_term.inverse(h)
        x_gates = read(t)
        if differentiable:
            h_gates = h_term(h)
        else:
            h_gates = h_term.gates(tf.split(h, cell.gates, axis=-1), h_inverse)
        wide = [tf.cast(state, given.dtype) for state in old]
        new = cell.step(x_gates, h_gates, wide, given.weights)
        mask, shares = constants.at(t)
        new = zone_out(new, old, shares) if shares else new
        new = [tf.cast(n, o.dtype) for n, o in zip(new, old, strict=True)]
        return _where(mask, new, old), h, h_inverse

    if unroll:
        after = [states[0]]
        for t in range(steps):
            states = step(t, states)[0]
            after.append(states[0])
        return tf.stack(after, axis=1)[:, 1:] if sequences else None, states, None

    # The first arrays hold the states before each step and the last; the others what is kept of h.
    kept = states if keep else states[:1] if sequences else []
    befores = arrays_from(kept, steps + 1)
    during = []
    if keep:
        nothing = tf.zeros_like(x[0])
        inverse = h_term.inverse(nothing)
        during = [nothing] if inverse is None else [nothing, inverse]
        during = arrays_from(during, length(inputs, 0))

    def body(t: Tensor | int, old: States, befores: list[Array], during: list[Array]) -> Any:
        new, *of_h = step(t, old)
        befores = write(befores, t + 1, new[: len(befores)])
        return t + 1, new, befores, write(during, t, of_h[: len(during)])

    # XLA needs a bound to differentiate a loop; to a loop alone it would add a counter.
    bound = tf.maximum(steps, 1) if differentiable else None
    _, last, befores, during = tf.while_loop(
        lambda t, *_: t < steps, body, (0, list(states), befores, during), maximum_iterations=bound
    )
    befores = stack(befores)
    outputs = tf.transpose(befores[0][1:], [1, 0, 2]) if sequences else None
    if not keep:
        return outputs, last, None
    h, *rest = stack(during)
    h_inverse = rest[0] if rest else None
    return outputs, last, Residuals(inputs, x, x_inverse, h, h_inverse, befores)


def backward_pass(
    cell: "LNCell",
    residuals: Residuals,
    d_outputs: Tensor | None,
    d_last: States,
    weights: Weights,
    constants: Constants,
) -> tuple[Tensor, States, Weights]:
    """Gradients with respect to the sequences, the states they start from, and the weights.

    Args:
        cell: The cell.
        residuals: What `forward_pass` kept.
        d_outputs: Gradient with respect to h after every step, [B, T, U]; or None.
        d_last: Gradients with respect to the last states.
        weights: The cell's weights.
        constants: The masks.
    """
    inputs, x, x_inverse, h, h_inverse, states = residuals
    given, constants = _Pass(cell, inputs.dtype.name, weights), constants.time_major()
    x_term, h_term = given.terms
    # Once, not in the loop: XLA's CPU backend takes longer for a product with a transposed matrix.
    transposed = tf.transpose(given.recurrent_kernel)
    steps = length(states[0], 0) - 1
    if d_outputs is not None:
        d_outputs = at_least_one_step(d_outputs, axis=1)
    # Each case has its own, so that their gradients are summed by a product with ones.
    batch = tf.shape(x)[1]
    weights_of_cases = {
        name: tf.tile(w[None], [batch, 1]) if len(w.shape) == 1 else w
        for name, w in given.weights.items()
    }
    ones = tf.ones([batch], given.dtype)

    def total(d: Tensor, weight: Tensor) -> Tensor:
        # XLA's CPU backend adds up a column number by number.
        return tf.linalg.matvec(d, ones, transpose_a=True) if len(weight.shape) == 1 else d

    def step(
        t: Tensor, x: Tensor, h: Tensor, d_states: States
    ) -> tuple[Tensor, Tensor, States, Weights]:
        if d_outputs is not None:
            d_states = [d_states[0] + tf.cast(d_outputs[:, t], given.dtype), *d_states[1:]]
        mask, shares = constants.at(t)
        nothing = [tf.zeros_like(d) for d in d_states]
        d_valid = _where(mask, d_states, nothing)
        d_new = taken(d_valid, shares) if shares else d_valid

        x_factor, h_factor = (None if v is None else v[t] for v in (x_inverse, h_inverse))
        x_gates = x_term.gates(tf.split(x, cell.gates, axis=-1), x_factor)
        h_gates = h_term.gates(tf.split(h, cell.gates, axis=-1), h_factor)
        old = [tf.cast(state[t], given.dtype) for state in states]
        sources = (x_gates, h_gates, old, weights_of_cases)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(sources)
            new = cell.step(x_gates, h_gates, old, weights_of_cases)
        dx, dh, d_old, d_weights = tape.gradient(
            new, sources, d_new, unconnected_gradients=tf.UnconnectedGradients.ZERO
        )
        dx, d_weights["kernel_gamma"] = x_term.gradient(tf.concat(dx, -1), x, x_factor)
        dh, d_weights["recurrent_gamma"] = h_term.gradient(tf.concat(dh, -1), h, h_factor)
        through = project(tf.cast(dh, inputs.dtype), transposed)
        if constants.recurrent_mask is not None:
            through *= tf.cast(constants.recurrent_mask, given.dtype)
        d_old[0] += through
        if shares:
            d_old = [o + (v - n) for o, v, n in zip(d_old, d_valid, d_new, strict=True)]
        if mask is not None:
            d_old = [o + (d - v) for o, d, v in zip(d_old, d_states, d_valid, strict=True)]
        sums = {name: total(d_weights[name], w) for name, w in given.weights.items()}
        return dx, dh, d_old, sums

    # The gradients take the place of what a step has read, a step late: of a tensor that is
    # written after it was read XLA makes a copy, of one that is read after it was written none.
    def body(
        k: Tensor, later: States, d_states: States, sums: Weights, arrays: list[tf.TensorArray]
    ) -> Any:
        t = steps - 1 - k
        arrays = write(arrays, tf.minimum(t + 1, last), later)
        x, h = (array.read(t) for array in arrays)
        *later, d_states, d_weights = step(t, x, h, d_states)
        sums = {name: value + d_weights[name] for name, value in sums.items()}
        return k + 1, later, d_states, sums, arrays

    last = tf.maximum(steps - 1, 0)
    d_states = [tf.cast(d, given.dtype) for d in d_last]
    sums = {name: tf.zeros_like(w) for name, w in given.weights.items()}
    # Counted upwards: then XLA knows how often the loop runs, and needn't ask at each step.
    start = (0, [x[last], h[last]], d_states, sums, arrays_of([x, h]))
    _, later, d_states, d_weights, arrays = tf.while_loop(lambda k, *_: k < steps, body, start)
    dx, dh = (tf.cast(d, inputs.dtype) for d in stack(write(arrays, 0, later)))

    before = states[0][:-1]
    if constants.recurrent_mask is not None:
        before *= constants.recurrent_mask
    rows = (("kernel", inputs, dx), ("recurrent_kernel", before, dh[: length(before, 0)]))
    for (name, rows_in, d), term in zip(rows, given.terms, strict=True):
        d_weights[name] = term.center(_sum_of_outer_products(rows_in, d, given.dtype))
    d_inputs = tf.matmul(dx, given.kernel, transpose_b=True)[: length(before, 0)]
    d_states = [tf.cast(d, state.dtype) for d, state in zip(d_states, states, strict=True)]
    d_weights = {name: tf.cast(d_weights[name], w.dtype) for name, w in weights.items()}
    return tf.transpose(d_inputs, [1, 0, 2]), d_states, d_weights


def _reader(
    x: Tensor, inverse: Tensor | None, term: Term, differentiable: bool, unroll: bool
) -> Callable[[Tensor | int], States]:
    """Reads the gates of LN(W_x x) at a step."""
    gates = sum(term.groups)
    if differentiable:
        # The gradient of a slice would be as large as what it is cut from, at every step.
        x = tf.concat(term(x), axis=-1)
        if unroll:
            rows = tf.unstack(x)
            return lambda t: tf.split(rows[t], gates, axis=-1)
        array = tf.TensorArray(x.dtype, length(x, 0), element_shape=x.shape[1:]).unstack(x)
        return lambda t: tf.split(array.read(t), gates, axis=-1)
    size = x.shape[-1] // gates
    shape = [1, length(x, 1), size]

    def read(t: Tensor | int) -> States:
        # Each by a slice of its own: XLA's CPU backend doesn't vectorise a kernel that cuts one.
        parts = [tf.slice(x, [t, 0, k * size], shape)[0] for k in range(gates)]
        return term.gates(parts, None if inverse is None else inverse[t])

    return read


def _where(mask: Tensor | None, new: States, old: States) -> States:
    if mask is None:
        return new
    return [tf.where(mask, n, o) for n, o in zip(new, old, strict=True)]


def _sum_of_outer_products(inputs: Tensor, d: Tensor, dtype: str) -> Tensor:
    """The sum over time and batch of the outer products of inputs and gradients."""
    inputs, d = (tf.reshape(v, [-1, v.shape[-1]]) for v in (inputs, d))  # [TB, .]
    return tf.cast(tf.matmul(inputs, d, transpose_a=True), dtype)

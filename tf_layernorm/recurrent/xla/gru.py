"""One step of the LN-GRU, equations (26)-(28), and its gradient."""

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tf_layernorm._arguments import Tensor
from tf_layernorm.recurrent.xla.terms import (
    Saved,
    gamma_gradient,
    sum_over_steps,
    term,
    term_gradient,
)


@dataclass(frozen=True)
class GRURecurrence:
    """What `recurrence` needs to know of a GRU; hashable, so that a program is made once."""

    epsilon: float

    def sizes(self, units: int) -> tuple[int, ...]:
        """The parts of the products that are normalised together."""
        return (2 * units, units)

    def bias(self, w: Any) -> Tensor | None:
        """The bias that is added to the input part."""
        return w.bias

    def forward(self, z: Tensor, a: Tensor, states: Saved, w: Any) -> tuple[Saved, Saved]:
        """The new states and what `backward` needs, given input part z and product a = W_h h."""
        sizes = self.sizes(a.shape[-1] // 3)
        h = tf.cast(states[0], a.dtype)
        recurrent, saved = term(a, w.recurrent_gamma, sizes, self.epsilon)
        input_gates, input_candidate = tf.split(z, sizes, axis=-1)
        gates, inner = tf.split(recurrent, sizes, axis=-1)
        if w.recurrent_bias is not None:
            inner += w.recurrent_bias
        gates = tf.tanh((input_gates + gates) * 0.5) * 0.5 + 0.5
        update, reset = tf.split(gates, 2, axis=-1)
        candidate = tf.tanh(input_candidate + reset * inner)
        return ((1 - update) * h + update * candidate,), (gates, candidate, inner, h, *saved)

    def backward(
        self, d_states: Saved, saved: Saved, w: Any
    ) -> tuple[Tensor, Tensor, Saved, Saved]:
        """Gradients by z, a and the old states (but for the product), and what the weights need."""
        (dh,) = d_states
        gates, candidate, inner, h, *terms = saved
        update, reset = tf.split(gates, 2, axis=-1)
        d_candidate = dh * update * (1 - tf.square(candidate))
        outer = tf.concat([dh * (candidate - h), d_candidate * inner], axis=-1)
        d_gates = outer * gates * (1 - gates)
        dz = tf.concat([d_gates, d_candidate], axis=-1)
        d_recurrent = tf.concat([d_gates, d_candidate * reset], axis=-1)
        sizes = self.sizes(h.shape[-1])
        da = term_gradient(d_recurrent, w.recurrent_gamma, sizes, tuple(terms))
        return dz, da, (dh * (1 - update),), (d_recurrent,)

    def weight_gradients(self, dz: Tensor, extra: Saved, saved: Saved, w: Any) -> dict[str, Any]:
        """Gradients by the weights that act inside the loop, over all steps."""
        (d_recurrent,) = extra
        gradients = {"recurrent_gamma": gamma_gradient(d_recurrent, w.recurrent_gamma, saved[4:])}
        if w.recurrent_bias is not None:
            gradients["recurrent_bias"] = sum_over_steps(d_recurrent[..., -saved[3].shape[-1] :])
        return gradients

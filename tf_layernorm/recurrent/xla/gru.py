"""One step of the LN-GRU, equations (26)-(28), and its gradient."""

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tf_layernorm._arguments import Tensor
from tf_layernorm.recurrent.xla.gated import GatedRecurrence
from tf_layernorm.recurrent.xla.terms import Saved, term, term_gradient


@dataclass(frozen=True)
class GRURecurrence(GatedRecurrence):
    """What `recurrence` needs to know of a GRU."""

    def sizes(self, units: int) -> tuple[int, ...]:
        """The parts of the products that are normalised together."""
        return (2 * units, units)

    def _step(
        self,
        p: Tensor,
        p_inverse: Tensor | None,
        a: Tensor,
        a_inverse: Tensor | None,
        w: Any,
    ) -> tuple[Tensor, ...]:
        """Both gates together, the candidate and its inner part, and the normalised products."""
        sizes = self.sizes(a.shape[-1] // 3)
        x, x_normalized = term(p, w.kernel_gamma, p_inverse, sizes)
        h, h_normalized = term(a, w.recurrent_gamma, a_inverse, sizes)
        x = x if w.bias is None else x + w.bias
        input_gates, input_candidate = tf.split(x, sizes, axis=-1)
        gates, inner = tf.split(h, sizes, axis=-1)
        inner = inner if w.recurrent_bias is None else inner + w.recurrent_bias
        gates = tf.tanh((input_gates + gates) * 0.5) * 0.5 + 0.5
        candidate = tf.tanh(input_candidate + gates[..., sizes[1] :] * inner)
        return gates, candidate, inner, x_normalized, h_normalized

    def forward(
        self, p: Tensor, p_inverse: Tensor | None, a: Tensor, states: Saved, w: Any
    ) -> tuple[Saved, Saved]:
        """The new states and what `backward` needs, given the products p = W_x x and a = W_h h."""
        a_inverse = self.inverse(a, w.recurrent_gamma)
        gates, candidate, *_ = self._step(p, p_inverse, a, a_inverse, w)
        update, _ = tf.split(gates, 2, axis=-1)
        h = (1 - update) * tf.cast(states[0], a.dtype) + update * candidate
        return (h,), (a,) if a_inverse is None else (a, a_inverse)

    def backward(
        self,
        d_states: Saved,
        p: Tensor,
        p_inverse: Tensor | None,
        states: Saved,
        saved: Saved,
        w: Any,
    ) -> tuple[Tensor, Tensor, Saved, dict[str, Tensor]]:
        """Gradients by p, a and the old states (but for the product), and by weights, per case.

        The gates are computed again: to read and write them costs more than their one tanh.
        """
        (dh,) = d_states
        a, a_inverse = saved if len(saved) == 2 else (*saved, None)
        gates, candidate, inner, x_normalized, h_normalized = self._step(
            p, p_inverse, a, a_inverse, w
        )
        update, reset = tf.split(gates, 2, axis=-1)
        d_candidate = dh * update * (1 - tf.square(candidate))
        h = tf.cast(states[0], a.dtype)
        outer = tf.concat([dh * (candidate - h), d_candidate * inner], axis=-1)
        d_gates = outer * gates * (1 - gates)
        dz = tf.concat([d_gates, d_candidate], axis=-1)
        d_inner = d_candidate * reset
        d_recurrent = tf.concat([d_gates, d_inner], axis=-1)
        sizes = self.sizes(h.shape[-1])
        dp = term_gradient(dz, w.kernel_gamma, x_normalized, p_inverse, sizes)
        da = term_gradient(d_recurrent, w.recurrent_gamma, h_normalized, a_inverse, sizes)
        by_weight = {
            "bias": dz,
            "recurrent_bias": d_inner,
            "kernel_gamma": dz * x_normalized,
            "recurrent_gamma": d_recurrent * h_normalized,
        }
        return dp, da, (dh * (1 - update),), by_weight

"""One step of the LN-LSTM, equations (20)-(22), and its gradient."""

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tf_layernorm._arguments import Tensor
from tf_layernorm.recurrent.xla.terms import (
    Saved,
    gamma_gradient,
    normalize,
    normalize_gradient,
    sum_over_steps,
    term,
    term_gradient,
)


def _per_gate(units: int, dtype: Any, sigmoid: float, tanh: float) -> Tensor:
    """A value for each sigmoid gate and another for the candidate, in the order i, f, c, o."""
    i, g = tf.fill([2 * units], sigmoid), tf.fill([units], tanh)
    return tf.cast(tf.concat([i, g, i[:units]], axis=0), dtype)


def _activate(x: Tensor) -> Tensor:
    """All four gates by one tanh, with sigmoid(x) = tanh(x / 2) / 2 + 1 / 2."""
    units, dtype = x.shape[-1] // 4, x.dtype
    scale = _per_gate(units, dtype, 0.5, 1.0)
    return tf.tanh(x * scale) * scale + _per_gate(units, dtype, 0.5, 0.0)


@dataclass(frozen=True)
class LSTMRecurrence:
    """What `recurrence` needs to know of an LSTM; hashable, so that a program is made once."""

    epsilon: float
    carry_normalized_state: bool

    def sizes(self, units: int) -> tuple[int, ...]:
        """The parts of the gates' products that are normalised together."""
        return (4 * units,)

    def bias(self, w: Any) -> Tensor | None:
        """The bias that is added to the input part."""
        return w.bias

    def forward(self, z: Tensor, a: Tensor, states: Saved, w: Any) -> tuple[Saved, Saved]:
        """The new states and what `backward` needs, given input part z and product a = W_h h."""
        _, c_prev = states
        recurrent, saved = term(a, w.recurrent_gamma, self.sizes(c_prev.shape[-1]), self.epsilon)
        gates = _activate(z + recurrent)
        i, f, g, o = tf.split(gates, 4, axis=-1)
        c = f * c_prev + i * g
        n: Tensor = c
        state_saved: Saved = ()
        if w.state_gamma is not None:
            state_saved = normalize(c, self.epsilon)
            n = state_saved[0] * w.state_gamma + w.state_beta
        squashed = tf.tanh(n)
        carried = n if self.carry_normalized_state else c
        return (o * squashed, carried), (gates, c_prev, squashed, *saved, *state_saved)

    def backward(
        self, d_states: Saved, saved: Saved, w: Any
    ) -> tuple[Tensor, Tensor, Saved, Saved]:
        """Gradients by z, a and the old states (but for the product), and what the weights need."""
        dh, dc = d_states
        gates, c_prev, squashed, *terms = saved
        i, f, g, o = tf.split(gates, 4, axis=-1)
        dn = dh * o * (1 - tf.square(squashed))
        if self.carry_normalized_state:
            dn, dc = dn + dc, tf.zeros_like(dc)
        dc += dn if w.state_gamma is None else normalize_gradient(dn * w.state_gamma, *terms[-2:])
        # Of all gates at once: s' = s (1 - s) for a sigmoid s, t' = (1 - t) (1 + t) for a tanh t.
        outer = tf.concat([dc * g, dc * c_prev, dc * i, dh * squashed], axis=-1)
        dz = outer * (1 - gates) * (gates + _per_gate(dc.shape[-1], gates.dtype, 0.0, 1.0))
        da = term_gradient(dz, w.recurrent_gamma, self.sizes(c_prev.shape[-1]), tuple(terms[:2]))
        return dz, da, (tf.zeros_like(dh), dc * f), (dn,)

    def weight_gradients(self, dz: Tensor, extra: Saved, saved: Saved, w: Any) -> dict[str, Any]:
        """Gradients by the weights that act inside the loop, over all steps."""
        (dn,), terms = extra, saved[3:]
        gradients = {"recurrent_gamma": gamma_gradient(dz, w.recurrent_gamma, tuple(terms[:2]))}
        if w.state_gamma is not None:
            gradients["state_gamma"] = sum_over_steps(dn * terms[-2])
            gradients["state_beta"] = sum_over_steps(dn)
        return gradients

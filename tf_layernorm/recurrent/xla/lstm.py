"""One step of the LN-LSTM, equations (20)-(22), and its gradient."""

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tf_layernorm._arguments import Tensor
from tf_layernorm.recurrent.xla.gated import GatedRecurrence
from tf_layernorm.recurrent.xla.loop import Step
from tf_layernorm.recurrent.xla.terms import (
    Saved,
    normalize,
    normalize_gradient,
    term,
    term_gradient,
)


def _activate(x: Tensor) -> Tensor:
    """All four gates by one tanh, with sigmoid(x) = tanh(x / 2) / 2 + 1 / 2."""
    units = x.shape[-1] // 4
    sigmoid, tanh = tf.fill([2 * units], 0.5), tf.ones([units])
    scale = tf.cast(tf.concat([sigmoid, tanh, sigmoid[:units]], axis=0), x.dtype)
    return tf.tanh(x * scale) * scale + (1 - scale)


@dataclass(frozen=True)
class LSTMRecurrence(GatedRecurrence):
    """What `recurrence` needs to know of an LSTM."""

    carry_normalized_state: bool

    def sizes(self, units: int) -> tuple[int, ...]:
        """The parts of the products that are normalised together."""
        return (4 * units,)

    def _gates(
        self, p: Tensor, p_inverse: Tensor | None, a: Tensor, a_inverse: Tensor | None, w: Any
    ) -> tuple[Tensor, Tensor, Tensor]:
        sizes = self.sizes(a.shape[-1] // 4)
        x, x_normalized = term(p, w.kernel_gamma, p_inverse, sizes)
        h, h_normalized = term(a, w.recurrent_gamma, a_inverse, sizes)
        z = x + h if w.bias is None else x + h + w.bias
        return _activate(z), x_normalized, h_normalized

    def forward(self, step: Step, a: Tensor, states: Saved, w: Any) -> tuple[Saved, Saved]:
        """The new states and what `backward` needs, given p = W_x x of a step and a = W_h h."""
        a_inverse = self.inverse(a, w.recurrent_gamma)
        gates, _, _ = self._gates(*step.read(), a, a_inverse, w)
        i, f, g, o = tf.split(gates, 4, axis=-1)
        n = c = f * states[1] + i * g
        state_saved: list[Tensor] = []
        if w.state_gamma is not None:
            normalized, *state_saved = normalize(c, self.epsilon)
            n = normalized * w.state_gamma + w.state_beta
        carried = n if self.carry_normalized_state else c
        saved = (a, *state_saved) if a_inverse is None else (a, *state_saved, a_inverse)
        return (o * tf.tanh(n), carried), saved

    def backward(
        self,
        d_states: Saved,
        inputs: tuple[Tensor, Tensor | None],
        states: Saved,
        saved: Saved,
        w: Any,
    ) -> tuple[Tensor, Tensor, Saved, dict[str, Tensor]]:
        """Gradients by p, a and the old states (but for the product), and by weights, per case.

        The gates are computed again: to read and write them costs more than their one tanh.
        """
        dh, dc = d_states
        p, p_inverse = inputs
        a, *others = saved
        a_inverse = None if w.recurrent_gamma is None else others[-1]
        gates, x_normalized, h_normalized = self._gates(p, p_inverse, a, a_inverse, w)
        i, f, g, o = tf.split(gates, 4, axis=-1)
        n = c = f * states[1] + i * g
        if w.state_gamma is not None:
            mean, inverse = others[:2]
            normalized = (c - mean) * inverse
            n = normalized * w.state_gamma + w.state_beta
        squashed = tf.tanh(n)
        dn = dh * o * (1 - tf.square(squashed))
        if self.carry_normalized_state:
            dn, dc = dn + dc, tf.zeros_like(dc)
        if w.state_gamma is None:
            dc += dn
        else:
            dc += normalize_gradient(dn * w.state_gamma, normalized, inverse)
        d_gates = dc * g, dc * states[1], dc * i, dh * squashed
        slopes = i * (1 - i), f * (1 - f), 1 - tf.square(g), o * (1 - o)
        dz = tf.concat([d * s for d, s in zip(d_gates, slopes, strict=True)], axis=-1)
        sizes = self.sizes(dc.shape[-1])
        dp = term_gradient(dz, w.kernel_gamma, x_normalized, p_inverse, sizes)
        da = term_gradient(dz, w.recurrent_gamma, h_normalized, a_inverse, sizes)
        by_weight = {
            "bias": dz,
            "kernel_gamma": dz * x_normalized,
            "recurrent_gamma": dz * h_normalized,
            "state_beta": dn,
        }
        if w.state_gamma is not None:
            by_weight["state_gamma"] = dn * normalized
        return dp, da, (tf.zeros_like(dh), dc * f), by_weight

"""One step of the LN-GRU, equations (26)-(28), and its gradient."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tf_layernorm._arguments import Tensor
from tf_layernorm.recurrent.xla.gated import GatedRecurrence
from tf_layernorm.recurrent.xla.loop import Step
from tf_layernorm.recurrent.xla.terms import Saved, term, term_gradient


@dataclass(frozen=True)
class GRURecurrence(GatedRecurrence):
    """What `recurrence` needs to know of a GRU."""

    def sizes(self, units: int) -> tuple[int, ...]:
        """The parts of the products that are normalised together."""
        return (2 * units, units)

    def _activate(
        self, x: Sequence[Tensor], h: Sequence[Tensor], w: Any
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Both gates, the candidate and its inner part, from the parts of both products."""
        if w.bias is not None:
            x = [part + bias for part, bias in zip(x, tf.split(w.bias, 3), strict=True)]
        update, reset = (tf.tanh((x[k] + h[k]) * 0.5) * 0.5 + 0.5 for k in range(2))
        inner = h[2] if w.recurrent_bias is None else h[2] + w.recurrent_bias
        return update, reset, tf.tanh(x[2] + reset * inner), inner

    def forward(self, step: Step, a: Tensor, states: Saved, w: Any) -> tuple[Saved, Saved]:
        """The new states and what `backward` needs, given p = W_x x of a step and a = W_h h.

        Nothing of the three parts is put together, so that all this is one kernel.
        """
        a_inverse = self.inverse(a, w.recurrent_gamma)
        factors = None if a_inverse is None else tf.split(a_inverse, 2, axis=-1)
        x = _scale(*step.read_in_parts(3), w.kernel_gamma)
        h = _scale(tf.split(a, 3, axis=-1), factors, w.recurrent_gamma)
        update, _, candidate, _ = self._activate(x, h, w)
        new = (1 - update) * tf.cast(states[0], a.dtype) + update * candidate
        return (new,), (a,) if a_inverse is None else (a, a_inverse)

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
        (dh,) = d_states
        p, p_inverse = inputs
        a, a_inverse = saved if len(saved) == 2 else (*saved, None)
        sizes = self.sizes(a.shape[-1] // 3)
        x, x_normalized = term(p, w.kernel_gamma, p_inverse, sizes)
        h, h_normalized = term(a, w.recurrent_gamma, a_inverse, sizes)
        update, reset, candidate, inner = self._activate(
            tf.split(x, 3, axis=-1), tf.split(h, 3, axis=-1), w
        )
        d_candidate = dh * update * (1 - tf.square(candidate))
        d_update = dh * (candidate - tf.cast(states[0], a.dtype)) * update * (1 - update)
        d_inner = d_candidate * reset
        d_reset = d_inner * inner * (1 - reset)
        dz = tf.concat([d_update, d_reset, d_candidate], axis=-1)
        d_recurrent = tf.concat([d_update, d_reset, d_inner], axis=-1)
        dp = term_gradient(dz, w.kernel_gamma, x_normalized, p_inverse, sizes)
        da = term_gradient(d_recurrent, w.recurrent_gamma, h_normalized, a_inverse, sizes)
        by_weight = {
            "bias": dz,
            "recurrent_bias": d_inner,
            "kernel_gamma": dz * x_normalized,
            "recurrent_gamma": d_recurrent * h_normalized,
        }
        return dp, da, (dh * (1 - update),), by_weight


def _scale(
    parts: Sequence[Tensor], factors: Sequence[Tensor] | None, gamma: Tensor | None
) -> Sequence[Tensor]:
    """LN of both gates and the candidate, in parts, given what each norm multiplies by."""
    if factors is None:
        return parts
    gates, candidate = factors
    scaled = zip(parts, (gates, gates, candidate), tf.split(gamma, 3), strict=True)
    return [part * factor * g for part, factor, g in scaled]

"""One step of the LN-RNN, equation (4), and its gradient."""

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
class SimpleRNNRecurrence:
    """What `recurrence` needs to know of a simple RNN; hashable, so that a program is made once."""

    epsilon: float

    def sizes(self, units: int) -> tuple[int, ...]:
        """The parts of the sum that are normalised together."""
        return (units,)

    def bias(self, w: Any) -> Tensor | None:
        """The bias that is added to the input part: none, it acts after the norm of the sum."""
        return None

    def forward(self, z: Tensor, a: Tensor, states: Saved, w: Any) -> tuple[Saved, Saved]:
        """The new states and what `backward` needs, given input part z and product a = W_h h."""
        y, saved = term(z + a, w.gamma, self.sizes(a.shape[-1]), self.epsilon)
        h = tf.tanh(y if w.bias is None else y + w.bias)
        return (h,), (h, *saved)

    def backward(
        self, d_states: Saved, saved: Saved, w: Any
    ) -> tuple[Tensor, Tensor, Saved, Saved]:
        """Gradients by z, a and the old states (but for the product), and what the weights need."""
        (dh,) = d_states
        h, *terms = saved
        dy = dh * (1 - tf.square(h))
        da = term_gradient(dy, w.gamma, self.sizes(h.shape[-1]), tuple(terms))
        return da, da, (tf.zeros_like(dh),), (dy,)

    def weight_gradients(self, dz: Tensor, extra: Saved, saved: Saved, w: Any) -> dict[str, Any]:
        """Gradients by the weights that act inside the loop, over all steps."""
        (dy,) = extra
        gradients = {"gamma": gamma_gradient(dy, w.gamma, saved[1:])}
        if w.bias is not None:
            gradients["bias"] = sum_over_steps(dy)
        return gradients

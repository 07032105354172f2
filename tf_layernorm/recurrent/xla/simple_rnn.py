"""One step of the LN-RNN, equation (4), and its gradient."""

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tf_layernorm._arguments import Tensor
from tf_layernorm.recurrent.xla.loop import Step
from tf_layernorm.recurrent.xla.terms import Saved, inverse_rms, term, term_gradient


@dataclass(frozen=True)
class SimpleRNNRecurrence:
    """What `recurrence` needs to know of a simple RNN; hashable, so that a program is made once."""

    epsilon: float

    def sizes(self, units: int) -> tuple[int, ...]:
        """The parts of the sum that are normalised together."""
        return (units,)

    def normalizes(self, w: Any) -> tuple[bool, bool]:
        """Whether the products with the inputs and with the state are normalised: as one sum."""
        return True, True

    def input_inverse(self, p: Tensor, w: Any) -> None:
        """What the normalisation of the input products needs: nothing, the sum is normalised."""
        return None

    def _step(self, total: Tensor, inverse: Tensor, w: Any) -> tuple[Tensor, Tensor]:
        """The new state and the normalised sum."""
        y, normalized = term(total, w.gamma, inverse, self.sizes(total.shape[-1]))
        return tf.tanh(y if w.bias is None else y + w.bias), normalized

    def forward(self, step: Step, a: Tensor, states: Saved, w: Any) -> tuple[Saved, Saved]:
        """The new states and what `backward` needs, given p = W_x x of a step and a = W_h h."""
        p, _ = step.read()
        total = p + a
        inverse = inverse_rms(total, self.sizes(a.shape[-1]), self.epsilon)
        return (self._step(total, inverse, w)[0],), (total, inverse)

    def backward(
        self,
        d_states: Saved,
        inputs: tuple[Tensor, Tensor | None],
        states: Saved,
        saved: Saved,
        w: Any,
    ) -> tuple[Tensor, Tensor, Saved, dict[str, Tensor]]:
        """Gradients by p, a and the old states (but for the product), and by weights, per case."""
        (dh,) = d_states
        total, inverse = saved
        h, normalized = self._step(total, inverse, w)
        dy = dh * (1 - tf.square(h))
        da = term_gradient(dy, w.gamma, normalized, inverse, self.sizes(h.shape[-1]))
        return da, da, (tf.zeros_like(dh),), {"bias": dy, "gamma": dy * normalized}

"""What the steps of LSTM and GRU share: gates whose two products are normalised apart."""

from dataclasses import dataclass
from typing import Any

from tf_layernorm._arguments import Tensor
from tf_layernorm.recurrent.xla.terms import inverse_rms


@dataclass(frozen=True)
class GatedRecurrence:
    """What `recurrence` needs to know of a cell; hashable, so that a program is made once."""

    epsilon: float

    def sizes(self, units: int) -> tuple[int, ...]:
        """The parts of the products that are normalised together."""
        raise NotImplementedError

    def normalizes(self, w: Any) -> tuple[bool, bool]:
        """Whether the products with the inputs and with the state are normalised."""
        return w.kernel_gamma is not None, w.recurrent_gamma is not None

    def inverse(self, products: Tensor, gamma: Tensor | None) -> Tensor | None:
        """What the normalisation of centred products divides by, inverted; None without gamma."""
        if gamma is None:
            return None
        gates = sum(self.sizes(1))
        return inverse_rms(products, self.sizes(products.shape[-1] // gates), self.epsilon)

    def input_inverse(self, p: Tensor, w: Any) -> Tensor | None:
        """That of the products with the inputs, for all steps at once."""
        return self.inverse(p, w.kernel_gamma)

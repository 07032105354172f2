"""The recurrence as two programs, and the gradient that ties them together."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tf_layernorm._arguments import Tensor
from tf_layernorm.recurrent.recurrence import (
    Constants,
    Residuals,
    States,
    Weights,
    backward_pass,
    forward_pass,
)

if TYPE_CHECKING:
    from tf_layernorm.recurrent.cell import LNCell


class Programs:
    """Both passes of a cell, each to be called as a function that XLA compiles, or as it is.

    Args:
        cell: The cell. Its programs are its own, since its step may be any.
    """

    def __init__(self, cell: "LNCell") -> None:
        def forward(keep: bool, sequences: bool, *arguments: Any) -> Any:
            return forward_pass(cell, *arguments, sequences=sequences, keep=keep)

        def backward(*arguments: Any) -> Any:
            return backward_pass(cell, *arguments)

        self._plain = forward, backward
        # A new batch size or length is no new trace, though XLA compiles it anew.
        self._compiled = tuple(
            tf.function(function, jit_compile=True, reduce_retracing=True, autograph=False)
            for function in self._plain
        )

    def __call__(
        self,
        inputs: Tensor,
        states: States,
        weights: Weights,
        constants: Constants,
        *,
        sequences: bool,
        training: bool,
        compiled: bool,
    ) -> tuple[Tensor | None, States]:
        """Runs the cell over sequences [B, T, D].

        Args:
            inputs: The sequences.
            states: The states to start from, [B, U] each.
            weights: The cell's weights.
            constants: The masks.
            sequences: Whether h after every step is wanted.
            training: Whether a gradient is to be expected: then the forward pass keeps what the
                backward pass needs, else a gradient runs the forward pass again.
            compiled: Whether XLA must compile both passes.

        Returns:
            h after every step, [B, T, U], or None, and the last states.
        """
        forward, backward = self._compiled if compiled else self._plain
        given = (inputs, states, weights)
        constants = constants.stopped()

        def run(
            keep: bool, flat: Sequence[Tensor]
        ) -> tuple[Tensor | None, States, Residuals | None]:
            # An eager tape would differentiate the compiled loop, which XLA can't, but for this.
            flat = [tf.stop_gradient(tensor) for tensor in flat]
            return forward(keep, sequences, *tf.nest.pack_sequence_as(given, flat), constants)

        @tf.custom_gradient
        def passes(*flat: Tensor) -> Any:
            outputs, last, residuals = run(training, flat)

            def gradient(*upstream: Tensor) -> Any:
                kept = residuals if training else run(True, flat)[2]

                @tf.custom_gradient
                def first_order(*flat_and_upstream: Tensor) -> Any:
                    stopped = [tf.stop_gradient(tensor) for tensor in flat_and_upstream]
                    stopped, d = stopped[: len(flat)], stopped[len(flat) :]
                    d_outputs, d_last = (d[0], d[1:]) if sequences else (None, d)
                    _, _, weights = tf.nest.pack_sequence_as(given, stopped)
                    d_given = backward(kept, d_outputs, d_last, weights, constants)

                    def second_order(*_: Tensor) -> Any:
                        raise NotImplementedError(
                            "The fused recurrence has gradients of first order only, in reverse "
                            "mode: make the layer with `use_fused=False`."
                        )

                    return tf.nest.flatten(d_given), second_order

                return first_order(*flat, *upstream)

            return [*([outputs] if sequences else []), *last], gradient

        results = passes(*tf.nest.flatten(given))
        return (results[0], results[1:]) if sequences else (None, results)

"""The fused recurrence: two programs and the gradient that ties them together."""

from functools import cache
from typing import Any

import tensorflow as tf

from tf_layernorm._arguments import Tensor
from tf_layernorm.recurrent.xla.passes import backward_pass, forward_pass


def recurrence(
    cell: Any,
    x: Tensor,
    states: list[Tensor],
    weights: Any,
    mask: Tensor | None,
    recurrent_mask: Tensor | None,
    share: Tensor | None = None,
    *,
    return_sequences: bool,
    training: bool,
    compiled: bool,
) -> tuple[Tensor | None, list[Tensor]]:
    """Runs a cell over a sequence.

    Args:
        cell: An `LSTMRecurrence`, `GRURecurrence` or `SimpleRNNRecurrence`.
        x: Inputs of shape [B, T, D].
        states: Initial states of shape [B, U].
        weights: The cell's named tuple; None for a weight that it doesn't have.
        mask: Boolean [B, T], False where a step leaves the states as they are; or None.
        recurrent_mask: Dropout mask of shape [B, U] for h in the product with it; or None.
        share: What zoneout takes of each new state, [B or 1, T, U] for each, side by side; or None.
        return_sequences: Whether the states after every step are wanted.
        training: Whether a gradient is to be expected: then the forward pass keeps what the
            backward pass needs, else a gradient runs the forward pass again.
        compiled: Whether each pass is a function that XLA must compile.

    Returns:
        All h of shape [B, T, U], or None, and the last states.
    """
    given = [i for i, w in enumerate(weights) if w is not None]
    tensors = [x, *states, *(tf.convert_to_tensor(weights[i]) for i in given)]
    constants = [None if m is None else tf.stop_gradient(m) for m in (mask, recurrent_mask, share)]
    n = len(states)
    sizes = tuple(weights.kernel.shape)

    def unpack(flat: Any) -> tuple[Any, ...]:
        filled = dict(zip(given, flat[1 + n :], strict=True))
        w = weights._make(filled.get(i) for i in range(len(weights)))
        return flat[0], tuple(flat[1 : 1 + n]), w, *constants

    def run(save: bool, flat: Any) -> Any:
        forward = _forward_program(cell, sizes, save, return_sequences, compiled)
        # An eager tape would differentiate the compiled loop, which XLA can't, but for this.
        return forward(*unpack([tf.stop_gradient(tensor) for tensor in flat]))

    @tf.custom_gradient
    def passes(*flat: Tensor) -> Any:
        outputs, last, residuals = run(training, flat)
        results = [*([] if outputs is None else [outputs]), *last]

        def gradient(*upstream: Tensor) -> Any:
            kept = residuals if training else run(True, flat)[2]

            @tf.custom_gradient
            def first_order(*flat_and_upstream: Tensor) -> Any:
                stopped = [tf.stop_gradient(t) for t in flat_and_upstream]
                inputs, d = stopped[: len(flat)], stopped[len(flat) :]
                d_outputs = d[0] if return_sequences else None
                _, _, *rest = unpack(inputs)
                backward = _backward_program(cell, sizes, compiled)
                grads = backward(kept, inputs[1 : 1 + n], d_outputs, d[-n:], *rest)

                def second_order(*_: Tensor) -> Any:
                    raise NotImplementedError(
                        "The fused recurrence has no second-order gradients: make the layer with "
                        "`use_fused=False`."
                    )

                return [g for g in tf.nest.flatten(grads) if g is not None], second_order

            return first_order(*flat, *upstream)

        return results, gradient

    (*outputs,) = passes(*tensors)
    return (outputs[0] if return_sequences else None), outputs[-n:]


def _compile(function: Any) -> Any:
    # A new batch size or length is no new trace, though XLA compiles it anew. The programs are kept
    # apart by the sizes of the weights, so that those stay known.
    return tf.function(function, jit_compile=True, reduce_retracing=True, autograph=False)


@cache
def _forward_program(
    cell: Any, sizes: tuple[int, ...], save: bool, return_sequences: bool, compiled: bool
) -> Any:
    def forward(*arguments: Any) -> Any:
        last, residuals = forward_pass(cell, save, *arguments)
        outputs = tf.transpose(residuals.states[0][1:], [1, 0, 2]) if return_sequences else None
        return outputs, last, residuals if save else None

    return _compile(forward) if compiled else forward


@cache
def _backward_program(cell: Any, sizes: tuple[int, ...], compiled: bool) -> Any:
    def backward(*arguments: Any) -> Any:
        return backward_pass(cell, *arguments)

    return _compile(backward) if compiled else backward

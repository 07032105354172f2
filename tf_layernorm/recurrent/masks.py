"""Dropout and zoneout: what is drawn for a sequence, or for a step of a cell by hand.

Zoneout (Krueger et al., 2016, arXiv:1606.01305): at random, units keep their previous state. It
acts on what a step has computed, so no step knows of it. The share of each new state that is taken
is 0 or 1 in training, and its expectation, one minus the rate, at inference.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from keras import ops

from tf_layernorm import _random
from tf_layernorm._arguments import Tensor, check_rate


def check_zoneout(zoneout: Any, n_states: int) -> tuple[float, ...]:
    """The rate of each state, none if all are 0; or a `ValueError`."""
    rates = tuple(zoneout) if isinstance(zoneout, (list, tuple)) else (zoneout,) * n_states
    if len(rates) != n_states:
        raise ValueError(
            f"`zoneout` must be a number, or {n_states} of them. Received: zoneout={zoneout!r}"
        )
    rates = tuple(check_rate("zoneout", rate) for rate in rates)
    return rates if any(rates) else ()


def dropout_mask(like: Tensor, rate: float, seed: Tensor) -> Tensor:
    """For every entry of `like`, 0 at that rate, else what keeps the expectation."""
    seed = tf.cast(seed, "int32")
    numbers = _random.draw(tf.random.stateless_uniform, ops.shape(like), seed, "float32")
    return tf.cast(numbers >= rate, like.dtype) / (1 - rate)


def taken(new: Sequence[Tensor], shares: Sequence[Tensor]) -> list[Tensor]:
    """What of each new state is taken."""
    return [tf.cast(s, n.dtype) * n for n, s in zip(new, shares, strict=True)]


def zone_out(
    new: Sequence[Tensor], old: Sequence[Tensor], shares: Sequence[Tensor]
) -> list[Tensor]:
    """The new states as far as their shares say, the old ones for the rest; exact for 0 and 1."""
    rest = zip(taken(new, shares), old, shares, strict=True)
    return [n + (1 - tf.cast(s, n.dtype)) * tf.cast(o, n.dtype) for n, o, s in rest]

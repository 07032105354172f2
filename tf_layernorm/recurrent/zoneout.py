"""Zoneout (Krueger et al., 2016, arXiv:1606.01305): at random, units keep their previous state.

It acts on what a step has computed, so no step knows of it. The share of each new value that is
taken is 0 or 1 in training, and its expectation, one minus the rate, at inference.
"""

from typing import Any

import tensorflow as tf

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


def share_of(new: Any, shares: Any) -> tuple[Tensor, ...]:
    """What of each new state is taken."""
    return tuple(tf.cast(s, n.dtype) * n for n, s in zip(new, shares, strict=True))


def zone_out(new: Any, old: Any, shares: Any) -> tuple[Tensor, ...]:
    """The new states as far as their shares say, the old ones for the rest; exact for 0 and 1."""
    rest = zip(share_of(new, shares), old, shares, strict=True)
    return tuple(n + (1 - tf.cast(s, n.dtype)) * tf.cast(o, n.dtype) for n, o, s in rest)

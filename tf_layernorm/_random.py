"""Random numbers that are the same on one device and on several."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tf_layernorm._arguments import Tensor


def draw(
    sample: Callable[..., Tensor], shape: Sequence[Any], seed: Tensor, dtype: str, axis: int = 0
) -> Tensor:
    """This replica's share of what `sample`, one of `tf.random.stateless_*`, gives for them all.

    All replicas draw alike, so each draws for all of them and takes its own. Together they have
    what one device would draw for the whole batch, which lies along `axis` of `shape`.
    """
    replica = tf.distribute.get_replica_context()
    count, index = 1, 0
    if replica is not None:  # None in a strategy's scope, outside its `run`
        count, index = replica.num_replicas_in_sync, replica.replica_id_in_sync_group
    shape = [*shape[:axis], count, *shape[axis:]]
    # XLA's own choice gives the same numbers, but can take 40 times as long on a CPU.
    return tf.gather(sample(shape, seed, dtype=dtype, alg="philox"), index, axis=axis)

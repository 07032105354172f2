"""`--strategy`: the same training on several devices, each of which takes its share of a batch."""

import functools
from collections.abc import Sequence

import tensorflow as tf

STRATEGIES = ("mirrored", "tpu")


def make_strategy(name: str | None, batch_sizes: Sequence[int]) -> tf.distribute.Strategy:
    """The `tf.distribute` strategy whose scope a run stands in.

    An update is that of one device on the whole batch, up to rounding, but for what a replica takes
    from its own share alone: the statistics of batch norm.

    Args:
        name: `"mirrored"`: all local GPUs, or where there is none all logical CPUs. `"tpu"`: the
            TPU that TensorFlow finds; nobody has tried it. `None`: TensorFlow's default, one
            device.
        batch_sizes: The sizes of the batches that it will see.

    Returns:
        The strategy.

    Raises:
        ValueError: If `name` is unknown, there is no such device, or a batch doesn't
            split evenly over the devices, so that some cases would count for more than others.
    """
    if name is None:
        return tf.distribute.get_strategy()
    if name not in STRATEGIES:
        raise ValueError(
            f"`strategy` must be one of {', '.join(STRATEGIES)}. Received: strategy={name!r}"
        )
    if name == "mirrored":
        strategy = _mirrored()
    else:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect()
        strategy = tf.distribute.TPUStrategy(resolver)
    replicas = strategy.num_replicas_in_sync
    sizes = list(dict.fromkeys(batch_sizes))
    if any(size % replicas for size in sizes):
        raise ValueError(
            f"A batch must split evenly over the {replicas} devices of the strategy. "
            f"Received: strategy={name!r}, batch sizes {', '.join(map(str, sizes))}"
        )
    return strategy


# One a process: TensorFlow mixes up the collective operations of two over the same devices.
@functools.cache
def _mirrored() -> tf.distribute.MirroredStrategy:
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    return tf.distribute.MirroredStrategy([device.name for device in devices])


def described(name: str | None, strategy: tf.distribute.Strategy) -> str | None:
    """What `summary.json` says of the strategy; `None` for one device."""
    return None if name is None else f"{name}, {strategy.num_replicas_in_sync} replicas"

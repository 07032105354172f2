"""The order in which training sees its cases: epoch e's depends on the seed and on e alone."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf


def shuffled_epochs(
    count: int,
    seed: int,
    first_epoch: int,
    epoch: Callable[[tf.Tensor], tf.data.Dataset],
) -> tf.data.Dataset:
    """Epoch after epoch without end, each in an order that `(seed, its number)` alone decides.

    So a resumed run sees what an uninterrupted one would have seen.

    Args:
        count: Number of cases.
        seed: Seed of the order.
        first_epoch: The epoch to begin with.
        epoch: Makes an epoch's dataset from an order, an int32 tensor `(count,)` of places.

    Returns:
        The datasets of all epochs, one after the other.

    Example:

    >>> import tensorflow as tf
    >>> from tf_layernorm.data.order import shuffled_epochs
    >>> cases = shuffled_epochs(3, 1, 0, tf.data.Dataset.from_tensor_slices)
    >>> sorted(int(i) for i in cases.take(3))
    [0, 1, 2]
    """

    def shuffled(number: tf.Tensor) -> tf.data.Dataset:
        both = tf.stack([tf.constant(seed, tf.int64), number])
        return epoch(tf.random.experimental.stateless_shuffle(tf.range(count), seed=both))

    return tf.data.Dataset.range(first_epoch, np.iinfo(np.int64).max).flat_map(shuffled)


def shuffled_batches(
    part: Sequence[Any], batch_size: int, seed: int, first_epoch: int = 0, *, chunk: int = 0
) -> tf.data.Dataset:
    """Batches of arrays that lie in memory, epoch after epoch without end, whole ones only.

    Args:
        part: Arrays of one length, such as `(images, labels)`.
        batch_size: Cases a batch.
        seed: Seed of the order, see `shuffled_epochs`.
        first_epoch: The epoch to begin with.
        chunk: How many batches make one element, on a leading axis. Defaults to `0`: an element is
            a batch, without that axis.

    Returns:
        A dataset of tuples such as `(images, labels)`, in the dtypes of `part`.

    Raises:
        ValueError: If an epoch doesn't make a whole number of chunks.
    """
    count = len(part[0])
    steps = count // batch_size
    if steps == 0 or steps % max(chunk, 1):
        raise ValueError(
            f"An epoch of {count:,} cases must hold a whole number of chunks of whole batches. "
            f"Received: batch_size={batch_size}, chunk={max(chunk, 1)}"
        )
    shape = (steps // chunk, chunk, batch_size) if chunk else (steps, batch_size)

    def epoch(order: tf.Tensor) -> tf.data.Dataset:
        whole = tf.reshape(order[: steps * batch_size], shape)
        return tf.data.Dataset.from_tensor_slices(whole)

    return _gathered(part, shuffled_epochs(count, seed, first_epoch, epoch))


def batches_in_order(part: Sequence[Any], batch_size: int) -> tf.data.Dataset:
    """One pass over arrays in their order, the last batch as small as it comes.

    Args:
        part: Arrays of one length, such as `(images, labels)`.
        batch_size: Cases a batch.

    Returns:
        A dataset of tuples such as `(images, labels)`, in the dtypes of `part`.
    """
    return _gathered(part, tf.data.Dataset.range(len(part[0])).batch(batch_size))


def without_autotuner(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The dataset without `tf.data`'s autotuner, for whose sleep the end of an iterator waits.

    That sleep doubles each time.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


def _gathered(part: Sequence[Any], indices: tf.data.Dataset) -> tf.data.Dataset:
    arrays = [tf.constant(array) for array in part]
    dataset = indices.map(lambda i: tuple(tf.gather(array, i) for array in arrays))
    return without_autotuner(dataset.prefetch(2))

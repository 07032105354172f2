"""Sequences of unequal length in batches of a few lengths, so that XLA compiles a few programs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf


def bucket_by_length(
    dataset: tf.data.Dataset,
    lengths: Sequence[int],
    batch_size: int,
    *,
    drop_remainder: bool = False,
) -> tf.data.Dataset:
    """Batches sequences with others of like length, padded with zeros to one of `lengths`.

    XLA compiles a program for each shape. Padded to the longest of a batch, sequences have as many
    shapes as lengths; padded to a few lengths, a few. What is left of a bucket at the end makes a
    smaller batch, which is a further shape: `drop_remainder=True` leaves it out.

    Args:
        dataset: Elements are sequences `(T, ...)`, or tuples whose first part is one.
        lengths: The lengths to pad to, increasing; the last is the longest that may come.
        batch_size: Sequences a batch.
        drop_remainder: Whether to leave out batches smaller than that. Defaults to `False`.

    Returns:
        A dataset of `(sequences, mask)`, or of `((sequences, mask), *rest)`: the sequences of shape
        `(batch, length, ...)`, the mask Boolean `(batch, length)`, False at the padding.

    Raises:
        ValueError: If an argument is out of its range.
        tf.errors.InvalidArgumentError: When a sequence is longer than the last of `lengths`.

    Example:

    >>> import numpy as np, tensorflow as tf
    >>> from tf_layernorm.data.buckets import bucket_by_length
    >>> sequences = [np.ones((n, 2), "float32") for n in (3, 5, 9, 4)]
    >>> dataset = tf.data.Dataset.from_generator(
    ...     lambda: iter(sequences), output_signature=tf.TensorSpec((None, 2)))
    >>> [x.shape.as_list() for x, mask in bucket_by_length(dataset, (5, 10), 3)]
    [[3, 5, 2], [1, 10, 2]]
    """
    lengths = [int(length) for length in lengths]
    if not lengths or lengths[0] < 1 or np.any(np.diff(lengths) <= 0):
        raise ValueError(f"`lengths` must be positive and increasing. Received: lengths={lengths}")
    if batch_size < 1:
        raise ValueError(f"`batch_size` must be at least 1. Received: batch_size={batch_size}")

    def with_mask(*parts: Any) -> Any:
        sequence, *rest = parts
        length = tf.shape(sequence)[0]
        message = f"A sequence is longer than the last of lengths={lengths}."
        with tf.control_dependencies(
            [tf.debugging.assert_less_equal(length, lengths[-1], message)]
        ):
            pair = (tf.identity(sequence), tf.ones([length], tf.bool))
        return (pair, *rest) if rest else pair

    def length_of(first: Any, *rest: Any) -> tf.Tensor:
        # Without further parts the pair itself is the element, and the mask its second part.
        mask = first[1] if isinstance(first, tuple) else rest[0]
        return tf.shape(mask)[0]

    return dataset.map(with_mask, num_parallel_calls=tf.data.AUTOTUNE).bucket_by_sequence_length(
        length_of,
        # It pads to one less than the boundary; nothing can be in the bucket behind the last.
        bucket_boundaries=[length + 1 for length in lengths],
        bucket_batch_sizes=[batch_size] * (len(lengths) + 1),
        pad_to_bucket_boundary=True,
        drop_remainder=drop_remainder,
    )

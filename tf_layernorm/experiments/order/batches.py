"""Batches of pairs: each image once a pass, with one of its captions."""

from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from tf_layernorm.data.captions import Pairs
from tf_layernorm.data.order import without_autotuner
from tf_layernorm.data.words import Vocabulary, pad

MULTIPLE = 8  # lengths of batches are rounded up to it, so that XLA compiles a few programs


@dataclass(frozen=True)
class Encoded:
    """Pairs as numbers.

    Attributes:
        images: `(N, ...)`.
        ids: int32 `(N, K, T)`, words and, as the last of each caption, the end; then padding.
        lengths: int32 `(N, K)`, the end counted.
    """

    images: np.ndarray
    ids: np.ndarray
    lengths: np.ndarray

    def __len__(self) -> int:
        return len(self.ids)


def encode(pairs: Pairs, vocabulary: Vocabulary, length: int) -> Encoded:
    """Pairs as numbers; captions of more than `length - 1` words are cut, and end there."""
    flat = [
        vocabulary.encode(caption.split()[: length - 1])
        for captions in pairs.captions
        for caption in captions
    ]
    ids, lengths = pad(flat)
    shape = (len(pairs), pairs.captions_per_image)
    return Encoded(pairs.images, ids.reshape(*shape, -1), lengths.reshape(shape))


def rounded_up(length: int, longest: int) -> int:
    """The next multiple of 8, but no more than the longest there is."""
    return min(-(-length // MULTIPLE) * MULTIPLE, longest)


def order_of_pass(count: int, captions: int, seed: int, number: int) -> tuple[np.ndarray, ...]:
    """The order of the images in a pass, and the caption that each comes with.

    It depends on `(seed, number)` alone.

    Args:
        count: Number of images.
        captions: Captions of each.
        seed: The run's.
        number: Of the pass, from 0.

    Returns:
        Two arrays `(count,)`, the second by place in the order.
    """
    rng = np.random.default_rng((seed, number))
    return rng.permutation(count), rng.integers(captions, size=count)


def training_batches(
    pairs: Encoded, batch_size: int, seed: int, first_update: int = 0
) -> tf.data.Dataset:
    """The batches to train on from an update on, without end.

    A pass visits each image once, in random order, with one of its captions at random; so no image
    is twice in a batch, where it would count as wrong for its own caption. What a pass leaves for
    a last, smaller batch is dropped.

    Args:
        pairs: The pairs.
        batch_size: Pairs a batch.
        seed: The run's.
        first_update: Number of the first batch, from 0. A run that goes on from there sees what an
            uninterrupted one would have seen.

    Returns:
        A dataset of `({"images", "words", "mask"}, zeros)`; the zeros stand where Keras wants
        targets. A batch is as long as its longest caption, rounded up to a multiple of 8.

    Raises:
        ValueError: If there are fewer images than a batch takes.
    """
    steps = len(pairs) // batch_size
    if batch_size < 1 or steps < 1:
        raise ValueError(
            f"`batch_size` must be at least 1 and at most the number of images, {len(pairs):,}. "
            f"Received: batch_size={batch_size}"
        )
    captions, longest = pairs.ids.shape[1:]
    start, skipped = divmod(first_update, steps)

    def one_pass(number: tf.Tensor) -> tf.data.Dataset:
        def numbers(number: np.ndarray) -> tuple[np.ndarray, ...]:
            images, chosen = order_of_pass(len(pairs), captions, seed, int(number))
            kept = steps * batch_size
            return images[:kept], chosen[:kept]

        rows = tf.numpy_function(numbers, [number], (tf.int64, tf.int64), stateful=False)
        shaped = [tf.reshape(row, (steps, batch_size)) for row in rows]
        return tf.data.Dataset.from_tensor_slices(tuple(shaped))

    def gather(images: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, ...]:
        lengths = pairs.lengths[images, chosen]
        length = rounded_up(int(lengths.max()), longest)
        # From a memory-mapped file this reads these rows alone.
        return pairs.images[images], pairs.ids[images, chosen, :length], lengths

    def batch(images: tf.Tensor, chosen: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        types = (pairs.images.dtype, tf.int32, tf.int32)
        pictures, ids, lengths = tf.numpy_function(gather, [images, chosen], types, stateful=False)
        pictures.set_shape((batch_size, *pairs.images.shape[1:]))
        ids.set_shape((batch_size, None))
        lengths.set_shape((batch_size,))
        mask = tf.sequence_mask(lengths, tf.shape(ids)[1])
        return {"images": pictures, "words": ids, "mask": mask}, tf.zeros((batch_size, 1))

    passes = tf.data.Dataset.range(start, np.iinfo(np.int64).max)
    return without_autotuner(passes.flat_map(one_pass).skip(skipped).map(batch).prefetch(2))

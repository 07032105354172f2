"""The order in which training sees its cases."""

import numpy as np
import pytest
import tensorflow as tf

from tf_layernorm.data.order import batches_in_order, shuffled_batches


def numbered(count):
    """Digits whose label is their place."""
    return np.repeat(np.arange(count, dtype=np.uint8)[:, None], 784, 1), np.arange(count)


def epochs_of(dataset, steps, count):
    """The labels of each of the first `count` epochs, in the order of training."""
    rows = [labels.numpy().ravel() for _, labels in dataset.take(steps * count)]
    return np.concatenate(rows).reshape(count, -1).tolist()


def test_batches_show_each_digit_once_an_epoch_in_another_order():
    first, second = epochs_of(shuffled_batches(numbered(12), 4, 1), 3, 2)
    assert sorted(first) == sorted(second) == list(range(12))
    assert first != second


def test_batches_order_depends_on_seed_and_epoch_alone():
    whole = epochs_of(shuffled_batches(numbered(12), 4, 1), 3, 3)
    assert epochs_of(shuffled_batches(numbered(12), 4, 1, 2), 3, 1) == whole[2:]
    assert epochs_of(shuffled_batches(numbered(12), 4, 2), 3, 1) != whole[:1]


def test_batches_in_chunks_hold_the_same_digits():
    plain = epochs_of(shuffled_batches(numbered(24), 4, 1), 6, 2)
    assert epochs_of(shuffled_batches(numbered(24), 4, 1, chunk=3), 2, 2) == plain
    images, labels = next(iter(shuffled_batches(numbered(24), 4, 1, chunk=3)))
    assert images.shape == (3, 4, 784) and images.dtype == tf.uint8 and labels.shape == (3, 4)
    np.testing.assert_array_equal(images[..., 0], labels)


def test_batches_in_order_pass_once():
    labels = [labels.numpy().tolist() for _, labels in batches_in_order(numbered(5), 2)]
    assert labels == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize("options", [{"chunk": 2}, {"batch_size": 13}], ids=str)
def test_batches_refuse_what_does_not_fit(options):
    with pytest.raises(ValueError, match="Received: batch_size="):
        shuffled_batches(numbered(12), **{"batch_size": 4, "seed": 1, **options})

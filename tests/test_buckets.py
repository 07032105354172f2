"""Batches of a few lengths."""

import numpy as np
import pytest
import tensorflow as tf

from tf_layernorm.data.buckets import bucket_by_length

LENGTHS = (3, 5, 9, 4, 10, 1, 2)


def sequences(with_targets: bool) -> tf.data.Dataset:
    def elements():
        for n in LENGTHS:
            sequence = np.full((n, 2), n, "float32")
            yield (sequence, n) if with_targets else sequence

    spec = tf.TensorSpec((None, 2))
    signature = (spec, tf.TensorSpec((), tf.int32)) if with_targets else spec
    return tf.data.Dataset.from_generator(elements, output_signature=signature)


@pytest.mark.parametrize("with_targets", [False, True])
def test_every_sequence_comes_once_in_the_shortest_bucket_that_holds_it(with_targets):
    seen = []
    for element in bucket_by_length(sequences(with_targets), (5, 10), 2):
        (x, mask), targets = element if with_targets else (element, None)
        assert x.shape[1] in (5, 10)
        for row, kept in zip(x.numpy(), mask.numpy()):
            n = kept.sum()
            assert x.shape[1] == (5 if n <= 5 else 10)
            np.testing.assert_array_equal(kept, np.arange(len(kept)) < n)
            np.testing.assert_array_equal(row, np.where(kept[:, None], n, 0) * np.ones(2))
            seen.append(n)
        if with_targets:
            np.testing.assert_array_equal(targets, mask.numpy().sum(axis=1))
    assert sorted(seen) == sorted(LENGTHS)


def test_drop_remainder_leaves_whole_batches_only():
    batches = list(bucket_by_length(sequences(False), (5, 10), 2, drop_remainder=True))
    assert sorted(x.shape[:2].as_list() for x, _ in batches) == [[2, 5], [2, 5], [2, 10]]


def test_a_sequence_longer_than_the_last_length_is_an_error():
    with pytest.raises(tf.errors.InvalidArgumentError, match="longer than the last of lengths"):
        list(bucket_by_length(sequences(False), (5, 9), 2))


@pytest.mark.parametrize("lengths", [(), (0, 5), (5, 5), (10, 5)])
def test_lengths_must_be_positive_and_increase(lengths):
    with pytest.raises(ValueError, match="Received: lengths="):
        bucket_by_length(sequences(False), lengths, 2)


def test_batch_size_must_be_positive():
    with pytest.raises(ValueError, match="Received: batch_size=0"):
        bucket_by_length(sequences(False), (5,), 0)

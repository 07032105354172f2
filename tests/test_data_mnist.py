"""The digits: parts, sources, and the order in which training sees them."""

import os
import socket
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tf_layernorm.data.mnist import FILES, batches, load_mnist, load_packaged


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*_):
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture(scope="module")
def packaged():
    return load_packaged()


def test_packaged_digits_are_stratified_and_disjoint(packaged):
    parts = (packaged.train, packaged.validation, packaged.test)
    counts = [np.bincount(labels).tolist() for _, labels in parts]
    assert counts == [[350] * 10, [50] * 10, [100] * 10]
    images = np.concatenate([images for images, _ in parts])
    assert images.shape == (5000, 784) and images.dtype == np.uint8
    assert len(np.unique(images, axis=0)) == 5000


def test_packaged_split_is_fixed(packaged):
    np.testing.assert_array_equal(load_packaged().test[0], packaged.test[0])


def test_mnist_from_the_original_files(tmp_path, no_network):
    root = os.environ.get("TF_LAYERNORM_DATA")
    if root is None:
        pytest.skip("needs MNIST's files in the folder mnist under $TF_LAYERNORM_DATA")
    digits = load_mnist(Path(root) / "mnist", prepared_dir=tmp_path)
    parts = (digits.train, digits.validation, digits.test)
    assert [images.shape for images, _ in parts] == [(55000, 784), (5000, 784), (10000, 784)]
    counts = np.bincount(np.concatenate([digits.train[1], digits.validation[1]]))
    assert counts.tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(digits.test[1]).tolist() == [
        980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009,
    ]  # fmt: skip
    assert "original files" in digits.source
    # Prepared now, so it is found without the files.
    prepared = load_mnist(prepared_dir=tmp_path)
    np.testing.assert_array_equal(prepared.validation[0], digits.validation[0])


def test_mnist_unprepared_is_refused_without_a_network(tmp_path, no_network):
    with pytest.raises(ValueError, match="Received: data_dir=None"):
        load_mnist(prepared_dir=tmp_path)


def test_mnist_refuses_a_folder_that_lacks_a_file(tmp_path, no_network):
    for name in FILES[:3]:
        (tmp_path / name).touch()
    with pytest.raises(ValueError, match=f"{FILES[3]}.*Received: data_dir="):
        load_mnist(tmp_path, prepared_dir=tmp_path / "prepared")


def numbered(count):
    """Digits whose label is their place."""
    return np.repeat(np.arange(count, dtype=np.uint8)[:, None], 784, 1), np.arange(count)


def epochs_of(dataset, steps, count):
    """The labels of each of the first `count` epochs, in the order of training."""
    rows = [labels.numpy().ravel() for _, labels in dataset.take(steps * count)]
    return np.concatenate(rows).reshape(count, -1).tolist()


def test_batches_show_each_digit_once_an_epoch_in_another_order():
    first, second = epochs_of(batches(numbered(12), 4, seed=1), 3, 2)
    assert sorted(first) == sorted(second) == list(range(12))
    assert first != second


def test_batches_order_depends_on_seed_and_epoch_alone():
    whole = epochs_of(batches(numbered(12), 4, seed=1), 3, 3)
    assert epochs_of(batches(numbered(12), 4, seed=1, first_epoch=2), 3, 1) == whole[2:]
    assert epochs_of(batches(numbered(12), 4, seed=2), 3, 1) != whole[:1]


def test_batches_in_chunks_hold_the_same_digits():
    plain = epochs_of(batches(numbered(24), 4, seed=1), 6, 2)
    assert epochs_of(batches(numbered(24), 4, seed=1, chunk=3), 2, 2) == plain
    images, labels = next(iter(batches(numbered(24), 4, seed=1, chunk=3)))
    assert images.shape == (3, 4, 784) and images.dtype == tf.uint8 and labels.shape == (3, 4)
    np.testing.assert_array_equal(images[..., 0], labels)


def test_batches_without_a_seed_pass_once_in_order():
    labels = [labels.numpy().tolist() for _, labels in batches(numbered(5), 2)]
    assert labels == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize("options", [{"chunk": 2}, {"batch_size": 13}], ids=str)
def test_batches_refuse_what_does_not_fit(options):
    with pytest.raises(ValueError, match="Received: batch_size="):
        batches(numbered(12), **{"batch_size": 4, "seed": 1, **options})

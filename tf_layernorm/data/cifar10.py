"""CIFAR-10 through TensorFlow Datasets: prepared there, or from the archive that you downloaded."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

ARCHIVE = "cifar-10-binary.tar.gz"


@dataclass(frozen=True)
class Images:
    """Labelled images in three parts, each `(images (n, 32, 32, 3) uint8, labels (n,) int32)`."""

    train: tuple[np.ndarray, np.ndarray]
    validation: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]
    source: str  # what the images are and where they came from, for people

    @property
    def cases(self) -> dict[str, int]:
        """The number of images of each part."""
        return {part: len(getattr(self, part)[1]) for part in ("train", "validation", "test")}


def load_cifar10(
    data_dir: str | Path | None = None,
    *,
    download: bool = False,
    prepared_dir: str | Path | None = None,
) -> Images:
    """CIFAR-10: 45,000 / 5,000 / 10,000 images of ten classes.

    Validation is `train[:5000]` in TFDS' order.

    Args:
        data_dir: Folder with `cifar-10-binary.tar.gz`; only read. `None`: not used.
        download: Whether TFDS may fetch the archive if the images are not prepared yet.
        prepared_dir: Where TFDS keeps prepared data. Defaults to TFDS' own folder.

    Returns:
        The `Images`.

    Raises:
        ValueError: If the data isn't prepared, `data_dir` lacks the archive and `download` is off.

    References:
        [Krizhevsky, 2009](https://www.cs.toronto.edu/~kriz/cifar.html)
    """
    import tensorflow_datasets as tfds

    builder = tfds.builder("cifar10", data_dir=prepared_dir)
    source = "CIFAR-10 through TFDS"
    if data_dir is not None:
        if not (Path(data_dir) / ARCHIVE).is_file():
            raise ValueError(
                f"`data_dir` must hold {ARCHIVE}, as cs.toronto.edu/~kriz/cifar.html gives it. "
                f"Received: data_dir={str(data_dir)!r}"
            )
        source += " from the original archive"
        config = tfds.download.DownloadConfig(manual_dir=data_dir, try_download_gcs=False)
        builder.download_and_prepare(download_config=config)
    elif download:
        builder.download_and_prepare()
    elif not builder.is_prepared():
        raise ValueError(
            f"CIFAR-10 is not prepared here. Give --data-dir, a folder with {ARCHIVE}, or "
            f"--download. Received: data_dir=None, looked in {builder.data_path}"
        )

    def read(split: str) -> tuple[np.ndarray, np.ndarray]:
        dataset = builder.as_dataset(split=split, batch_size=-1, shuffle_files=False)
        images, labels = tfds.as_numpy((dataset["image"], dataset["label"]))
        return images, labels.astype(np.int32)

    source += ": 45,000 / 5,000 / 10,000 images, validation is train[:5000] in TFDS' order"
    return Images(read("train[5000:]"), read("train[:5000]"), read("test"), source)

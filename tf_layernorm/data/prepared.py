"""Preparing a data set through TFDS from files that the user has."""

from pathlib import Path
from typing import Any


def prepare_from(builder: Any, data_dir: str | Path) -> None:
    """Lets a TFDS builder prepare its data from a folder, without a network.

    Args:
        builder: The builder.
        data_dir: Folder with the raw files; only read.

    Raises:
        ValueError: If TFDS can't read the files, as where one is damaged.
    """
    import tensorflow_datasets as tfds

    config = tfds.download.DownloadConfig(manual_dir=data_dir, try_download_gcs=False)
    try:
        builder.download_and_prepare(download_config=config)
    # Of many kinds (wrong checksums, gzip's, zlib's, of the file system), and of no common class.
    except Exception as error:
        said = str(error).splitlines() or [type(error).__name__]
        raise ValueError(
            f"`data_dir` must hold whole files of {builder.name}. "
            f"Received: data_dir={str(data_dir)!r}, {said[0]}"
        ) from error

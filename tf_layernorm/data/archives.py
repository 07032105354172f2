"""The files of a user's own download, packed or unpacked, and what TFDS prepares of them."""

import hashlib
import tarfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any


def read_files(place: Path, wanted: Callable[[str], object]) -> Iterator[tuple[str, bytes]]:
    """Path and contents of the files in a folder or a .tar.gz whose paths are wanted.

    Those of a folder come in the order of their paths, those of an archive in its own.

    Raises:
        ValueError: If an archive is cut off or damaged.
    """
    if place.is_dir():
        for path in sorted(place.rglob("*")):
            if path.is_file() and wanted(path.as_posix()):
                yield str(path), path.read_bytes()
        return
    try:
        with tarfile.open(place) as archive:
            for member in archive:
                if member.isfile() and wanted(member.name):
                    content = archive.extractfile(member)
                    assert content is not None
                    yield f"{place}/{member.name}", content.read()
            # The check sum stands behind the last member.
            while archive.fileobj is not None and archive.fileobj.read(2**20):
                pass
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        reason = " ".join(str(error).split())
        raise ValueError(
            f"Expected a whole .tar.gz archive; this one is cut off or damaged ({reason}). "
            f"Received: {str(place)!r}"
        ) from error


def prepare(
    kind: Any, folder: Path, places: Sequence[Path], prepared_dir: str | Path | None = None
) -> Any:
    """A TFDS builder of the files in a folder, prepared.

    Other files, told by their names and sizes, are prepared anew and apart.

    Args:
        kind: The builder's class.
        folder: What the builder reads, its `manual_dir`.
        places: The files and folders in it that hold the data.
        prepared_dir: Where TFDS keeps prepared data. Defaults to TFDS' own folder.
    """
    import tensorflow_datasets as tfds  # takes seconds

    paths = sorted({path for place in places for path in [place, *place.rglob("*")]})
    sizes = [
        f"{path.relative_to(folder)} {path.stat().st_size}" for path in paths if path.is_file()
    ]
    key = hashlib.sha256("\n".join(sizes).encode()).hexdigest()[:12]
    config = tfds.core.BuilderConfig(name=f"files_{key}")
    builder = kind(config=config, data_dir=prepared_dir)
    if not builder.is_prepared():
        download = tfds.download.DownloadConfig(manual_dir=folder, try_download_gcs=False)
        builder.download_and_prepare(download_config=download)
    return builder

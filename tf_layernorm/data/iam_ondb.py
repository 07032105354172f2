"""IAM-OnDB, handwritten English lines as movements of a pen, through TFDS."""

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from tf_layernorm.data import archives
from tf_layernorm.data.iam_ondb_files import HOMEPAGE, INSTRUCTIONS, LISTS, read_splits, sources
from tf_layernorm.data.pen import Line

# As Graves (2013): 10,741 lines to train on, 1,438 to validate with.
GRAVES_TRAIN, GRAVES_VALIDATION = "train+validation_2+test", "validation_1"
CITATION = """\
@inproceedings{liwicki2005iam,
  title={{IAM-OnDB} -- an on-line {E}nglish sentence database acquired from handwritten text on a
         whiteboard},
  author={Liwicki, Marcus and Bunke, Horst},
  booktitle={Proc. 8th Int. Conf. on Document Analysis and Recognition},
  pages={956--961},
  year={2005}
}"""


class IamOndb(tfds.core.GeneratorBasedBuilder):
    """IAM-OnDB from the user's own copy of its archives, in the four splits of its task 1.

    An example is a line: `offsets` float32 `(T, 2)` from the point before, y upwards, the first
    zero; `end_of_stroke` bool `(T,)`; `text`, `writer` and `form`, texts. `info.metadata` counts
    the forms of each list and what was left out.

    Example::

        import tensorflow_datasets as tfds
        import tf_layernorm.data.iam_ondb  # makes the name known

        config = tfds.download.DownloadConfig(manual_dir="folder/of/the/archives")
        lines = tfds.load("iam_ondb", split="train",
                          download_and_prepare_kwargs={"download_config": config})

    References:

    * [Liwicki and Bunke, 2005](https://doi.org/10.1109/ICDAR.2005.132)
    """

    VERSION = tfds.core.Version("1.0.0")
    MANUAL_DOWNLOAD_INSTRUCTIONS = INSTRUCTIONS

    def _info(self) -> Any:
        pen = {
            "offsets": tfds.features.Tensor(shape=(None, 2), dtype=np.float32, encoding="zlib"),
            "end_of_stroke": tfds.features.Tensor(shape=(None,), dtype=np.bool_, encoding="zlib"),
        }
        texts = {name: tfds.features.Text() for name in ("text", "writer", "form")}
        return tfds.core.DatasetInfo(
            builder=self,
            description="Lines of English text written on a whiteboard, as movements of the pen.",
            features=tfds.features.FeaturesDict(pen | texts),
            homepage=HOMEPAGE,
            citation=CITATION,
            metadata=tfds.core.MetadataDict(),
        )

    def _split_generators(self, dl_manager: Any) -> Any:
        splits, counts = read_splits(Path(dl_manager.manual_dir))
        self.info.metadata.update(counts)
        return {name: self._generate_examples(lines) for name, lines in splits.items()}

    def _generate_examples(self, lines: dict[str, dict[str, Any]]) -> Any:
        yield from lines.items()


def prepare(folder: str | Path, prepared_dir: str | Path | None = None) -> Any:
    """The prepared TFDS builder of the files in a folder.

    Other files, told by their names and sizes, are prepared anew and apart.

    Args:
        folder: Where the archives are, packed or unpacked; only read.
        prepared_dir: Where TFDS keeps prepared data. Defaults to TFDS' own folder.

    Raises:
        ValueError: If a file is absent, cut off or of another layout than expected.
    """
    return archives.prepare(IamOndb, Path(folder), sources(Path(folder)), prepared_dir)


def read(
    folder: str | Path, prepared_dir: str | Path | None = None
) -> tuple[str, list[Line], list[Line], dict[str, float]]:
    """Graves' training and validation lines.

    Returns:
        What the lines are, for people; those to train on; those to validate with; and counts of
        what was left out.

    Raises:
        ValueError: If a file is absent, cut off or of another layout than expected.
    """
    builder = prepare(folder, prepared_dir)
    counts = dict(builder.info.metadata)

    def lines(split: str) -> list[Line]:
        rows = tfds.as_numpy(builder.as_dataset(split=split, shuffle_files=False))
        return [
            Line(row["offsets"], row["end_of_stroke"], row["text"].decode(), row["writer"].decode())
            for row in rows
        ]

    original = all(counts[f"forms in {name}"] == forms for name, forms in LISTS.values())
    source = "IAM-OnDB" if original else "lines in the layout of IAM-OnDB, but not IAM-OnDB"
    return source, lines(GRAVES_TRAIN), lines(GRAVES_VALIDATION), counts

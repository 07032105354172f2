"""UNIPEN's handwritten English lines, as movements of a pen, through TFDS."""

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from tf_layernorm.data import archives
from tf_layernorm.data.pen import Line
from tf_layernorm.data.unipen_files import HOMEPAGE, INSTRUCTIONS, SITES, read_lines, sources
from tf_layernorm.data.unipen_lines import HZ, THINNED, describe, thin

CITATION = """\
@inproceedings{guyon1994unipen,
  title={{UNIPEN} project of on-line data exchange and recognizer benchmarks},
  author={Guyon, Isabelle and Schomaker, Lambert and Plamondon, R{\\'e}jean and Liberman, Mark and
          Janet, Stan},
  booktitle={Proc. 12th Int. Conf. on Pattern Recognition},
  pages={29--33},
  year={1994}
}"""


class Unipen(tfds.core.GeneratorBasedBuilder):
    """Written lines of English text from the user's own copy of UNIPEN's train_r01_v07.

    An example is a line: `offsets` float32 `(T, 2)` from the point before, y upwards, the first
    zero; `end_of_stroke` bool `(T,)`; `text` and `writer`, texts; `points_per_second` int32. They
    are the segments of category 8, text, of the sites bba, bbb, bbc, bbd, cec and sta that are one
    written line. There is no split but `train`: split by writer. `info.metadata` counts the
    segments of each site and what was left out.

    Example::

        import tensorflow_datasets as tfds
        import tf_layernorm.data.unipen  # makes the name known

        config = tfds.download.DownloadConfig(manual_dir="folder/of/the/archive")
        lines = tfds.load("unipen", split="train",
                          download_and_prepare_kwargs={"download_config": config})

    References:

    * [Guyon et al., 1994](https://doi.org/10.1109/ICPR.1994.576870)
    """

    VERSION = tfds.core.Version("1.0.0")
    MANUAL_DOWNLOAD_INSTRUCTIONS = INSTRUCTIONS

    def _info(self) -> Any:
        features = {
            "offsets": tfds.features.Tensor(shape=(None, 2), dtype=np.float32, encoding="zlib"),
            "end_of_stroke": tfds.features.Tensor(shape=(None,), dtype=np.bool_, encoding="zlib"),
            "text": tfds.features.Text(),
            "writer": tfds.features.Text(),
            "points_per_second": tfds.features.Scalar(dtype=np.int32),
        }
        return tfds.core.DatasetInfo(
            builder=self,
            description="Lines of English text, as movements of the pen.",
            features=tfds.features.FeaturesDict(features),
            homepage=HOMEPAGE,
            citation=CITATION,
            metadata=tfds.core.MetadataDict(),
        )

    def _split_generators(self, dl_manager: Any) -> Any:
        lines, counts = read_lines(Path(dl_manager.manual_dir))
        self.info.metadata.update(counts)
        return {"train": self._generate_examples(lines)}

    def _generate_examples(self, lines: dict[str, dict[str, Any]]) -> Any:
        yield from lines.items()


def prepare(folder: str | Path, prepared_dir: str | Path | None = None) -> Any:
    """The prepared TFDS builder of the files in a folder.

    Other files, told by their names and sizes, are prepared anew and apart.

    Args:
        folder: Where the archive is, packed or unpacked; only read.
        prepared_dir: Where TFDS keeps prepared data. Defaults to TFDS' own folder.

    Raises:
        ValueError: If a file is absent, cut off or of another layout than expected.
    """
    return archives.prepare(Unipen, Path(folder), sources(Path(folder)), prepared_dir)


def read(
    folder: str | Path, prepared_dir: str | Path | None = None
) -> tuple[str, list[Line], dict[str, float]]:
    """All lines, at 100 points a second.

    Lines of 200 points a second lose every second point of a stroke, but neither its first nor its
    last.

    Returns:
        What the lines are, for people; the lines; and counts of what was changed or left out.

    Raises:
        ValueError: If a file is absent, cut off or of another layout than expected.
    """
    builder = prepare(folder, prepared_dir)
    counts = dict(builder.info.metadata)
    segments = {site: counts.pop(f"segments of {site}", 0) for site in SITES}
    counts[THINNED] = 0
    lines = []
    for row in tfds.as_numpy(builder.as_dataset(split="train", shuffle_files=False)):
        texts = row["text"].decode(), row["writer"].decode()
        line = Line(row["offsets"], row["end_of_stroke"], *texts)
        if row["points_per_second"] == 2 * HZ:
            counts[THINNED] += 1
            line = thin(line)
        lines.append(line)
    source = "UNIPEN" if segments == SITES else "a part of UNIPEN"
    return describe(source, lines), lines, counts

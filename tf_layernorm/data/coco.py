"""COCO's captions, with features of its images that a convolutional network has computed."""

import json
from pathlib import Path

import numpy as np

from tf_layernorm.data.captions import Captioned, Pairs
from tf_layernorm.data.words import Vocabulary

JSON = "dataset_coco.json"
SPLITS = ("train", "val", "test")
CAPTIONS = 5  # of an image, the first ones
VALIDATION = FOLD = 1000  # images

LAYOUTS = f"""`data_dir` must hold either
  train.txt, val.txt and test.txt, a caption a line and {CAPTIONS} lines an image, beside
    images/10crop/train.npy, val.npy and test.npy (the order embeddings' authors' coco.zip); or
  {JSON} (Karpathy's), beside train.npy, val.npy and test.npy, in its order of images, those of
    its split "restval" at the end of train.npy (`tf-layernorm features` makes them)."""


def load_coco(data_dir: str | Path, width: int = 4096) -> Captioned:
    """COCO's images and captions of 2014 in the parts of Karpathy, as the paper used them.

    It trains on `train` and `restval`, 113,287 images, validates with the first 1,000 images of
    `val` and tests on the 5,000 of `test`, in folds of 1,000. The vocabulary is that of the
    captions of all these but the test's, as in the authors' code.

    Args:
        data_dir: Folder in one of the two layouts that the error for any other names; only read.
            The features stay in their files, memory-mapped.
        width: Columns that the features must have. Defaults to 4096, those of VGG-19's fc7.

    Returns:
        The pairs; `further` is the test over all images at once.

    Raises:
        ValueError: If files are missing or don't fit each other.
    """
    folder = Path(data_dir)
    if (folder / JSON).is_file():
        captions, images = _of_json(folder / JSON), folder
    elif all((folder / f"{split}.txt").is_file() for split in SPLITS):
        captions = {split: _of_lines(folder / f"{split}.txt") for split in SPLITS}
        images = folder / "images" / "10crop"
    else:
        raise ValueError(f"{LAYOUTS}\nReceived: data_dir={str(data_dir)!r}")
    parts = []
    for split in SPLITS:
        path = images / f"{split}.npy"
        features = _features(path, width)
        try:
            parts.append(Pairs(features, captions[split]))
        except ValueError as error:
            raise ValueError(f"{path} and the captions of {split}: {error}") from error
    train, validation, test = parts
    validation = validation[:VALIDATION]
    known = [c for part in (train, validation) for captions in part.captions for c in captions]
    return Captioned(
        train,
        validation,
        test,
        Vocabulary.of_sentences(caption.split() for caption in known),
        f"COCO 2014 from {folder}: {len(train):,} images to train on, the first "
        f"{len(validation):,} to validate with, {len(test):,} to test on",
        fold=FOLD,
        further={"whole": test},
    )


def _of_lines(path: Path) -> list[list[str]]:
    lines = path.read_text("utf-8").split("\n")
    lines = lines[:-1] if lines[-1] == "" else lines
    if len(lines) % CAPTIONS:
        raise ValueError(
            f"{path} must have {CAPTIONS} captions an image, one a line. "
            f"Received: {len(lines):,} lines"
        )
    return [lines[i : i + CAPTIONS] for i in range(0, len(lines), CAPTIONS)]


def _of_json(path: Path) -> dict[str, list[list[str]]]:
    captions: dict[str, list[list[str]]] = {split: [] for split in (*SPLITS, "restval")}
    try:
        for image in json.loads(path.read_text("utf-8"))["images"]:
            sentences = [" ".join(s["tokens"]) for s in image["sentences"][:CAPTIONS]]
            if len(sentences) < CAPTIONS:
                raise ValueError(
                    f"{path}: an image must have {CAPTIONS} captions. Received: "
                    f"{len(sentences)} captions of {image.get('filename', 'an image')!r}"
                )
            captions[image["split"]].append(sentences)
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(
            f"Expected Karpathy's list of images, each with `split` and `sentences` of `tokens` "
            f"({error!r}). Received: {str(path)!r}"
        ) from error
    captions["train"] += captions.pop("restval")
    return captions


def _features(path: Path, width: int) -> np.ndarray:
    try:
        features: np.ndarray = np.load(path, mmap_mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(
            f"Expected a file of features ({error}).\n{LAYOUTS}\nReceived: {str(path)!r}"
        ) from error
    if features.ndim != 2 or features.shape[1] != width or features.dtype.kind != "f":
        raise ValueError(
            f"{path} must have a row an image and {width:,} columns, floating-point numbers. "
            f"Received: shape={features.shape}, dtype={features.dtype}"
        )
    return features


def image_files(data_dir: str | Path) -> dict[str, list[str]]:
    """The names of the image files of each part, in the order of the features' rows.

    Args:
        data_dir: Folder with Karpathy's `dataset_coco.json`.

    Returns:
        By part (`train`, `val`, `test`), the paths below COCO's folder of images.
    """
    files: dict[str, list[str]] = {split: [] for split in (*SPLITS, "restval")}
    for image in json.loads((Path(data_dir) / JSON).read_text("utf-8"))["images"]:
        files[image["split"]].append(str(Path(image["filepath"]) / image["filename"]))
    files["train"] += files.pop("restval")
    return files

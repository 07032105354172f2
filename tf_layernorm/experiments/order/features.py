"""VGG-19's features of images, as the order embeddings have them: `tf-layernorm features`."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import keras
import numpy as np
from PIL import Image, UnidentifiedImageError

from tf_layernorm.data.coco import image_files

SIDE, CROP, CROPS, WIDTH = 256, 224, 10, 4096
SUFFIXES = {".jpg", ".jpeg", ".png", ".bmp", ".webp", ".gif"}


def build_network(weights: str | Path) -> keras.Model:
    """VGG-19 up to its layer `fc2`, the paper's fc7 behind its ReLU, from crops to `(B, 4096)`.

    Args:
        weights: File of the whole network's weights for ImageNet, Keras'
            `vgg19_weights_tf_dim_ordering_tf_kernels.h5`. They are the authors' own, converted.

    Raises:
        ValueError: If there is no such file, or it holds something else.
    """
    if not Path(weights).is_file():
        raise ValueError(
            "Expected the weights of VGG-19, a file that Keras names "
            f"vgg19_weights_tf_dim_ordering_tf_kernels.h5. Received: weights={str(weights)!r}"
        )
    try:
        network = keras.applications.VGG19(weights=str(weights))
    except (ValueError, OSError, KeyError) as error:
        raise ValueError(
            f"The file doesn't hold the weights of VGG-19 ({error}). "
            f"Received: weights={str(weights)!r}"
        ) from error
    return keras.Model(network.input, network.get_layer("fc2").output)


def crops(path: str | Path) -> np.ndarray:
    """The ten crops of an image: corners and centre, and the same mirrored.

    Args:
        path: File of an image. Its short side is scaled to 256.

    Returns:
        uint8 `(10, 224, 224, 3)`, RGB.

    Raises:
        ValueError: If it is no image.
    """
    try:
        with Image.open(path) as file:
            image = file.convert("RGB")
    except (UnidentifiedImageError, OSError) as error:
        raise ValueError(f"Expected an image ({error}). Received: {str(path)!r}") from error
    scale = SIDE / min(image.size)
    width, height = (max(SIDE, round(side * scale)) for side in image.size)
    pixels = np.asarray(image.resize((width, height), Image.Resampling.BILINEAR))
    bottom, right = height - CROP, width - CROP
    corners = [(0, 0), (0, right), (bottom, 0), (bottom, right), (bottom // 2, right // 2)]
    cut = np.stack([pixels[y : y + CROP, x : x + CROP] for y, x in corners])
    return np.concatenate([cut, cut[:, :, ::-1]])


def features(network: keras.Model, images: Sequence[np.ndarray]) -> np.ndarray:
    """The mean over an image's crops of what the network makes of them, scaled to norm 1.

    Args:
        network: As `build_network`'s.
        images: The crops of each image, as `crops` gives them.

    Returns:
        float32 `(len(images), 4096)`.
    """
    # Caffe's order of colours, less the mean colour of ImageNet.
    inputs = keras.applications.vgg19.preprocess_input(np.concatenate(images).astype(np.float32))
    outputs = network.predict(inputs, batch_size=CROPS * 4, verbose=0)
    mean = outputs.reshape(len(images), CROPS, -1).mean(1)
    return mean / np.linalg.norm(mean, axis=1, keepdims=True)


def make_features(
    images: str | Path,
    weights: str | Path,
    out: str | Path,
    data_dir: str | Path | None = None,
    batch_size: int = 8,
) -> list[Path]:
    """Makes files of features, a row an image; interrupted, the same call goes on.

    Args:
        images: Folder of images: COCO's, with `train2014` and `val2014`; or any, with `data_dir`
            left out.
        weights: As `build_network`'s.
        out: Folder for the files.
        data_dir: Folder with `dataset_coco.json`. Then the files are `train.npy`, `val.npy` and
            `test.npy`, in its order. Defaults to `None`: `images.npy` of all images of the folder
            by name, beside `images.txt` with the names.
        batch_size: Images at once.

    Returns:
        The files.

    Raises:
        ValueError: If there are no images, one is missing, or the weights aren't there.
    """
    images, out = Path(images), Path(out)
    if data_dir is None:
        names = sorted(p.name for p in images.glob("*") if p.suffix.lower() in SUFFIXES)
        parts = {"images": names}
    else:
        parts = image_files(data_dir)
    missing = [n for names in parts.values() for n in names if not (images / n).is_file()]
    if missing or not all(parts.values()):
        raise ValueError(
            f"There must be images to compute features of; missing are {missing[:3] or 'all'}. "
            f"Received: images={str(images)!r}, {len(missing):,} missing"
        )
    network = build_network(weights)
    out.mkdir(parents=True, exist_ok=True)
    if data_dir is None:
        (out / "images.txt").write_text("\n".join(parts["images"]) + "\n")
    paths = []
    for part, names in parts.items():
        path = out / f"{part}.npy"
        paths.append(path)
        if path.exists():
            continue
        progress = keras.utils.Progbar(len(names), unit_name="image")
        for done in _fill(path, network, [images / name for name in names], batch_size):
            progress.update(done)
    return paths


def _fill(
    path: Path, network: keras.Model, images: Sequence[Path], batch_size: int
) -> Iterator[int]:
    """Fills a file of features from where it was left, and gives it its name when it is whole."""
    unfinished = path.with_name(f"unfinished-{path.name}")
    shape = (len(images), WIDTH)
    if unfinished.exists():
        rows = np.lib.format.open_memmap(unfinished, "r+")
        if rows.shape != shape:
            raise ValueError(
                f"{unfinished} was begun with other images: delete it. Received: {shape[0]:,} "
                f"images, {rows.shape[0]:,} in the file"
            )
    else:
        rows = np.lib.format.open_memmap(unfinished, "w+", np.float32, shape)
    # A row that is done has norm 1.
    done = int(np.count_nonzero([row.any() for row in rows]))
    while done < len(images):
        batch = images[done : done + batch_size]
        rows[done : done + len(batch)] = features(network, [crops(image) for image in batch])
        rows.flush()
        done += len(batch)
        yield done
    del rows
    os.replace(unfinished, path)

"""What finds what in a space of `tf-layernorm run order`, and which caption is above which."""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tf_layernorm.data.captions import Captioned, Pairs, load_emoji
from tf_layernorm.experiments.order.space import Space, entailments, order_share, rank

NEAREST = 5  # shown of each
MOST = 3000  # captions compared with each other, in the order of the alphabet
OWN = "#008300"  # colour of what belongs to the query
CHAINS = (
    *("person", "woman", "woman astronaut", "man", "man astronaut"),
    *("face", "smiling face", "smiling face with sunglasses"),
    *("flag", "flag : france", "heart", "red heart"),
)


def retrieve(
    model: str | Path,
    out: str | Path,
    *,
    data_dir: str | None = None,
    images: str | None = None,
    count: int = 6,
    seed: int = 1,
    captions: Sequence[str] | None = None,
) -> str:
    """Draws the nearest captions of test images, the nearest images of test captions, and an order.

    Args:
        model: The folder of a curve of `tf-layernorm run order`.
        out: The picture, a `.png`. Beside it goes the same name with `-order.png`: how far each of
            some captions is from being more general than each other.
        data_dir: COCO's captions and features, where the network was trained on those.
        images: COCO's folder of images, to show them. It needs Karpathy's layout.
        count: Images, and captions, to show.
        seed: Of their choice.
        captions: Those to put into an order. Defaults to some that suit the emoji.

    Returns:
        How many of the captions that entail one another the space has in the right order, and the
        two files; with cosines, which have no order, the first file alone.

    Raises:
        ValueError: If an argument is out of its range, or `model` is no folder of a curve.
    """
    out = Path(out)
    if out.suffix != ".png":
        raise ValueError(f"`out` must end in .png. Received: out={str(out)!r}")
    space = Space.load(model)
    data, shown = _data_and_pictures(space, data_dir, images)
    if not 1 <= count <= len(data.test):
        raise ValueError(
            f"`count` must be at least 1 and at most {len(data.test):,}, the images to test on. "
            f"Received: count={count}"
        )
    chosen = np.random.default_rng(seed).choice(len(data.test), size=2 * count, replace=False)
    out.parent.mkdir(parents=True, exist_ok=True)
    _draw_retrieval(space, data.test, shown, chosen[:count], chosen[count:], out)
    if space.score != "order":  # a cosine has none
        return str(out)
    ordered = out.with_name(f"{out.stem}-order.png")
    _draw_order(space, CHAINS if captions is None else captions, ordered)
    return "\n".join([_told(space, data), str(out), str(ordered)])


def _data_and_pictures(
    space: Space, data_dir: str | None, images: str | None
) -> tuple[Captioned, Any]:
    """The data, and a function from the number of a test image to its pixels."""
    if data_dir is None:
        data = load_emoji()
        return data, data.test.images.__getitem__
    from PIL import Image

    from tf_layernorm.data.coco import image_files, load_coco

    if images is None:
        raise ValueError(
            "COCO's images are needed to show them: give their folder by --images. "
            "Received: images=None"
        )
    data, files = load_coco(data_dir, space.image_shape[-1]), image_files(data_dir)["test"]
    return data, lambda i: np.asarray(Image.open(Path(images) / files[i]).convert("RGB"))


def _told(space: Space, data: Captioned) -> str:
    """The share of the right order among the first captions of all images."""
    parts = (data.train, data.validation, data.test)
    names = sorted({captions[0] for part in parts for captions in part.captions})[:MOST]
    pairs = entailments(names)
    if not pairs:
        return "No first caption of an image has all the words of another."
    encoded = space.encode_captions(names)
    share = order_share(space.distances(encoded, encoded), pairs)
    return (
        f"Of {len(pairs):,} pairs of first captions of which one has all words of the other and "
        f"more, {100 * share:.1f} % are in the right order (chance: 50 %)."
    )


def _draw_retrieval(
    space: Space, test: Pairs, shown: Any, images: np.ndarray, captions: np.ndarray, path: Path
) -> None:
    from matplotlib.figure import Figure

    texts = [caption for own in test.captions for caption in own]
    distances = space.distances(space.encode_captions(texts), space.encode_images(test.images))
    rows = len(images)
    canvas = Figure(figsize=(13, 0.6 + 1.2 * rows), layout="constrained")
    left, right = canvas.subfigures(1, 2, width_ratios=(1, 1.3), squeeze=False)[0]
    left.suptitle("Test images and the captions nearest to each", fontsize="large")
    right.suptitle("Test captions and the images nearest to each; its own", fontsize="large")

    axes = left.subplots(rows, 2, width_ratios=(1, 4.5), squeeze=False)
    for (picture, words), image in zip(axes, images):
        _show(picture, shown(image))
        words.axis("off")
        lines = _nearest_texts([texts[i] for i in rank(distances.T[[image]])[0]], test, image)
        for line, (place, text, own) in enumerate(lines):
            height = 1 - (line + 0.5) / len(lines)
            words.text(
                0,
                height,
                f"{place:>3}  {_short(text)}",
                color=OWN if own else "black",
                weight="bold" if own else "normal",
                fontsize="small",
                va="center",
            )

    axes = right.subplots(rows, 2 + NEAREST, width_ratios=(2, *[1] * (1 + NEAREST)), squeeze=False)
    for (words, *pictures, last), image in zip(axes, captions):
        caption = image * test.captions_per_image
        ranked = rank(distances[[caption]])[0]
        words.axis("off")
        words.text(0.95, 0.5, _broken(texts[caption]), ha="right", va="center")
        for picture, found in zip(pictures, ranked):
            _show(picture, shown(found), own=found == image)
        _show(last, shown(image), own=True)
        last.set_title(f"rank {ranked.tolist().index(image) + 1}", color=OWN, fontsize="small")
    canvas.supxlabel(
        f"green: the query's own. Ranks among all of {len(test):,} test images, or all captions of "
        "them; equal captions are shown once.",
        fontsize="medium",
    )
    _save(canvas, path)


def _nearest_texts(ranked: Sequence[str], test: Pairs, image: int) -> list[tuple[int, str, bool]]:
    """Rank, text and whether it is the image's own: the nearest, and the first of its own."""
    own = set(test.captions[image])
    places: dict[str, int] = {}
    for place, text in enumerate(ranked, start=1):
        places.setdefault(text, place)
    lines = [(place, text, text in own) for text, place in places.items()]
    first = next(line for line in lines if line[2])
    return lines[:NEAREST] if first in lines[:NEAREST] else [*lines[:NEAREST], first]


def _save(canvas: Any, path: Path) -> None:
    from PIL import Image

    canvas.savefig(path, dpi=100)
    # A palette makes it a third of the size, for notebooks and pages.
    Image.open(path).convert("RGB").quantize(64).save(path, optimize=True)


def _show(ax: Any, pixels: np.ndarray, own: bool = False) -> None:
    ax.imshow(pixels)
    ax.set(xticks=[], yticks=[])
    for spine in ax.spines.values():
        spine.set(visible=own, color=OWN, linewidth=3)


def _short(text: str, length: int = 56) -> str:
    return text if len(text) <= length else text[: length - 2] + " …"


def _broken(text: str, width: int = 24) -> str:
    return "\n".join(textwrap.wrap(text, width))


def _draw_order(space: Space, captions: Sequence[str], path: Path) -> None:
    from matplotlib.figure import Figure

    encoded = space.encode_captions(captions)
    distances = space.distances(encoded, encoded)
    count = len(captions)
    canvas = Figure(figsize=(2.6 + 0.62 * count, 2.2 + 0.5 * count), layout="constrained")
    ax = canvas.subplots()
    ax.imshow(distances, cmap="viridis_r", vmin=0, vmax=max(1e-9, float(distances.max())))
    for row in range(count):
        for column in range(count):
            value = distances[row, column]
            dark = value > 0.5 * distances.max()
            ax.text(
                column,
                row,
                f"{value:.2f}".lstrip("0") if value >= 0.005 else "0",
                ha="center",
                va="center",
                color="white" if dark else "black",
                fontsize="small",
            )
    ax.set_xticks(range(count), captions, rotation=40, ha="right")
    ax.set_yticks(range(count), captions)
    ax.set_xlabel("... than the caption of the column")
    ax.set_ylabel("how far the caption of the row is from being more general ...")
    ax.set_title("The order of captions: 0 is in order, dark is not")
    _save(canvas, path)

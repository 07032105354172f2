"""What DRAW draws: digits, and each of them glimpse by glimpse with the window it writes in."""

from pathlib import Path

import keras
import numpy as np
from PIL import Image, ImageDraw

from tf_layernorm.experiments.draw.attention import Window
from tf_layernorm.experiments.draw.network import DRAW
from tf_layernorm.experiments.training import MODEL

SCALE = 2  # screen pixels a pixel
STRIPS = 8  # digits whose drawing is shown glimpse by glimpse
RED = (230, 60, 40)


def load(folder: str | Path) -> DRAW:
    """The model of a curve's folder.

    Raises:
        ValueError: If the folder has no model, or that of another experiment.
    """
    path = Path(folder) / MODEL
    if not path.is_file():
        nearby = sorted(str(found.parent) for found in Path(folder).glob(f"**/{MODEL}"))
        raise ValueError(
            f"`model` must be a folder with a {MODEL}, that of one curve of a run"
            + (f", such as {nearby[0]}" if nearby else "")
            + f". Received: model={str(folder)!r}"
        )
    try:
        model = keras.models.load_model(path)
    except (TypeError, ValueError) as error:  # of a layer that isn't known here
        found = str(error).splitlines()[0]
        raise _another(folder, found) from error
    if not isinstance(model, DRAW):
        raise _another(folder, type(model).__name__)
    return model


def _another(folder: str | Path, found: str) -> ValueError:
    return ValueError(f"`model` must hold a DRAW model. Received: model={str(folder)!r}, {found}")


def draw(model: str | Path, out: str | Path, *, count: int = 64, seed: int = 1) -> list[Path]:
    """Draws digits with a trained model, and shows how.

    Args:
        model: The folder of a curve of `tf-layernorm run draw`.
        out: The picture of the digits, a `.png`. Beside it go the same name with `-steps.png`, a
            strip a digit with the canvas after each glimpse, and with `.gif`, the same in time.
        count: Number of digits; the first eight of them are shown in the making.
        seed: Seed of the noise from which they are drawn.

    Returns:
        The three files.

    Raises:
        ValueError: If `out` is no `.png`, `count` is below 1, or `model` has no DRAW model.
    """
    out = Path(out)
    if out.suffix != ".png":
        raise ValueError(f"`out` must end in .png. Received: out={str(out)!r}")
    if count < 1:
        raise ValueError(f"`count` must be at least 1. Received: count={count}")
    network = load(model)
    noise = np.random.default_rng(seed).normal(size=(network.glimpses, count, network.latent))
    canvases, windows = network.generate(noise.astype(network.compute_dtype))
    canvases = np.asarray(canvases)

    out.parent.mkdir(parents=True, exist_ok=True)
    paths = [out, out.with_name(out.stem + "-steps.png"), out.with_suffix(".gif")]
    columns = int(np.ceil(np.sqrt(count)))
    last = np.stack([enlarge(canvas) for canvas in canvases[-1]])
    Image.fromarray(tile(last, columns)).save(paths[0])

    shown = min(count, STRIPS)
    steps = framed(canvases[:, :shown], windows, network.write_size)
    strips = np.swapaxes(steps, 0, 1).reshape(-1, *steps.shape[2:])
    # A palette makes it a third of the size.
    Image.fromarray(tile(strips, network.glimpses)).quantize(32).save(paths[1], optimize=True)
    frames = [Image.fromarray(tile(digits, shown)) for digits in (*steps, last[:shown])]
    durations = [100] * len(steps) + [2000]
    frames[0].save(paths[2], save_all=True, append_images=frames[1:], duration=durations, loop=0)
    return paths


def enlarge(canvas: np.ndarray) -> np.ndarray:
    """A canvas of probabilities as a picture, ink white: uint8 `(SCALE h, SCALE w, 3)`."""
    grey = np.rint(255 * canvas).astype(np.uint8)
    return np.repeat(np.repeat(np.repeat(grey[..., None], 3, -1), SCALE, 0), SCALE, 1)


def box(centre: np.ndarray, stride: float, size: int, pixels: int) -> tuple[float, ...]:
    """Left, top, right and bottom of a window on the screen: its outermost filters' centres."""
    reach = (size - 1) / 2 * stride
    corners = np.concatenate([centre - reach, centre + reach])
    return tuple(np.clip((corners + 0.5) * SCALE, 0, SCALE * pixels - 1).tolist())


def framed(canvases: np.ndarray, windows: list[Window], size: int) -> np.ndarray:
    """Pictures of all canvases `(glimpses, digits, h, w)`, each with its window's outline."""
    pictures = []
    for canvas, at in zip(canvases, windows, strict=True):
        centres, strides = np.asarray(at.centre), np.asarray(at.stride)
        for digit, centre, stride in zip(canvas, centres, strides):
            picture = Image.fromarray(enlarge(digit))
            outline = box(centre, stride, size, len(digit))
            ImageDraw.Draw(picture).rectangle(outline, outline=RED)
            pictures.append(np.asarray(picture))
    return np.stack(pictures).reshape(*canvases.shape[:2], *pictures[0].shape)


def tile(pictures: np.ndarray, columns: int) -> np.ndarray:
    """Pictures `(n, h, w, 3)` in rows of `columns`, with a grey line between them."""
    count, height, width, _ = pictures.shape
    rows = -(-count // columns)
    sheet = np.full((rows * (height + 1) - 1, columns * (width + 1) - 1, 3), 90, np.uint8)
    for i, picture in enumerate(pictures):
        top, left = i // columns * (height + 1), i % columns * (width + 1)
        sheet[top : top + height, left : left + width] = picture
    return sheet

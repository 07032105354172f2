"""A trained space of images and captions: encode, compare, rank, and measure."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tf_layernorm.experiments.order.model  # noqa: F401  so that Keras can load its layers
from tf_layernorm.data.captions import Pairs
from tf_layernorm.data.words import Vocabulary, pad
from tf_layernorm.experiments import retrieval
from tf_layernorm.experiments.files import read_json
from tf_layernorm.experiments.order.batches import rounded_up
from tf_layernorm.experiments.order.loss import SCORES
from tf_layernorm.experiments.training import BEST

SPACE = "space.json"  # beside a model: its vocabulary, the length of captions, its score
BLOCK = 64  # captions compared with all images at once

# XLA's programs make no tensor of all captions, images and coordinates.
_DISTANCES = {score: tf.function(f, jit_compile=True) for score, f in SCORES.items()}


class Space:
    """What a network of `tf-layernorm run order` makes of captions and images.

    Args:
        model: The network, from `model.build_model`.
        vocabulary: Its words.
        length: The longest caption it reads, its end counted.
        score: `"order"` or `"cosine"`.

    Example, for the folder of a curve:

    >>> from tf_layernorm.experiments.order.space import Space, rank
    >>> space = Space.load("runs/order-small/curves/…-layer-seed1")  # doctest: +SKIP
    >>> captions = space.encode_captions(["red heart", "flag : france"])  # doctest: +SKIP
    >>> images = space.encode_images(pixels)  # uint8 (N, 24, 24, 3)  # doctest: +SKIP
    >>> rank(space.distances(captions, images))  # images of each caption  # doctest: +SKIP
    """

    def __init__(self, model: keras.Model, vocabulary: Vocabulary, length: int, score: str) -> None:
        self.vocabulary, self.length, self.score = vocabulary, length, score
        self._captions = model.get_layer("caption_encoder")
        self._images = model.get_layer("image_encoder")
        for encoder in (self._captions, self._images):
            encoder.jit_compile = False  # else XLA compiles a program for the last, smaller batch

    @classmethod
    def load(cls, folder: str | Path) -> "Space":
        """The space of one curve: of its best model.

        Raises:
            ValueError: If the folder has no such model.
        """
        folder = Path(folder)
        missing = [name for name in (BEST, SPACE) if not (folder / name).is_file()]
        if missing:
            raise ValueError(
                "The folder must be one of the curves of `tf-layernorm run order`, such as "
                f"runs/order-small/curves/NAME. It has no {' and no '.join(missing)}. "
                f"Received: model={str(folder)!r}"
            )
        facts: Any = read_json(folder / SPACE)
        model = keras.models.load_model(folder / BEST)
        return cls(model, Vocabulary(facts["words"]), facts["length"], facts["score"])

    @property
    def image_shape(self) -> tuple[int, ...]:
        """The shape of an image: `(24, 24, 3)`, or `(4096,)` of features."""
        return tuple(self._images.input_shape[1:])

    def encode_captions(self, captions: Sequence[str], batch_size: int = 256) -> np.ndarray:
        """Embeddings of captions, float32 `(N, H)`.

        Args:
            captions: Words parted by spaces, in small letters, as in the data. Unknown words are
                `<unk>`, and what is longer than `length` is cut.
            batch_size: Captions a batch.

        Raises:
            ValueError: If there is no caption, or one has no word.
        """
        if not len(captions):
            raise ValueError("There must be captions to encode. Received: captions=[]")
        for caption in captions:
            if not caption.split():
                raise ValueError(f"A caption must have a word. Received: {caption!r}")
        encoded = [self.vocabulary.encode(c.split()[: self.length - 1]) for c in captions]
        ids, lengths = pad(encoded, rounded_up(max(map(len, encoded)), self.length))
        mask = np.arange(ids.shape[1]) < lengths[:, None]
        return self._captions.predict({"words": ids, "mask": mask}, batch_size, verbose=0)

    def encode_images(self, images: np.ndarray, batch_size: int = 256) -> np.ndarray:
        """Embeddings of images, float32 `(N, H)`.

        Args:
            images: As in the data: uint8 `(N, 24, 24, 3)` on white, or VGG-19's features `(N,
                4096)`, which `tf-layernorm features` makes.
            batch_size: Images a batch.

        Raises:
            ValueError: If the shape is another.
        """
        if images.shape[1:] != self.image_shape:
            raise ValueError(
                f"Each image must have the shape {self.image_shape}, as those that the network was "
                f"trained on. Received: shape={images.shape}"
            )
        return self._images.predict(images, batch_size, verbose=0)

    def distances(self, captions: np.ndarray, images: np.ndarray) -> np.ndarray:
        """How far each caption is from each image, `(N, M)`; small is close.

        With the order's score a second set of captions may stand for the images: then it is how far
        each caption is from being more general than each of those.
        """
        blocks = [captions[i : i + BLOCK] for i in range(0, len(captions), BLOCK)]
        distances = _DISTANCES[self.score]
        return np.concatenate([distances(block, images).numpy() for block in blocks])

    def figures(self, pairs: Pairs, fold: int) -> dict[str, float]:
        """Recalls and ranks of pairs, as `retrieval.fold_figures` gives them."""
        captions = self.encode_captions([c for captions in pairs.captions for c in captions])
        images = self.encode_images(pairs.images)
        return retrieval.fold_figures(captions, images, self.distances, fold)


def rank(distances: np.ndarray) -> np.ndarray:
    """The columns of each row from the closest to the farthest, integers of the same shape.

    Of distances `(captions, images)` these are the images of each caption; of their transpose, the
    captions of each image.
    """
    return np.argsort(distances, axis=1, kind="stable")


def entailments(names: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs of captions of which the first, by its words, is the more general.

    It is where all its words are among the other's, which has more: "woman" and "woman astronaut".
    """
    words = [frozenset(name.split()) for name in names]
    return [
        (general, special)
        for general, few in enumerate(words)
        for special, many in enumerate(words)
        if few < many
    ]


def order_share(distances: np.ndarray, pairs: Sequence[tuple[int, int]]) -> float:
    """The share of `entailments` that a space puts into the right order; a half is chance.

    Args:
        distances: `(N, N)`, of captions and the same captions again.
        pairs: Of `(general, special)`.
    """
    general, special = np.array(pairs).reshape(-1, 2).T
    forth, back = distances[general, special], distances[special, general]
    return float(np.mean((forth < back) + 0.5 * (forth == back)))


def prefixed(name: str, figures: Mapping[str, float]) -> dict[str, float]:
    """Figures under the name of the part of the data that they are of."""
    return {f"{name}_{key}": value for key, value in figures.items()}

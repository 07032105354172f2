"""How well images and captions find each other: ranks, recalls, and their means over folds."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

RECALLS = (1, 5, 10)


@dataclass(frozen=True)
class Ranks:
    """At which place each query finds the first of what belongs to it.

    Equal distances come in a random order: a recall or a rank is the expectation over all orders.
    So a model for which all are equal scores chance, and not 100 % as where its own comes first.

    Attributes:
        before: `(queries,)`, how many strangers are closer than the closest of the query's own.
        own: `(queries,)`, how many of its own are exactly as close as that one, itself included.
        others: `(queries,)`, how many strangers are exactly as close.
    """

    before: np.ndarray
    own: np.ndarray
    others: np.ndarray

    @property
    def expected(self) -> np.ndarray:
        """The rank of each query, from 1: the strangers lie evenly between and around its own."""
        return self.before + self.others / (self.own + 1) + 1

    def recall(self, k: int) -> float:
        """The share of the queries, 0 to 1, that find one of their own among the first `k`."""
        missed = np.ones(len(self.before))
        for place in range(k):
            drawn = place - self.before  # of those equally close, before this place
            left = np.maximum(self.others - drawn, 0)
            missed *= np.where(drawn < 0, 1, left / np.maximum(left + self.own, 1))
        return float(1 - missed.mean())

    @property
    def mean(self) -> float:
        """The mean rank; 1 is the best."""
        return float(self.expected.mean())

    @property
    def median(self) -> float:
        """The median rank, rounded down as in the authors' code; 1 is the best."""
        return float(np.floor(np.median(self.expected - 1)) + 1)


def caption_ranks(distances: np.ndarray, captions_per_image: int) -> Ranks:
    """Caption retrieval: for each image, the rank of the closest of its own K captions.

    Args:
        distances: `(K * N, N)`, of captions and images; small is close. Captions K i to K i + K - 1
            belong to image i.
        captions_per_image: K.

    Raises:
        ValueError: If the shape doesn't fit, or a distance is no finite number.
    """
    _check(distances, captions_per_image)
    count = distances.shape[1]
    by_image = distances.T.reshape(count, count, captions_per_image)
    own = by_image[np.arange(count), np.arange(count)]  # (N, K)
    best = own.min(1)
    as_close = (own == best[:, None]).sum(1)
    before = (distances < best).sum(0)
    return Ranks(before, as_close, (distances == best).sum(0) - as_close)


def image_ranks(distances: np.ndarray, captions_per_image: int) -> Ranks:
    """Image retrieval: for each caption, the rank of its image. Arguments as `caption_ranks`'."""
    _check(distances, captions_per_image)
    captions = np.arange(len(distances))
    own = distances[captions, captions // captions_per_image][:, None]
    before, equal = (distances < own).sum(1), (distances == own).sum(1)
    return Ranks(before, np.ones_like(before), equal - 1)


def _check(distances: np.ndarray, captions_per_image: int) -> None:
    if distances.ndim != 2 or len(distances) != captions_per_image * distances.shape[1]:
        raise ValueError(
            f"`distances` must have {captions_per_image} captions an image, (K * N, N). "
            f"Received: shape={distances.shape}"
        )
    if not np.isfinite(distances).all():
        # A comparison with NaN is False, which would be the best of ranks.
        raise ValueError("`distances` must be finite. Received: NaN or infinity among them")


def figures(distances: np.ndarray, captions_per_image: int) -> dict[str, float]:
    """Recalls, mean and median rank in both directions.

    Args:
        distances: As `caption_ranks`'.
        captions_per_image: K.

    Returns:
        `caption_retrieval_r1`, `_r5`, `_r10`, shares from 0 to 1; `_mean_rank` and `_median_rank`;
        the same of `image_retrieval`; and `image_retrieval_recall`, the mean of its three recalls.

    Example:

    >>> import numpy as np
    >>> from tf_layernorm.experiments.retrieval import figures
    >>> found = figures(np.array([[0.0, 1.0], [2.0, 3.0]]), captions_per_image=1)
    >>> found["caption_retrieval_r1"], found["image_retrieval_mean_rank"]
    (0.5, 1.5)
    """
    found = {}
    for name, rank in (("caption", caption_ranks), ("image", image_ranks)):
        ranks = rank(distances, captions_per_image)
        for k in RECALLS:
            found[f"{name}_retrieval_r{k}"] = ranks.recall(k)
        found[f"{name}_retrieval_mean_rank"] = ranks.mean
        found[f"{name}_retrieval_median_rank"] = ranks.median
    found["image_retrieval_recall"] = float(
        np.mean([found[f"image_retrieval_r{k}"] for k in RECALLS])
    )
    return found


def fold_figures(
    captions: np.ndarray,
    images: np.ndarray,
    distances: Callable[[np.ndarray, np.ndarray], np.ndarray],
    fold: int,
) -> dict[str, float]:
    """The mean of `figures` over folds: disjoint, consecutive, each ranked by itself.

    Args:
        captions: `(K * N, H)`.
        images: `(N, H)`.
        distances: Of captions and images of a fold.
        fold: Images a fold.

    Raises:
        ValueError: If N is no multiple of `fold`.
    """
    count, per_image = len(images), len(captions) // max(len(images), 1)
    if fold < 1 or not count or count % fold or len(captions) != per_image * count:
        raise ValueError(
            f"The images must make whole folds of {fold}, and have equally many captions. "
            f"Received: {count} images, {len(captions)} captions"
        )
    folds = []
    for start in range(0, count, fold):
        end = start + fold
        found = distances(captions[start * per_image : end * per_image], images[start:end])
        folds.append(figures(found, per_image))
    return {key: float(np.mean([found[key] for found in folds])) for key in folds[0]}

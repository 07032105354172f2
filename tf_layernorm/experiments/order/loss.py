"""How far a caption is from an image, and the loss that ranks each pair above all others."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from tf_layernorm._arguments import Tensor, serializable


def order_violations(captions: Tensor, images: Tensor) -> Tensor:
    r"""By how much each caption fails to be more general than each image.

    $$E(s, v) = \sum_k \max(0, s_k - v_k)^2$$

    is 0 where the caption s lies below the image v in every coordinate: the caption is the general
    side, and it says nothing that the image lacks. So it isn't symmetric.

    Args:
        captions: `(N, H)`.
        images: `(M, H)`.

    Returns:
        `(N, M)`, at least 0; 0 fits best.

    Example:

    >>> from tf_layernorm.experiments.order.loss import order_violations
    >>> order_violations([[0.0, 1.0]], [[1.0, 1.0], [1.0, 0.0]]).numpy().tolist()
    [[0.0, 1.0]]

    References:
        [Vendrov et al., 2015](https://arxiv.org/abs/1511.06361), equation (2)
    """
    captions, images = ops.convert_to_tensor(captions), ops.convert_to_tensor(images)
    excess = ops.relu(captions[:, None] - images[None])  # [N, M, H]
    return ops.sum(ops.square(excess), axis=-1)


def cosine_distances(captions: Tensor, images: Tensor) -> Tensor:
    """Minus the cosine of each caption and each image, both of norm 1: the symmetric baseline."""
    return -ops.matmul(captions, ops.transpose(images))


SCORES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "order": order_violations,
    "cosine": cosine_distances,
}


def ranking_loss(distances: Tensor, margin: float) -> Tensor:
    r"""What is missing for each pair to be closer, by a margin, than all wrong pairs of a batch.

    $$L = \sum_i \sum_{j \ne i} \max(0, m + E_{ii} - E_{ij}) + \max(0, m + E_{ii} - E_{ji})$$

    It is a sum and no mean, so that it grows with the square of the batch. Where all embeddings are
    equal it is 2 m B (B - 1), 1,625.6 for a batch of 128 and a margin of 0.05: a loss that stays
    there has collapsed.

    Args:
        distances: `(B, B)`, of captions (rows) and images (columns); pairs on the diagonal.
        margin: m.

    Returns:
        A scalar.

    Example:

    >>> import tensorflow as tf
    >>> from tf_layernorm.experiments.order.loss import ranking_loss
    >>> round(float(ranking_loss(tf.zeros((128, 128)), 0.05)), 1)
    1625.6
    """
    own = ops.diagonal(distances)
    wrong_images = ops.relu(margin + own[:, None] - distances)
    wrong_captions = ops.relu(margin + own[None] - distances)
    wrong = 1 - ops.eye(ops.shape(distances)[0], dtype=distances.dtype)
    return ops.sum((wrong_images + wrong_captions) * wrong)


@serializable
class RankingLoss(keras.losses.Loss):
    """`ranking_loss` of a model that returns embeddings of captions and images, `(B, 2, H)`.

    Args:
        score: `"order"`, or `"cosine"` for the symmetric baseline.
        margin: m. The authors' is 0.05, and 0.2 with cosines.
    """

    def __init__(self, score: str = "order", margin: float = 0.05, **kwargs: Any) -> None:
        super().__init__(**{"name": "ranking_loss", "reduction": "sum", **kwargs})
        if score not in SCORES:
            raise ValueError(f"`score` must be one of {(*SCORES,)}. Received: score={score!r}")
        self.score, self.margin = score, margin

    def call(self, y_true: Any, y_pred: Tensor) -> Tensor:
        return ranking_loss(SCORES[self.score](y_pred[:, 0], y_pred[:, 1]), self.margin)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "score": self.score, "margin": self.margin}

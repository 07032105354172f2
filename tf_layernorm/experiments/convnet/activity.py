"""Section 6.7's explanation, measured: how often units are active, by distance from the border.

The paper finds layer norm behind batch norm in conv nets, and gives as the reason that units near
the border of the image are rarely turned on, so that their statistics aren't those of the others
in the layer. Here a unit is active when its summed input is positive, behind norm, gain and bias.
"""

from collections.abc import Iterable
from typing import Any

import keras
import numpy as np
import tensorflow as tf


def distances(height: int, width: int) -> np.ndarray:
    """How many pixels each place of an image is from the border, 0 at the border.

    >>> from tf_layernorm.experiments.convnet.activity import distances
    >>> print(distances(3, 4))
    [[0 0 0 0]
     [0 1 1 0]
     [0 0 0 0]]
    """
    y, x = np.ogrid[:height, :width]
    return np.minimum(np.minimum(y, height - 1 - y), np.minimum(x, width - 1 - x))


def active_shares(model: keras.Model, batches: Iterable[Any]) -> dict[str, float]:
    """The share of active units by layer and distance, over images, channels and places.

    Args:
        model: A network of `model.build_model`, whose activations are called `conv1`, `conv2`, ...
        batches: Tuples of images and labels.

    Returns:
        Shares such as `{"active_conv1_0": 0.4}`: of `conv1`'s units at the border. Those of
        `input` are the shares of pixels that aren't 0.
    """
    layers = [layer for layer in model.layers if layer.name.startswith("conv")]
    names = ["input", *(layer.name for layer in layers)]
    probe = keras.Model(model.inputs, [model.inputs[0], *(layer.output for layer in layers)])

    @tf.function
    def active(images: tf.Tensor) -> list[tf.Tensor]:
        outputs = probe(images, training=False)
        return [tf.reduce_sum(tf.cast(y > 0, tf.float32), (0, 3)) / y.shape[3] for y in outputs]

    count = 0
    sums: list[np.ndarray] = [np.zeros((1, 1))] * len(names)
    for images, _ in batches:
        count += len(images)
        sums = [total + y.numpy() for total, y in zip(sums, active(images))]
    shares = {}
    for name, total in zip(names, sums):
        height, width = total.shape
        far = distances(height, width)
        for distance in range(far.max() + 1):
            shares[f"active_{name}_{distance}"] = float(total[far == distance].mean() / count)
    return shares

"""ZCA whitening of images, inside the network."""

import math

import keras
import numpy as np
from keras import ops

from tf_layernorm._arguments import Shape, Tensor, serializable


@serializable
class Whitening(keras.layers.Layer):
    r"""Whitening that keeps an image as near as it can to itself.

    $$y = U (S + \epsilon)^{-1/2} U^\top (x - \mu)$$

    $U S U^\top$ is the covariance of the flat training images and $\epsilon$ is 1e-5, as in the
    code of Salimans and Kingma (2016). `adapt` it to the images before the first call, as a
    `keras.layers.Normalization`.

    Example:

    >>> import numpy as np
    >>> from tf_layernorm.experiments.convnet.whitening import Whitening
    >>> images = np.random.default_rng(0).normal(3, 2, (1000, 2, 2, 1))
    >>> layer = Whitening()
    >>> layer.adapt(images)
    >>> covariance = np.cov(np.reshape(layer(images), (1000, 4)).T)
    >>> bool(abs(covariance - np.eye(4)).max() < 0.01)
    True
    """

    def build(self, input_shape: Shape) -> None:
        size = math.prod(n for n in input_shape[1:] if n)
        options = {"trainable": False, "autocast": False}
        self.mean = self.add_weight(name="mean", shape=(size,), initializer="zeros", **options)
        self.matrix = self.add_weight(
            name="matrix", shape=(size, size), initializer="identity", **options
        )

    def adapt(self, images: np.ndarray) -> None:
        """Takes mean and covariance from images, `(cases, height, width, channels)`."""
        if not self.built:
            self.build(images.shape)
        flat = np.reshape(images, (len(images), -1)).astype("float32")
        mean = flat.mean(0, dtype="float64")
        centered = flat - mean.astype("float32")
        values, vectors = np.linalg.eigh(centered.T @ centered / len(flat))
        self.mean.assign(mean)
        # The smallest of float32's eigenvalues may come out below 0.
        scale = 1 / np.sqrt(np.maximum(values, 0) + 1e-5)
        self.matrix.assign((vectors * scale) @ vectors.T)

    def call(self, inputs: Tensor) -> Tensor:
        flat = ops.reshape(ops.cast(inputs, "float32"), (-1, self.mean.shape[0]))
        white = ops.matmul(flat - self.mean, self.matrix)
        return ops.cast(ops.reshape(white, ops.shape(inputs)), self.compute_dtype)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape

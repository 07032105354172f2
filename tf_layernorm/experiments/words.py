"""Vectors of words, whose gradient is right where a word occurs twice."""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from tf_layernorm._arguments import ArgumentsMixin, Shape, Tensor, check_units, serializable


@tf.custom_gradient
def look_up(table: Tensor, ids: Tensor) -> Any:
    """Rows of a table by number, with a gradient that is a whole table.

    Args:
        table: `(rows, size)`.
        ids: Integers of any shape in 0..rows - 1.

    Returns:
        `(*ids.shape, size)`. The gradient for `table` is `(rows, size)`: each row the sum over all
        places where it was looked up.
    """
    rows, size = table.shape

    def gradient(upstream: Tensor) -> tuple[Tensor, None]:
        upstream = tf.reshape(upstream, (-1, size))
        return tf.math.unsorted_segment_sum(upstream, tf.reshape(ids, (-1,)), rows), None

    return tf.gather(table, ids), gradient


@serializable
class WordEmbedding(ArgumentsMixin, keras.layers.Layer):
    """A vector for each word, for models that train with Adam or with clipped gradients.

    `keras.layers.Embedding` hands the optimizer one row of gradient for each occurrence of a word,
    and the optimizers of Keras 3.15 on TensorFlow don't add the rows of one word up before they
    square them: a word that occurs twice in a batch, with a gradient of 1 each time, comes to a
    second moment of 0.002 in Adam, where (1 + 1)^2 * 0.001 = 0.004 is right; and a gradient
    clipped to a norm of 1 keeps 1.414. Here the gradient is one dense table, so both are right.

    There is no `mask_zero`: the authors' id 0 is the end of a sentence, which counts, as well as
    padding, which doesn't. Make masks of lengths, `tf.sequence_mask(lengths, maxlen)`.

    Args:
        rows: Number of words.
        size: Size of a word's vector.
        embeddings_initializer: Defaults to `"uniform"`, between -0.05 and 0.05.

    Input shape:
        Integers of any shape in 0..rows - 1. XLA doesn't notice an id outside.

    Output shape:
        The input's, and an axis of `size` behind it, in the layer's compute dtype.

    Weights:
        embeddings: `(rows, size)`, float32 under a half-precision policy; its gradient is added up
            in float32 too.

    Masking:
        Makes none and passes none on.

    Raises:
        ValueError: If `rows` or `size` is no positive integer.

    Example:

    >>> import tensorflow as tf
    >>> from tf_layernorm.experiments.words import WordEmbedding
    >>> layer = WordEmbedding(5, 3)
    >>> with tf.GradientTape() as tape:
    ...     total = tf.reduce_sum(layer(tf.constant([[1, 1, 2]])))
    >>> tape.gradient(total, layer.embeddings.value)[:3, 0].numpy().tolist()
    [0.0, 2.0, 1.0]
    """

    def __init__(
        self, rows: int, size: int, embeddings_initializer: Any = "uniform", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        for name, value in (("rows", rows), ("size", size)):
            try:
                check_units(value)
            except ValueError:
                raise ValueError(
                    f"`{name}` must be a positive integer. Received: {name}={value!r}"
                ) from None
        self._set_arguments(
            {"rows": rows, "size": size, "embeddings_initializer": embeddings_initializer}
        )

    def build(self, ids_shape: Shape) -> None:
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.rows, self.size),
            initializer=self.embeddings_initializer,
            autocast=False,
        )

    def call(self, ids: Tensor) -> Tensor:
        table = tf.convert_to_tensor(self.embeddings)
        return ops.cast(look_up(table, ops.cast(ids, "int32")), self.compute_dtype)

    def compute_output_shape(self, ids_shape: Shape) -> tuple[int | None, ...]:
        return (*ids_shape, self.size)

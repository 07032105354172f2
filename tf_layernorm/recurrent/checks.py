"""Checks of sizes that a graph of open shapes only learns when it runs."""

import tensorflow as tf

from tf_layernorm._arguments import Tensor
from tf_layernorm.recurrent.arrays import scatters


def same_size(name: str, value: Tensor, like: Tensor, axes: int) -> Tensor:
    """`value`, which is refused at run time if its first axes are not as long as those of `like`.

    Else it would be broadcast, or read past its end. Only where a size is unknown when the graph is
    made; XLA and LiteRT, which can't raise, drop the check.
    """
    known = value.shape[:axes].is_fully_defined() and like.shape[:axes].is_fully_defined()
    if known or tf.executing_eagerly() or scatters():
        return value
    sizes = tf.shape(value)[:axes], tf.shape(like)[:axes]
    message = f"`{name}` must be of the second size. Received: the first of"
    with tf.control_dependencies([tf.debugging.assert_equal(*sizes, message=message)]):
        return tf.identity(value)

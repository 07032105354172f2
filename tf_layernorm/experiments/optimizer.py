"""The optimiser of the paper's experiments."""

from typing import Any

import keras


def adam(learning_rate: Any, epsilon: float = 1e-8, **clipping: float) -> keras.optimizers.Adam:
    """Adam as it was published: Keras' differs in epsilon, 1e-7.

    Args:
        learning_rate: A number, or a `keras.optimizers.schedules.LearningRateSchedule`.
        epsilon: What is added to the root of the second moment.
        **clipping: `clipnorm`, of each gradient, or `global_clipnorm`, of all together.

    Example:

    >>> from tf_layernorm.experiments.optimizer import adam
    >>> adam(1e-3, global_clipnorm=10.0).epsilon
    1e-08

    References:
        [Kingma and Ba, 2014](https://arxiv.org/abs/1412.6980)
    """
    return keras.optimizers.Adam(learning_rate, 0.9, 0.999, epsilon, **clipping)

"""The network of the experiment on MNIST, and its training in one XLA program."""

from typing import Any

import keras
import tensorflow as tf

from tf_layernorm._arguments import Tensor, serializable
from tf_layernorm.baselines.batch_norm import BatchNorm
from tf_layernorm.baselines.rms_norm import RMSNorm
from tf_layernorm.baselines.weight_norm import WeightNorm
from tf_layernorm.dense import LNDense
from tf_layernorm.experiments.mnist import EXPERIMENT, Config
from tf_layernorm.experiments.optimizer import adam


def build_model(config: Config, norm: str) -> keras.Model:
    """The compiled network, from pixels as they come (0 to 255) to logits.

    Layer norm is on the hidden layers, batch norm on all layers with the output, as in the paper.
    RMS norm and weight norm, which the paper doesn't train, are on the hidden layers.

    Args:
        config: The run's `Config`. Batch norm's variance depends on its `batch_size`.
        norm: The name of one of the experiment's norms.

    Raises:
        ValueError: If `norm` is unknown.

    Example:

    >>> from tf_layernorm.experiments.mnist import Config
    >>> from tf_layernorm.experiments.mnist.model import build_model
    >>> build_model(Config(), "none").count_params()
    1796010
    """
    EXPERIMENT.norm(norm)
    unbiased = config.batch_size <= config.unbiased_up_to
    inputs = keras.Input((784,), dtype="uint8")
    x = keras.layers.Rescaling(1 / 255)(inputs)
    for units in config.hidden:
        if norm == "layer":
            x = LNDense(units, activation="relu")(x)
        elif norm == "batch":
            x = keras.layers.ReLU()(_batch_normalised(x, units, unbiased))
        elif norm == "rms":
            x = keras.layers.ReLU()(RMSNorm()(keras.layers.Dense(units, use_bias=False)(x)))
        elif norm == "weight":
            x = WeightNorm(keras.layers.Dense(units, activation="relu"))(x)
        else:
            x = keras.layers.Dense(units, activation="relu")(x)
    x = _batch_normalised(x, 10, unbiased) if norm == "batch" else keras.layers.Dense(10)(x)
    model = ChunkedModel(inputs, x, name=f"mnist_{norm}")
    model.compile(
        adam(config.learning_rate, config.adam_epsilon),
        # Not from probabilities: Keras clips those at 1e-7, where the figure's axis ends.
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
        jit_compile=True,
    )
    return model


def _batch_normalised(x: Any, units: int, unbiased: bool) -> Any:
    return BatchNorm(unbiased)(keras.layers.Dense(units, use_bias=False)(x))


@serializable
class ChunkedModel(keras.Model):
    """A `keras.Model` whose `fit` takes several batches at once, on a leading axis.

    The updates are the same as one by one; but they are one loop inside one XLA program, which
    saves a launch and a copy of all weights for each: a quarter of the time at batch size 4.
    Under a `tf.distribute` strategy, which splits the leading axis, it takes one batch.
    """

    def train_step(self, data: Any) -> dict[str, Tensor]:
        if tf.distribute.has_strategy():
            return super().train_step(data)
        update, count = super().train_step, tf.shape(data[0])[0]

        def body(i: Tensor) -> Tensor:
            update(tuple(part[i] for part in data))
            return i + 1

        tf.while_loop(lambda i: i < count, body, [0])
        return self.get_metrics_result()


def chunk_size(steps: int, limit: int = 50) -> int:
    """The largest divisor of `steps` up to `limit`; under a strategy 0, for batches as they are."""
    if tf.distribute.has_strategy():
        return 0
    return max(k for k in range(1, min(steps, limit) + 1) if steps % k == 0)

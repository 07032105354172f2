"""The recurrent network, and how it reads a digit."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from tf_layernorm import LNGRU, LNLSTM
from tf_layernorm._arguments import ArgumentsMixin, Shape, Tensor, serializable
from tf_layernorm.experiments.seqmnist import EXPERIMENT, Config

MEAN, DEVIATION = 0.1307, 0.3081  # of MNIST's pixels, from 0 to 1


@serializable
class Reading(ArgumentsMixin, keras.layers.Layer):
    """A digit, `(batch, 784)` of 0 to 255, as a sequence, `(batch, time, features)`.

    Pixels are standardised, which also keeps a blank step from being all zeros: layer norm of zeros
    is 0 / 0, and amplifies the gradient that comes back.

    Args:
        reading: `"rows"`, of 28 pixels each; `"pixels"`; or `"permuted"`, pixels in `order`.
        pool: Takes means of `pool` x `pool` pixels, unless it reads rows. Defaults to `1`.
        raw: Whether a pixel x is all that its step reads, not (x, 1). Defaults to `False`.
        order: For `"permuted"`, the places of the pixels. Defaults to `None`: a permutation that is
            the same for all digits, networks and runs.

    Example:

    >>> import numpy as np
    >>> from tf_layernorm.experiments.seqmnist.model import Reading
    >>> Reading("permuted", pool=2)(np.zeros((5, 784), "uint8")).shape
    TensorShape([5, 196, 2])
    """

    def __init__(
        self,
        reading: str,
        pool: int = 1,
        raw: bool = False,
        order: Sequence[int] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if order is None and reading == "permuted":
            # Cooijmans et al. draw theirs by randint, with replacement; theirs is the seed.
            order = np.random.default_rng(92916).permutation((28 // pool) ** 2).tolist()
        self._set_arguments(locals())

    def call(self, inputs: Tensor) -> Tensor:
        x = (ops.cast(inputs, self.compute_dtype) / 255 - MEAN) / DEVIATION
        if self.reading == "rows":
            return ops.reshape(x, (-1, 28, 28))
        side = 28 // self.pool
        x = ops.reshape(x, (-1, side, self.pool, side, self.pool))
        x = ops.reshape(ops.mean(x, (2, 4)), (-1, side * side, 1))
        if self.order is not None:
            x = ops.take(x, np.array(self.order), axis=1)
        return x if self.raw else ops.concatenate([x, ops.ones_like(x)], -1)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        if self.reading == "rows":
            return (input_shape[0], 28, 28)
        return (input_shape[0], (28 // self.pool) ** 2, 1 if self.raw else 2)


@serializable
class IdentityCandidate(keras.initializers.Initializer):
    """An LSTM's recurrent kernel: the identity for the candidate, orthogonal rows for the gates.

    Cooijmans et al. begin with it, so that a unit first keeps its value.
    """

    def __call__(self, shape: Sequence[int], dtype: Any = None) -> Tensor:
        units = shape[0]
        i_f_o = keras.initializers.Orthogonal()((units, 3 * units), dtype=dtype)
        i_f, o = i_f_o[:, : 2 * units], i_f_o[:, 2 * units :]
        return ops.concatenate([i_f, ops.eye(units, dtype=dtype), o], axis=1)


def build_model(config: Config, norm: str) -> keras.Model:
    """The compiled network, from pixels as they come (0 to 255) to logits.

    Args:
        config: The run's `Config`.
        norm: `"layer"` or `"none"`.

    Raises:
        ValueError: If `norm` is unknown.

    Example:

    >>> from tf_layernorm.experiments.seqmnist import Config
    >>> from tf_layernorm.experiments.seqmnist.model import build_model
    >>> build_model(Config(raw=True), "none").count_params()
    41810
    """
    EXPERIMENT.norm(norm)
    # Cooijmans et al. learn the initial states, from zeros. Through a layer norm the gradient of a
    # state of zeros is some hundred times all the others together, which the clipping would shrink.
    options: dict[str, Any] = {"kernel_initializer": "orthogonal"}
    if norm == "none":
        options["normalize"] = ()
    if config.cell == "lstm":
        layer = LNLSTM(config.units, recurrent_initializer=IdentityCandidate(), **options)
    else:
        layer = LNGRU(config.units, **options)
    inputs = keras.Input((784,), dtype="uint8")
    x = layer(Reading(config.reading, config.pool, config.raw)(inputs))
    name = f"{config.reading}_{config.cell}_{norm}"
    model = keras.Model(inputs, keras.layers.Dense(10)(x), name=name)
    model.compile(
        keras.optimizers.RMSprop(
            config.learning_rate,
            config.decay,
            epsilon=1e-10,  # inside the root, for the 1e-5 behind it of Cooijmans et al.
            global_clipnorm=config.clip_norm,
        ),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
        jit_compile=True,
    )
    return model

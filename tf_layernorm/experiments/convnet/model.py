"""The two conv nets, and what each norm takes its statistics over."""

from typing import Any

import keras
import numpy as np

from tf_layernorm._arguments import Shape, Tensor, serializable
from tf_layernorm.baselines.batch_norm import BatchNorm
from tf_layernorm.baselines.rms_norm import RMSNorm
from tf_layernorm.baselines.weight_norm import WeightNorm
from tf_layernorm.experiments.convnet import EXPERIMENT, Config
from tf_layernorm.experiments.optimizer import adam
from tf_layernorm.normalization import LayerNorm

# Of the summed inputs of a convolution, (batch, height, width, channels).
AXES = {"layer": (1, 2, 3), "rms": (1, 2, 3), "channel": (3,), "instance": (1, 2)}


@serializable
class ChannelAffine(keras.layers.Layer):
    """A gain and a bias for each channel, wherever it is in the image: y = x * gamma + beta.

    `LayerNorm(axis=(1, 2, 3))` has a gain for each unit, 98,304 in a layer of 32 x 32 x 96. The
    units of a channel share their weights, so here they share their gain and bias too.
    """

    def build(self, input_shape: Shape) -> None:
        shape = (input_shape[-1],)
        self.gamma = self.add_weight(name="gamma", shape=shape, initializer="ones")
        self.beta = self.add_weight(name="beta", shape=shape, initializer="zeros")

    def call(self, inputs: Tensor) -> Tensor:
        return inputs * self.gamma + self.beta

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape


def build_model(config: Config, norm: str, images: np.ndarray) -> keras.Model:
    """The compiled network, from pixels as they come (0 to 255) to logits.

    Args:
        config: The run's `Config`.
        norm: The name of one of the experiment's norms.
        images: The training images, `(cases, height, width, channels)`. ConvPool-CNN-C whitens
            its inputs by their statistics, which it keeps.

    Raises:
        ValueError: If `norm` is unknown.

    Example:

    >>> import numpy as np
    >>> from tf_layernorm.experiments.convnet import Config
    >>> from tf_layernorm.experiments.convnet.model import build_model
    >>> build_model(Config(), "layer", np.zeros((1, 28, 28, 1))).count_params()
    115562
    """
    EXPERIMENT.norm(norm)
    inputs = keras.Input(images.shape[1:], dtype="uint8")
    if config.network == "small":
        x = small(keras.layers.Rescaling(1 / 255)(inputs), norm)
    else:
        from tf_layernorm.experiments.convnet.whitening import Whitening

        x = keras.layers.Rescaling(1 / 128, -127.5 / 128)(inputs)
        whitening = Whitening()
        whitening.adapt((images - 127.5) / 128)
        x = conv_pool(whitening(x), norm)
    model = keras.Model(inputs, x, name=f"{config.network}_{norm}")
    model.compile(
        adam(schedule(config, len(images)), config.adam_epsilon),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
        jit_compile=True,
    )
    return model


def normalized(
    x: Tensor, norm: str, layer: type[keras.layers.Layer], *args: Any, **kwargs: Any
) -> Tensor:
    """The summed inputs `layer(*args, **kwargs)(x)`, normalised, with a gain and a bias a channel.

    * `"layer"` and `"rms"`: over height, width and channels, which are all units of the layer;
    * `"channel"`: over the channels at each position;
    * `"instance"`: over the positions of each channel; in a dense layer, which has one position,
      nothing is left to normalise;
    * `"batch"`: over the batch and the positions of each channel;
    * `"weight"`: by the length of each channel's weight vector.
    """
    dense = layer is keras.layers.Dense
    if norm == "none" or (norm == "instance" and dense):
        return layer(*args, **kwargs)(x)
    if norm == "weight":
        return WeightNorm(layer(*args, **kwargs))(x)
    x = layer(*args, use_bias=False, **kwargs)(x)
    if norm == "batch":
        return BatchNorm(momentum=0.9)(x)
    kind = RMSNorm if norm == "rms" else LayerNorm
    return ChannelAffine()(kind((1,) if dense else AXES[norm], center=False, scale=False)(x))


def small(x: Tensor, norm: str) -> Tensor:
    """Three convolutions of 16, 32 and 32 channels, then 64 units, all with ReLU; logits."""
    for k, (channels, strides) in enumerate([(16, 1), (32, 2), (32, 2)], start=1):
        options = {"strides": strides, "padding": "same"}
        x = normalized(x, norm, keras.layers.Conv2D, channels, 3, **options)
        x = keras.layers.ReLU(name=f"conv{k}")(x)
    x = normalized(keras.layers.Flatten()(x), norm, keras.layers.Dense, 64)
    return keras.layers.Dense(10)(keras.layers.ReLU()(x))


def conv_pool(x: Tensor, norm: str) -> Tensor:
    """ConvPool-CNN-C as Salimans & Kingma (2016) train it; logits.

    Their code has batch norm and weight norm on the logits too. A norm over the ten logits of a
    case would fix their size, so the others leave them alone.
    """
    same, valid = [(192, 3, "same")] * 3, [(192, 3, "valid"), *[(192, 1, "valid")] * 2]
    x = keras.layers.GaussianNoise(0.15)(x)
    for k, (channels, size, padding) in enumerate([(96, 3, "same")] * 3 + same + valid, start=1):
        if k in (4, 7):
            x = keras.layers.Dropout(0.5)(keras.layers.MaxPooling2D(2)(x))
        x = normalized(x, norm, keras.layers.Conv2D, channels, size, padding=padding)
        x = keras.layers.LeakyReLU(0.1, name=f"conv{k}")(x)
    x = keras.layers.GlobalAveragePooling2D()(x)
    return normalized(x, norm if norm in ("batch", "weight") else "none", keras.layers.Dense, 10)


@serializable
class ConstantThenLinear(keras.optimizers.schedules.LearningRateSchedule):
    """A learning rate that stays for `constant` updates, then falls in a line to 0 in `decay`."""

    def __init__(self, learning_rate: float, constant: int, decay: int) -> None:
        super().__init__()
        self.learning_rate, self.constant, self.decay = learning_rate, constant, decay

    def __call__(self, step: Tensor) -> Tensor:
        left = (self.constant + self.decay - keras.ops.cast(step, "float32")) / self.decay
        return self.learning_rate * keras.ops.clip(left, 0.0, 1.0)

    def get_config(self) -> dict[str, Any]:
        names = ("learning_rate", "constant", "decay")
        return {name: getattr(self, name) for name in names}


def schedule(config: Config, cases: int) -> float | ConstantThenLinear:
    """The learning rate of a `Config`, for so many training images."""
    if not config.decay_epochs:
        return config.learning_rate
    steps = cases // config.batch_size
    constant, decay = config.constant_epochs * steps, config.decay_epochs * steps
    return ConstantThenLinear(config.learning_rate, constant, decay)

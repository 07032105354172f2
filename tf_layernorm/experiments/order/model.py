"""The order embeddings' network: captions through a GRU, images through one linear layer."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from tf_layernorm import LNGRU
from tf_layernorm._arguments import Tensor
from tf_layernorm.experiments.initial import PerGate, UncorrectedAdam
from tf_layernorm.experiments.optimizer import adam
from tf_layernorm.experiments.order.loss import RankingLoss
from tf_layernorm.experiments.words import WordEmbedding

NORMALIZE: dict[str, tuple[str, ...]] = {
    "layer": ("kernel", "recurrent"),  # eq. (26)-(28)
    "none": (),
}


def build_model(config: Any, norm: str, words: int, image_shape: Sequence[int]) -> keras.Model:
    """The compiled network, from images and captions to their embeddings, `(B, 2, units)`.

    Both halves end in vectors of norm 1 without signs. They are its layers `caption_encoder`, which
    takes `{"words": (B, T), "mask": (B, T)}`, and `image_encoder`, each a model of its own. Layer
    norm is in the captions' GRU alone.

    Args:
        config: The run's `Config`.
        norm: `"layer"` or `"none"`.
        words: Size of the vocabulary, `<eos>` and `<unk>` counted.
        image_shape: `(features,)`, or `(height, width, channels)` of pixels as uint8, which are
            flattened, white as 0.

    Raises:
        ValueError: If `norm` is unknown.

    Example:

    >>> from tf_layernorm.experiments.order import EXPERIMENT
    >>> from tf_layernorm.experiments.order.model import build_model
    >>> build_model(EXPERIMENT.presets["paper"].config, "none", 20000, (4096,)).count_params()
    14266752
    """
    if norm not in NORMALIZE:
        raise ValueError(f"`norm` must be one of {(*NORMALIZE,)}. Received: norm={norm!r}")
    ids = keras.Input((None,), dtype="int32", name="words")
    mask = keras.Input((None,), dtype="bool", name="mask")
    uniform = keras.initializers.RandomUniform(-config.word_spread, config.word_spread)
    vectors = WordEmbedding(words, config.word_size, uniform.clone(), name="vectors")(ids)
    # The authors draw orthogonal matrices where a gate's block is square.
    kernel = "orthogonal" if config.word_size == config.units else uniform
    state = LNGRU(
        config.units,
        normalize=NORMALIZE[norm],
        kernel_initializer=PerGate(kernel, 3),
        recurrent_initializer=PerGate("orthogonal", 3),
        name="gru",
    )(vectors, mask=mask)
    captions = keras.Model(
        {"words": ids, "mask": mask}, _embedded(state, config.score), name="caption_encoder"
    )

    pixels = len(image_shape) > 1
    image = keras.Input(image_shape, dtype="uint8" if pixels else "float32", name="images")
    features = image
    if pixels:
        features = keras.layers.Rescaling(-1 / 255, offset=1)(features)
        features = keras.layers.Flatten()(features)
    features = keras.layers.UnitNormalization()(features)
    features = keras.layers.Dense(config.units, name="linear")(features)
    images = keras.Model(image, _embedded(features, config.score), name="image_encoder")

    outputs = ops.stack([captions({"words": ids, "mask": mask}), images(image)], axis=1)
    model = keras.Model({"images": image, "words": ids, "mask": mask}, outputs, name="order")
    rate = config.learning_rate
    model.compile(
        adam(
            rate if config.corrected_adam else UncorrectedAdam(rate),
            config.adam_epsilon,
            clipnorm=config.clip_norm,
        ),
        RankingLoss(config.score, config.margin),
        jit_compile=config.compiled,
    )
    return model


def _embedded(x: Tensor, score: str) -> Tensor:
    """Of norm 1, and then, for the order, without signs."""
    x = keras.layers.UnitNormalization()(x)
    return ops.absolute(x) if score == "order" else x

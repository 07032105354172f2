"""The network of the handwriting experiment, Graves' (2013)."""

from typing import Any

import keras
from keras import ops

from tf_layernorm import LNLSTM, LNLSTMCell
from tf_layernorm._arguments import Tensor, serializable
from tf_layernorm.attention import WindowCell
from tf_layernorm.data.pen import ALPHABET
from tf_layernorm.experiments.handwriting import EXPERIMENT, NORMALIZE, Config
from tf_layernorm.experiments.optimizer import adam
from tf_layernorm.mixture import MixtureHead, MixtureNLL, mixture_nll


@serializable
class LineNLL(keras.metrics.Mean):
    """The mean over lines of the NLL of all their points."""

    def update_state(self, y_true: Tensor, y_pred: Tensor, sample_weight: Any = None) -> None:
        nll = mixture_nll(y_true, y_pred)
        nll = nll if sample_weight is None else nll * ops.cast(sample_weight, nll.dtype)
        super().update_state(ops.sum(nll, axis=-1))


def build_model(config: Config, norm: str, symbols: int = len(ALPHABET)) -> keras.Model:
    """The compiled network, from points and characters to the mixture of the next point.

    Three LSTM layers, of which the first moves the window over the text; the input and what the
    window shows go to all of them, and all of them to the output. The biases start from small
    random numbers: the first point of a line is the zero vector, so that with zero biases the first
    state has no variance, where the gradient of layer norm is 1 / sqrt(epsilon).

    Args:
        config: The run's `Config`.
        norm: `"layer"` or `"none"`.
        symbols: Size of the alphabet. Defaults to Graves' 57.

    Raises:
        ValueError: If `norm` is unknown.

    Example:

    >>> from tf_layernorm.experiments.handwriting import Config
    >>> from tf_layernorm.experiments.handwriting.model import build_model
    >>> build_model(Config(), "none").count_params()
    3650151
    """
    EXPERIMENT.norm(norm)
    options: dict[str, Any] = {
        "units": config.units,
        "normalize": NORMALIZE[norm],
        "bias_initializer": keras.initializers.RandomNormal(stddev=config.bias_spread),
    }
    points = keras.Input((None, 3), name="points")
    characters = keras.Input((None, symbols), name="characters")
    lstm = LNLSTMCell(**options, name="cell")
    cell = WindowCell(lstm, symbols, config.window, config.advance, name="window")
    first = keras.layers.RNN(cell, return_sequences=True, name="first")
    read = first(points, initial_state=cell.initial_state(characters))
    hidden = [read[..., : config.units]]
    shown = read[..., config.units :]
    for name in ("second", "third"):
        inputs = ops.concatenate([points, shown, hidden[-1]], axis=-1)
        hidden.append(LNLSTM(**options, return_sequences=True, name=name)(inputs))
    outputs = MixtureHead(config.components, name="next")(ops.concatenate(hidden, axis=-1))
    model = keras.Model({"points": points, "characters": characters}, outputs)
    model.compile(
        adam(config.learning_rate, config.adam_epsilon, global_clipnorm=config.clip_norm),
        MixtureNLL(),
        weighted_metrics=[
            keras.metrics.MeanMetricWrapper(mixture_nll, name="nll"),
            LineNLL(name="line_nll"),
        ],
        jit_compile=config.compiled,
    )
    return model

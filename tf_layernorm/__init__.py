"""Layer Normalization (Ba, Kiros, Hinton 2016) for Keras 3 on TensorFlow."""

import typing

import keras

if keras.config.backend() != "tensorflow":
    raise ImportError(
        "tf_layernorm needs Keras' TensorFlow backend: set KERAS_BACKEND=tensorflow before Keras "
        f"is imported. Received: backend={keras.config.backend()!r}"
    )

from tf_layernorm import _lazy
from tf_layernorm.dense import LNDense
from tf_layernorm.normalization import LayerNorm, layer_norm
from tf_layernorm.recurrent.gru import LNGRU, LNGRUCell
from tf_layernorm.recurrent.lstm import LNLSTM, LNLSTMCell
from tf_layernorm.recurrent.simple_rnn import LNSimpleRNN, LNSimpleRNNCell

if typing.TYPE_CHECKING:
    from tf_layernorm import analysis as analysis
    from tf_layernorm import attention as attention
    from tf_layernorm import baselines as baselines
    from tf_layernorm import convert as convert
    from tf_layernorm import data as data
    from tf_layernorm import export as export
    from tf_layernorm import mixture as mixture

__all__ = [
    "LNGRU",
    "LNGRUCell",
    "LNDense",
    "LNLSTM",
    "LNLSTMCell",
    "LNSimpleRNN",
    "LNSimpleRNNCell",
    "LayerNorm",
    "layer_norm",
]

__version__ = "0.1.0"

_MODULES = ["analysis", "attention", "baselines", "convert", "data", "export", "mixture"]

_lazy.register()
__getattr__ = _lazy.submodules(__name__, _MODULES)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})

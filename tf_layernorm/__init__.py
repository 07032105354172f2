"""Layer Normalization (Ba, Kiros, Hinton 2016) for Keras 3 on TensorFlow."""

import keras

if keras.config.backend() != "tensorflow":
    raise ImportError(
        "tf_layernorm needs Keras' TensorFlow backend: set KERAS_BACKEND=tensorflow before Keras "
        f"is imported. Received: backend={keras.config.backend()!r}"
    )

from tf_layernorm.dense import LNDense
from tf_layernorm.normalization import LayerNorm, layer_norm
from tf_layernorm.recurrent.gru import LNGRU, LNGRUCell
from tf_layernorm.recurrent.lstm import LNLSTM, LNLSTMCell
from tf_layernorm.recurrent.simple_rnn import LNSimpleRNN, LNSimpleRNNCell

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

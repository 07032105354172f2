"""Layers from the weights of other libraries.

Each function takes the other library's arrays and returns a built sequence layer that computes the
same, options included, so that nothing is left to be set right by hand; `from_keras` takes layers
and models. What no weights of ours
compute is refused with the reason. For a cell, a wrapper, or a stateful layer, make it with the
same options and copy: `other.set_weights(layer.get_weights())`.

* `from_keras`: `keras.layers.LSTM`, `GRU` and `SimpleRNN`, in both directions and within whole
  models, as layers without a norm.
* `from_tfa_lstm`, `from_tfa_simple_rnn`: TensorFlow Addons.
* `from_fastrnns`: the LN-LSTM of PyTorch's fastrnns benchmark.
* `from_haste_lstm`: LMNT's Haste, for TensorFlow and PyTorch.
* `from_theano_lstm`, `from_theano_gru`: the code of the paper's authors.
"""

from tf_layernorm.convert.addons import from_tfa_lstm, from_tfa_simple_rnn
from tf_layernorm.convert.fastrnns import from_fastrnns
from tf_layernorm.convert.haste import from_haste_lstm
from tf_layernorm.convert.keras_layers import from_keras
from tf_layernorm.convert.theano import from_theano_gru, from_theano_lstm

__all__ = [
    "from_fastrnns",
    "from_haste_lstm",
    "from_keras",
    "from_tfa_lstm",
    "from_tfa_simple_rnn",
    "from_theano_gru",
    "from_theano_lstm",
]

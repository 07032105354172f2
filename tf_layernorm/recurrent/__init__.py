"""The recurrent cells and layers, and what a cell of your own needs."""

from tf_layernorm.recurrent.cell import LNCell
from tf_layernorm.recurrent.gru import LNGRU, LNGRUCell
from tf_layernorm.recurrent.layer import FusedRNN
from tf_layernorm.recurrent.lstm import LNLSTM, LNLSTMCell
from tf_layernorm.recurrent.simple_rnn import LNSimpleRNN, LNSimpleRNNCell

__all__ = [
    "FusedRNN",
    "LNCell",
    "LNGRU",
    "LNGRUCell",
    "LNLSTM",
    "LNLSTMCell",
    "LNSimpleRNN",
    "LNSimpleRNNCell",
]

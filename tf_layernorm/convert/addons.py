"""From TensorFlow Addons 0.23, `tfa.rnn`."""

from collections.abc import Iterable
from typing import Any

from tf_layernorm.convert.weights import Array, filled, take
from tf_layernorm.recurrent.lstm import LNLSTM
from tf_layernorm.recurrent.simple_rnn import LNSimpleRNN

# In `get_weights()` order.
_LSTM = {
    "kernel": "D, 4U",
    "recurrent_kernel": "U, 4U",
    "bias": "4U",
    "kernel_norm/gamma": "4U",
    "kernel_norm/beta": "4U",
    "recurrent_norm/gamma": "4U",
    "recurrent_norm/beta": "4U",
    "state_norm/gamma": "U",
    "state_norm/beta": "U",
}
_SIMPLE_RNN = {"kernel": "D, U", "recurrent_kernel": "U, U", "bias": "U", "gamma": "U"}


def from_tfa_lstm(weights: Iterable[Any], *, epsilon: float = 1e-3, **kwargs: Any) -> LNLSTM:
    """An `LNLSTM` that computes what `tfa.rnn.LayerNormLSTMCell` did.

    That cell carries LN(c) on in place of the c of equation (21), its epsilon is 1e-3, and its two
    norms of the gates have betas, which are added to the bias here.

    Args:
        weights: The arrays of `cell.get_weights()` or of the `get_weights()` of an RNN over the
            cell, in their order; 9 of them, or 8 with `use_bias=False`.
        epsilon: The cell's `norm_epsilon`. Defaults to `1e-3`, as there.
        **kwargs: Other arguments of `LNLSTM`, as `return_sequences` or `activation`.

    Returns:
        A built layer with `carry_normalized_state=True`.

    Raises:
        ValueError: If the weights are not those of such a cell.

    Example:

    >>> import keras, numpy as np
    >>> from tf_layernorm.convert import from_tfa_lstm
    >>> shapes = [(3, 16), (4, 16), 16, 16, 16, 16, 16, 4, 4]  # of D = 3 inputs and U = 4 units
    >>> layer = from_tfa_lstm([np.ones(shape) for shape in shapes], return_sequences=True)
    >>> keras.Sequential([keras.Input((None, 3)), layer]).output_shape
    (None, None, 4)

    References:
        [Ba, Kiros, Hinton, 2016](https://arxiv.org/abs/1607.06450), eq. (20)-(22).
    """
    w = _named("LayerNormLSTMCell", weights, _LSTM)
    bias = w.get("bias", 0.0) + w["kernel_norm/beta"] + w["recurrent_norm/beta"]
    gates = [w["kernel"], w["recurrent_kernel"], bias]
    gates += [w["kernel_norm/gamma"], w["recurrent_norm/gamma"]]
    state = [w["state_norm/gamma"], w["state_norm/beta"]]
    layer = LNLSTM(len(state[0]), carry_normalized_state=True, epsilon=epsilon, **kwargs)
    return filled(layer, gates + state)


def from_tfa_simple_rnn(
    weights: Iterable[Any], *, epsilon: float = 1e-5, **kwargs: Any
) -> LNSimpleRNN:
    """An `LNSimpleRNN` that computes what `tfa.rnn.LayerNormSimpleRNNCell` did: equation (4).

    Args:
        weights: The arrays of `cell.get_weights()` or of the `get_weights()` of an RNN over the
            cell, in their order; 4 of them, or 3 with `use_bias=False`.
        epsilon: The cell's `layernorm_epsilon`. Defaults to `1e-5`, as there.
        **kwargs: Other arguments of `LNSimpleRNN`, as `return_sequences` or `activation`.

    Returns:
        A built layer.

    Raises:
        ValueError: If the weights are not those of such a cell.

    Example:

    >>> import keras, numpy as np
    >>> from tf_layernorm.convert import from_tfa_simple_rnn
    >>> layer = from_tfa_simple_rnn([np.ones(shape) for shape in [(3, 4), (4, 4), 4, 4]])
    >>> keras.Sequential([keras.Input((None, 3)), layer]).output_shape
    (None, 4)

    References:
        [Ba, Kiros, Hinton, 2016](https://arxiv.org/abs/1607.06450), eq. (4).
    """
    w = _named("LayerNormSimpleRNNCell", weights, _SIMPLE_RNN)
    layer = LNSimpleRNN(len(w["gamma"]), use_bias="bias" in w, epsilon=epsilon, **kwargs)
    return filled(layer, list(w.values()))


def _named(cell: str, weights: Iterable[Any], shapes: dict[str, str]) -> dict[str, Array]:
    """The arrays under their names; a list that is one short has no bias."""
    arrays = list(weights)
    if len(arrays) == len(shapes) - 1:
        shapes = {name: shape for name, shape in shapes.items() if name != "bias"}
    if len(arrays) != len(shapes):
        raise ValueError(
            f"tfa.rnn.{cell} has {len(shapes)} arrays, or one less without a bias. "
            f"Received: {len(arrays)} arrays"
        )
    return take(f"tfa.rnn.{cell}", dict(zip(shapes, arrays)), shapes)

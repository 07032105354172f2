"""From LMNT's Haste, whose LN-LSTM is the paper's."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tf_layernorm.convert.weights import filled, reorder, take
from tf_layernorm.recurrent.lstm import LNLSTM

_SHAPES = {
    "kernel": "D, 4U",
    "recurrent_kernel": "U, 4U",
    "bias": "4U",
    "gamma": "2, 4U",
    "gamma_h": "U",
    "beta_h": "U",
}
_GATES = (0, 2, 1, 3)  # i, f, c, o of Haste's i, g, f, o


def from_haste_lstm(arrays: Mapping[str, Any], prefix: str = "", **kwargs: Any) -> LNLSTM:
    """An `LNLSTM` that computes what Haste's `LayerNormLSTM` does: equations (20)-(22).

    Only the order of the gates differs. Haste's `LayerNormGRU` is refused: it normalises the `3 *
    units` values of z, r and the candidate jointly, where equation (26) normalises `2 * units`
    and (27) `units`, so no weights of `LNGRU` compute it.

    Zoneout is no matter of weights, but mixes the old h into the new one at inference too: for a
    Haste layer with `zoneout=p` give `zoneout=(p, 0.0)`.

    Args:
        arrays: The arrays by name: a `state_dict()` of `haste_pytorch.LayerNormLSTM`, or the
            variables of `haste_tf.LayerNormLSTM`, whose `kernel` holds the recurrent kernel in its
            last rows.
        prefix: What stands before the names, as `"lstm_cell/"`. Defaults to `""`.
        **kwargs: Other arguments of `LNLSTM`, as `return_sequences`.

    Returns:
        A built layer.

    Raises:
        ValueError: If the arrays are not those of such a layer.

    Example:

    >>> import keras, numpy as np
    >>> from tf_layernorm.convert import from_haste_lstm
    >>> arrays = {"kernel": np.ones((3, 16)), "recurrent_kernel": np.ones((4, 16))}
    >>> arrays |= {"bias": np.zeros(16), "gamma": np.ones((2, 16))}
    >>> arrays |= {"gamma_h": np.ones(4), "beta_h": np.zeros(4)}
    >>> keras.Sequential([keras.Input((None, 3)), from_haste_lstm(arrays)]).output_shape
    (None, 4)

    References:
        [Ba, Kiros, Hinton, 2016](https://arxiv.org/abs/1607.06450), eq. (20)-(22), (26)-(27).
    """
    own = {k.removeprefix(prefix): a for k, a in arrays.items() if k.startswith(prefix)}
    if "gamma" in own and "gamma_h" not in own:
        raise ValueError(
            "Of Haste's layers only LayerNormLSTM has a counterpart: LayerNormGRU normalises its "
            "3U values jointly, equations (26) and (27) normalise 2U and U of them apart. "
            f"Received: {sorted(own)}, without gamma_h"
        )
    if "kernel" in own and "gamma_h" in own and "recurrent_kernel" not in own:
        kernel, recurrent_kernel = np.split(np.asarray(own["kernel"]), [-len(own["gamma_h"])])
        own |= {"kernel": kernel, "recurrent_kernel": recurrent_kernel}
    w = take("Haste's LayerNormLSTM", own, _SHAPES)
    gates = [w["kernel"], w["recurrent_kernel"], w["bias"], *w["gamma"]]
    state = [w["gamma_h"], w["beta_h"]]
    layer = LNLSTM(len(state[0]), epsilon=1e-5, **kwargs)
    return filled(layer, [reorder(array, _GATES) for array in gates] + state)

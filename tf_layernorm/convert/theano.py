"""From the Theano code of the paper's authors, ryankiros/layer-norm, and its `.npz` models."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tf_layernorm.convert.weights import Array, filled, reorder, take
from tf_layernorm.recurrent.gru import LNGRU
from tf_layernorm.recurrent.lstm import LNLSTM

_LSTM = {"W": "D, 4U", "U": "U, 4U", "b": "4U", "b1": "4U", "b2": "4U", "b3": "U"}
_LSTM |= {"s1": "4U", "s2": "4U", "s3": "U"}
_GRU = {"W": "D, 2U", "U": "U, 2U", "b": "2U", "Wx": "D, U", "Ux": "U, U", "bx": "U"}
_GRU |= {f"{kind}{k}": size for k, size in enumerate(("2U", "U", "2U", "U"), 1) for kind in "bs"}


def from_theano_lstm(
    arrays: Mapping[str, Any], prefix: str = "lnlstm", *, append_one: bool = False, **kwargs: Any
) -> LNLSTM:
    """An `LNLSTM` that computes what the authors' `lnlstm_layer` does.

    The authors add their bias b twice: as equation (20) has it, and to W_x x before its norm.
    Inside the norm, equal entries of b cancel, and others have no place in (20). But with a 1
    appended to the inputs, that b is a row of the kernel, which is exact for any b:

        x = keras.ops.pad(x, [(0, 0), (0, 0), (0, 1)], constant_values=1.0)

    Args:
        arrays: The arrays by name, as `numpy.load` gives them.
        prefix: What stands before `_W`, `_U` and so on. Defaults to `"lnlstm"`.
        append_one: Whether the layer is for inputs with a 1 appended. Defaults to `False`.
        **kwargs: Other arguments of `LNLSTM`, as `return_sequences`.

    Returns:
        A built layer.

    Raises:
        ValueError: If the arrays are not those of such a layer; if the entries of its b differ
            and `append_one` is `False`; or if it has an initial state `_h0`, which is to be taken
            out of `arrays` and given as `initial_state`.

    Example:

    >>> import keras, numpy as np
    >>> from tf_layernorm.convert import from_theano_lstm
    >>> shapes = dict(W=(3, 16), U=(4, 16), b=16, b1=16, b2=16, b3=4, s1=16, s2=16, s3=4)
    >>> arrays = {f"lnlstm_{name}": np.ones(shape) for name, shape in shapes.items()}
    >>> keras.Sequential([keras.Input((None, 3)), from_theano_lstm(arrays)]).output_shape
    (None, 4)

    References:
        [Ba, Kiros, Hinton, 2016](https://arxiv.org/abs/1607.06450), eq. (20)-(22).
    """
    if f"{prefix}_h0" in arrays:
        raise ValueError(
            "A learned initial state is no weight of LNLSTM: take it out of `arrays` and give it "
            f"as `initial_state`. Received: {prefix}_h0"
        )
    w = take("The authors' lnlstm", arrays, _LSTM, f"{prefix}_")
    kernel = _with_bias_inside([w["W"]], [w["b"]], append_one)
    gates = [kernel, w["U"], w["b1"] + w["b2"] + w["b"], w["s1"], w["s2"]]
    layer = LNLSTM(len(w["s3"]), epsilon=1e-5, **kwargs)
    # i, f, c, o of the authors' i, f, o, c.
    return filled(layer, [reorder(array, (0, 1, 3, 2)) for array in gates] + [w["s3"], w["b3"]])


def from_theano_gru(
    arrays: Mapping[str, Any], prefix: str = "lngru", *, append_one: bool = False, **kwargs: Any
) -> LNGRU:
    """An `LNGRU` that computes what the authors' `lngru_layer` does.

    Their update gate keeps the old state, where that of equation (28) lets the new one in: since
    1 - σ(z) = σ(-z), the gammas and betas of z change their sign. (The kernels do not: the norm of
    z and r is joint.) Their biases b and bx stand inside the norms of the inputs alone; see
    `from_theano_lstm` for what that means.

    Args:
        arrays: The arrays by name, as `numpy.load` gives them.
        prefix: What stands before `_W`, `_U` and so on. Defaults to `"lngru"`.
        append_one: Whether the layer is for inputs with a 1 appended. Defaults to `False`.
        **kwargs: Other arguments of `LNGRU`, as `return_sequences`.

    Returns:
        A built layer.

    Raises:
        ValueError: If the arrays are not those of such a layer, or if the entries of its b or
            of its bx differ and `append_one` is `False`.

    Example:

    >>> import keras, numpy as np
    >>> from tf_layernorm.convert import from_theano_gru
    >>> shapes = dict(W=(3, 8), U=(4, 8), b=8, Wx=(3, 4), Ux=(4, 4), bx=4)
    >>> shapes |= {f"{kind}{k}": 8 if k % 2 else 4 for k in (1, 2, 3, 4) for kind in "bs"}
    >>> arrays = {f"lngru_{name}": np.ones(shape) for name, shape in shapes.items()}
    >>> keras.Sequential([keras.Input((None, 3)), from_theano_gru(arrays)]).output_shape
    (None, 4)

    References:
        [Ba, Kiros, Hinton, 2016](https://arxiv.org/abs/1607.06450), eq. (26)-(28).
    """
    w = take("The authors' lngru", arrays, _GRU, f"{prefix}_")

    def joined(gates: Array, candidate: Array, sign: int = 1) -> Array:
        """In the order z, r, h, the gates being r, u."""
        r, u = np.split(gates, 2, axis=-1)
        return np.concatenate([sign * u, r, candidate], axis=-1)

    kernel = _with_bias_inside([w["W"], w["Wx"]], [w["b"], w["bx"]], append_one)
    gates, candidate = np.split(kernel, [2 * len(w["s4"])], axis=-1)
    weights = [
        joined(gates, candidate),
        joined(w["U"], w["Ux"]),
        joined(w["b1"] + w["b3"], w["b2"], sign=-1),
        w["b4"],
        joined(w["s1"], w["s2"], sign=-1),
        joined(w["s3"], w["s4"], sign=-1),
    ]
    return filled(LNGRU(len(w["s4"]), epsilon=1e-5, **kwargs), weights)


def _with_bias_inside(kernels: list[Array], biases: list[Array], append_one: bool) -> Array:
    """The kernels side by side; the biases, each in a norm of its own, are a row or cancel."""
    uneven = [bias for bias in biases if np.ptp(bias) > 0]
    if append_one:
        kernels = [np.vstack([k, b]) for k, b in zip(kernels, biases, strict=True)]
    elif uneven:
        raise ValueError(
            "The authors add a bias to the inputs' product before its norm, where equal entries "
            "cancel and others have no place in the paper's equations. Append a 1 to the inputs "
            f"and use `append_one=True`. Received: entries of {uneven[0].min()} to "
            f"{uneven[0].max()}"
        )
    return np.concatenate(kernels, axis=-1)

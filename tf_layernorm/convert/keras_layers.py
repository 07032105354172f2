"""From `keras.layers.LSTM` and `GRU`, as layers without a norm."""

import inspect
from typing import Any

import keras
import numpy as np

from tf_layernorm.convert.weights import filled
from tf_layernorm.recurrent.gru import LNGRU
from tf_layernorm.recurrent.lstm import LNLSTM


def from_keras(layer: Any, **kwargs: Any) -> LNLSTM | LNGRU:
    """An `LNLSTM` or `LNGRU` with `normalize=()` that computes what a Keras layer does.

    All options go over, name and dtype policy included. A GRU's update gate keeps the old state,
    where that of equation (25) lets the new one in: since 1 - σ(z) = σ(-z), the kernels and biases
    of z change their sign. Keras' two biases of z and of r are added up. Under dropout the two
    train alike but not the same: Keras may draw one mask a gate.

    Args:
        layer: A built `keras.layers.LSTM` or `keras.layers.GRU`.
        **kwargs: Arguments of `LNLSTM` or `LNGRU` to change, as `name` or `use_fused`.

    Returns:
        A built layer.

    Raises:
        ValueError: If the layer is another, or not built; or if it is a GRU with
            `reset_after=False`, another recurrent activation than sigmoid or hard_sigmoid, a
            constraint, or a regularizer of its biases.

    Example:

    >>> import keras, numpy as np
    >>> from tf_layernorm.convert import from_keras
    >>> x = np.ones((2, 5, 3), "float32")
    >>> gru = keras.layers.GRU(4)
    >>> np.allclose(gru(x), from_keras(gru)(x), atol=1e-6)
    True

    Both directions of a `keras.layers.Bidirectional`, which makes its layers anew:

    >>> theirs = keras.layers.Bidirectional(keras.layers.GRU(4))
    >>> theirs.build(x.shape)
    >>> parts = [from_keras(part) for part in (theirs.forward_layer, theirs.backward_layer)]
    >>> ours = keras.layers.Bidirectional(parts[0], backward_layer=parts[1])
    >>> ours.build(x.shape)
    >>> ours.set_weights(parts[0].get_weights() + parts[1].get_weights())

    References:
        [Ba, Kiros, Hinton, 2016](https://arxiv.org/abs/1607.06450), eq. (17)-(19), (23)-(25).
    """
    kinds: dict[type, Any] = {keras.layers.LSTM: LNLSTM, keras.layers.GRU: LNGRU}
    # A subclass may compute something else.
    if type(layer) not in kinds or not layer.built:
        raise ValueError(
            "`layer` must be a built `keras.layers.LSTM` or `keras.layers.GRU`. "
            f"Received: layer={layer!r}"
        )
    ours = kinds[type(layer)]
    weights = layer.get_weights()
    if ours is LNGRU:
        _check_gru(layer)
        weights = _gru_weights(*weights)
    known = inspect.signature(ours).parameters
    options = {name: value for name, value in layer.get_config().items() if name in known}
    # As they are: a function that Keras doesn't know has no name in the config.
    options |= {name: getattr(layer, name) for name in ("activation", "recurrent_activation")}
    batch_size = layer.states[0].shape[0] if layer.stateful else None
    return filled(ours(**{**options, "normalize": (), **kwargs}), weights, batch_size)


def _check_gru(layer: Any) -> None:
    if not layer.reset_after:
        raise ValueError(
            "With `reset_after=False` the reset gate acts on h before the recurrent product, in "
            "equation (27) after it. Received: reset_after=False"
        )
    symmetric = (keras.activations.sigmoid, keras.activations.hard_sigmoid)
    if layer.recurrent_activation not in symmetric:
        raise ValueError(
            "Keras' update gate z is 1 - z here, which needs a recurrent activation of which "
            "1 - f(z) = f(-z): sigmoid or hard_sigmoid. "
            f"Received: recurrent_activation={layer.recurrent_activation!r}"
        )
    for name in (
        "kernel_constraint",
        "recurrent_constraint",
        "bias_constraint",
        "bias_regularizer",
    ):
        if getattr(layer, name) is not None:
            raise ValueError(
                "The kernels of the update gate change their sign and the biases are added up, "
                f"so `{name}` would mean something else. Received: {name}={getattr(layer, name)!r}"
            )


def _gru_weights(kernel: Any, recurrent_kernel: Any, *biases: Any) -> list[Any]:
    """z with the other sign, and the two biases of z and of r as one."""
    units = len(recurrent_kernel)
    sign = np.repeat([-1.0, 1.0, 1.0], units)
    weights = [sign * kernel, sign * recurrent_kernel]
    for given, recurrent in biases:
        outside, inside = np.split(recurrent, [2 * units])
        weights += [sign * (given + np.pad(outside, (0, units))), inside]
    return weights

"""From `keras.layers.LSTM`, `GRU` and `SimpleRNN`, as layers without a norm."""

import warnings
from typing import Any

import keras
import numpy as np

from tf_layernorm.convert.weights import filled
from tf_layernorm.recurrent.gru import LNGRU
from tf_layernorm.recurrent.layer import LNRNN
from tf_layernorm.recurrent.lstm import LNLSTM
from tf_layernorm.recurrent.simple_rnn import LNSimpleRNN

_KINDS: dict[type, Any] = {
    keras.layers.LSTM: LNLSTM,
    keras.layers.GRU: LNGRU,
    keras.layers.SimpleRNN: LNSimpleRNN,
}


def from_keras(layer: Any, **kwargs: Any) -> Any:
    """A layer of this package with `normalize=()` that computes what a Keras layer does.

    All options go over, name and dtype policy included. A GRU's update gate keeps the old state,
    where that of equation (25) lets the new one in: since 1 - σ(z) = σ(-z), the kernels and biases
    of z change their sign. Keras' two biases of z and of r are added up. Under dropout the two
    train alike but not the same: Keras may draw one mask a gate.

    Of a Sequential or functional model all such layers are converted, those in models within it
    too; the others are copied with their weights. Recurrent layers that can't be converted are
    copied as well, and a warning lists them with the reasons. Compile the new model.

    Args:
        layer: A built `keras.layers.LSTM`, `GRU` or `SimpleRNN`, a `Bidirectional` of them, or a
            built Sequential or functional model.
        **kwargs: Arguments to change in what is converted, as `name` or `use_fused`.

    Returns:
        A built layer, `Bidirectional` or model.

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
    >>> both = keras.layers.Bidirectional(keras.layers.LSTM(4))
    >>> model = keras.Sequential([keras.Input((None, 3)), both, keras.layers.Dense(1)])
    >>> np.allclose(model(x), from_keras(model)(x), atol=1e-6)
    True

    References:
        [Ba, Kiros, Hinton, 2016](https://arxiv.org/abs/1607.06450), eq. (4), (17)-(19), (23)-(25).
    """
    if isinstance(layer, keras.Model) and layer.built:
        return _convert_model(layer, kwargs)
    if type(layer) is keras.layers.Bidirectional and layer.built:
        return _convert_bidirectional(layer, kwargs)
    # A subclass may compute something else.
    if type(layer) not in _KINDS or not layer.built:
        raise ValueError(
            "`layer` must be a built `keras.layers.LSTM`, `GRU` or `SimpleRNN`, a `Bidirectional` "
            f"of them, or a model. Received: layer={layer!r}"
        )
    ours = _KINDS[type(layer)]
    weights = layer.get_weights()
    if ours is LNGRU:
        _check_gru(layer)
        weights = _gru_weights(*weights)
    options = layer.get_config()
    options.pop("reset_after", None)  # the only one of theirs that isn't ours
    # As they are: a function that Keras doesn't know has no name in the config.
    for name in {"activation", "recurrent_activation"} & options.keys():
        options[name] = getattr(layer, name)
    return filled(ours(**{**options, "normalize": (), **kwargs}), weights, _batch_size(layer))


def _batch_size(layer: Any) -> int | None:
    return int(layer.states[0].shape[0]) if layer.stateful else None


def _convert_bidirectional(layer: Any, kwargs: dict[str, Any]) -> keras.layers.Bidirectional:
    options = {name: kwargs[name] for name in kwargs if name != "name"}
    parts = [from_keras(part, **options) for part in (layer.forward_layer, layer.backward_layer)]
    ours = keras.layers.Bidirectional(
        parts[0],
        merge_mode=layer.merge_mode,
        backward_layer=parts[1],
        name=kwargs.get("name", layer.name),
        dtype=layer.dtype_policy,
        trainable=layer.trainable,
    )
    # It has made both anew.
    inputs = parts[0].cell.kernel.shape[0]
    ours.build((_batch_size(layer.forward_layer), 1, inputs))
    ours.set_weights([array for part in parts for array in part.get_weights()])
    return ours


def _convert_model(model: keras.Model, kwargs: dict[str, Any]) -> keras.Model:
    copies: list[tuple[Any, Any]] = []
    left: list[str] = []

    def convert(layer: Any) -> Any:
        reason = ""
        if type(layer) in (*_KINDS, keras.layers.Bidirectional):
            try:
                return from_keras(layer, **kwargs)
            except ValueError as error:
                reason = f": {error}"
        parts = [layer, getattr(layer, "layer", None)]
        if any(isinstance(part, keras.layers.RNN) for part in parts) and not any(
            isinstance(part, LNRNN) for part in parts
        ):
            left.append(f"{layer.name!r}, a {type(layer).__name__}{reason}")
        copy = type(layer).from_config(layer.get_config())
        if isinstance(layer, keras.Layer):  # and not an operation
            copies.append((layer, copy))
        return copy

    ours = keras.models.clone_model(model, clone_function=convert, recursive=True)
    if not ours.built:
        ours.build(model.input_shape)
    for layer, copy in copies:
        copy.set_weights(layer.get_weights())
    if left:
        warnings.warn(f"Left as Keras' layers: {'; '.join(left)}", stacklevel=3)
    return ours


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

"""Table 1 for a user's own Keras layer or model."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_layernorm.analysis.norms import Array
from tf_layernorm.analysis.transformations import (
    THRESHOLD,
    Forward,
    Invariances,
    largest_changes,
)


def invariance_report(
    layer: keras.layers.Layer,
    input_shape: Sequence[int],
    kernel: str | Sequence[str] | None = None,
    *,
    training: bool = True,
    draws: int = 3,
    scale: float = 1e6,
    seed: int = 0,
) -> Invariances:
    r"""Measures which of the invariances of Table 1 a Keras layer or model has.

    The layer itself is left alone: a float64 copy made from its config is given random weights.
    What a transformation acts on, the kernels or the inputs, is drawn at a standard deviation of
    `scale`, all other weights at 1. At 1e6 an epsilon of 1e-5 in a variance moves an invariant
    output by less than 1e-15 relative, while a bias inside the normalised sum, which breaks the
    invariance, still moves it by about 1e-6. Changes are relative to the largest output.

    Args:
        layer: A layer, model or recurrent cell (which is wrapped in `keras.layers.RNN`).
        input_shape: Shape of one case, without the batch axis.
        kernel: Names or paths of the weight matrices to transform, all together, as parts of one
            matrix. Defaults to the weights named `kernel`.
        training: The mode to call the layer in. Batch norm has its invariances in training only.
        draws: How many times each transformation is drawn.
        scale: Standard deviation of what is transformed.
        seed: Seed of the draws.

    Returns:
        An `Invariances`: `changes` are numbers, `invariant` is the set of the transformations
        that moved the output by less than 1e-9, `str()` is the row of the table.

    Raises:
        ValueError: If the layer can't be copied and called, no weight matrix has the name, or the
            output isn't finite, isn't repeatable, or hardly reacts to small random changes (a
            saturated or constant output, one normalised unit for instance, would look invariant).

    Example:
        >>> import keras
        >>> before = keras.Sequential([keras.layers.LayerNormalization(), keras.layers.Dense(5)])
        >>> sorted(invariance_report(before, (4,)).invariant)
        ['case_scale', 'data_scale']

    References:
        [Ba et al., 2016](https://arxiv.org/abs/1607.06450), section 5.1.
    """
    if not scale > 0:
        raise ValueError(f"scale must be positive. Received: scale={scale}")
    rng = np.random.default_rng(seed)
    cases = (8, *input_shape)
    copy = _float64_copy(layer, cases, training)
    call = tf.function(lambda inputs: copy(inputs, training=training)).get_concrete_function(
        tf.TensorSpec(cases, tf.float64)
    )
    kernels = _weights_named(
        ["kernel"] if kernel is None else [kernel] if isinstance(kernel, str) else kernel, copy
    )
    others = [w for w in copy.trainable_weights if not any(w is k for k in kernels)]
    # Statistics, random generators and spectral norm's vectors change from call to call.
    state = [(v, v.numpy()) for v in copy.variables if not any(v is t for t in kernels + others)]

    def draw(change: str) -> tuple[Forward, Sequence[Array], Array]:
        moves_data = change in ("data_scale", "data_shift", "case_scale")
        values = [rng.normal(size=w.shape) * (1.0 if moves_data else scale) for w in kernels]
        rest = [*zip(others, [rng.normal(size=w.shape) for w in others]), *state]
        inputs = rng.normal(size=cases) * (scale if moves_data else 1.0)

        def forward(values: Sequence[Array], inputs: Array) -> Array:
            for variable, value in [*zip(kernels, values), *rest]:
                variable.assign(value)
            outputs = keras.tree.flatten(call(inputs))
            return np.concatenate([keras.ops.convert_to_numpy(y).ravel() for y in outputs])

        size = _checked_size(forward, values, inputs, moves_data, rng)
        return lambda values, inputs: forward(values, inputs) / size, values, inputs

    return Invariances(layer.name, largest_changes(draw, draws, rng))


def _float64_copy(
    layer: keras.layers.Layer, shape: tuple[int, ...], training: bool
) -> keras.layers.Layer:
    if hasattr(layer, "state_size") and not isinstance(layer, keras.layers.RNN):
        layer = keras.layers.RNN(layer, return_sequences=True, name=layer.name)
    config = _with_float64(keras.saving.serialize_keras_object(layer))
    config.pop("compile_config", None)
    policy = keras.config.dtype_policy()
    # Layers made in a constructor or in `build`, and models, take the global policy.
    keras.config.set_dtype_policy("float64")
    try:
        copy = keras.saving.deserialize_keras_object(
            config, custom_objects={type(layer).__name__: type(layer)}, safe_mode=False
        )
        copy(keras.Input(batch_shape=shape, dtype="float64"), training=training)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "The layer must be one that Keras can copy from its config and call on inputs of shape "
            f"{shape}. Received: layer={layer}"
        ) from error
    finally:
        keras.config.set_dtype_policy(policy)
    copy.trainable = True
    return copy


def _with_float64(config: Any) -> Any:
    if isinstance(config, dict):
        return {k: "float64" if k == "dtype" else _with_float64(v) for k, v in config.items()}
    if isinstance(config, (list, tuple)):
        return [_with_float64(item) for item in config]
    return config


def _weights_named(names: Sequence[str], layer: keras.layers.Layer) -> list[Any]:
    found = {n: [w for w in layer.weights if f"/{w.path}".endswith(f"/{n}")] for n in names}
    weights = [weight for matches in found.values() for weight in matches]
    if not found or not all(found.values()) or any(len(w.shape) < 2 for w in weights):
        shapes = {weight.path: tuple(weight.shape) for weight in layer.weights}
        raise ValueError(
            f"kernel must name weight matrices of the layer, whose weights are {shapes}. "
            f"Received: kernel={list(names)}"
        )
    return weights


def _checked_size(
    forward: Forward,
    kernels: Sequence[Array],
    inputs: Array,
    moves_data: bool,
    rng: np.random.Generator,
) -> float:
    """The size of the outputs, if they are such that a change of them means something."""
    outputs = forward(kernels, inputs)
    size = float(np.abs(outputs).max())
    if outputs.dtype != np.float64 or not np.isfinite(size):
        raise ValueError(
            f"The outputs must be finite numbers in float64. Received: outputs={outputs}"
        )
    if not np.array_equal(forward(kernels, inputs), outputs):
        raise ValueError(
            "The layer must give the same output twice; is there randomness that `training=False` "
            "or a seed removes? Received: two different outputs"
        )
    if moves_data:
        inputs = inputs * (1.0 + 1e-3 * rng.normal(size=inputs.shape))
    else:
        kernels = [k * (1.0 + 1e-3 * rng.normal(size=k.shape)) for k in kernels]
    reacting = np.mean(np.abs(forward(kernels, inputs) - outputs) > THRESHOLD * size)
    if reacting < 0.1:
        raise ValueError(
            "The output must react to what is transformed, or everything looks invariant: is it "
            "saturated (a smaller scale, or no activation, helps) or constant (a single normalised "
            f"unit is)? Received: {reacting:.0%} of the outputs react to small random changes"
        )
    return size

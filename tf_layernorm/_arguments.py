"""What every layer does with its constructor arguments: check, keep, show and save them."""

import inspect
import math
import warnings
from collections.abc import Sequence
from typing import Any, TypeAlias

import keras
import numpy as np

Tensor: TypeAlias = Any  # a TensorFlow tensor, a NumPy array or a KerasTensor
Shape: TypeAlias = Sequence[int | None]

# The layers' arguments that are True or False.
_FLAGS = {
    *("use_bias", "unit_forget_bias", "carry_normalized_state", "learn_initial_state"),
    *("center", "scale", "unbiased", "return_sequences", "return_state", "go_backwards"),
    *("stateful", "unroll", "zero_output_for_mask"),
}

serializable = keras.saving.register_keras_serializable(package="tf_layernorm")


def check_units(units: Any) -> int:
    """Returns `units` as an `int`, or raises a `ValueError`."""
    if isinstance(units, bool) or not hasattr(units, "__index__") or units.__index__() < 1:
        raise ValueError(f"`units` must be a positive integer. Received: units={units!r}")
    return int(units.__index__())


def check_epsilon(epsilon: Any, dtype: str) -> float:
    """Returns a layer's `epsilon` as a `float`, or raises a `ValueError`; warns as below."""
    if isinstance(epsilon, bool) or not isinstance(epsilon, (int, float)):
        raise ValueError(f"`epsilon` must be a number. Received: epsilon={epsilon!r}")
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise ValueError(
            "`epsilon` must be positive and finite (only the function `layer_norm` takes 0). "
            f"Received: epsilon={epsilon!r}"
        )
    check_smallest_epsilon(epsilon, dtype)
    return float(epsilon)


def check_smallest_epsilon(epsilon: float, dtype: str) -> None:
    """Refuses an `epsilon` which is lost in the variance; warns where the gradient overflows."""
    wide = "float64" if dtype == "float64" else "float32"
    smallest = float(np.finfo(wide).tiny)
    if 0 < epsilon < smallest:
        raise ValueError(
            f"`epsilon` must be at least {smallest:.2e}: less is 0 in the {wide} of the variance. "
            f"Received: epsilon={epsilon!r}"
        )
    # The gradient at a constant vector is 1 / sqrt(epsilon); float16 ends at 65504.
    if dtype == "float16" and 0 < epsilon < 65504.0**-2:
        warnings.warn(
            f"epsilon={epsilon} is too small for float16: gradients of up to 1 / sqrt(epsilon) = "
            f"{1 / math.sqrt(epsilon):.1e} overflow. Use at least 2.4e-10.",
            stacklevel=5,
        )


def check_flags(arguments: dict[str, Any]) -> None:
    """Raises a `ValueError` if a flag among the arguments is no `bool`."""
    for name in _FLAGS.intersection(arguments):
        if not isinstance(arguments[name], bool):
            raise ValueError(
                f"`{name}` must be True or False. Received: {name}={arguments[name]!r}"
            )


def check_seed(seed: Any) -> int | None:
    """Returns a seed as an `int` or None, or raises a `ValueError`."""
    if seed is None:
        return None
    if isinstance(seed, bool) or not hasattr(seed, "__index__"):
        raise ValueError(f"`seed` must be an integer or None. Received: seed={seed!r}")
    return int(seed.__index__())


def check_rate(name: str, rate: Any) -> float:
    """Returns a dropout rate as a `float`, or raises a `ValueError`."""
    if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 <= rate < 1:
        raise ValueError(f"`{name}` must be a number in [0, 1). Received: {name}={rate!r}")
    return float(rate)


def check_shape(layer: keras.Layer, shape: Shape, rank: int, *, at_least: bool = False) -> int:
    """Returns the size of the last axis, or raises a `ValueError` on a wrong rank or size."""
    if len(shape) < rank or (len(shape) > rank and not at_least) or shape[-1] is None:
        raise ValueError(
            f"Layer {layer.name!r} expects an input of {'at least ' * at_least}{rank} axes, the "
            f"last of known size. Received: shape={tuple(shape)}"
        )
    return int(shape[-1])


def warn_if_single(layer: keras.Layer, what: str, size: int) -> None:
    """Warns that the normalisation of one unit is a constant."""
    if size == 1:
        warnings.warn(
            f"Layer {layer.name!r} normalises {what} over a single unit: the result is a constant "
            "that does not depend on the input.",
            stacklevel=4,
        )


def show_parameters(cls: type, *parents: type) -> None:
    """Makes `help(cls)` list what the `**kwargs` of its `__init__` passes on to `parents`."""
    own = list(inspect.signature(cls.__init__).parameters.values())[1:]  # type: ignore[misc]
    shown = {p.name: p for p in own}
    if own and own[-1].kind is own[-1].VAR_KEYWORD:
        for parent in parents:
            shown = {**shown, **inspect.signature(parent).parameters, **shown}
    named = [p for p in shown.values() if p.kind is not p.VAR_POSITIONAL]
    ordered = sorted(named, key=lambda parameter: parameter.kind)
    cls.__signature__ = _ClassOnly(inspect.Signature(ordered))  # type: ignore[attr-defined]


class _ClassOnly:
    """Not for instances: `tf.function(layer)` would take it for the signature of their call."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is not None:
            raise AttributeError("__signature__")
        return self.value


def _keras_kind(name: str) -> Any:
    """The Keras module which an argument of this name is looked up in, or None."""
    for kind in ("activation", "initializer", "regularizer", "constraint"):
        if name.endswith(kind):
            return getattr(keras, f"{kind}s")
    return None


class ArgumentsMixin:
    """For a `keras.layers.Layer` whose config is its constructor arguments."""

    _argument_names: tuple[str, ...] = ()

    def _set_arguments(self, arguments: dict[str, Any]) -> None:
        """Keeps each argument of `__init__`, given as its `locals()`, under its own name."""
        known = ("self", "kwargs", "__class__", *self._argument_names)
        names = tuple(name for name in arguments if name not in known)
        check_flags(arguments)
        for name in names:
            kind, value = _keras_kind(name), arguments[name]
            try:
                # Keras would make of None an initializer of its own choice, random for a gamma.
                refused = kind is keras.initializers and value is None
                value = kind.get(value) if kind else value
            except (TypeError, ValueError):
                refused = True
            if refused:
                raise ValueError(
                    f"`{name}` must be what `keras.{kind.__name__.split('.')[-1]}.get` takes"
                    f"{', but None' * (value is None)}. Received: {name}={value!r}"
                )
            setattr(self, name, value)
        self._argument_names += names

    def _add_term(self, name: str, shape: Shape, term: str, **overrides: Any) -> Any:
        """A weight made as `<term>_initializer`, `_regularizer` and `_constraint` say."""
        options = {
            kind: getattr(self, f"{term}_{kind}")
            for kind in ("initializer", "regularizer", "constraint")
        }
        initializer = options["initializer"]
        if isinstance(initializer, keras.initializers.Initializer):
            # One initializer object would give two weights of one shape the same values.
            options["initializer"] = initializer.clone()
        options.update(overrides)
        return self.add_weight(  # type: ignore[attr-defined]
            name=name, shape=tuple(shape), autocast=False, **options
        )

    def get_config(self) -> dict[str, Any]:
        config: dict[str, Any] = super().get_config()  # type: ignore[misc]
        for name in self._argument_names:
            kind, value = _keras_kind(name), getattr(self, name)
            value = list(value) if isinstance(value, tuple) else value
            config[name] = kind.serialize(value) if kind else value
        return config

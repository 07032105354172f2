"""What every layer does with its constructor arguments: check, keep, show and save them."""

import difflib
import inspect
import math
import numbers
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import keras
import numpy as np

Tensor: TypeAlias = Any  # a TensorFlow tensor, a NumPy array or a KerasTensor
Shape: TypeAlias = Sequence[int | None]

# What TensorFlow Addons called them.
_RENAMED = {
    "norm_epsilon": "epsilon",
    "norm_gamma_initializer": "gamma_initializer",
    "norm_beta_initializer": "beta_initializer",
}
# Keywords that `keras.layers.Layer` takes without a parameter of that name.
OF_KERAS = ("input_shape", "input_dtype")
# Arguments of Keras' recurrent layers that say what ours do anyway, with the values that do.
_IMPLIED: dict[str, tuple[tuple[Any, ...], str]] = {
    "use_cudnn": (("auto", False), "cuDNN has no layer normalisation"),
    "reset_after": ((True,), "the reset gate acts on the product, as in the paper's equation (27)"),
}

serializable = keras.saving.register_keras_serializable(package="tf_layernorm")


def check_units(units: Any) -> int:
    """Returns `units` as an `int`, or raises a `ValueError`."""
    if isinstance(units, bool) or not hasattr(units, "__index__") or units.__index__() < 1:
        raise ValueError(f"`units` must be a positive integer. Received: units={units!r}")
    return int(units.__index__())


def check_epsilon(epsilon: Any, dtype: str) -> float:
    """Returns a layer's `epsilon` as a `float`, or raises a `ValueError`; warns as below."""
    if not _is_number(epsilon):
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


def parameters_of(cls: type) -> dict[str, inspect.Parameter]:
    """The named parameters of a class' `__init__` and of those that it hands keywords on to."""
    found: dict[str, inspect.Parameter] = {}
    for base in cls.__mro__:
        if "__init__" in vars(base) and base is not object:
            own = list(inspect.signature(vars(base)["__init__"]).parameters.values())[1:]
            found = {p.name: p for p in own} | found
    variadic = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return {name: p for name, p in found.items() if p.kind not in variadic}


def check_keywords(cls: type, keywords: dict[str, Any], known: Iterable[str]) -> None:
    """Takes out what says what `cls` does anyway, and raises a `ValueError` for the unknown.

    Args:
        cls: The class that is called.
        keywords: What its `__init__` has no parameter of its own for.
        known: All names that it knows.
    """
    known = [name for name in known if name != "autocast"]
    for name, value in list(keywords.items()):
        if name in known or name in OF_KERAS:
            continue
        values, reason = _IMPLIED.get(name, ((), ""))
        if any(value is v or (isinstance(v, str) and value == v) for v in values):
            del keywords[name]
            continue
        if values:
            raise ValueError(
                f"`{name}` must be {' or '.join(map(repr, values))} for `{cls.__name__}`, since "
                f"{reason}. Received: {name}={value!r}"
            )
        close = difflib.get_close_matches(name, known, 1)
        meant = _RENAMED.get(name, close[0] if close else None)
        hint = f": did you mean `{meant}`?" if meant in known else "."
        raise ValueError(
            f"`{cls.__name__}` has no argument `{name}`{hint} Received: {name}={value!r}"
        )


def chosen(cls: type, values: dict[str, Any]) -> dict[str, Any]:
    """Those of `values`, the `locals()` of an `__init__`, that `cls` has a parameter for."""
    return {name: values[name] for name in parameters_of(cls) if name in values}


def check_flags(cls: type, arguments: dict[str, Any]) -> None:
    """Raises a `ValueError` if an argument that is True or False by default is no `bool`."""
    for name, parameter in parameters_of(cls).items():
        if not isinstance(parameter.default, bool) or name not in arguments:
            continue
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
    if not _is_number(rate) or not 0 <= rate < 1:
        raise ValueError(f"`{name}` must be a number in [0, 1). Received: {name}={rate!r}")
    return float(rate)


def _is_number(value: Any) -> bool:
    """Whether it is a real number, of Python or NumPy, and no `bool`."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


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


def warn_if_constant(layer: keras.Layer, what: str, initializer: Any) -> None:
    """Warns that no gradient passes the norm of what starts constant over the units."""
    k = keras.initializers
    if isinstance(initializer, (k.Zeros, k.Ones, k.Constant)):
        warnings.warn(
            f"Layer {layer.name!r} normalises what is made of its {what}, which starts constant "
            "over the units: a constant vector has no direction and passes no gradient, so nothing "
            f"will change it. Received: {type(initializer).__name__}",
            stacklevel=4,
        )


def clone(initializer: Any) -> Any:
    """A copy: one initializer object would give two weights of one shape the same values."""
    is_object = isinstance(initializer, keras.initializers.Initializer)
    return initializer.clone() if is_object else initializer


def canonical_terms(normalize: Any, terms: Sequence[str]) -> tuple[str, ...]:
    """The terms to normalise in the order of `terms`, or a `ValueError`."""
    is_sequence = isinstance(normalize, (list, tuple))
    given = tuple(normalize) if is_sequence else ()
    if not is_sequence or len(set(given)) < len(given) or not set(given) <= set(terms):
        raise ValueError(
            f"`normalize` must be a list or tuple of distinct terms out of {tuple(terms)}. "
            f"Received: normalize={normalize!r}"
        )
    return tuple(term for term in terms if term in given)


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
        check_flags(type(self), {name: arguments[name] for name in names})
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
        options.update(overrides)
        options["initializer"] = clone(options["initializer"])
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

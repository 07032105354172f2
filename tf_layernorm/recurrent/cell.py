"""What the three cells share: options, dropout masks, initial state, and the call of one step."""

import zlib
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from tf_layernorm import _random
from tf_layernorm._arguments import (
    ArgumentsMixin,
    Shape,
    Tensor,
    check_epsilon,
    check_rate,
    check_seed,
    check_shape,
    check_units,
    show_parameters,
)
from tf_layernorm.normalization import at_least_float32, layer_norm
from tf_layernorm.recurrent.zoneout import check_zoneout, zone_out

# `keras.layers.RNN` draws dropout masks once a sequence for subclasses of this class alone, which
# Keras doesn't export by name.
_DropoutRNNCell: Any = next(
    base for base in keras.layers.LSTMCell.__mro__ if base.__name__ == "DropoutRNNCell"
)


def normalize_term(z: Tensor, gamma: Tensor | None, beta: Tensor | None, epsilon: float) -> Tensor:
    """LN(z; gamma) + beta. A term without a gamma is not normalised; beta may be None as well."""
    if gamma is not None:
        return layer_norm(z, gamma, beta, epsilon=epsilon)
    return z if beta is None else z + ops.cast(beta, z.dtype)


def project(x: Tensor, kernel: Tensor) -> Tensor:
    """The product of `x` and `kernel` in the dtype of `x`, given in at least float32."""
    return ops.cast(ops.matmul(x, ops.cast(kernel, x.dtype)), at_least_float32(x.dtype))


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


class LNCell(ArgumentsMixin, _DropoutRNNCell, keras.layers.Layer):
    """Base of the cells. A subclass makes its weights and says what one step computes.

    The step is in two parts, both pure functions of tensors: `input_part`, which doesn't depend on
    the state and so can be computed for a whole sequence at once, and `step`.
    """

    n_states = 1

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        show_parameters(cls, cls.__mro__[1])

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        use_bias: bool = True,
        *,
        epsilon: float = 1e-5,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        gamma_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        gamma_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        zoneout: float | Sequence[float] = 0.0,
        learn_initial_state: bool = False,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        # Not autocast: Keras would round a float32 cell state to half precision on the way in.
        super().__init__(autocast=False, **kwargs)
        units = check_units(units)
        epsilon = check_epsilon(epsilon, self.compute_dtype)
        dropout = check_rate("dropout", dropout)
        recurrent_dropout = check_rate("recurrent_dropout", recurrent_dropout)
        seed = check_seed(seed)
        self.zoneout_rates = check_zoneout(zoneout, self.n_states)
        self._set_arguments(locals())
        self.state_size = units if self.n_states == 1 else [units] * self.n_states
        self.output_size = units
        self._dropout_mask = self._recurrent_dropout_mask = None

    @property
    def state_dtypes(self) -> list[str]:
        """The dtype in which each state is carried on."""
        return [self.compute_dtype] * self.n_states

    def step_weights(self) -> Any:
        """The weights as the named tuple of tensors that `input_part` and `step` take."""
        raise NotImplementedError

    def input_part(self, inputs: Tensor, weights: Any) -> Tensor:
        """What one step, or a whole sequence of steps, takes from the inputs alone."""
        raise NotImplementedError

    def step(
        self, z: Tensor, states: list[Tensor], weights: Any, recurrent_mask: Tensor | None
    ) -> list[Tensor]:
        """The new states, the first of which is the output."""
        raise NotImplementedError

    def recurrence(self) -> Any:
        """The step as the fused recurrence takes it: the same equations and their gradients."""
        raise NotImplementedError

    def why_not_fused(self) -> str | None:
        """Why the fused recurrence would not compute what this cell does, or None."""
        for name, value in (("activation", "tanh"), ("recurrent_activation", "sigmoid")):
            if getattr(self, name, None) not in (None, getattr(keras.activations, value)):
                return f"it knows no `{name}` but {value!r}"
        cls = type(self)
        methods = ("step_weights", "input_part", "step", "recurrence")
        defined = {next(c for c in cls.__mro__ if name in vars(c)) for name in methods}
        if len(defined) > 1 or cls.call is not LNCell.call:
            return f"{cls.__name__} changes the step without changing `recurrence`"
        return None

    def build(self, input_shape: Shape) -> None:
        features = check_shape(self, input_shape, 2)
        self._build_weights(features)
        if self.learn_initial_state:
            self.initial_weights = [
                self.add_weight(name=name, shape=(self.units,), initializer="zeros", autocast=False)
                for name in ("initial_h", "initial_c")[: self.n_states]
            ]
        self.seed_generator: Any = None
        if self.dropout or self.recurrent_dropout or self.zoneout_rates:
            # The path makes two layers of one seed differ, and a rerun of one script repeat.
            seed = None if self.seed is None else zlib.crc32(f"{self.path}:{self.seed}".encode())
            self.seed_generator = keras.random.SeedGenerator(seed)
        self.input_spec = keras.layers.InputSpec(ndim=2, axes={-1: features})

    def _build_weights(self, features: int) -> None:
        raise NotImplementedError

    def call(self, inputs: Tensor, states: Any, training: bool = False) -> tuple[Tensor, Any]:
        nested = isinstance(states, (list, tuple))
        given = list(states) if nested else [states]
        inputs = ops.cast(inputs, self.compute_dtype)
        recurrent_mask = share = None
        if self.zoneout_rates:
            # Behind the inputs a sequence layer's loop hands in what it has drawn for the step.
            inputs, share = ops.split(inputs, [self.kernel.shape[0]], axis=-1)
            share = share if share.shape[-1] else self.new_share(ops.shape(inputs)[:1], training)
        if training and self.dropout:
            mask = self._dropout_mask
            inputs = inputs * (self.draw_dropout_mask(inputs) if mask is None else mask)
        if training and self.recurrent_dropout:
            mask = self._recurrent_dropout_mask
            recurrent_mask = self.draw_recurrent_mask(given[0]) if mask is None else mask
        weights = self.step_weights()
        states = [ops.cast(s, d) for s, d in zip(given, self.state_dtypes, strict=True)]
        new = self.step(self.input_part(inputs, weights), states, weights, recurrent_mask)
        if share is not None:
            new = list(zone_out(new, states, tf.split(share, len(states), axis=-1)))
        # Carried as they came: `keras.layers.RNN` gives every state in the compute dtype.
        new = [ops.cast(state, old.dtype) for state, old in zip(new, given, strict=True)]
        return ops.cast(new[0], self.compute_dtype), new if nested else new[0]

    def get_initial_state(self, batch_size: Any = None) -> list[Tensor]:
        """Zeros or what is learned, one tensor of shape `(batch_size, units)` a state."""
        is_tensor = tf.is_tensor(batch_size)
        is_whole = batch_size.dtype.is_integer if is_tensor else hasattr(batch_size, "__index__")
        is_scalar = is_whole and not getattr(batch_size, "ndim", None)
        known = tf.get_static_value(batch_size) if is_tensor else batch_size
        if not is_scalar or (known is not None and known < 0):
            raise ValueError(
                "`get_initial_state` needs the batch size, an integer or a scalar tensor of at "
                f"least 0. Received: batch_size={batch_size!r}"
            )
        shape, dtypes = (batch_size, self.units), self.state_dtypes
        if not self.learn_initial_state:
            return [ops.zeros(shape, dtype=dtype) for dtype in dtypes]
        if not self.built:
            raise ValueError(
                "Only a built cell can tell the initial state that it learns. Received: built=False"
            )
        learned = zip(self.initial_weights, dtypes, strict=True)
        return [ops.broadcast_to(ops.cast(weight, dtype), shape) for weight, dtype in learned]

    def check_states(self, name: str, states: Any, shape: Any) -> list[Tensor]:
        """One tensor a state in its dtype, or an error: another shape could be broadcast."""
        states = list(states) if isinstance(states, (list, tuple)) else [states]
        dtypes = self.state_dtypes
        if len(states) != len(dtypes):
            raise ValueError(
                f"`{name}` must hold {len(dtypes)} tensors. Received: {len(states)} tensors"
            )
        states = [ops.cast(state, dtype) for state, dtype in zip(states, dtypes, strict=True)]
        if not all(shape.is_compatible_with(state.shape) for state in states):
            raise ValueError(
                f"`{name}` must hold tensors of shape {shape}. "
                f"Received: shapes {[tuple(state.shape) for state in states]}"
            )
        return states

    def draw_dropout_mask(self, inputs: Tensor) -> Tensor:
        """A mask for one step's inputs of shape `(batch, features)`."""
        return self._draw(inputs, self.dropout)

    def draw_recurrent_mask(self, state: Tensor) -> Tensor:
        """A mask for the recurrent product's state of shape `(batch, units)`."""
        return self._draw(ops.cast(state, self.compute_dtype), self.recurrent_dropout)

    def new_share(self, shape: Any, training: bool) -> Tensor:
        """What zoneout takes of each new state, `(*shape, units)` each, side by side."""
        ones = ops.ones((*shape, self.units), at_least_float32(self.compute_dtype))
        shares = [
            ops.sign(self._draw(ones, rate)) if training else (1 - rate) * ones
            for rate in self.zoneout_rates
        ]
        return ops.concatenate(shares, axis=-1)

    def _draw(self, like: Tensor, rate: float) -> Tensor:
        """For every entry of `like`, 0 at that rate, else what keeps the expectation."""
        seed = ops.cast(self.seed_generator.next(), "int32")
        numbers = _random.draw(tf.random.stateless_uniform, ops.shape(like), seed, "float32")
        return ops.cast(numbers >= rate, like.dtype) / (1 - rate)

    # `keras.layers.RNN` calls the first two before its loop and the last two after it. A cell that
    # is called by hand, or stands inside a wrapper, keeps no mask: each of its steps draws its own.
    def get_dropout_mask(self, step_input: Tensor) -> None:
        if self.dropout:
            self._dropout_mask = self.draw_dropout_mask(step_input)

    def get_recurrent_dropout_mask(self, step_input: Tensor) -> None:
        if self.recurrent_dropout:
            self._recurrent_dropout_mask = self.draw_recurrent_mask(step_input)

    def reset_dropout_mask(self) -> None:
        self._dropout_mask = None

    def reset_recurrent_dropout_mask(self) -> None:
        self._recurrent_dropout_mask = None

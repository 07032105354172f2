"""What all cells share: options, weights, states, and the call of the step that each states."""

import zlib
from collections.abc import Sequence
from typing import Any, ClassVar

import keras
import tensorflow as tf
from keras import ops

from tf_layernorm._arguments import (
    ArgumentsMixin,
    Shape,
    Tensor,
    canonical_terms,
    check_epsilon,
    check_keywords,
    check_rate,
    check_seed,
    check_shape,
    check_units,
    clone,
    parameters_of,
    warn_if_constant,
    warn_if_single,
)
from tf_layernorm.normalization import at_least_float32
from tf_layernorm.recurrent.masks import check_zoneout, dropout_mask, zone_out
from tf_layernorm.recurrent.products import Term, project
from tf_layernorm.recurrent.programs import Programs

# `keras.layers.RNN` draws dropout masks once a sequence for subclasses of this class alone, which
# Keras doesn't export: so it is looked up among the ancestors of one that it does.
_DropoutRNNCell: Any = next(
    base for base in keras.layers.LSTMCell.__mro__ if base.__name__ == "DropoutRNNCell"
)


class LNCell(ArgumentsMixin, _DropoutRNNCell, keras.layers.Layer):
    r"""Base of cells whose products with x and h are normalised; subclass it to make your own.

    A subclass says how many gates its products have and which of them are normalised together
    (`groups`), how many states it carries (`n_states`), and states its equations once, in `step`.
    It then runs in `keras.layers.RNN`, and in `tf_layernorm.recurrent.FusedRNN` as one XLA program
    forward and one backward, with masks, dropout, zoneout, saving and exports.

    Args:
        units: Positive integer, the size of the states and of the output.
        activation: Activation, for the step to use. Defaults to `"tanh"`.
        use_bias: Whether there is a weight `bias`. Defaults to `True`.
        normalize: The terms to normalise: any of `"kernel"` (W_x x) and `"recurrent"` (W_h h).
            Defaults to both.
        epsilon: Small positive number added to the variances. Defaults to `1e-5`.
        kernel_initializer: Defaults to `"glorot_uniform"`.
        recurrent_initializer: Defaults to `"orthogonal"`.
        bias_initializer: Defaults to `"zeros"`.
        gamma_initializer: Defaults to `"ones"`.
        kernel_regularizer: Defaults to `None`.
        recurrent_regularizer: Defaults to `None`.
        bias_regularizer: Defaults to `None`.
        gamma_regularizer: Defaults to `None`.
        kernel_constraint: Defaults to `None`.
        recurrent_constraint: Defaults to `None`.
        bias_constraint: Defaults to `None`.
        gamma_constraint: Defaults to `None`.
        dropout: Rate for the inputs. Defaults to `0`.
        recurrent_dropout: Rate for h in the product with it. Defaults to `0`.
        zoneout: Rate at which units keep their previous state. Defaults to `0`.
        learn_initial_state: Whether the state to start from is trained. Defaults to `False`.
        initial_state_initializer: Of that state. From zeros, or any vector that is constant over
            the units, no gradient would reach it through a norm. Defaults to `"random_normal"`.
        seed: Integer seed of the masks. Defaults to `None`.
        **kwargs: `name`, `dtype` and so on of `keras.layers.Layer`.

    Weights:
        kernel: `(features, gates * units)`.
        recurrent_kernel: `(units, gates * units)`.
        bias: `(gates * units,)`, if `use_bias`.
        kernel_gamma, recurrent_gamma: `(gates * units,)` each, if in `normalize`.

    Example:

    A minimal gated unit (Zhou et al., 2016) with layer norm, which nobody ships:

    >>> import keras, numpy as np, tensorflow as tf
    >>> from tf_layernorm.recurrent import FusedRNN, LNCell
    >>> @keras.saving.register_keras_serializable("mine")
    ... class MGUCell(LNCell):
    ...     groups = (1, 1)
    ...
    ...     def step(self, x, h, states, weights):
    ...         forget_bias, bias = tf.split(weights["bias"], 2, axis=-1)
    ...         forget = tf.sigmoid(x[0] + h[0] + forget_bias)
    ...         candidate = self.activation(x[1] + forget * h[1] + bias)
    ...         return [(1 - forget) * states[0] + forget * candidate]
    >>> FusedRNN(MGUCell(4), return_sequences=True)(np.ones((2, 3, 5), "float32")).shape
    TensorShape([2, 3, 4])
    """

    # How many gates, one after another, are normalised together.
    groups: ClassVar[tuple[int, ...]] = (1,)
    n_states: ClassVar[int] = 1
    # The terms that `normalize` may name.
    normalizable: ClassVar[tuple[str, ...]] = ("kernel", "recurrent")
    # Else `recurrent_dropout` is left to the step, which finds the mask, (batch, units), among its
    # weights as "recurrent_mask" while there is one.
    masks_recurrent_product: ClassVar[bool] = True

    # Weights that not every cell has.
    bias: keras.Variable | None = None
    kernel_gamma: keras.Variable | None = None
    recurrent_gamma: keras.Variable | None = None

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        use_bias: bool = True,
        *,
        normalize: Sequence[str] = ("kernel", "recurrent"),
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
        initial_state_initializer: Any = "random_normal",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        check_keywords(type(self), kwargs, parameters_of(type(self)))
        # Not autocast: Keras would round a float32 cell state to half precision on the way in.
        super().__init__(autocast=False, **kwargs)
        units = check_units(units)
        epsilon = check_epsilon(epsilon, self.compute_dtype)
        dropout = check_rate("dropout", dropout)
        recurrent_dropout = check_rate("recurrent_dropout", recurrent_dropout)
        seed = check_seed(seed)
        normalize = canonical_terms(normalize, self.normalizable)
        self.zoneout_rates = check_zoneout(zoneout, self.n_states)
        self._set_arguments(locals())
        self.state_size = units if self.n_states == 1 else [units] * self.n_states
        self.output_size = units
        self._dropout_mask = self._recurrent_dropout_mask = None
        self.programs = Programs(self)

    @property
    def gates(self) -> int:
        """How many blocks of `units` values each product has."""
        return sum(self.groups)

    @property
    def state_dtypes(self) -> list[str]:
        """The dtype in which each state is carried on."""
        return [self.compute_dtype] * self.n_states

    def step(
        self, x: list[Tensor], h: list[Tensor], states: list[Tensor], weights: dict[str, Tensor]
    ) -> list[Tensor]:
        """The new states, the first of which is the output: a pure function of tensors.

        It is the program: of the cell, of every loop, and by a tape over it of the loop backward.

        Args:
            x: The gates of LN(W_x x), each `(batch, units)`, in at least float32.
            h: The gates of LN(W_h h), likewise.
            states: The states before the step, each `(batch, units)`, likewise.
            weights: All weights by name, but for both kernels and what `x` and `h` have used.
                Backward, a
                vector comes as `(batch, n)`: use it elementwise, and split it by `axis=-1`.
        """
        raise NotImplementedError(f"{type(self).__name__} must state its `step`.")

    def terms(self, weights: dict[str, Tensor]) -> list[Term]:
        """How the products with x and with h are normalised."""
        return [
            Term(weights.get(name), self.groups, self.epsilon)
            for name in ("kernel_gamma", "recurrent_gamma")
        ]

    def weight_shapes(self, features: int) -> dict[str, tuple[int, ...]]:
        """The shape of each weight by name, in their order.

        A name ends in that of the arguments that say how it is made: a `..._gamma` by
        `gamma_initializer`, `gamma_regularizer`, `gamma_constraint`.
        """
        n = self.gates * self.units
        shapes: dict[str, tuple[int, ...]] = {
            "kernel": (features, n),
            "recurrent_kernel": (self.units, n),
        }
        shapes |= {"bias": (n,)} if self.use_bias else {}
        return shapes | {f"{term}_gamma": (n,) for term in self.normalize}

    def initializer_of(self, name: str) -> Any:
        """What makes the first values of a weight."""
        return getattr(self, f"{_kind(name)}_initializer")

    def build(self, input_shape: Shape) -> None:
        features = check_shape(self, input_shape, 2)
        if self.normalize and min(self.groups) == 1:
            warn_if_single(self, "its summed inputs", self.units)
        self._weight_names = tuple(self.weight_shapes(features))
        for name, shape in self.weight_shapes(features).items():
            initializer = self.initializer_of(name)
            if name in ("kernel", "recurrent_kernel") and self.normalize:
                warn_if_constant(self, name, initializer)
            setattr(self, name, self._add_term(name, shape, _kind(name), initializer=initializer))
        if self.learn_initial_state:
            initializer = self.initial_state_initializer
            if self.normalize:
                warn_if_constant(self, "initial state", initializer)
            self.initial_weights = [
                self.add_weight(
                    name=name, shape=(self.units,), initializer=clone(initializer), autocast=False
                )
                for name in ("initial_h", "initial_c")[: self.n_states]
            ]
        self.seed_generator: Any = None
        if self.dropout or self.recurrent_dropout or self.zoneout_rates:
            # The path makes two layers of one seed differ, and a rerun of one script repeat.
            seed = None if self.seed is None else zlib.crc32(f"{self.path}:{self.seed}".encode())
            self.seed_generator = keras.random.SeedGenerator(seed)
        self.input_spec = keras.layers.InputSpec(ndim=2, axes={-1: features})

    def step_weights(self) -> dict[str, Tensor]:
        """All weights but those of the initial state as tensors, by name."""
        return {name: tf.convert_to_tensor(getattr(self, name)) for name in self._weight_names}

    def call(self, inputs: Tensor, states: Any, training: bool = False) -> tuple[Tensor, Any]:
        nested = isinstance(states, (list, tuple))
        given = list(states) if nested else [states]
        dtype = at_least_float32(self.compute_dtype)
        inputs, h = (ops.cast(v, self.compute_dtype) for v in (inputs, given[0]))
        weights = {name: ops.cast(w, dtype) for name, w in self.step_weights().items()}
        if training and self.dropout:
            mask = self._dropout_mask
            inputs = inputs * (self.draw_dropout_mask(inputs) if mask is None else mask)
        if training and self.recurrent_dropout:
            mask = self._recurrent_dropout_mask
            mask = self.draw_recurrent_mask(h) if mask is None else mask
            if self.masks_recurrent_product:
                h = h * mask
            else:
                weights["recurrent_mask"] = ops.cast(mask, dtype)
        x_term, h_term = self.terms(weights)
        x = x_term(project(inputs, weights.pop("kernel")))
        h = h_term(project(h, weights.pop("recurrent_kernel")))
        old = [ops.cast(s, d) for s, d in zip(given, self.state_dtypes, strict=True)]
        new = self.step(x, h, [ops.cast(state, dtype) for state in old], weights)
        if self.zoneout_rates:
            shares = self.draw_shares(ops.shape(inputs)[:1], training)
            new = zone_out(new, old, shares)
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

    def draw_dropout_mask(self, inputs: Tensor) -> Tensor:
        """A mask for one step's inputs of shape `(batch, features)`."""
        return dropout_mask(inputs, self.dropout, self.seed_generator.next())

    def draw_recurrent_mask(self, state: Tensor) -> Tensor:
        """A mask for the recurrent product's state of shape `(batch, units)`."""
        state = ops.cast(state, self.compute_dtype)
        return dropout_mask(state, self.recurrent_dropout, self.seed_generator.next())

    def draw_shares(self, shape: Any, training: bool) -> list[Tensor]:
        """What zoneout takes of each new state, `(*shape, units)` each."""
        ones = ops.ones((*shape, self.units), at_least_float32(self.compute_dtype))
        return [
            ops.sign(dropout_mask(ones, rate, self.seed_generator.next()))
            if training
            else (1 - rate) * ones
            for rate in self.zoneout_rates
        ]

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


def _kind(name: str) -> str:
    """What the arguments begin with that say how a weight of this name is made."""
    return "recurrent" if name == "recurrent_kernel" else name.rpartition("_")[2]


def add_bias(parts: list[Tensor], bias: Tensor | None) -> list[Tensor]:
    """The gates with their share of a bias, if there is one."""
    if bias is None:
        return parts
    biases = tf.split(bias, len(parts), axis=-1)
    return [part + b for part, b in zip(parts, biases, strict=True)]

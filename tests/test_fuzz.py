"""Whatever the arguments: the reference's result, or a `ValueError` that names the argument."""

import inspect
import warnings

import numpy as np
import pytest
import reference
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kinds import GRU, KINDS, LSTM, f64, randomize

from tf_layernorm import LayerNorm, LNDense, layer_norm

TOLERANCE = {"float64": 1e-9, "float32": 1e-3, "mixed_float16": 0.1, "mixed_bfloat16": 0.5}


def fuzz(examples):
    return settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


def array(draw, *shape):
    return np.random.default_rng(draw(st.integers(0, 99))).normal(size=shape)


@st.composite
def sequence_cases(draw):
    """A kind, the options of its cell, the flags of its layer, and what it is called with."""
    kind = draw(st.sampled_from(KINDS))
    options = {"use_bias": draw(st.booleans()), "epsilon": draw(st.sampled_from([1e-5, 0.1]))}
    terms = {LSTM: ["kernel", "recurrent", "state"], GRU: ["kernel", "recurrent"]}.get(kind, [])
    if terms:
        chosen = draw(st.lists(st.sampled_from(terms), unique=True))
        options["normalize"] = draw(st.sampled_from([tuple(chosen), chosen]))
        if "state" in chosen:
            options["carry_normalized_state"] = draw(st.booleans())
    flags = {name: draw(st.booleans()) for name in ("go_backwards", "zero_output_for_mask")}
    batch, time, features = draw(st.tuples(*[st.integers(*b) for b in ((0, 3), (0, 4), (1, 3))]))
    dtype = draw(st.sampled_from(list(TOLERANCE)))
    units = draw(st.integers(2, 4)) + 4 * dtype.startswith("mixed")
    x = array(draw, batch, time, features)
    mask = draw(st.one_of(st.none(), st.just(x[:, :, 0] > 0), st.just(x[:, :, 0] > 9)))
    states = None
    if draw(st.booleans()):
        states = [array(draw, batch, units) for _ in range(kind.n_states)]
    return kind, units, options, flags, dtype, x, mask, states


def check_sequence(case, use_fused, wrap):
    kind, units, options, flags, dtype, x, mask, states = case
    layer = kind.layer(
        units,
        return_sequences=True,
        return_state=True,
        dtype=dtype,
        use_fused=use_fused,
        **options,
        **flags,
    )
    layer.build((None, None, x.shape[2]))
    weights = randomize(layer)
    given = None if states is None else [tf.constant(s, layer.compute_dtype) for s in states]
    outputs, *new = wrap(layer)(tf.constant(x, layer.compute_dtype), initial_state=given, mask=mask)
    options = {name: tuple(v) if name == "normalize" else v for name, v in options.items()}
    expected = reference.sequence(kind.reference(**options), x, weights, states, mask, **flags)
    for ours, theirs in zip([outputs, *new], [expected.outputs, *expected.states], strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(f64(ours), theirs, rtol=0, atol=TOLERANCE[dtype])


@fuzz(40)
@given(case=sequence_cases())
def test_any_sequence_in_the_loop_is_the_references(case):
    check_sequence(case, False, lambda layer: layer)


@fuzz(12)
@given(case=sequence_cases())
def test_any_sequence_in_the_fused_recurrence_is_the_references(case):
    # Traced and not compiled, which takes most of the time: the same program otherwise.
    check_sequence(case, "auto", lambda layer: tf.function(layer.__call__))


def named(error, *names):
    text = str(error)
    assert any(name in text for name in names) and "eceived" in text, text


@fuzz(60)
@given(data=st.data())
def test_any_axis_is_normalized_or_refused(data):
    shape = data.draw(st.lists(st.integers(1, 3), max_size=3).map(tuple))
    axis = data.draw(st.one_of(st.integers(-4, 3), st.lists(st.integers(-4, 3)).map(tuple)))
    x = array(data.draw, *shape)
    try:
        result = layer_norm(x, axis=axis)
    except ValueError as error:
        return named(error, "axis")
    np.testing.assert_allclose(result, reference.layer_norm(x, axis=axis), rtol=0, atol=1e-9)


JUNK = [None, -1, 0, 1, 0.5, 2.5, "nonsense", "zeros", [], {}, True, float("nan"), ["kernel"]]
CLASSES = [LayerNorm, LNDense, *[cls for kind in KINDS for cls in (kind.cell, kind.layer)]]
KERAS_OWN = {"name", "dtype", "trainable", "activity_regularizer", "kwargs"}


@fuzz(150)
@given(data=st.data())
def test_any_argument_makes_a_layer_or_is_named_in_the_error(data):
    cls = data.draw(st.sampled_from(CLASSES))
    names = [name for name in inspect.signature(cls).parameters if name not in KERAS_OWN]
    name, value = data.draw(st.sampled_from(names)), data.draw(st.sampled_from(JUNK))
    arguments = {} if cls is LayerNorm else {"units": 4}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a single unit
        try:
            layer = cls(**{**arguments, name: value})
            layer.build((2, 3) if cls.__name__.endswith("Cell") else (2, 3, 3))
        except ValueError as error:
            return named(error, name)
    assert layer.get_config()[name] == cls.from_config(layer.get_config()).get_config()[name]
    default = inspect.signature(cls).parameters[name].default
    assert not isinstance(default, bool) or isinstance(value, bool), "a flag that is none"
    assert name != "seed" or value in (None, -1, 0, 1), "a seed that is none"


SHAPES = st.lists(st.integers(0, 3), max_size=3).map(tuple)


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "graph"])
@fuzz(30)
@given(data=st.data())
def test_any_shape_is_taken_or_named_in_the_error(wrap, data):
    """Masks, states and sequences that don't fit each other."""
    kind = data.draw(st.sampled_from(KINDS))
    layer = kind.layer(3, use_fused=False)
    fault = data.draw(st.sampled_from(["sequences", "mask", "initial_state"]))
    shapes = {"sequences": (2, 3, 2), "mask": (2, 3), "initial_state": (2, 3)}
    shape = shapes[fault] = data.draw(SHAPES)
    arguments = {"mask": np.ones(shapes["mask"], bool)}
    if fault == "initial_state":
        arguments["initial_state"] = [np.zeros(shape, "float32")] * data.draw(st.integers(1, 2))
    try:
        result = wrap(layer)(np.ones(shapes["sequences"], "float32"), **arguments)
    except ValueError as error:
        return named(error, fault, "shape", "dim")
    assert result.shape == (2, 3)

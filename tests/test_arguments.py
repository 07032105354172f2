"""Bad arguments raise a `ValueError` that ends in what was received, before anything is built."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from kinds import GRU, INPUTS, KINDS, LSTM, SIMPLE, UNITS

from tf_layernorm import LayerNorm, LNDense, layer_norm

RECURRENT = [cls for kind in KINDS for cls in (kind.cell, kind.layer)]
LSTMS, GRUS = (LSTM.cell, LSTM.layer), (GRU.cell, GRU.layer)
WITH_UNITS = [LNDense, *RECURRENT]


def refused(function, received):
    """The error's text, which ends in `Received: <received>`."""
    with pytest.raises(ValueError) as error:
        function()
    text = str(error.value)
    assert "Received: " in text and received in text.split("Received: ")[-1], text
    return text


@pytest.mark.parametrize("cls", WITH_UNITS)
@pytest.mark.parametrize("units", [0, -1, 2.5, 4.0, "4", None, True, np.float32(3)])
def test_units_must_be_a_positive_integer(cls, units):
    refused(lambda: cls(units), f"units={units!r}")


@pytest.mark.parametrize("cls", WITH_UNITS)
def test_units_may_be_an_integer_of_numpy(cls):
    layer = cls(np.int64(4))
    config = layer.get_config()
    assert config["units"] == 4 and type(config["units"]) is int


@pytest.mark.parametrize("cls", [LayerNorm, *WITH_UNITS])
@pytest.mark.parametrize("epsilon", [0.0, 0, -1e-5, float("nan"), float("inf"), "1e-5", None])
def test_epsilon_must_be_positive(cls, epsilon):
    arguments = () if cls is LayerNorm else (4,)
    refused(lambda: cls(*arguments, epsilon=epsilon), f"epsilon={epsilon!r}")


@pytest.mark.parametrize("epsilon", [-1e-5, float("nan")])
def test_function_takes_an_epsilon_of_zero_and_no_less(epsilon):
    refused(lambda: layer_norm(tf.ones((2, 3)), epsilon=epsilon), f"epsilon={epsilon!r}")
    x = tf.constant([[1.0, 3.0]], "float64")
    np.testing.assert_array_equal(layer_norm(x, epsilon=0.0), [[-1.0, 1.0]])


@pytest.mark.parametrize("cls", RECURRENT)
@pytest.mark.parametrize("name", ["dropout", "recurrent_dropout"])
@pytest.mark.parametrize("rate", [-0.1, 1.0, 1.5, 1, "0.5", None, float("nan")])
def test_rates_must_be_below_one(cls, name, rate):
    refused(lambda: cls(4, **{name: rate}), f"{name}={rate!r}")


@pytest.mark.parametrize("cls", [*LSTMS, *GRUS])
@pytest.mark.parametrize(
    "normalize",
    [("kernel", "kernel"), ("gates",), ("kernel", None), "kernel", None, ["Kernel"]],
)
def test_terms_must_be_known_and_distinct(cls, normalize):
    text = refused(lambda: cls(4, normalize=normalize), f"normalize={normalize!r}")
    assert "recurrent" in text


@pytest.mark.parametrize("cls", GRUS)
def test_gru_has_no_state_to_normalize(cls):
    refused(lambda: cls(4, normalize=("state",)), "normalize=('state',)")


@pytest.mark.parametrize("cls", LSTMS)
def test_terms_come_in_any_order(cls):
    layer = cls(4, normalize=["state", "kernel"])
    assert layer.get_config()["normalize"] == ["kernel", "state"]


@pytest.mark.parametrize("cls", LSTMS)
def test_carried_state_must_be_normalized(cls):
    refused(
        lambda: cls(4, normalize=("kernel",), carry_normalized_state=True), "normalize=('kernel',)"
    )


@pytest.mark.parametrize("use_fused", ["yes", None, 1, 0, "True"])
def test_use_fused_is_auto_or_a_bool(kind, use_fused):
    refused(lambda: kind.layer(4, use_fused=use_fused), f"use_fused={use_fused!r}")


@pytest.mark.parametrize("shape", [(INPUTS,), (2, INPUTS), (2, 3, 4, INPUTS), (2, 3, None)])
def test_layer_needs_three_axes(kind, use_fused, shape):
    refused(lambda: kind.layer(4, use_fused=use_fused).build(shape), f"{shape}")
    with pytest.raises(ValueError):
        kind.layer(4, use_fused=use_fused)(keras.Input(shape[1:]))


@pytest.mark.parametrize("shape", [(INPUTS,), (2, 3, INPUTS), (2, None)])
def test_cell_needs_two_axes(kind, shape):
    refused(lambda: kind.cell(4).build(shape), f"{shape}")


def test_dense_needs_a_known_width():
    refused(lambda: LNDense(4).build((2, None)), "(2, None)")


@pytest.mark.parametrize("axis", [3, -4, (1, 1), (1, -2), (), "1", 1.0])
def test_axis_must_name_distinct_axes(axis):
    refused(lambda: layer_norm(tf.ones((2, 3, 4)), axis=axis), f"axis={axis!r}")
    refused(lambda: LayerNorm(axis=axis).build((2, 3, 4)), f"axis={axis!r}")


@pytest.mark.parametrize(("axis", "shape"), [(0, (2, 3)), (1, (2, None, 3))])
def test_axis_of_the_layer_has_a_known_size(axis, shape):
    refused(lambda: LayerNorm(axis=axis).build(shape), f"{shape}")


@pytest.mark.parametrize("built_with", [INPUTS])
def test_built_layer_refuses_another_width(kind, use_fused, built_with):
    layer = kind.layer(4, use_fused=use_fused)
    layer.build((None, None, built_with))
    with pytest.raises(ValueError):
        layer(tf.zeros((2, 3, built_with + 1)))


def test_unroll_needs_a_known_length_already_when_the_model_is_made(kind):
    refused(lambda: kind.layer(4, unroll=True)(keras.Input((None, INPUTS))), "timesteps=None")


def test_ragged_sequences_are_refused_with_the_way_round(kind, use_fused):
    ragged = tf.RaggedTensor.from_tensor(tf.ones((2, 3, INPUTS)), lengths=[3, 1])
    with pytest.raises(ValueError, match="to_tensor.*sequence_mask"):
        kind.layer(4, use_fused=use_fused)(ragged)


@pytest.mark.parametrize("cls", [LNDense, SIMPLE.cell, LSTM.cell])
def test_a_single_unit_warns(cls):
    with pytest.warns(UserWarning, match="single unit"):
        cls(1).build((None, INPUTS))


def test_a_single_unit_warns_in_every_layer(kind, use_fused):
    with pytest.warns(UserWarning, match="single unit"):
        kind.layer(1, use_fused=use_fused).build((None, None, INPUTS))
    with pytest.warns(UserWarning, match="single unit"):
        LayerNorm().build((None, 1))


def test_a_single_unit_does_not_warn_where_more_is_normalized():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LSTM.cell(1, normalize=("kernel", "recurrent")).build((None, INPUTS))
        GRU.cell(1, normalize=()).build((None, INPUTS))
        LayerNorm(axis=(1, 2)).build((None, 1, 2))
        for kind in KINDS:
            kind.layer(UNITS).build((None, None, 1))


def test_an_unknown_argument_is_refused(kind):
    for cls in (kind.cell, kind.layer):
        with pytest.raises((TypeError, ValueError), match="unit_s"):
            cls(4, unit_s=3)


@pytest.mark.parametrize("cls", RECURRENT)
@pytest.mark.parametrize("name", ["activation", "kernel_initializer", "gamma_regularizer"])
def test_an_unknown_name_is_refused(cls, name):
    with pytest.raises(ValueError, match="nonsense"):
        cls(4, **{name: "nonsense"})


def test_an_epsilon_too_small_for_half_precision_warns(kind):
    with pytest.warns(UserWarning, match="float16"):
        kind.layer(4, epsilon=1e-12, dtype="mixed_float16")

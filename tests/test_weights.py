"""Names, shapes, order and initial values of the weights: the table of the documentation."""

import itertools

import keras
import numpy as np
import pytest
from kinds import GRU, INPUTS, KINDS, LSTM, OPTIONS, SIMPLE, built, f64

from tf_layernorm import LNDense

D, U = INPUTS, 4
TABLE = {
    SIMPLE: {"kernel": (D, U), "recurrent_kernel": (U, U), "bias": (U,), "gamma": (U,)},
    LSTM: {
        "kernel": (D, 4 * U),
        "recurrent_kernel": (U, 4 * U),
        "bias": (4 * U,),
        "kernel_gamma": (4 * U,),
        "recurrent_gamma": (4 * U,),
        "state_gamma": (U,),
        "state_beta": (U,),
    },
    GRU: {
        "kernel": (D, 3 * U),
        "recurrent_kernel": (U, 3 * U),
        "bias": (3 * U,),
        "recurrent_bias": (U,),
        "kernel_gamma": (3 * U,),
        "recurrent_gamma": (3 * U,),
    },
}


def expected_weights(kind, use_bias=True, normalize=("kernel", "recurrent", "state"), **_):
    absent = {"bias", "recurrent_bias"} if not use_bias else set()
    for term in {"kernel", "recurrent", "state"} - set(normalize):
        absent |= {f"{term}_gamma", f"{term}_beta"}
    return [(name, shape) for name, shape in TABLE[kind].items() if name not in absent]


@pytest.mark.parametrize(("kind", "options"), OPTIONS, ids=str)
def test_weights_of_a_cell_and_its_layer_follow_the_table(kind, options):
    cell = kind.cell(U, **options)
    cell.build((None, D))
    layer = kind.layer(U, **options)
    layer.build((None, None, D))
    for owner in (cell, layer):
        found = [(weight.name, tuple(weight.shape)) for weight in owner.weights]
        assert found == expected_weights(kind, **options)
        assert len({weight.path for weight in owner.weights}) == len(found)


def test_weights_start_with_gamma_one_and_beta_zero(kind):
    layer = kind.layer(U)
    layer.build((None, None, D))
    copy = kind.layer.from_config(layer.get_config())
    copy.build((None, None, D))
    for weight in (*layer.weights, *copy.weights):
        if "gamma" in weight.name or "beta" in weight.name:
            np.testing.assert_array_equal(weight, np.full(weight.shape, "gamma" in weight.name))
        if "bias" in weight.name and kind is not LSTM:
            np.testing.assert_array_equal(weight, np.zeros(weight.shape))


@pytest.mark.parametrize("unit_forget_bias", [True, False])
def test_lstm_forget_bias_is_one_and_acts_after_the_norm(unit_forget_bias):
    cell = LSTM.cell(U, unit_forget_bias=unit_forget_bias, bias_initializer="zeros")
    cell.build((None, D))
    expected = np.zeros(4 * U)
    expected[U : 2 * U] = unit_forget_bias
    np.testing.assert_array_equal(cell.bias, expected)


def test_lstm_forget_bias_keeps_the_bias_initializer_of_the_other_gates():
    cell = LSTM.cell(U, bias_initializer=keras.initializers.Constant(0.5))
    cell.build((None, D))
    np.testing.assert_array_equal(np.reshape(cell.bias, (4, U))[:, 0], [0.5, 1.0, 0.5, 0.5])


def test_recurrent_initializer_fills_the_whole_block(kind):
    cell = kind.cell(U)  # orthogonal, as in Keras
    cell.build((None, D))
    kernel = f64(cell.recurrent_kernel)
    np.testing.assert_allclose(kernel @ kernel.T, np.eye(U), atol=1e-5)


def test_weights_of_one_initializer_object_differ(kind):
    shared = keras.initializers.RandomNormal()
    cell = kind.cell(
        U, kernel_initializer=shared, recurrent_initializer=shared, gamma_initializer=shared
    )
    cell.build((None, U))
    drawn = [f64(w).ravel() for w in cell.weights if "kernel" in w.name or "gamma" in w.name]
    assert len({w[0] for w in drawn}) == len(drawn)


@pytest.mark.filterwarnings("ignore:.*starts constant:UserWarning")
@pytest.mark.parametrize(
    ("kind", "argument"),
    [*itertools.product(KINDS, ("kernel", "recurrent", "bias", "gamma")), (LSTM, "beta")],
    ids=str,
)
def test_initializers_regularizers_and_constraints_reach_their_weights(kind, argument):
    options = {
        f"{argument}_initializer": keras.initializers.Constant(2.0),
        f"{argument}_regularizer": "l2",
        f"{argument}_constraint": "non_neg",
    }
    if argument == "bias" and kind is LSTM:
        options["unit_forget_bias"] = False
    layer = kind.layer(U, **options)
    layer.build((None, None, D))
    owned = {
        "kernel": lambda name: name == "kernel",
        "recurrent": lambda name: name == "recurrent_kernel",
        "bias": lambda name: name in ("bias", "recurrent_bias"),
        "gamma": lambda name: name.endswith("gamma"),
        "beta": lambda name: name.endswith("beta"),
    }[argument]
    for weight in layer.weights:
        is_owned = owned(weight.name)
        assert (weight.regularizer is not None) == is_owned
        assert (weight.constraint is not None) == is_owned
        assert (f64(weight) == 2.0).all() == is_owned
    squares = sum(np.sum(np.square(w)) for w in layer.weights if owned(w.name))
    np.testing.assert_allclose(sum(layer.losses), 0.01 * squares, rtol=1e-5)


def test_gains_and_biases_stay_float32_under_a_half_policy(kind):
    layers = [kind.layer(U, dtype="mixed_float16"), LNDense(U, dtype="mixed_float16")]
    for layer, shape in zip(layers, [(None, None, D), (None, D)]):
        for weight in built(layer, *shape).weights:
            assert weight.dtype == "float32"

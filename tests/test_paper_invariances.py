"""The layer-norm row of the paper's Table 1, on `LNDense` with epsilon out of the way."""

import hypothesis
import hypothesis.extra.numpy as arrays
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from kinds import GRU, LSTM, SIMPLE, built, normal

from tf_layernorm import LNDense, layer_norm

CASES, INPUTS, UNITS = 4, 3, 5
SETTINGS = settings(max_examples=25, deadline=None, derandomize=True)
LAYER = LNDense(UNITS, "tanh", epsilon=1e-300, dtype="float64")

numbers = st.floats(-10, 10, width=32).map(lambda x: round(x, 2))
scales = st.floats(1e-3, 1e3)
kernels = arrays.arrays("float64", (INPUTS, UNITS), elements=numbers)
data = arrays.arrays("float64", (CASES, INPUTS), elements=numbers)
vectors = arrays.arrays("float64", (INPUTS,), elements=numbers)


def outputs(x, kernel):
    """The layer's, at a fixed gain and bias."""
    if not LAYER.built:
        LAYER.build((None, INPUTS))
    LAYER.set_weights([kernel, normal(UNITS), 1 + normal(UNITS, seed=1)])
    return LAYER(x).numpy()


def has_spread(x, kernel):
    """Summed inputs of no spread have no direction that could be kept."""
    return bool((np.std(x @ kernel, axis=-1) > 0.1).all())


def same(a, b):
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-8)


@SETTINGS
@given(data, kernels, scales)
def test_rescaling_the_weight_matrix_changes_nothing(x, kernel, scale):
    hypothesis.assume(has_spread(x, kernel))
    same(outputs(x, scale * kernel), outputs(x, kernel))


@SETTINGS
@given(data, kernels, vectors)
def test_recentering_the_weight_matrix_changes_nothing(x, kernel, shift):
    hypothesis.assume(has_spread(x, kernel))
    same(outputs(x, kernel + shift[:, None]), outputs(x, kernel))


@SETTINGS
@given(data, kernels, scales)
def test_rescaling_the_data_set_changes_nothing(x, kernel, scale):
    hypothesis.assume(has_spread(x, kernel))
    same(outputs(scale * x, kernel), outputs(x, kernel))


@SETTINGS
@given(data, kernels, arrays.arrays("float64", (CASES, 1), elements=scales))
def test_rescaling_single_cases_changes_nothing(x, kernel, scale):
    hypothesis.assume(has_spread(x, kernel))
    same(outputs(scale * x, kernel), outputs(x, kernel))


@SETTINGS
@given(st.integers(0, 1000), st.integers(0, UNITS - 1), st.floats(2, 100))
def test_rescaling_one_weight_vector_changes_the_output(seed, unit, scale):
    x, kernel = normal(CASES, INPUTS, seed=seed), normal(INPUTS, UNITS, seed=seed + 1)
    rescaled = kernel.copy()
    rescaled[:, unit] *= scale
    assert abs(outputs(x, rescaled) - outputs(x, kernel)).max() > 1e-3


@SETTINGS
@given(st.integers(0, 1000), st.floats(1, 100))
def test_recentering_the_data_set_changes_the_output(seed, shift):
    x, kernel = normal(CASES, INPUTS, seed=seed), normal(INPUTS, UNITS, seed=seed + 1)
    assert abs(outputs(x + shift, kernel) - outputs(x, kernel)).max() > 1e-3


def test_recentering_changes_nothing_where_it_moves_all_units_alike():
    x, kernel = normal(CASES, INPUTS), normal(INPUTS, UNITS, seed=1)
    kernel[0] = 2.0  # W c is the same for all units, for c along the first input
    same(outputs(x + np.array([7.0, 0, 0]), kernel), outputs(x, kernel))


@pytest.mark.parametrize("scale", [-1.0, -3.0])
def test_a_negative_scale_turns_the_sign(scale):
    x = normal(CASES, UNITS)
    np.testing.assert_allclose(
        layer_norm(scale * x, epsilon=0.0), -layer_norm(x, epsilon=0.0), rtol=0, atol=1e-12
    )


def test_invariance_is_exact_only_without_epsilon():
    x = 1e-2 * normal(CASES, UNITS)
    change = abs(layer_norm(x) - layer_norm(1e3 * x)).numpy().max()
    assert change > 1e-3
    change = abs(layer_norm(x, epsilon=0.0) - layer_norm(1e3 * x, epsilon=0.0)).numpy().max()
    assert change < 1e-12


SCALED = {
    "kernel": [(LSTM, ("kernel",)), (GRU, ("kernel",)), (LSTM, None), (GRU, None)],
    "recurrent_kernel": [(LSTM, ("recurrent",)), (GRU, ("recurrent",)), (LSTM, None), (GRU, None)],
}


@pytest.mark.parametrize(
    ("name", "kind", "normalize"),
    [(name, *case) for name, cases in SCALED.items() for case in cases],
)
def test_rescaling_a_kernel_changes_nothing_where_its_term_is_normalized(name, kind, normalize):
    options = {} if normalize is None else {"normalize": normalize}
    cell = built(kind.cell(UNITS, epsilon=1e-300, dtype="float64", **options), None, INPUTS)
    x = normal(CASES, INPUTS)
    states = [normal(CASES, UNITS, seed=k) for k in range(kind.n_states)]
    before = cell(x, states)[0]
    weight = getattr(cell, name)
    weight.assign(10.0 * weight)
    np.testing.assert_allclose(cell(x, states)[0], before, rtol=0, atol=1e-12)
    plain = built(kind.cell(UNITS, normalize=(), dtype="float64"), None, INPUTS)
    before = plain(x, states)[0]
    getattr(plain, name).assign(10.0 * getattr(plain, name))
    assert abs(plain(x, states)[0] - before).numpy().max() > 1e-3


def test_simple_rnn_changes_with_one_kernel_and_not_with_both():
    cell = built(SIMPLE.cell(UNITS, epsilon=1e-300, dtype="float64"), None, INPUTS)
    x, states = normal(CASES, INPUTS), [normal(CASES, UNITS, seed=1)]
    before = cell(x, states)[0]
    cell.kernel.assign(10.0 * cell.kernel)
    assert abs(cell(x, states)[0] - before).numpy().max() > 1e-3
    cell.recurrent_kernel.assign(10.0 * cell.recurrent_kernel)
    np.testing.assert_allclose(cell(x, states)[0], before, rtol=0, atol=1e-12)

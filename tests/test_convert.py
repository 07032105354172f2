"""Converted weights compute what the other library computes, through whole sequences.

TensorFlow Addons and PyTorch made the golden files beside the scripts in tests/golden. Haste needs
CUDA and Theano Python 2, so what they compute is written here in NumPy, after the lines cited.
"""

import doctest
import importlib
import inspect
import pathlib

import keras
import numpy as np
import pytest
from kinds import f64, normal, randomize
from reference import layer_norm, sigmoid

from tf_layernorm import LNGRU, LNLSTM, LNSimpleRNN, convert
from tf_layernorm.recurrent.layer import LNRNN

GOLDEN = pathlib.Path(__file__).parent / "golden"
B, T, D, U = 2, 6, 3, 4
FLAGS = dict(return_sequences=True, return_state=True, use_fused=False)


def assert_computes(layer, x, initial, outputs, final, atol):
    found_outputs, *found = layer(x, initial_state=list(initial))
    np.testing.assert_allclose(f64(found_outputs), outputs, rtol=0, atol=atol)
    for state, expected in zip(found, final, strict=True):
        np.testing.assert_allclose(f64(state), expected, rtol=0, atol=atol)


def draw(shapes, prefix=""):
    """Random arrays of shapes by name."""
    return {
        prefix + name: normal(*np.atleast_1d(shape), seed=k)
        for k, (name, shape) in enumerate(shapes.items())
    }


def numbered(arrays, start):
    return [value for name, value in arrays.items() if name.startswith(start)]


def tfa(name):
    """The weights, the inputs, and what the cell made of them."""
    arrays = np.load(GOLDEN / "tfa.npz")
    kinds = [numbered(arrays, f"{name}_{kind}_") for kind in ("weight", "initial", "final")]
    weights, initial, final = kinds
    return weights, (arrays["inputs"], initial, arrays[f"{name}_outputs"], final)


TFA = {"lstm": convert.from_tfa_lstm, "simple_rnn": convert.from_tfa_simple_rnn}


@pytest.mark.parametrize("name", TFA)
def test_tfa_cell_computes_the_same(name):
    weights, computed = tfa(name)
    assert_computes(TFA[name](weights, **FLAGS), *computed, atol=1e-5)


@pytest.mark.parametrize("name", TFA)
def test_tfa_cell_without_a_bias_computes_what_a_zero_bias_does(name):
    weights, (x, *_) = tfa(name)
    zero = [*weights[:2], np.zeros_like(weights[2]), *weights[3:]]
    without = [*weights[:2], *weights[3:]]
    layers = [TFA[name](given, use_fused=False) for given in (zero, without)]
    np.testing.assert_array_equal(*[f64(layer(x)) for layer in layers])


@pytest.mark.parametrize(("variant", "epsilon"), [("fused", 1e-5), ("decomposed", 1e-12)])
def test_fastrnns_cell_computes_the_same(variant, epsilon):
    arrays = np.load(GOLDEN / "fastrnns.npz")
    layer = convert.from_fastrnns(arrays, f"{variant}_cell.", epsilon=epsilon, **FLAGS)
    computed = [arrays[f"{variant}_{kind}"] for kind in ("outputs", "final")]
    assert_computes(layer, arrays["inputs"], arrays["initial"], *computed, atol=1e-5)


THEANO_LSTM = dict(W=(D, 4 * U), U=(U, 4 * U), b=4 * U, b1=4 * U, b2=4 * U, b3=U)
THEANO_LSTM |= dict(s1=4 * U, s2=4 * U, s3=U)
THEANO_GRU = dict(W=(D, 2 * U), U=(U, 2 * U), b=2 * U, Wx=(D, U), Ux=(U, U), bx=U)
THEANO_GRU |= {f"{kind}{k}": 2 * U if k % 2 else U for k in (1, 2, 3, 4) for kind in "bs"}


def theano_lstm(p, x, h, c):
    """ryankiros/layer-norm, layers.py at d415153fd6eb, lines 10-14 and 457-477."""
    outputs = []
    for below in np.moveaxis(x @ p["W"] + p["b"], 1, 0):
        a = layer_norm(below, p["s1"], p["b1"]) + layer_norm(h @ p["U"], p["s2"], p["b2"]) + p["b"]
        i, f, o, g = np.split(a, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(layer_norm(c, p["s3"], p["b3"]))
        outputs.append(h)
    return np.stack(outputs, axis=1), (h, c)


def theano_gru(p, x, h):
    """ryankiros/layer-norm, layers.py at d415153fd6eb, lines 10-14 and 197-222."""
    outputs = []
    for step in np.moveaxis(x, 1, 0):
        gates = layer_norm(h @ p["U"], p["s3"], p["b3"])
        gates += layer_norm(step @ p["W"] + p["b"], p["s1"], p["b1"])
        r, u = np.split(sigmoid(gates), 2, axis=1)
        below = layer_norm(step @ p["Wx"] + p["bx"], p["s2"], p["b2"])
        candidate = np.tanh(r * layer_norm(h @ p["Ux"], p["s4"], p["b4"]) + below)
        h = u * h + (1 - u) * candidate
        outputs.append(h)
    return np.stack(outputs, axis=1), (h,)


THEANO = {
    "lnlstm": (convert.from_theano_lstm, theano_lstm, THEANO_LSTM, 2),
    "lngru": (convert.from_theano_gru, theano_gru, THEANO_GRU, 1),
}


@pytest.mark.parametrize("append_one", [False, True])
@pytest.mark.parametrize("name", THEANO)
def test_theano_layer_computes_the_same(name, append_one):
    from_theano, theirs, shapes, n_states = THEANO[name]
    p, x = draw(shapes), normal(B, T, D, seed=50)
    if not append_one:  # constant, though another constant in each of the two norms
        p |= {b: np.full_like(p[b], p[b][0]) for b in ("b", "bx") if b in p}
    initial = normal(n_states, B, U, seed=51)
    computed = theirs(p, x, *initial)
    arrays = {f"{name}_{key}": value for key, value in p.items()}
    layer = from_theano(arrays, append_one=append_one, dtype="float64", **FLAGS)
    ones = np.ones((B, T, int(append_one)))
    assert_computes(layer, np.concatenate([x, ones], axis=-1), initial, *computed, atol=1e-10)


HASTE = dict(kernel=(D, 4 * U), recurrent_kernel=(U, 4 * U), bias=4 * U, gamma=(2, 4 * U))
HASTE |= dict(gamma_h=U, beta_h=U)


def haste_lstm(p, x, h, c, zoneout):
    """lmnt-com/haste, frameworks/pytorch/layer_norm_lstm.py at 440d57fccc4a, lines 50-69."""
    outputs = []
    for step in np.moveaxis(x, 1, 0):
        a = layer_norm(h @ p["recurrent_kernel"], p["gamma"][1])
        a += layer_norm(step @ p["kernel"], p["gamma"][0]) + p["bias"]
        i, g, f, o = np.split(a, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        new = sigmoid(o) * np.tanh(layer_norm(c, p["gamma_h"], p["beta_h"]))
        h = zoneout * h + (1 - zoneout) * new
        outputs.append(h)
    return np.stack(outputs, axis=1), (h, c)


@pytest.mark.parametrize(("framework", "zoneout"), [("pytorch", 0.0), ("tf", 0.25)])
def test_haste_layer_computes_the_same(framework, zoneout):
    p, x, initial = draw(HASTE), normal(B, T, D, seed=50), normal(2, B, U, seed=51)
    computed = haste_lstm(p, x, *initial, zoneout)
    if framework == "tf":  # frameworks/tf/layer_norm_lstm.py at 62d38dde8e68, `get_weights`
        p["kernel"] = np.concatenate([p["kernel"], p.pop("recurrent_kernel")])
    arrays = {f"rnn/{name}": value for name, value in p.items()}
    options = dict(zoneout=(zoneout, 0.0), dtype="float64", **FLAGS)
    layer = convert.from_haste_lstm(arrays, "rnn/", **options)
    assert_computes(layer, x, initial, *computed, atol=1e-10)


KERAS = [keras.layers.LSTM, keras.layers.GRU, keras.layers.SimpleRNN]


def keras_layer(kind, **options):
    flags = dict(return_sequences=True, return_state=True, dtype="float64")
    layer = kind(U, **flags, **options)
    layer.build((B, T, D))
    randomize(layer)
    return layer


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (keras.layers.LSTM, {}),
        (keras.layers.LSTM, dict(use_bias=False, recurrent_activation="tanh", stateful=True)),
        (keras.layers.GRU, {}),
        (keras.layers.GRU, dict(use_bias=False, activation="relu", go_backwards=True)),
        (keras.layers.GRU, dict(recurrent_activation="hard_sigmoid", stateful=True)),
        (keras.layers.SimpleRNN, {}),
        (keras.layers.SimpleRNN, dict(use_bias=False, activation="relu", stateful=True)),
    ],
    ids=str,
)
def test_keras_layer_computes_the_same(kind, options):
    theirs = keras_layer(kind, **options)
    ours = convert.from_keras(theirs, use_fused=False)
    x = normal(B, T, D, seed=50)
    initial = list(normal(2 if kind is keras.layers.LSTM else 1, B, U, seed=51))
    outputs, *final = theirs(x, initial_state=initial)
    assert_computes(ours, x, initial, f64(outputs), [f64(state) for state in final], atol=1e-12)


@pytest.mark.parametrize("options", [{}, dict(merge_mode="sum", stateful=True)], ids=str)
@pytest.mark.parametrize("kind", KERAS, ids=str)
def test_both_directions_of_a_keras_layer_compute_the_same(kind, options):
    options = dict(options)
    wrapper = dict(merge_mode=options.pop("merge_mode", "concat"), dtype="float64", name="both")
    layer = kind(U, return_sequences=True, dtype="float64", **options)
    theirs = keras.layers.Bidirectional(layer, **wrapper)
    theirs.build((B, T, D))
    randomize(theirs)
    ours = convert.from_keras(theirs, use_fused=False)
    x = normal(B, T, D, seed=50)
    for _ in range(2):  # stateful ones go on from what they had
        np.testing.assert_allclose(f64(ours(x)), f64(theirs(x)), rtol=0, atol=1e-12)
    assert isinstance(ours.backward_layer, LNRNN) and not ours.backward_layer.use_fused
    assert ours.name == "both" and convert.from_keras(theirs, name="ours").name == "ours"
    names = [(m.forward_layer.name, m.backward_layer.name) for m in (ours, theirs)]
    assert names[0] == names[1]


def sequential():
    """Built by a call: it has no `Input`."""
    layers = [
        keras.layers.Masking(),
        keras.layers.Bidirectional(keras.layers.LSTM(U, return_sequences=True)),
        keras.layers.Dropout(0.5),
        keras.layers.BatchNormalization(),
        keras.layers.GRU(U, return_sequences=True),
        keras.layers.SimpleRNN(U, activation="relu"),
        keras.layers.Dense(2),
    ]
    model = keras.Sequential(layers, name="model")
    model(normal(B, T, D, dtype="float32"))
    return model


def functional():
    """An encoder, a model of its own, whose states its decoder starts from; one layer twice."""
    x = keras.Input((None, D))
    encoder = keras.Model(x, keras.layers.LSTM(U, return_state=True, name="encoder")(x)[1:])
    twice = keras.layers.GRU(U, return_sequences=True, name="twice")
    inputs = keras.Input((None, D), name="inputs")
    states = encoder(inputs)
    read = keras.layers.LSTM(U, return_sequences=True, name="decoder")(inputs, initial_state=states)
    outputs = twice(twice(read)) + keras.layers.Dense(U)(inputs)
    return keras.Model(inputs, outputs, name="model")


def recurrent_layers(model):
    """The types of the recurrent layers, those within wrappers and models too."""
    found = []
    for layer in model.layers:
        parts = [
            getattr(layer, name, None) for name in ("forward_layer", "backward_layer", "layer")
        ]
        nested = layer.layers if isinstance(layer, keras.Model) else []
        found += [type(part) for part in (layer, *parts, *nested)]
    return {kind for kind in found if issubclass(kind, keras.layers.RNN)}


@pytest.mark.parametrize(
    ("build", "kinds"),
    [(sequential, {LNLSTM, LNGRU, LNSimpleRNN}), (functional, {LNLSTM, LNGRU})],
    ids=["sequential", "functional"],
)
def test_keras_model_computes_the_same(build, kinds):
    theirs = build()
    randomize(theirs)
    ours = convert.from_keras(theirs)
    x = normal(B, T, D, seed=50, dtype="float32")
    x[0, :2] = 0.0
    np.testing.assert_allclose(f64(ours(x)), f64(theirs(x)), rtol=0, atol=1e-5)
    assert recurrent_layers(ours) == kinds
    assert type(ours) is type(theirs)
    assert [layer.name for layer in ours.layers] == [layer.name for layer in theirs.layers]
    # A copy: nothing is shared.
    before = f64(theirs(x))
    ours.set_weights([np.zeros_like(array) for array in ours.get_weights()])
    np.testing.assert_array_equal(f64(theirs(x)), before)


def test_keras_model_lists_the_layers_left():
    theirs = keras.Sequential(
        [
            keras.Input((T, D)),
            keras.layers.GRU(U, reset_after=False, return_sequences=True, name="before"),
            keras.layers.RNN(keras.layers.LSTMCell(U), return_sequences=True, name="cell"),
            keras.layers.Reshape((1, T, U)),
            keras.layers.TimeDistributed(keras.layers.LSTM(U, return_sequences=True), name="time"),
            keras.layers.Reshape((T, U)),
            LNLSTM(U, return_sequences=True),
            keras.layers.LSTM(U, name="last"),
        ]
    )
    randomize(theirs)
    with pytest.warns(UserWarning, match="Left as Keras' layers") as caught:
        ours = convert.from_keras(theirs, use_fused=False)
    [warning] = caught
    assert warning.filename == __file__
    text = str(warning.message)
    assert "'before', a GRU: With `reset_after=False` the reset gate" in text
    assert "'cell', a RNN; 'time', a TimeDistributed" in text and "last" not in text
    x = normal(B, T, D, seed=50, dtype="float32")
    np.testing.assert_allclose(f64(ours(x)), f64(theirs(x)), rtol=0, atol=1e-5)
    assert type(ours.layers[-1]) is LNLSTM and not ours.layers[-1].use_fused


def test_keras_options_go_over_and_can_be_changed():
    def own(x):
        return keras.ops.tanh(x)

    options = dict(activation=own, dropout=0.1, recurrent_dropout=0.2, seed=3, unroll=True)
    options |= dict(kernel_regularizer="l2", activity_regularizer="l1", trainable=False)
    theirs = keras_layer(keras.layers.LSTM, unit_forget_bias=False, **options)
    ours = convert.from_keras(theirs, name="ours")
    assert ours.name == "ours" and ours.cell.activation is own
    config = {**theirs.get_config(), "name": "ours"}
    assert {name: value for name, value in ours.get_config().items() if name in config} == config


def without(arrays, *names):
    return {name: value for name, value in arrays.items() if name not in names}


HASTE_GRU = dict(kernel=(D, 3 * U), recurrent_kernel=(U, 3 * U), bias=3 * U)
HASTE_GRU |= dict(recurrent_bias=3 * U, gamma=(2, 3 * U))
FASTRNNS = dict(without(np.load(GOLDEN / "fastrnns.npz"), "inputs"))
# What is refused, and the words of the reason.
REFUSED = {
    "tfa: too few": (lambda: convert.from_tfa_lstm(tfa("lstm")[0][:7]), "Received: 7 arrays"),
    "tfa: too many": (lambda: convert.from_tfa_lstm(tfa("lstm")[0] * 2), "Received: 18 arrays"),
    "tfa: another order": (
        lambda: convert.from_tfa_lstm(tfa("lstm")[0][::-1]),
        r"has the arrays kernel \(D, 4U\)",
    ),
    "tfa: another cell": (
        lambda: convert.from_tfa_simple_rnn(keras_layer(keras.layers.LSTM).get_weights()),
        r"gamma \(U\).*Received: ",
    ),
    "fastrnns: no prefix": (
        lambda: convert.from_fastrnns(FASTRNNS),
        r"weight_ih \(4U, D\).*Received: ",
    ),
    "fastrnns: a bias": (
        lambda: convert.from_fastrnns(FASTRNNS | {"fused_cell.bias_ih": 0.0}, "fused_cell."),
        "Received: .'bias_ih'",
    ),
    "haste: GRU": (
        lambda: convert.from_haste_lstm(draw(HASTE_GRU)),
        "normalises its 3U values jointly",
    ),
    "haste: no beta": (
        lambda: convert.from_haste_lstm(without(draw(HASTE), "beta_h")),
        r"beta_h \(U\).*Received: ",
    ),
    "theano: bias in the LSTM's norm": (
        lambda: convert.from_theano_lstm(draw(THEANO_LSTM, "lnlstm_")),
        "append_one=True",
    ),
    "theano: bias in the GRU's norm": (
        lambda: convert.from_theano_gru(draw(THEANO_GRU, "lngru_") | {"lngru_b": np.ones(2 * U)}),
        "append_one=True",
    ),
    "theano: initial state": (
        lambda: convert.from_theano_lstm({"lnlstm_h0": np.ones(U)}),
        "Received: lnlstm_h0",
    ),
    "theano: LSTM as GRU": (
        lambda: convert.from_theano_gru(draw(THEANO_LSTM, "lnlstm_"), "lnlstm"),
        r"lnlstm_W \(D, 2U\)",
    ),
    "keras: not built": (lambda: convert.from_keras(keras.layers.LSTM(U)), "must be a built"),
    "keras: another": (
        lambda: convert.from_keras(keras.layers.RNN(keras.layers.LSTMCell(U))),
        "Received: layer=<RNN",
    ),
    "keras: a model not built": (
        lambda: convert.from_keras(keras.Sequential([keras.layers.LSTM(U)])),
        "must be a built.*or a model. Received: layer=<Sequential",
    ),
    "keras: both directions of another": (
        lambda: convert.from_keras(
            keras_layer(
                lambda units, **flags: keras.layers.Bidirectional(
                    keras.layers.RNN(keras.layers.LSTMCell(units), **flags)
                )
            )
        ),
        "Received: layer=<RNN",
    ),
    "keras: reset_after": (
        lambda: convert.from_keras(keras_layer(keras.layers.GRU, reset_after=False)),
        "Received: reset_after=False",
    ),
    "keras: activation": (
        lambda: convert.from_keras(keras_layer(keras.layers.GRU, recurrent_activation="tanh")),
        "Received: recurrent_activation=<function tanh",
    ),
    "keras: constraint": (
        lambda: convert.from_keras(keras_layer(keras.layers.GRU, kernel_constraint="non_neg")),
        "Received: kernel_constraint=",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_counterpart_is_refused(case):
    function, reason = REFUSED[case]
    with pytest.raises(ValueError, match=reason):
        function()


EPSILON = {
    "from_tfa_lstm": (tfa("lstm")[0], 1e-3),
    "from_tfa_simple_rnn": (tfa("simple_rnn")[0], 1e-5),
    "from_fastrnns": (
        {
            k.removeprefix("fused_cell."): v
            for k, v in FASTRNNS.items()
            if k.startswith("fused_cell")
        },
        1e-5,
    ),
}


@pytest.mark.parametrize("name", EPSILON)
def test_epsilon_is_the_one_given_or_theirs(name):
    convert_from, (arrays, default) = getattr(convert, name), EPSILON[name]
    assert convert_from(arrays).cell.epsilon == default
    assert convert_from(arrays, epsilon=0.25).cell.epsilon == 0.25
    takes_epsilon = {
        name
        for name in convert.__all__
        if "epsilon" in inspect.signature(getattr(convert, name)).parameters
    }
    assert takes_epsilon == set(EPSILON)


def test_options_of_the_conversion_cannot_be_given():
    # Another epsilon or carry would silently compute something else.
    with pytest.raises(TypeError, match="carry_normalized_state"):
        convert.from_tfa_lstm(tfa("lstm")[0], carry_normalized_state=False)
    with pytest.raises(TypeError, match="epsilon"):
        convert.from_haste_lstm(draw(HASTE), epsilon=1e-3)


@pytest.mark.parametrize("name", convert.__all__)
def test_every_converter_has_an_example_that_runs(name):
    function = getattr(convert, name)
    module = importlib.import_module(function.__module__)
    (test,) = doctest.DocTestFinder(recurse=False).find(function, name, module)
    assert test.examples and doctest.DocTestRunner().run(test).failed == 0

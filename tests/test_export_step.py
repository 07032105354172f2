"""One step of a model with its states given and returned: streaming equals the whole sequence."""

import functools
import pickle
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers, ops
from kinds import BATCH, INPUTS, TIME, UNITS, f64, normal, randomize

import tf_layernorm as tfln
from tf_layernorm.export import export_step, step_model

SEQUENCES = dict(return_sequences=True)


class Window(layers.Layer):
    """A cell whose last state, given in `initial_state`, is carried unchanged."""

    def __init__(self, cell, **kwargs):
        super().__init__(**kwargs)
        self.cell = cell
        self.state_size = [*cell.state_size, 2]
        self.output_size = cell.output_size

    def build(self, input_shape):
        self.cell.build((input_shape[0], input_shape[1] + 2))

    def call(self, inputs, states):
        *states, characters = states
        seen = ops.mean(characters, axis=1)
        output, states = self.cell(ops.concatenate([inputs, seen], axis=-1), states)
        return output, [*states, characters]

    def get_initial_state(self, batch_size=None):
        raise ValueError("The characters must be given.")


def sequential(*parts, shape=(None, INPUTS)):
    return keras.Sequential([keras.Input(shape), *parts])


def ours():
    return sequential(
        layers.Dense(UNITS),
        *[layer(UNITS, **SEQUENCES) for layer in (tfln.LNLSTM, tfln.LNGRU, tfln.LNSimpleRNN)],
        tfln.LNDense(2),
    )


def keras_layers():
    return sequential(
        layers.LSTM(UNITS, **SEQUENCES),
        layers.LayerNormalization(),
        layers.GRU(UNITS, **SEQUENCES),
        layers.TimeDistributed(layers.Dense(2)),
        layers.SimpleRNN(UNITS, **SEQUENCES),
        layers.Dropout(0.5),
    )


def cells():
    stacked = [tfln.LNLSTMCell(UNITS), tfln.LNGRUCell(2), layers.SimpleRNNCell(UNITS)]
    return sequential(
        layers.RNN(stacked, **SEQUENCES), layers.RNN(tfln.LNLSTMCell(UNITS), **SEQUENCES)
    )


def last_output():
    """Of symbols; stateful, unrolled, of known sizes."""
    inputs = keras.Input(batch_shape=(BATCH, TIME), dtype="int32")
    x = layers.Embedding(2, INPUTS)(inputs)
    x = layers.GRU(UNITS, stateful=True, unroll=True, **SEQUENCES)(x)
    return keras.Model(inputs, layers.Dense(2)(tfln.LNLSTM(UNITS, stateful=True)(x)))


def half():
    """With a constant initial state."""
    x, constant = keras.Input((None, INPUTS)), tf.ones((BATCH, UNITS))
    layer = tfln.LNLSTM(UNITS, dtype="mixed_bfloat16", **SEQUENCES)
    return keras.Model(x, layer(x, initial_state=[constant, 2 * constant]))


def encoder_decoder():
    """The decoder starts from what the encoder's ends with, stands in a model of its own, and
    is followed by a skip connection. Two outputs."""
    source, target = keras.Input((None, 2)), keras.Input((None, INPUTS))
    x = keras.Input((None, INPUTS))
    h, c = keras.Input((UNITS,)), keras.Input((UNITS,))
    y, h_last, _ = tfln.LNLSTM(UNITS, return_state=True, **SEQUENCES)(x, initial_state=[h, c])
    decoder = keras.Model([x, h, c], [y, h_last])
    states = layers.LSTM(UNITS, return_state=True)(source)[1:]
    y, h_last = decoder([target, *states])
    return keras.Model([source, target], [ops.concatenate([y, 2.0 * target], axis=-1), h_last])


def window():
    characters, x = keras.Input((None, 2)), keras.Input((None, INPUTS))
    zeros = ops.zeros_like(characters[:, 0, :1]) + ops.zeros((1, UNITS))
    cell = Window(tfln.LNLSTMCell(UNITS))
    y = layers.RNN(cell, **SEQUENCES)(x, initial_state=[zeros, zeros, characters])
    return keras.Model([characters, x], y)


MODELS = (ours, keras_layers, cells, last_output, half, encoder_decoder, window)
EXPORTED = (encoder_decoder, window)


@functools.cache
def case(make):
    """A model, its step, inputs, and what it computes for whole sequences."""
    keras.utils.set_random_seed(0)
    model = make()
    randomize(model)
    inputs = [
        tf.constant(
            normal(BATCH, TIME, *t.shape[2:], dtype="float32")
            if t.dtype == "float32"
            else np.arange(BATCH * TIME, dtype="int32").reshape(BATCH, TIME) % 2
        )
        for t in model.inputs
    ]
    outputs = tf.function(model)(inputs if len(inputs) > 1 else inputs[0])
    return model, step_model(model), inputs, [f64(y) for y in keras.tree.flatten(outputs)]


def stream(step, inputs):
    """Steps through sequences; gives all outputs, with an axis for time."""
    starts = len(step.start_inputs)
    states = step.initial_states(*(inputs[:starts] or [BATCH]))
    outputs = []
    for t in range(TIME):
        results = step([*(x[:, t] for x in inputs[starts:]), *states])
        outputs.append([f64(y) for y in results[: -len(states)]])
        states = results[-len(states) :]
    return [np.stack(y, axis=1) for y in zip(*outputs, strict=True)]


def check_equal(streamed, whole, atol=1e-5):
    for stream, expected in zip(streamed, whole, strict=True):
        if stream.ndim > expected.ndim:  # the last output only
            stream = stream[:, -1]
        assert np.std(expected) > 1e-2
        np.testing.assert_allclose(stream, expected, rtol=0, atol=atol)


@pytest.mark.parametrize("make", MODELS)
def test_streaming_equals_the_whole_sequence(make):
    _, step, inputs, expected = case(make)
    # In bfloat16 the fused recurrence rounds centred weights, a step those that are given.
    check_equal(stream(step, inputs), expected, atol=2**-8 if make is half else 1e-5)


def test_weights_are_the_models_own():
    model, step, *_ = case(ours)
    assert {id(w) for w in step.weights} == {id(w) for w in model.weights}


def test_states_of_half_precision_are_those_of_the_layer():
    _, step, *_ = case(half)
    assert [t.dtype for t in step.inputs] == ["float32", "bfloat16", "float32"]


WITHOUT_PACKAGE = """
import pickle, sys
sys.modules["tf_layernorm"] = sys.modules["keras"] = None
import numpy as np
import tensorflow as tf
folder = sys.argv[1]
results = {}
for name, (starts, inputs) in pickle.load(open(f"{folder}/inputs.pkl", "rb")).items():
    loaded, outputs = tf.saved_model.load(f"{folder}/{name}"), []
    states = loaded.initial_states({k: tf.constant(v) for k, v in starts.items()})
    for t in range(next(iter(inputs.values())).shape[1]):
        step = {k: tf.constant(v[:, t]) for k, v in inputs.items()}
        result = loaded.step({**step, **states})
        states = {k: result[k] for k in states}
        outputs.append([result[k].numpy() for k in sorted(set(result) - set(states))])
    results[name] = [np.stack(y, axis=1) for y in zip(*outputs)]
pickle.dump(results, open(f"{folder}/outputs.pkl", "wb"))
"""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """What a process without the package computes step by step from the files."""
    folder, arguments = tmp_path_factory.mktemp("steps"), {}
    for make in EXPORTED:
        model, step, inputs, _ = case(make)
        export_step(model, folder / make.__name__)
        named = {f"input_{k}": x.numpy() for k, x in enumerate(inputs)}
        starts = {t.name: named.pop(t.name) for t in step.start_inputs}
        arguments[make.__name__] = starts or {"batch_size": np.int32(BATCH)}, named
    (folder / "inputs.pkl").write_bytes(pickle.dumps(arguments))
    command = [sys.executable, "-c", WITHOUT_PACKAGE, str(folder)]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return pickle.loads((folder / "outputs.pkl").read_bytes())


@pytest.mark.parametrize("make", EXPORTED)
def test_saved_step_runs_without_the_package(loaded, make):
    *_, expected = case(make)
    check_equal(loaded[make.__name__], expected)


def recurrent(**options):
    return tfln.LNLSTM(UNITS, **{"name": "culprit", **SEQUENCES, **options})


def from_the_sequence():
    x = keras.Input((None, INPUTS))
    _, h, c = layers.LSTM(UNITS, return_state=True)(x)
    return keras.Model(x, recurrent()(x, initial_state=[h, c]))


def last_beside_the_sequence():
    x = keras.Input((TIME, UNITS))
    last = layers.RepeatVector(TIME)(layers.LSTM(UNITS)(x))
    return keras.Model(x, layers.Add(name="culprit")([recurrent(name="other")(x), last]))


def own_call():
    class Reversed(layers.RNN):
        def call(self, sequences, initial_state=None, mask=None, training=False):
            return super().call(ops.flip(sequences, axis=1), initial_state, mask, training)

    return sequential(Reversed(tfln.LNGRUCell(UNITS), name="culprit"))


def given_mask():
    x, mask = keras.Input((None, INPUTS)), keras.Input((None,), dtype="bool")
    return keras.Model([x, mask], recurrent()(x, mask=mask))


BAD = {
    "both directions": lambda: sequential(
        layers.Bidirectional(layers.LSTM(UNITS, **SEQUENCES), name="culprit"), recurrent(name="r")
    ),
    "backwards": lambda: sequential(recurrent(go_backwards=True)),
    "convolution": lambda: sequential(
        layers.Conv1D(2, 3, padding="causal", name="culprit"), recurrent(name="other")
    ),
    "flatten": lambda: sequential(
        recurrent(name="r"), layers.Flatten(name="culprit"), shape=(TIME, INPUTS)
    ),
    "mask": lambda: sequential(layers.Masking(name="culprit"), recurrent(name="r")),
    "given mask": given_mask,
    "own call": own_call,
    "state from the sequence": from_the_sequence,
    "last output": last_beside_the_sequence,
}


@pytest.mark.parametrize("name", BAD)
def test_model_that_needs_other_steps_is_refused(name, tmp_path):
    model = BAD[name]()
    with pytest.raises(ValueError, match="Received: .*'culprit'"):
        export_step(model, tmp_path / "step")
    assert not list(tmp_path.iterdir())


def test_model_without_graph_or_recurrence_is_refused():
    class Own(keras.Model):
        def call(self, x):
            return x

    for model in (
        Own(),
        keras.Sequential([recurrent()]),
        sequential(layers.Dense(2)),
        "model.keras",
    ):
        with pytest.raises(ValueError, match="`model` must.*Received: model="):
            step_model(model)
    with pytest.raises(ValueError, match="`format`.*Received: format='onnx'"):
        export_step(case(ours)[0], "nowhere", format="onnx")


def test_exported_steps_are_of_inference(tmp_path):
    """With dropout and zoneout, which act in training."""
    rates = dict(dropout=0.5, recurrent_dropout=0.5, zoneout=0.5)
    model = sequential(*[layer(UNITS, **SEQUENCES, **rates) for layer in (tfln.LNLSTM, tfln.LNGRU)])
    randomize(model)
    x = tf.constant(normal(BATCH, TIME, INPUTS, dtype="float32"))
    export_step(model, tmp_path / "step")
    loaded = tf.saved_model.load(str(tmp_path / "step"))
    states, outputs = loaded.initial_states({"batch_size": tf.constant(BATCH)}), []
    for t in range(TIME):
        results = loaded.step({"input_0": x[:, t], **states})
        outputs.append(results.pop("output_0"))
        states = results
    np.testing.assert_allclose(tf.stack(outputs, axis=1), model(x), rtol=0, atol=1e-6)

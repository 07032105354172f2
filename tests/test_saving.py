"""Models in files, read by fresh processes: `.keras`, `.weights.h5`, and exported SavedModels.

All models are saved first. Then one process that imports nothing but `tf_layernorm`, and another
that can't import it, read them all and write down what they compute.
"""

import functools
import json
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
from cases import BATCH, CASES, INPUTS, TIME, UNITS
from kinds import KINDS, f64, normal, randomize

import tf_layernorm as tfln
from tf_layernorm.attention import WindowCell
from tf_layernorm.baselines import BatchNorm
from tf_layernorm.mixture import MixtureHead, MixtureNLL, mixture_nll


def masked():
    """Masks, stacked cells, both directions, both drivers and dropout in one model."""
    both = tfln.LNGRU(UNITS, use_fused=False, return_sequences=True)
    cells = [tfln.LNSimpleRNNCell(UNITS), tfln.LNLSTMCell(UNITS), tfln.LNLSTMCell(UNITS)]
    return keras.Sequential(
        [
            keras.Input((None, INPUTS)),
            keras.layers.Masking(),
            keras.layers.Bidirectional(both),
            keras.layers.Bidirectional(
                keras.layers.RNN(tfln.LNGRUCell(UNITS), return_sequences=True)
            ),
            keras.layers.RNN(cells, return_sequences=True),
            tfln.LNLSTM(UNITS, dropout=0.5, seed=1, go_backwards=True),
        ]
    )


def stateful(use_fused):
    """The three sequence layers in half precision, each with states of its own."""
    options = {"return_sequences": True, "stateful": True, "dtype": "mixed_bfloat16"}
    layers = [kind.layer(UNITS, use_fused=use_fused, **options) for kind in KINDS]
    return keras.Sequential([keras.Input(batch_shape=(BATCH, None, INPUTS)), *layers])


def writer():
    """What isn't imported with the package: a window, a mixture, batch norm, loss and metric."""
    x = keras.Input((None, INPUTS))
    cell = WindowCell(tfln.LNLSTMCell(UNITS), INPUTS)
    h = keras.layers.RNN(cell, return_sequences=True)(x, initial_state=cell.initial_state(x))
    model = keras.Model(x, MixtureHead(2)(BatchNorm()(h)))
    nll = keras.metrics.MeanMetricWrapper(mixture_nll, name="nll")
    model.compile("adam", MixtureNLL(), weighted_metrics=[nll])
    return model


STATEFUL = {f"stateful-{v}": functools.partial(stateful, v) for v in (True, "auto", False)}
MODELS = {**{str(case): case.model for case in CASES}, **STATEFUL}
MODELS |= {"masked": masked, "writer": writer}
FILES = [(name, suffix) for name in MODELS for suffix in ("keras", "weights", "export")]

COMMON = """
import json, sys, traceback
import numpy as np
import tensorflow as tf
folder, errors = sys.argv[1], {}
def write(name, suffix, load):
    try:
        call, x = load(), np.load(f"{folder}/{name}.npz")
        outputs = [tf.cast(call(x[k]), "float32").numpy() for k in x.files]
        np.savez(f"{folder}/{name}-{suffix}.npz", *outputs)
    except Exception:
        errors[f"{name}-{suffix}"] = traceback.format_exc()
names = json.load(open(f"{folder}/names.json"))
"""
WITH_PACKAGE = """
import keras
import tf_layernorm
def read_weights(name):
    model = keras.models.model_from_json(open(f"{folder}/{name}.json").read())
    model.load_weights(f"{folder}/{name}.weights.h5")
    return model
for name in names:
    write(name, "keras", lambda: keras.models.load_model(f"{folder}/{name}.keras"))
    write(name, "weights", lambda: read_weights(name))
json.dump(errors, open(f"{folder}/errors-keras.json", "w"))
"""
WITHOUT_PACKAGE = """
sys.modules["tf_layernorm"] = sys.modules["keras"] = None
def read_export(name):
    model = tf.saved_model.load(f"{folder}/{name}-saved")
    return lambda x: model.serve(x)  # a bound method alone would let the variables go
for name in names:
    write(name, "export", lambda: read_export(name))
json.dump(errors, open(f"{folder}/errors-export.json", "w"))
"""


def inputs_of(model):
    """Two batches; of other sizes in the second, where the model leaves them open."""
    shapes = [[BATCH, TIME], [BATCH + 2, TIME + 3]]
    first, second = (
        [known or size for known, size in zip(model.input_shape, shape)] for shape in shapes
    )
    arrays = [normal(*sizes, *model.input_shape[2:], dtype="float32") for sizes in (first, second)]
    for x in arrays:
        x[0, -1] = x[1, :2] = 0.0  # steps that `Masking` masks
    return arrays


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with all models, what they compute, and what the fresh processes computed."""
    folder = tmp_path_factory.mktemp("models")
    (folder / "names.json").write_text(json.dumps(list(MODELS)))
    for name, make in MODELS.items():
        keras.utils.set_random_seed(0)
        model = make()
        randomize(model)
        arrays = inputs_of(model)
        np.savez(folder / f"{name}.npz", *arrays)
        np.savez(folder / f"{name}-expected.npz", *[f64(model(x)) for x in arrays])
        for layer in model.layers:
            if getattr(layer, "stateful", False):
                layer.reset_state()
        model.save(folder / f"{name}.keras")
        model.save_weights(folder / f"{name}.weights.h5")
        (folder / f"{name}.json").write_text(model.to_json())
        model.export(folder / f"{name}-saved", verbose=False)
    package = str(pathlib.Path(__file__).parents[1])
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", COMMON + code, str(folder)],
            env={**os.environ, "PYTHONPATH": package},
            stderr=subprocess.PIPE,
            text=True,
        )
        for code in (WITH_PACKAGE, WITHOUT_PACKAGE)
    ]
    for process in processes:
        errors = process.communicate()[1]
        assert process.returncode == 0, errors
    return folder


@pytest.mark.parametrize(("name", "suffix"), FILES)
def test_fresh_process_computes_the_same(folder, name, suffix):
    kind = "export" if suffix == "export" else "keras"
    errors = json.loads((folder / f"errors-{kind}.json").read_text())
    assert f"{name}-{suffix}" not in errors, errors[f"{name}-{suffix}"]
    expected, result = (np.load(folder / f"{name}-{key}.npz") for key in ("expected", suffix))
    assert len(result.files) == len(expected.files) == 2
    # "auto" is compiled when it is called and not in an export: bfloat16 is rounded elsewhere.
    atol = 2**-8 if (name, suffix) == ("stateful-auto", "export") else 1e-5
    for key in expected.files:
        np.testing.assert_allclose(result[key], expected[key], rtol=0, atol=atol)


def test_models_are_not_trivial(folder):
    for name in MODELS:
        first, second = (np.load(folder / f"{name}-expected.npz")[f"arr_{k}"] for k in (0, 1))
        assert np.std(first) > 1e-2 and np.std(second) > 1e-2, name
        if name in STATEFUL:
            assert len(first) == len(second)

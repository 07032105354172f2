"""The public names, and what importing the package does."""

import importlib
import json
import pathlib
import pkgutil
import subprocess
import sys

import keras
import numpy as np
import pytest

import tf_layernorm
from tf_layernorm import _lazy

NAMES = {
    "layer_norm",
    "LayerNorm",
    "LNDense",
    "LNSimpleRNNCell",
    "LNLSTMCell",
    "LNGRUCell",
    "LNSimpleRNN",
    "LNLSTM",
    "LNGRU",
}
MODULES = ["analysis", "attention", "baselines", "convert", "data", "export", "mixture"]
PACKAGE = pathlib.Path(tf_layernorm.__file__).parent


def test_public_names_are_these():
    assert set(tf_layernorm.__all__) == NAMES
    assert len(tf_layernorm.__all__) == len(NAMES)
    shown = {name for name in dir(tf_layernorm) if not name.startswith("_")}
    modules = {name for name in shown if type(getattr(tf_layernorm, name)) is type(keras)}
    assert shown - modules == NAMES


@pytest.mark.parametrize("name", MODULES)
def test_modules_say_what_is_public(name):
    module = getattr(tf_layernorm, name)
    assert name in dir(tf_layernorm)
    assert set(module.__all__) <= set(dir(module))
    assert len(set(module.__all__)) == len(module.__all__) > 0
    for public in module.__all__:
        assert getattr(module, public).__doc__
    with pytest.raises(AttributeError, match="has no attribute 'missing'"):
        module.missing  # noqa: B018


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="'tf_layernorm' has no attribute 'LSTM'"):
        tf_layernorm.LSTM  # noqa: B018


def test_all_that_a_saved_model_holds_is_known_by_name():
    for module in pkgutil.walk_packages([str(PACKAGE)], "tf_layernorm."):
        importlib.import_module(module.name)
    at_once = ("normalization", "dense", "recurrent")
    registered = {}
    for name, value in keras.saving.get_custom_objects().items():
        _, _, module = getattr(value, "__module__", "").partition("tf_layernorm.")
        if name.startswith("tf_layernorm>") and module.split(".")[0] not in ("", *at_once):
            registered[name.removeprefix("tf_layernorm>")] = module
    assert registered == _lazy.CLASSES | _lazy.FUNCTIONS


def test_a_function_known_by_name_is_saved_under_it(monkeypatch):
    known = keras.saving.get_custom_objects()
    key = "tf_layernorm>mixture_nll"
    real = tf_layernorm.mixture.mixture_nll
    monkeypatch.setitem(known, key, real)  # so that it is put back
    del known[key]
    _lazy.register()
    named = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(real))
    assert named is known[key] is not real
    assert named(np.zeros((1, 3)), np.zeros((1, 7))) == real(np.zeros((1, 3)), np.zeros((1, 7)))
    saved = keras.saving.serialize_keras_object(named)
    assert (saved["class_name"], saved["config"]) == ("function", key)


def test_sequence_layers_are_rnns():
    for name in ("LNSimpleRNN", "LNLSTM", "LNGRU"):
        assert issubclass(getattr(tf_layernorm, name), keras.layers.RNN)


PROGRAM = """
import json, sys
import tensorflow, keras
before = set(sys.modules)
backend, keras.config.backend = keras.config.backend, lambda: "jax"
try:
    import tf_layernorm
except ImportError as error:
    refusal = str(error)
keras.config.backend = backend
import tf_layernorm
added = sorted(set(sys.modules) - before)
exports = {name: getattr(tf_layernorm, name).__all__ for name in MODULES}
print(json.dumps([refusal, added, exports]))
""".replace("MODULES", repr(MODULES))


def test_import_refuses_other_backends_and_loads_nothing_but_the_layers():
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=PACKAGE.parent, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    refusal, added, exports = json.loads(run.stdout.splitlines()[-1])
    assert refusal.endswith("Received: backend='jax'")
    assert {name for name in added if name.split(".")[0] != "tf_layernorm"} == set()
    own = {name.split(".")[1] for name in added if "." in name}
    assert own <= {"_arguments", "_lazy", "_random", "normalization", "dense", "recurrent"}
    assert {"mixture", "unipen", "step_model", "from_keras", "table1", "BatchNorm"} <= {
        name for names in exports.values() for name in names
    }


def test_package_uses_public_interfaces_only():
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        for private in ("keras.src", "tensorflow.python", "keras._tf_keras"):
            assert private not in text, path


def test_package_is_typed():
    assert (PACKAGE / "py.typed").exists()

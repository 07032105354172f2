"""The public names, and what importing the package does."""

import json
import pathlib
import subprocess
import sys

import keras

import tf_layernorm

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
PACKAGE = pathlib.Path(tf_layernorm.__file__).parent


def test_public_names_are_these():
    assert set(tf_layernorm.__all__) == NAMES
    assert len(tf_layernorm.__all__) == len(NAMES)
    shown = {name for name in dir(tf_layernorm) if not name.startswith("_")}
    modules = {name for name in shown if type(getattr(tf_layernorm, name)) is type(keras)}
    assert shown - modules == NAMES


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
print(json.dumps([refusal, sorted(set(sys.modules) - before)]))
"""


def test_import_refuses_other_backends_and_loads_nothing_but_the_layers():
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=PACKAGE.parent, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    refusal, added = json.loads(run.stdout.splitlines()[-1])
    assert refusal.endswith("Received: backend='jax'")
    assert {name for name in added if name.split(".")[0] != "tf_layernorm"} == set()
    own = {name.split(".")[1] for name in added if "." in name}
    assert own <= {"_arguments", "_random", "normalization", "dense", "recurrent"}


def test_package_uses_public_interfaces_only():
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        for private in ("keras.src", "tensorflow.python", "keras._tf_keras"):
            assert private not in text, path


def test_package_is_typed():
    assert (PACKAGE / "py.typed").exists()

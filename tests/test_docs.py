"""The examples in the docstrings run, and every public symbol has one."""

import doctest
import importlib
import inspect
import pkgutil
import re

import keras
import pytest

import tf_layernorm

MODULES = [
    name
    for _, name, _ in pkgutil.walk_packages(tf_layernorm.__path__, "tf_layernorm.")
    if name.split(".")[1]
    in (
        "normalization",
        "dense",
        "recurrent",
        "baselines",
        "mixture",
        "attention",
        "data",
        "export",
    )
]
PUBLIC = sorted(tf_layernorm.__all__)


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings_run(module):
    result = doctest.testmod(importlib.import_module(module))
    assert result.failed == 0


@pytest.mark.parametrize("name", PUBLIC)
def test_public_symbol_is_documented(name):
    symbol = getattr(tf_layernorm, name)
    text = inspect.getdoc(symbol)
    assert "Args:" in text
    assert "Example:" in text and ">>> " in text
    assert re.search(r"eq\. \(|[Ee]quations? \(", text), "no equation of the paper is named"


@pytest.mark.parametrize("name", PUBLIC)
def test_arguments_are_documented_and_typed(name):
    symbol = getattr(tf_layernorm, name)
    text = inspect.getdoc(symbol)
    if issubclass(cell := getattr(symbol, "cell_class", object), keras.layers.Layer):
        text += inspect.getdoc(cell) + inspect.getdoc(tf_layernorm.LNLSTM)  # which it names
    function = symbol.__init__ if inspect.isclass(symbol) else symbol
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in ("self", "args", "kwargs", "name", "dtype", "trainable"):
            continue
        assert parameter.annotation is not parameter.empty, parameter
        # "`_regularizer` and `_constraint` of `kernel`" stands for both; else each has its line.
        weight, _, suffix = parameter.name.rpartition("_")
        together = f"`_{suffix}`" in text and f"`{weight}`" in text
        assert together or re.search(rf"\b{parameter.name}(`|:|, \w+)", text), parameter


@pytest.mark.parametrize("name", [name for name in PUBLIC if name != "layer_norm"])
def test_signature_shows_every_argument(name):
    # `help(LNLSTM)` lists the arguments of the cell too, and each can be given.
    symbol = getattr(tf_layernorm, name)
    shown = inspect.signature(symbol).parameters
    assert "self" not in shown
    layer = symbol(**({} if name == "LayerNorm" else {"units": 4}))
    config = layer.get_config()
    assert set(config) - set(shown) <= {"name", "trainable", "dtype"}

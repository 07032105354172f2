"""The examples in the docstrings of tf_layernorm.analysis run."""

import doctest
import importlib
import pkgutil

import pytest

import tf_layernorm.analysis as analysis

MODULES = [m.name for m in pkgutil.iter_modules(analysis.__path__, "tf_layernorm.analysis.")]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    module = importlib.import_module(name)
    names = {"np": importlib.import_module("numpy")}
    assert doctest.testmod(module, extraglobs=names).failed == 0


def test_public_names_are_what_is_listed():
    assert sorted(analysis.__all__) == analysis.__all__
    assert all(hasattr(analysis, name) for name in analysis.__all__)

"""What all tests share: seeds, readable ids, and the ways in which a layer can be driven."""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import kinds
import pytest


def pytest_configure(config):
    # Keras converts its variables by `np.array`, which NumPy 2 warns of.
    config.addinivalue_line("filterwarnings", "ignore:__array__ implementation:DeprecationWarning")


def pytest_make_parametrize_id(config, val, argname):
    """Ids such as `units=4`; a class or a function is told by its name."""
    return f"{argname}={getattr(val, '__name__', val)}".replace(" ", "")


@pytest.fixture(autouse=True)
def seed():
    keras.utils.set_random_seed(0)


@pytest.fixture(params=kinds.KINDS, ids=repr)
def kind(request):
    return request.param


@pytest.fixture(params=kinds.DRIVERS, ids=lambda value: f"use_fused={value}")
def use_fused(request):
    return request.param


@pytest.fixture(params=["eager", "graph", "jit"])
def compiled(request):
    """Wraps a function of tensors: called as it is, as a graph, or as one XLA program."""
    return kinds.WRAPPERS[request.param]


@pytest.fixture(params=["eager", "graph"])
def traced(request):
    """`compiled` without XLA, whose compilations cost most of the time of these tests."""
    return kinds.WRAPPERS[request.param]

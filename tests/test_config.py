"""Configs: every argument of every layer survives `get_config`, JSON, cloning and copying."""

import copy
import inspect
import json

import keras
import pytest
from cases import BATCH, CASES, INPUTS, LAYER, TIME, Case
from kinds import normal, randomize


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_table_holds_every_argument_off_its_default(case):
    arguments = {
        name: parameter.default
        for name, parameter in inspect.signature(case.cls).parameters.items()
        if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    }
    for name in ("name", "dtype", "trainable"):
        arguments.pop(name, None)
    assert set(case.off) == set(arguments)
    for name, default in arguments.items():
        assert case.off[name] != default, name


def plain(config):
    """A config as JSON holds it."""
    return json.loads(json.dumps(config))


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_config_keeps_every_argument(case):
    layer = case.cls(**case.off, **LAYER)
    config = layer.get_config()
    before = copy.deepcopy(config)
    for given in (config, config, plain(config)):
        again = case.cls.from_config(given)
        assert type(again) is case.cls
        assert plain(again.get_config()) == plain(before)
    assert config == before, "from_config has changed the dict it was given"


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_config_tells_every_argument_by_its_name(case):
    config = plain(case.cls(**case.off, **LAYER).get_config())
    # Keras serializes an argument alone as it does inside a config.
    shown = dict(config.get("cell", {}).get("config", {}), **config)
    for name, value in case.off.items():
        if hasattr(value, "get_config"):
            value = plain(keras.saving.serialize_keras_object(value))
            shown[name].pop("registered_name", None), value.pop("registered_name", None)
        assert shown[name] == (list(value) if isinstance(value, tuple) else value), name


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_serialized_layer_is_of_the_package(case):
    serialized = keras.saving.serialize_keras_object(case.cls(**case.off, **LAYER))
    assert serialized["registered_name"] == f"tf_layernorm>{case.cls.__name__}"
    again = keras.saving.deserialize_keras_object(plain(serialized))
    assert plain(again.get_config()) == plain(serialized["config"])


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_cloned_model_and_model_from_json_are_equal(case):
    model = case.model()
    x = normal(BATCH, *[size or TIME for size in case.shape], dtype="float32")
    for again in (keras.models.clone_model(model), keras.models.model_from_json(model.to_json())):
        again.set_weights(model.get_weights())
        assert abs(again(x) - model(x)).numpy().max() == 0


@keras.saving.register_keras_serializable(package="tests")
def doubled(x):
    return 2.0 * x


def test_registered_activation_survives(kind):
    for cls in (kind.cell, kind.layer):
        config = plain(cls(4, activation=doubled).get_config())
        again = cls.from_config(config)
        assert (again.cell if cls is kind.layer else again).activation is doubled


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_layer_is_built_from_a_list(case):
    # A saved model hands the shape to `build` as a list.
    layer = case.layer()
    layer.build([BATCH, *[size or TIME for size in case.shape]])
    assert layer.built


def test_stock_and_own_layers_live_in_one_model(kind, tmp_path):
    stock = {"LNSimpleRNN": "SimpleRNN", "LNLSTM": "LSTM", "LNGRU": "GRU"}[kind.layer.__name__]
    layers = [
        kind.layer(4, return_sequences=True),
        getattr(keras.layers, stock)(4, return_sequences=True),
        keras.layers.RNN(kind.cell(4)),
    ]
    model = keras.Sequential([keras.Input((None, INPUTS)), *layers])
    randomize(model)
    paths = [weight.path for weight in model.weights]
    assert len(set(paths)) == len(paths)
    model.save(tmp_path / "model.keras")
    x = normal(BATCH, TIME, INPUTS, dtype="float32")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert abs(loaded(x) - model(x)).numpy().max() == 0
    assert [type(layer) for layer in loaded.layers] == [type(layer) for layer in model.layers]


def test_case_is_what_the_package_offers():
    import tf_layernorm

    classes = {name for name in tf_layernorm.__all__ if name != "layer_norm"}
    assert {case.cls.__name__ for case in CASES} == classes
    assert all(isinstance(case, Case) for case in CASES)

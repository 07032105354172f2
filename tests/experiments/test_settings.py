"""Configs, grids and curves: what a run is."""

from dataclasses import replace

import pytest
import toy

from tf_layernorm.experiments.registry import find
from tf_layernorm.experiments.settings import identity, plan, settle


def names(settings, **options):
    return [curve.name for curve in plan(toy.EXPERIMENT, settings, **options)]


def test_values_replace_the_presets_and_lists_make_a_grid():
    settings = settle(toy.EXPERIMENT, "small", {"learning_rate": [0.1, 0.2], "hidden": (5,)})
    assert settings.grid == {"slope": (1.0, 2.0), "learning_rate": (0.1, 0.2)}
    assert settings.config.hidden == (5,)
    assert [config.learning_rate for _, config in settings.points()] == [0.1, 0.2, 0.1, 0.2]
    assert names(settings, norms=["none"]) == [
        f"slope{slope}-learning_rate{rate}-none-seed1" for slope in (1, 2) for rate in (0.1, 0.2)
    ]


@pytest.mark.parametrize("value", [2.0, [2.0]])
def test_one_value_is_no_grid_but_names_curves(value):
    settings = settle(toy.EXPERIMENT, "small", {"slopes": value})  # by its former name
    assert settings.grid == {"slope": (2.0,)}
    (curve, _) = plan(toy.EXPERIMENT, settings)
    assert (curve.label, curve.variant, curve.config.slope) == ("slope 2", "slope2", 2.0)
    assert settle(toy.EXPERIMENT, "small", {"hidden": [(5,)]}).grid == {"slope": (1.0, 2.0)}


@pytest.mark.parametrize(
    "changes",
    [
        {"seeds": 3},
        {"epochs": 0},
        {"batch_size": 0},
        {"learning_rate": -1.0},
        {"learning_rate": [0.1, float("nan")]},
        {"slope": [1.0, 1.0]},
        {"hidden": (3, -1)},
    ],
    ids=str,
)
def test_settle_refuses(changes):
    with pytest.raises(ValueError, match="Received: " + next(iter(changes))):
        settle(toy.EXPERIMENT, "small", changes)


def test_plan_goes_seed_by_seed_and_takes_a_pattern():
    settings = settle(toy.EXPERIMENT, "small", {})
    found = names(settings, seeds=2, pattern="slope2-*")
    assert found == [f"slope2-{norm}-seed{seed}" for seed in (1, 2) for norm in ("layer", "none")]
    assert names(settings, norms=["all", "all"], pattern="slope1-*") == ["slope1-all-seed1"]
    for options in ({"norms": ["group"]}, {"norms": []}, {"seeds": 0}, {"pattern": "slope3-*"}):
        with pytest.raises(ValueError, match="Received: "):
            plan(toy.EXPERIMENT, settings, **options)


def test_plan_leaves_out_what_is_not_sensible():
    only = replace(toy.EXPERIMENT, sensible=lambda config, norm: config.slope < 2 or norm == "none")
    found = [curve.name for curve in plan(only, settle(only, "small", {}))]
    assert found == ["slope1-layer-seed1", "slope1-none-seed1", "slope2-none-seed1"]


def test_identity_leaves_out_how_far_a_run_goes():
    def of(changes):
        settings = settle(toy.EXPERIMENT, "small", changes)
        facts = {"experiment": "toy", "strategy": None, **settings.as_json()}
        return identity(toy.EXPERIMENT, facts)

    assert of({}) == of({"epochs": 9})
    assert of({}) != of({"hidden": (3, 3)}) != of({"slope": 1.0})


@pytest.mark.parametrize(
    ("name", "preset", "config"),
    [
        (
            "mnist",
            "paper",
            {
                "data": "full",
                "hidden": [1000, 1000],
                "batch_sizes": [128, 4],
                "unbiased_up_to": 4,
                "epochs": 60,
                "learning_rate": 0.001,
                "adam_epsilon": 1e-08,
                "seeds": 3,
            },
        ),
        (
            "draw",
            "small",
            {
                "data": "packaged",
                "glimpses": 16,
                "units": 128,
                "latent": 32,
                "read_size": 2,
                "write_size": 5,
                "batch_size": 32,
                "epochs": 15,
                "learning_rate": 0.001,
                "adam_epsilon": 1e-08,
                "clip_norm": 10.0,
                "seeds": 3,
            },
        ),
    ],
)
def test_folders_of_version_0_1_0_are_known_again(name, preset, config):
    experiment = find(name)
    today = {"experiment": name, "strategy": None, **settle(experiment, preset, {}).as_json()}
    old = {"experiment": name, "config": config}
    assert identity(experiment, old) == identity(experiment, today)
    other = identity(experiment, {**old, "config": {**config, "learning_rate": 0.1}})
    assert other != identity(experiment, today)

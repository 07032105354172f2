"""What a run is: a `Config`, the grid of fields that vary, and the curves they make."""

import dataclasses
import fnmatch
import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tf_layernorm.experiments.experiment import Experiment

EXTENT = ("epochs", "seeds")  # how far a run goes, which is not what it is


@dataclasses.dataclass(frozen=True)
class Curve:
    """One training run among those of an experiment."""

    config: Any
    variant: str
    label: str
    norm: str
    seed: int

    @property
    def name(self) -> str:
        """The name of its folder, which `--curves` matches."""
        return "-".join(filter(None, (self.variant, self.norm, f"seed{self.seed}")))


@dataclasses.dataclass(frozen=True)
class Settings:
    """The `Config` of a run, but for the fields of its grid, and the grid."""

    config: Any
    grid: Mapping[str, tuple[Any, ...]]

    def points(self) -> Iterator[tuple[dict[str, Any], Any]]:
        """The points of the grid, each with its `Config`."""
        for values in itertools.product(*self.grid.values()):
            point = dict(zip(self.grid, values))
            yield point, dataclasses.replace(self.config, **point)

    def as_json(self) -> dict[str, Any]:
        """For `summary.json`: `config` without the fields of the grid, and `grid`."""
        config = dataclasses.asdict(self.config)
        facts = {"config": {k: v for k, v in config.items() if k not in self.grid}}
        # Through JSON, so that tuples compare equal to the lists in the file.
        return json.loads(json.dumps(facts | {"grid": self.grid}))


def settle(experiment: Experiment, preset: str, changes: Mapping[str, Any]) -> Settings:
    """A preset with changes.

    Args:
        experiment: The experiment.
        preset: The name of one of its presets.
        changes: Values of fields of its `Config`; a list makes a grid of them.

    Raises:
        ValueError: If the preset, a field or a value is none.
    """
    if preset not in experiment.presets:
        raise ValueError(
            f"`preset` must be one of {', '.join(experiment.presets)}. Received: preset={preset!r}"
        )
    base = experiment.presets[preset]
    fields = [field.name for field in dataclasses.fields(experiment.config)]
    changes = {experiment.renamed.get(name, name): value for name, value in changes.items()}
    for name in changes:
        if name not in fields:
            raise ValueError(
                f"{experiment.name}'s Config has the fields {', '.join(fields)}. "
                f"Received: {name}={changes[name]!r}"
            )
    grid = dict(base.grid) | {k: v for k, v in changes.items() if isinstance(v, list)}
    plain = {k: v for k, v in changes.items() if not isinstance(v, list)}
    axes = [axis.field for axis in experiment.axes]
    # A grid of one value is no grid, but for the fields that always name curves.
    plain |= {k: v[0] for k, v in grid.items() if len(v) == 1 and k not in plain}
    config = dataclasses.replace(base.config, **plain)
    grid = {k: grid[k] for k in grid if k not in plain}
    named = [*axes, *(name for name in fields if name in grid and name not in axes)]
    settings = Settings(
        config,
        {name: tuple(grid.get(name, ())) or (getattr(config, name),) for name in named},
    )
    for name, values in settings.grid.items():
        if len(set(values)) < len(values):
            raise ValueError(f"A grid's values must differ. Received: {name}={list(values)!r}")
    for _, config in settings.points():
        for name in fields:
            _check(name, getattr(config, name))
    return settings


def _check(name: str, value: Any) -> None:
    for number in value if isinstance(value, tuple) else (value,):
        if isinstance(number, (int, float)) and not 0 <= number < math.inf:
            raise ValueError(f"`{name}` must be finite and at least 0. Received: {name}={value!r}")
    if name in ("epochs", "batch_size") and value < 1:
        raise ValueError(f"`{name}` must be at least 1. Received: {name}={value!r}")


def plan(
    experiment: Experiment,
    settings: Settings,
    norms: Sequence[str] | None = None,
    seeds: int = 1,
    pattern: str = "*",
) -> list[Curve]:
    """The curves to run, seed by seed, so that what is there first already compares all norms.

    Args:
        experiment: The experiment.
        settings: Its `Config` and grid.
        norms: Names of some of its norms. Defaults to its `default_norms`, or all.
        seeds: Number of seeds, counted from 1.
        pattern: Shell pattern that a curve's name must match, such as `"batch4-*"`.

    Raises:
        ValueError: If a norm is unknown, `seeds` is below 1, or nothing matches.
    """
    if norms is None:
        norms = experiment.default_norms or [norm.name for norm in experiment.norms]
    if not norms:
        experiment.norm("")
    chosen = [experiment.norm(name).name for name in dict.fromkeys(norms)]
    if seeds < 1:
        raise ValueError(f"`seeds` must be at least 1. Received: seeds={seeds}")
    curves = [
        Curve(config, experiment.variant(point), experiment.describe(point), norm, seed)
        for seed in range(1, seeds + 1)
        for point, config in settings.points()
        for norm in chosen
        if experiment.sensible(config, norm)
    ]
    matching = [curve for curve in curves if fnmatch.fnmatch(curve.name, pattern)]
    if not matching:
        raise ValueError(
            f"`curves` matches none of {[curve.name for curve in curves]}. "
            f"Received: curves={pattern!r}"
        )
    return matching


def identity(experiment: Experiment, facts: Mapping[str, Any]) -> dict[str, Any]:
    """What must be equal for two runs to be one, by name, of a `summary.json` old or new.

    Fields that the file doesn't name yet had their defaults, and an old file keeps the values of
    the grid with the other fields.
    """
    renamed = {experiment.renamed.get(k, k): v for k, v in facts["config"].items()}
    found = {"experiment": facts["experiment"], "strategy": facts.get("strategy")}
    grid = {k: list(v) for k, v in facts.get("grid", {}).items()}
    for field in dataclasses.fields(experiment.config):
        default = json.loads(json.dumps(field.default))
        value = grid.get(field.name, renamed.get(field.name, default))
        if field.name not in grid and any(axis.field == field.name for axis in experiment.axes):
            value = value if isinstance(value, list) else [value]
        found[field.name] = value
    unknown = {k: v for k, v in renamed.items() if k not in found}
    return {k: v for k, v in (found | unknown).items() if k not in EXTENT}

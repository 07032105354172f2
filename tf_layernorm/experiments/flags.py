"""The flags of an experiment: each field of its `Config` is one, with its comment as help."""

import argparse
import ast
import dataclasses
import inspect
import io
import textwrap
import tokenize
import typing
from typing import Any

from tf_layernorm.experiments.experiment import Experiment


def comments(cls: type) -> dict[str, str]:
    """The comments behind the fields of a dataclass, by field."""
    source = textwrap.dedent(inspect.getsource(cls))
    found = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    (body,) = ast.parse(source).body
    assert isinstance(body, ast.ClassDef)
    return {
        node.target.id: " ".join(
            found[line]
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
            if line in found
        )
        for node in body.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


def add_flags(parser: argparse.ArgumentParser, experiment: Experiment) -> None:
    """Adds the flags of an experiment's `Config`, without defaults: absent is the preset's."""
    group = parser.add_argument_group(
        "values of the Config", "Several values make a grid: a curve for each."
    )
    helps, types = comments(experiment.config), typing.get_type_hints(experiment.config)
    former: dict[str, list[str]] = {}
    for old, new in experiment.renamed.items():
        former.setdefault(new, []).append(old)
    for field in dataclasses.fields(experiment.config):
        names = [field.name, *former.get(field.name, ())]
        group.add_argument(
            *(f"--{name.replace('_', '-')}" for name in names),
            dest=field.name,
            nargs="+",
            default=argparse.SUPPRESS,
            help=f"{helps[field.name]} ({_presets(experiment, field.name)})".replace("%", "%%"),
            **_reading(types[field.name]),
        )


def changes(experiment: Experiment, options: dict[str, Any]) -> dict[str, Any]:
    """Takes the values of the `Config`'s fields out of parsed options, one as itself."""
    names = [field.name for field in dataclasses.fields(experiment.config) if field.name in options]
    values = {name: options.pop(name) for name in names}
    return {name: value if len(value) > 1 else value[0] for name, value in values.items()}


def _reading(kind: Any) -> dict[str, Any]:
    """How `argparse` reads a value of a type."""
    if kind is bool:
        return {"type": _truth, "metavar": "true|false"}
    if typing.get_origin(kind) is typing.Literal:
        return {"choices": typing.get_args(kind)}
    if typing.get_origin(kind) is tuple:
        of = typing.get_args(kind)[0]
        return {"type": lambda text: tuple(map(of, text.split(","))), "metavar": "V,V,..."}
    return {"type": kind, "metavar": {int: "N", float: "X"}.get(kind, "TEXT")}


def _truth(text: str) -> bool:
    if text not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"must be true or false. Received: {text}")
    return text == "true"


def _presets(experiment: Experiment, name: str) -> str:
    """A field's values in the presets, told once where they agree."""
    told = {
        preset: " ".join(map(_shown, base.grid.get(name, (getattr(base.config, name),))))
        for preset, base in experiment.presets.items()
    }
    if len(set(told.values())) == 1:
        return next(iter(told.values()))
    return ", ".join(f"{preset}: {value}" for preset, value in told.items())


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(_shown, value))
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)

"""The command `tf-layernorm`. It imports TensorFlow only once it knows that it needs it."""

import argparse
import contextlib
import importlib.metadata
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tf_layernorm.experiments import registry
from tf_layernorm.experiments.experiment import Experiment
from tf_layernorm.experiments.flags import add_flags, changes
from tf_layernorm.experiments.settings import plan, settle


def build_parser() -> argparse.ArgumentParser:
    """The command line, described to `argparse`."""
    parser = argparse.ArgumentParser(
        prog="tf-layernorm", description="Layer Normalization: experiments and analysis."
    )
    parser.add_argument("--version", action="version", version=_version())
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("list", help="list the experiments, their presets and what these cost")
    run = commands.add_parser("run", help="run an experiment of the paper, or go on with it")
    names = run.add_subparsers(dest="name", required=True, metavar="EXPERIMENT")
    experiments = [registry.find(name) for name in registry.EXPERIMENTS]
    for experiment in experiments:
        _add_run(names, experiment)
    for command in (command for experiment in experiments for command in experiment.commands):
        sentence = f"{command.help[0].upper()}{command.help[1:]}."
        own = commands.add_parser(command.name, help=command.help, description=sentence)
        command.arguments(own)
        own.set_defaults(run=command.run)
    commands.add_parser(
        "table1",
        help="compute Table 1 of the paper: what each normalisation is invariant to",
        description="Computes Table 1 of the paper, in float64 with an epsilon of 0.",
    )
    return parser


def _add_run(names: Any, experiment: Experiment) -> None:
    parser = names.add_parser(
        experiment.name,
        help=experiment.title,
        description=f"{experiment.title}. Interrupted (Ctrl-C), the same command resumes it; "
        "finished, the same command prints its table again.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--preset",
        default="small",
        choices=list(experiment.presets),
        help="the sizes to start from (default: small); `tf-layernorm list` tells their cost",
    )
    norms = ",".join(norm.name for norm in experiment.norms)
    parser.add_argument(
        "--norm",
        metavar="NAME,...",
        type=lambda text: text.split(","),
        help=f"some of {norms} (default: {','.join(experiment.default_norms or ('all',))})",
    )
    parser.add_argument(
        "--seeds", type=int, metavar="N", help="number of seeds: a curve for each (the preset's)"
    )
    parser.add_argument(
        "--curves",
        default="*",
        metavar="PATTERN",
        help="only the curves of such a name, as '*-layer-*': several commands may fill one folder",
    )
    parser.add_argument("--data-dir", metavar="DIR", help="raw files of the full data; only read")
    parser.add_argument("--download", action="store_true", help="allow a download of the full data")
    parser.add_argument("--out", metavar="DIR", help="default: runs/NAME-PRESET")
    parser.add_argument(
        "--strategy",
        choices=("mirrored", "tpu"),
        help="mirrored: split each batch over all local GPUs (or logical CPUs); tpu: the same on a "
        "TPU, which nobody has tried yet (default: one device)",
    )
    add_flags(parser, experiment)


def _version() -> str:
    def of(package: str) -> str:
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            return "(not installed)"

    versions = f"TensorFlow {of('tensorflow')}, Keras {of('keras')}"
    return f"tf-layernorm {of('tf_layernorm')} with {versions}"


def listing() -> Iterator[str]:
    """The experiments, with their presets and what these cost."""
    for name in registry.EXPERIMENTS:
        experiment = registry.find(name)
        yield f"{name}: {experiment.title}"
        for preset, base in experiment.presets.items():
            settings = settle(experiment, preset, {})
            curves = len(plan(experiment, settings, seeds=base.seeds))
            minutes = curves * base.minutes
            cost = f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:.0f} hours"
            data = ", with --data-dir or --download" if base.config.data == "full" else ""
            many = f"{curves} curve{'s' * (curves > 1)}"
            yield f"  {preset:8} {many}, about {cost} on two cores{data}"


def main(
    arguments: Sequence[str] | None = None, before: Callable[[], object] = lambda: None
) -> int:
    """Runs the command line; returns the exit status.

    Args:
        arguments: The arguments after `tf-layernorm`. Defaults to those of the process.
        before: Called once the arguments are known and TensorFlow is needed.
    """
    parser = build_parser()
    options = vars(parser.parse_args(arguments))
    command = options.pop("command")
    if command == "list":
        print("\n".join(listing()))
        return 0
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    # A new model a curve is traced anew, which TensorFlow takes for a mistake.
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    try:
        with _quiet():
            before()
            import tensorflow as tf

            tf.config.list_physical_devices()  # looks for GPUs, and says in five lines if none is
        _execute(command, options)
    except ModuleNotFoundError as error:
        if not error.name or error.name.startswith("tf_layernorm"):
            raise
        hint = "pip install 'tf_layernorm[experiments]'"
        parser.exit(2, f"tf-layernorm: needs {error.name}, which is not here: {hint}\n")
    except OSError as error:
        parser.exit(2, f"tf-layernorm: {error}\n")
    except ValueError as error:
        if not _is_checked(error):
            raise
        parser.exit(2, f"tf-layernorm: {error}\n")
    except FloatingPointError as error:
        parser.exit(1, f"tf-layernorm: {error}. The model before that epoch is kept.\n")
    except KeyboardInterrupt:
        parser.exit(130, "\nInterrupted. The same command goes on from the last whole epoch.\n")
    return 0


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keeps what TensorFlow says while it starts off the terminal, unless it fails.

    That comes from C++, before `TF_CPP_MIN_LOG_LEVEL` is looked at.
    """
    if "tensorflow" in sys.modules:
        yield
        return
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 2)
        try:
            yield
        except BaseException:
            log.seek(0)
            os.write(terminal, log.read())
            raise
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)


def _execute(command: str, options: dict[str, Any]) -> None:
    # Here, since they import TensorFlow and the libraries of an extra.
    if command == "table1":
        from tf_layernorm.analysis import table1

        print(table1())
    elif command == "run":
        from tf_layernorm.experiments import runner

        name = options.pop("name")
        fields = changes(registry.find(name), options)
        runner.run(name, norms=options.pop("norm"), **options, **fields)
    else:
        print(options.pop("run")(**options))


def _is_checked(error: ValueError) -> bool:
    """Whether a check of ours raised it: what else does is a fault of the program."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    raised = "" if traceback is None else traceback.tb_frame.f_globals["__name__"]
    return raised.startswith(("tf_layernorm.experiments", "tf_layernorm.data"))


if __name__ == "__main__":
    raise SystemExit(main())

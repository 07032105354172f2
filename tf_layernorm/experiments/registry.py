"""The experiments there are. A new one is a folder here and its line below."""

import importlib

from tf_layernorm.experiments.experiment import Experiment

EXPERIMENTS = (
    "mnist",
    "draw",
    "handwriting",
    "order",
    "skipthoughts",
    "convnet",
    "seqmnist",
)


def find(name: str) -> Experiment:
    """The experiment of that name.

    Raises:
        ValueError: If there is none.

    Example:

    >>> from tf_layernorm.experiments.registry import find
    >>> find("mnist").section
    '6.6'
    """
    if name not in EXPERIMENTS:
        raise ValueError(
            f"The experiment must be one of {', '.join(EXPERIMENTS)}. Received: name={name!r}"
        )
    experiment: Experiment = importlib.import_module(f"tf_layernorm.experiments.{name}").EXPERIMENT
    return experiment

"""What `import tf_layernorm` makes known without importing it: modules, and what models hold."""

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import keras

from tf_layernorm._arguments import serializable

# Where what is registered with Keras stands, beside the layers that are imported at once.
CLASSES = {
    "BatchNorm": "baselines.batch_norm",
    "ChannelAffine": "experiments.convnet.model",
    "ChunkedModel": "experiments.mnist.model",
    "ConstantThenLinear": "experiments.convnet.model",
    "DRAW": "experiments.draw.network",
    "IdentityCandidate": "experiments.seqmnist.model",
    "LineNLL": "experiments.handwriting.model",
    "MixtureHead": "mixture",
    "MixtureNLL": "mixture",
    "PerGate": "experiments.initial",
    "RMSNorm": "baselines.rms_norm",
    "RankingLoss": "experiments.order.loss",
    "Reading": "experiments.seqmnist.model",
    "SkipThoughts": "experiments.skipthoughts.model",
    "UncorrectedAdam": "experiments.initial",
    "WeightNorm": "baselines.weight_norm",
    "Whitening": "experiments.convnet.whitening",
    "WindowCell": "attention",
    "WordEmbedding": "experiments.words",
}
FUNCTIONS = {"mixture_nll": "mixture"}


def submodules(package: str, names: Sequence[str]) -> Callable[[str], Any]:
    """A package's `__getattr__`, which imports its modules when they are asked for."""

    def __getattr__(name: str) -> Any:
        if name in names:
            return importlib.import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return __getattr__


def register() -> None:
    """Registers all that may stand in a saved model with Keras, by name.

    Keras looks names up among those registered, and imports no module of ours. So each name stands
    for what imports its module, which then registers itself in its place.
    """
    known = keras.saving.get_custom_objects()
    for name, module in CLASSES.items():
        known.setdefault(f"tf_layernorm>{name}", _Class(module, name))
    for name, module in FUNCTIONS.items():
        if f"tf_layernorm>{name}" not in known:
            serializable(_function(module, name))


def _load(module: str, name: str) -> Any:
    return getattr(importlib.import_module(f"tf_layernorm.{module}"), name)


class _Class:
    """A class that is imported when Keras makes an object of it."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def from_config(self, config: dict[str, Any]) -> Any:
        return _load(self.module, self.name).from_config(config)


def _function(module: str, name: str) -> Callable[..., Any]:
    """A function that is imported when it is called. Keras saves functions only as such."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return _load(module, name)(*args, **kwargs)

    call.__name__ = name
    return call

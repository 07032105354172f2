"""The lines of a run, and the batches of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tf_layernorm._arguments import Tensor
from tf_layernorm.data.handwriting import Handwriting, steps_per_epoch
from tf_layernorm.data.handwriting import batches as line_batches
from tf_layernorm.data.pen import Line
from tf_layernorm.experiments.handwriting import Config


@dataclass(frozen=True)
class Lines:
    """The lines of a run, with what the frame asks of data."""

    lines: Handwriting

    @property
    def source(self) -> str:
        """What the lines are, and the constant by which NLLs of other units differ."""
        constant = self.lines.statistics()["nats_per_point"]
        return f"{self.lines.source}; in the tablet's units the NLL is {constant:.3f} a point more"

    @property
    def cases(self) -> dict[str, int]:
        """The number of lines of each part."""
        return {part: len(getattr(self.lines, part)) for part in ("train", "validation")}


def training_batches(config: Config, data: Handwriting, seed: int, update: int) -> tf.data.Dataset:
    """The batches to train on from an update on, without end."""
    per_pass = steps_per_epoch(data.train, config.batch_size, (config.length,))
    first, skipped = divmod(update, per_pass)
    return _batches(config, data, data.train, seed=seed, first_epoch=first).skip(skipped)


def validation_batches(config: Config, data: Handwriting) -> tf.data.Dataset:
    """The lines to validate with, once."""
    count = math.ceil(len(data.validation) / config.batch_size)
    dataset = _batches(config, data, data.validation)
    # Else Keras warns that the data ran out.
    return dataset.apply(tf.data.experimental.assert_cardinality(count))


def _batches(
    config: Config, data: Handwriting, lines: Sequence[Line], **options: Any
) -> tf.data.Dataset:
    def weighed(inputs: dict[str, Tensor], targets: Tensor) -> Any:
        # Padding is at the end, where nothing after it can see it: it needs no mask but this.
        weights = tf.cast(inputs["mask"], tf.float32)
        inputs = {name: inputs[name] for name in ("points", "characters")}
        return inputs, targets, weights

    options |= {"lengths": (config.length,), "alphabet": data.alphabet}
    return line_batches(lines, data.mean, data.std, config.batch_size, **options).map(weighed)

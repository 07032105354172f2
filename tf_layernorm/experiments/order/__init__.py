"""Section 6.1: order embeddings of images and captions, with and without layer norm.

The paper trains the network of Vendrov et al. (2015) on COCO: a GRU of 1,024 units reads a caption,
one linear layer takes VGG-19's features of an image, and a caption must lie below its image in
every coordinate, more so than the wrong pairs of a batch. Layer norm is in the GRU alone. Table 2
has recalls in both directions; by Figure 1, layer norm's best validation comes after 60 % of the
time that the network without it takes.
"""

import argparse
from dataclasses import dataclass
from typing import Any, Literal

from tf_layernorm.experiments import norms
from tf_layernorm.experiments.experiment import (
    Axis,
    Command,
    Experiment,
    Figure,
    Preset,
    Training,
)


@dataclass(frozen=True)
class Config:
    """What one network and its training are."""

    data: Literal["packaged", "full"] = "packaged"  # "full": COCO; "packaged": emoji, names
    features: int = 4096  # columns of COCO's image features; VGG-19's fc7 has 4,096
    score: Literal["order", "cosine"] = "order"  # "cosine": the symmetric baseline, margin 0.2
    margin: float = 0.05  # by which a pair must be closer than a wrong one
    units: int = 1024  # of the GRU and of the space
    word_size: int = 300  # of a word's vector
    word_spread: float = 0.1  # words and the GRU's kernel start between minus and plus this
    batch_size: int = 128  # pairs, each ranked against all others of the batch
    length: int = 60  # of a caption, its end counted; longer ones are cut
    learning_rate: float = 1e-3  # Adam's
    adam_epsilon: float = 1e-8  # Adam's published value; Keras' default is 1e-7
    corrected_adam: bool = False  # False: the authors' Adam, biased in its first 3,000 updates
    clip_norm: float = 2.0  # of each variable's gradient
    updates: int = 300  # between two evaluations, which is what an epoch is here
    epochs: int = 300  # the paper's figure ends at 90,000 updates
    compiled: bool = True  # whether an update is one XLA program, which takes a while to compile

    def __post_init__(self) -> None:
        for name in ("features", "units", "word_size", "batch_size", "updates", "epochs"):
            if getattr(self, name) < 1:
                raise ValueError(
                    f"`{name}` must be at least 1. Received: {name}={getattr(self, name)}"
                )
        if self.length < 2:
            raise ValueError(
                f"`length` must be at least 2, a word and the end. Received: length={self.length}"
            )


PRESETS = {
    "paper": Preset(Config(data="full"), minutes=100000),
    "small": Preset(
        Config(units=256, word_size=128, length=13, corrected_adam=True, updates=20, epochs=20),
        minutes=0.5,
    ),
    "smoke": Preset(
        Config(units=16, word_size=8, length=9, updates=3, epochs=2, compiled=False),
        seeds=1,
        minutes=0.1,
    ),
}

KEPT = Figure(
    "validation_image_retrieval_recall", "validation image retrieval, %", scale=100, higher=True
)


def _recalls(part: str, direction: str) -> tuple[Figure, ...]:
    key = f"{part}_{direction}_retrieval"
    return (
        *(
            Figure(f"{key}_r{k}", f"{direction} R@{k}, %", 100, 1, higher=True, compare=True)
            for k in (1, 5, 10)
        ),
        Figure(f"{key}_mean_rank", f"{direction} mean r", digits=1, compare=True),
    )


def _of_paper(*numbers: float) -> dict[str, float]:
    figures = (*_recalls("test", "caption"), *_recalls("test", "image"))
    return {figure.key: number for figure, number in zip(figures, numbers, strict=True)}


def load(config: Config, data_dir: str | None, download: bool) -> Any:
    """The images and captions that `config` asks for: `data.captions.Captioned`."""
    from tf_layernorm.data.captions import load_emoji
    from tf_layernorm.data.coco import LAYOUTS, load_coco

    if config.data == "packaged":
        return load_emoji()
    if data_dir is None:
        raise ValueError(
            "COCO's captions and image features aren't downloaded. Give their folder by "
            f"--data-dir.\n{LAYOUTS}\nReceived: data_dir=None, download={download}"
        )
    return load_coco(data_dir, config.features)


def curve(config: Config, data: Any, norm: str, seed: int) -> Training:
    """How one network is trained and measured."""
    from tf_layernorm.experiments.order.batches import encode, training_batches
    from tf_layernorm.experiments.order.model import build_model
    from tf_layernorm.experiments.order.space import SPACE, Space, prefixed

    pairs = encode(data.train, data.vocabulary, config.length)

    def space(model: Any) -> Space:
        return Space(model, data.vocabulary, config.length, config.score)

    def evaluate(model: Any) -> dict[str, float]:
        found = space(model).figures(data.validation, len(data.validation))
        return prefixed("validation", found) | {"updates": int(model.optimizer.iterations)}

    def test(model: Any) -> dict[str, float]:
        found = prefixed("test", space(model).figures(data.test, data.fold or len(data.test)))
        for name, part in data.further.items():
            found |= prefixed(f"test_{name}", space(model).figures(part, len(part)))
        return found

    return Training(
        build=lambda: build_model(config, norm, len(data.vocabulary), pairs.images.shape[1:]),
        batches=lambda epoch: training_batches(
            pairs, config.batch_size, seed, epoch * config.updates
        ),
        steps=config.updates,
        evaluate=evaluate,
        test=test,
        files={
            SPACE: {
                "words": data.vocabulary.words[2:],
                "length": config.length,
                "score": config.score,
            }
        },
    )


def _feature_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--images", required=True, metavar="DIR", help="folder of images")
    parser.add_argument(
        "--weights",
        required=True,
        metavar="FILE",
        help="Keras' weights of VGG-19, vgg19_weights_tf_dim_ordering_tf_kernels.h5",
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="folder for the files")
    parser.add_argument(
        "--data-dir",
        metavar="DIR",
        help="folder of dataset_coco.json: makes train.npy, val.npy and test.npy in its order "
        "(default: images.npy, of all images of the folder by name)",
    )


def _make_features(**options: Any) -> str:
    from tf_layernorm.experiments.order.features import make_features

    return "\n".join(map(str, make_features(**options)))


def _retrieve_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model", required=True, metavar="DIR", help="folder of one curve of a run"
    )
    parser.add_argument("--data-dir", metavar="DIR", help="of COCO, if it was trained on that")
    parser.add_argument("--images", metavar="DIR", help="COCO's images, to show them")
    parser.add_argument("--count", type=int, default=6, metavar="N", help="rows (default: 6)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="(default: 1)")
    parser.add_argument(
        "--captions",
        nargs="+",
        metavar="TEXT",
        help="captions to put into an order, in small letters",
    )
    parser.add_argument(
        "--out", default="retrieval.png", metavar="PNG", help="default: retrieval.png"
    )


def _retrieve(**options: Any) -> str:
    from tf_layernorm.experiments.order.pictures import retrieve

    return retrieve(**options)


EXPERIMENT = Experiment(
    name="order",
    section="6.1",
    title="Order embeddings of images and captions (section 6.1, as Table 2 and Figure 1)",
    config=Config,
    presets=PRESETS,
    axes=(Axis("data", "", "{} data"),),
    norms=(norms.LAYER, norms.NONE),
    figures=(*_recalls("test", "caption"), *_recalls("test", "image")),
    panels=(
        Figure("loss", "training loss of a batch", log=True),
        *(
            Figure(f"validation_image_retrieval_r{k}", f"validation image R@{k}, %", scale=100)
            for k in (1, 5, 10)
        ),
    ),
    load=load,
    curve=curve,
    kept=KEPT,
    untrained=True,
    race=KEPT,
    x=Figure("updates", "updates"),
    paper={
        "full-layer": _of_paper(48.5, 80.6, 89.8, 5.1, 38.9, 74.3, 86.3, 7.6),
        "full-none": _of_paper(46.6, 79.3, 89.1, 5.2, 37.8, 73.6, 85.7, 7.9),
    },
    paper_note=(
        "on COCO, Table 2, R@1, R@5, R@10 and mean r, captions and then images: layer norm 48.5 "
        "80.6 89.8 5.1, 38.9 74.3 86.3 7.6; no norm 46.6 79.3 89.1 5.2, 37.8 73.6 85.7 7.9. A "
        "replication (Zhang and Sennrich, 2019): layer norm 47.9 79.5 89.2 5.3, 38.4 74.6 86.7 "
        "7.5; no norm 45.8 79.7 88.8 5.4, 37.6 73.6 85.8 7.7. All of these are single runs"
    ),
    note=(
        "Caption retrieval is from an image to the first of its own captions. The network kept is "
        "that of the best validation image retrieval, the mean of R@1, R@5 and R@10. A caption and "
        "an image count as found by chance where others are as close."
    ),
    commands=(
        Command(
            "features",
            "compute VGG-19's features of images, for `run order` on COCO",
            _feature_arguments,
            _make_features,
        ),
        Command(
            "retrieve",
            "show which captions and images find each other with a network of `run order`",
            _retrieve_arguments,
            _retrieve,
        ),
    ),
)

"""Section 6.3: skip-thoughts, vectors of sentences, with and without layer norm in its GRUs.

The paper trains the network of Kiros et al. (2015) on BookCorpus: a GRU of 2,400 units reads a
sentence, and two more predict the words of the sentences before and after it from its last state;
by Adam, for a million updates of 64 sentences. The states of other sentences are then judged by
plain classifiers: how related are the pairs of SICK, and what are the classes of MR, CR, SUBJ and
MPQA. Figure 3 shows these over the updates, Table 3 at their end (and after a month): layer norm
reaches the baseline's figures sooner, and better ones.
"""

from dataclasses import dataclass
from typing import Any, Literal

from tf_layernorm.experiments import norms
from tf_layernorm.experiments.experiment import Axis, Experiment, Figure, Preset, Training
from tf_layernorm.experiments.skipthoughts.commands import COMMANDS


@dataclass(frozen=True)
class Config:
    """What one network, its training and its evaluation are."""

    data: Literal["packaged", "full"] = "packaged"  # "packaged": six novels; "full": the user's
    vocabulary: int = 20_000  # words, the end of a sentence and "unknown" counted
    size: int = 620  # of a word's vector
    units: int = 2400  # of the encoder and of both decoders
    conditioning: Literal["initial", "every_step"] = "initial"  # how decoders know the sentence
    length: int = 30  # words of a sentence at most, its end counted
    longer: Literal["drop", "cut"] = "drop"  # what happens to longer sentences
    equal_lengths: bool = True  # whether the sentences of a batch are equally long
    tokenizer: Literal["plain", "treebank"] = "treebank"  # of texts to encode; needs NLTK
    batch_size: int = 64  # sentences, each with its two neighbours
    updates: int = 50_000  # between two evaluations, which is what an epoch is here
    epochs: int = 20  # a million updates, as in Figure 3
    learning_rate: float = 2e-4  # Adam's
    corrected_adam: bool = False  # false: its first steps are larger, as in the authors' code
    adam_epsilon: float = 1e-8  # Adam's published value; Keras' default is 1e-7
    clip_norm: float = 5.0  # of all gradients together, of the nats summed over the batch
    held_out: float = 5e-4  # share of each text for validation, and for testing
    cases: int = 4000  # triples, pairs and sentences at most of either held-out part
    folds: int = 10  # of the cross-validation by which vectors are judged
    inner_folds: int = 10  # of the rest, to choose the cost by
    costs: tuple[float, ...] = (1, 2, 4, 8, 16, 32, 64, 128, 256)  # liblinear's C
    tasks: Literal["end", "always"] = "always"  # when SICK, MR, CR, SUBJ, MPQA are evaluated

    def __post_init__(self) -> None:
        if not 0 < self.held_out < 0.4:
            raise ValueError(
                f"`held_out` must lie between 0 and 0.4. Received: held_out={self.held_out}"
            )
        for name in ("length", "batch_size", "cases", "folds", "inner_folds"):
            if getattr(self, name) < 2:
                raise ValueError(
                    f"`{name}` must be at least 2. Received: {name}={getattr(self, name)}"
                )


SMALL = Config(
    vocabulary=2000,
    size=64,
    units=128,
    length=20,
    longer="cut",
    equal_lengths=False,
    tokenizer="plain",
    batch_size=32,
    updates=100,
    epochs=5,
    learning_rate=1e-3,
    corrected_adam=True,
    held_out=0.1,
    cases=1200,
    folds=3,
    inner_folds=2,
    costs=(16, 256),
    tasks="end",
)
PRESETS = {
    "paper": Preset(Config(data="full"), minutes=300_000),
    "small": Preset(SMALL, minutes=1.3),
    "smoke": Preset(
        Config(
            vocabulary=200,
            size=6,
            units=8,
            length=12,
            longer="cut",
            equal_lengths=False,
            tokenizer="plain",
            batch_size=16,
            updates=3,
            epochs=2,
            corrected_adam=True,
            held_out=0.02,
            cases=60,
            folds=2,
            inner_folds=2,
            costs=(1, 16),
            tasks="end",
        ),
        seeds=1,
        minutes=0.2,
    ),
}
NORMALIZE: dict[str, tuple[str, ...]] = {
    "layer": ("kernel", "recurrent"),  # eq. (26)-(28)
    "none": (),
}
TASK_FIGURES = (
    Figure("sick_pearson", "SICK r", digits=3, higher=True, compare=True, optional=True),
    Figure("sick_spearman", "SICK rho", digits=3, higher=True, optional=True),
    Figure("sick_mse", "SICK MSE", digits=3, optional=True),
    *(
        Figure(name.lower(), f"{name}, %", 100, 1, higher=True, of=name, optional=True)
        for name in ("MR", "CR", "SUBJ", "MPQA")
    ),
)
FIGURES = (
    Figure("test_nats", "test nats a word", digits=3, compare=True),
    Figure("nats", "training", digits=3),
    Figure("test_adjacent", "adjacent?, %", 100, 1, higher=True, of="pairs"),
    Figure("test_adjacent_words", "by mean of words", 100, 1, higher=True),
    Figure("test_file", "which file?, %", 100, 1, higher=True, of="sentences", optional=True),
    Figure("test_file_words", "by its mean of words", 100, 1, higher=True, optional=True),
    *TASK_FIGURES,
)
PANELS = (
    Figure("nats", "training nats a word"),
    Figure("validation_nats", "validation nats a word"),
    Figure("validation_adjacent", "adjacent or not,\n% right (validation)", 100),
    *TASK_FIGURES,
)
# Table 3, after a million updates. The published network of 2015 is "Original" there.
PAPER = {
    "none": {
        "sick_pearson": 0.842,
        "sick_spearman": 0.767,
        "sick_mse": 0.298,
        "mr": 77.3,
        "cr": 81.8,
        "subj": 92.6,
        "mpqa": 87.9,
    },
    "layer": {
        "sick_pearson": 0.854,
        "sick_spearman": 0.785,
        "sick_mse": 0.277,
        "mr": 79.5,
        "cr": 82.6,
        "subj": 93.4,
        "mpqa": 89.0,
    },
}


def load(config: Config, data_dir: str | None, download: bool) -> Any:
    """The text that `config` asks for, and the tasks that are there: `text.Text`."""
    from tf_layernorm.experiments.skipthoughts.text import load_text

    if config.data == "full" and data_dir is None:
        raise ValueError(
            "BookCorpus isn't distributed any more: give a folder of texts by --data-dir, or take "
            f"data='packaged'. Received: data_dir=None, download={download}"
        )
    return load_text(config, data_dir if config.data == "full" else None)


def curve(config: Config, data: Any, norm: str, seed: int) -> Training:
    """How one network is trained and measured."""
    from tf_layernorm.experiments.skipthoughts.text import build_model, evaluate, test

    return Training(
        build=lambda: build_model(config, norm, data.triples.vocabulary.words),
        batches=lambda epoch: data.triples.training(seed, epoch, config.updates),
        steps=config.updates,
        evaluate=lambda model: evaluate(config, data, model),
        test=lambda model: test(config, data, model),
    )


EXPERIMENT = Experiment(
    name="skipthoughts",
    section="6.3",
    title="Skip-thoughts (section 6.3, as Figure 3)",
    config=Config,
    presets=PRESETS,
    axes=(Axis("conditioning", "", "conditioning: {}"),),
    norms=(norms.LAYER, norms.NONE),
    figures=FIGURES,
    panels=PANELS,
    load=load,
    curve=curve,
    race=Figure("validation_nats", "validation nats a word", digits=3),
    x=Figure("updates", "updates"),
    untrained=True,
    note=(
        "Nats are of the words of both neighbours. Vectors are judged by logistic regression in "
        "nested cross-validation; the mean of the network's own vectors of words stands beside."
    ),
    paper=PAPER,
    paper_note=(
        "Table 3, on BookCorpus; there Original (Kiros et al., 2015) has r 0.848, rho 0.778, MSE "
        "0.287, MR 75.5, CR 79.3, SUBJ 92.1, MPQA 86.9, and layer norm after a month 0.858, 0.788, "
        "0.270, 79.4, 83.1, 93.7, 89.3"
    ),
    commands=COMMANDS,
)

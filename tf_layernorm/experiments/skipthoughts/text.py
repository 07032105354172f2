"""The text of a run, its network, and what is measured while it trains and at its end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tf_layernorm.data.sentence_tasks import load_tasks
from tf_layernorm.data.sentences import TOKENIZERS, Triples, novels, read_corpus
from tf_layernorm.data.word_vectors import is_word_vectors, read_word_vectors
from tf_layernorm.experiments.initial import UncorrectedAdam
from tf_layernorm.experiments.optimizer import adam
from tf_layernorm.experiments.sentence_eval import Protocol
from tf_layernorm.experiments.skipthoughts import NORMALIZE, Config
from tf_layernorm.experiments.skipthoughts.encoder import SentenceEncoder
from tf_layernorm.experiments.skipthoughts.evaluation import (
    LOOK,
    OwnText,
    Task,
    mean_of_words,
    nats,
    task_figures,
    task_sentences,
)
from tf_layernorm.experiments.skipthoughts.model import SkipThoughts


class HeldOut(NamedTuple):
    """A held-out part of the text: its triples in batches, and the tasks it makes itself."""

    triples: tf.data.Dataset
    own: OwnText


@dataclass(frozen=True)
class Text:
    """What a run is trained on and judged by.

    Attributes:
        triples: The text in batches.
        validation: What is measured after each epoch.
        test: What is measured at the end.
        tasks: Those of SICK, MR, CR, SUBJ and MPQA that are there.
        vectors: Pretrained vectors of the tasks' words, or `None`.
        source: What all that is, for people.
    """

    triples: Triples
    validation: HeldOut
    test: HeldOut
    tasks: Sequence[Task]
    vectors: Mapping[str, np.ndarray] | None
    source: str

    @property
    def cases(self) -> dict[str, int]:
        """The numbers of test pairs and sentences, and of each classification task's sentences."""
        sizes = {task.name: len(task_sentences(task)) for task in self.tasks}
        own = self.test.own
        return {"pairs": len(own.adjacent), "sentences": len(own.sentences), **sizes}


def load_text(config: Config, data_dir: str | None) -> Text:
    """The novels, or what a folder of the user's holds.

    Args:
        config: The run's `Config`.
        data_dir: Folder with `.txt` files; where there are none but tasks are, the novels are
            taken. It may hold the tasks' files and a file of word vectors, too.
    """
    corpus, vectors = None, None
    tasks: list[Task] = []
    told: list[str] = []
    if data_dir is not None:
        try:
            tasks, missing = load_tasks(data_dir)
            told += [task.source for task in tasks]
            told += [f"no {name}: {files} not there" for name, files in missing.items()]
        except ValueError as error:
            if "no task" not in str(error):
                raise
            told.append("none of SICK, MR, CR, SUBJ, MPQA")
        has_text = any(not is_word_vectors(path) for path in Path(data_dir).glob("*.txt"))
        if has_text or not tasks:
            corpus = read_corpus(data_dir, config.held_out)
    corpus = novels(config.held_out) if corpus is None else corpus
    vocabulary = corpus.vocabulary(config.vocabulary)
    if data_dir is not None and tasks:
        files = [path for path in sorted(Path(data_dir).iterdir()) if is_word_vectors(path)]
        if files:
            tokenize = TOKENIZERS[config.tokenizer]
            sentences = (sentence for task in tasks for sentence in task_sentences(task))
            wanted = {word for sentence in sentences for word in tokenize(sentence)}
            vectors = read_word_vectors(files[0], wanted | {*vocabulary.words})
            told.append(f"vocabulary expanded by {files[0].name}")
        else:
            told.append("no word vectors, so that the vocabulary isn't expanded")
    triples = Triples(
        corpus,
        vocabulary,
        config.length,
        config.batch_size,
        longer=config.longer,
        equal_lengths=config.equal_lengths,
    )
    validation, test = (
        HeldOut(triples.held_out(part, config.cases), OwnText(corpus, part, config.cases))
        for part in ("validation", "test")
    )
    return Text(triples, validation, test, tasks, vectors, "; ".join([corpus.source, *told]))


def build_model(config: Config, norm: str, words: Sequence[str]) -> SkipThoughts:
    """The compiled network.

    Args:
        config: The run's `Config`.
        norm: `"layer"` or `"none"`.
        words: Its words, in the order of their ids.
    """
    model = SkipThoughts(
        words,
        config.size,
        config.units,
        NORMALIZE[norm],
        config.conditioning,
        config.tokenizer,
        name=f"skipthoughts_{norm}",
    )
    model.build(None)
    rate = config.learning_rate if config.corrected_adam else UncorrectedAdam(config.learning_rate)
    optimizer = adam(rate, config.adam_epsilon, global_clipnorm=config.clip_norm)
    # The GRUs are XLA programs of their own; the number of words to predict is no constant.
    model.compile(optimizer, jit_compile=False)
    optimizer.build(model.trainable_variables)  # so that it can be saved as it starts
    return model


def evaluate(config: Config, data: Text, model: SkipThoughts) -> dict[str, float]:
    """What is logged after each epoch."""
    encoder = SentenceEncoder(model, data.vectors)
    own = data.validation.own.figures(encoder, LOOK, processes=1)
    figures = {
        "validation_nats": nats(model, data.validation.triples),
        "validation_adjacent": own["adjacent"],
        "updates": int(model.optimizer.iterations.numpy()),
    }
    if config.tasks == "always":
        figures |= task_figures(encoder, data.tasks, protocol(config))
    return figures


def test(config: Config, data: Text, model: SkipThoughts) -> dict[str, float]:
    """What is measured once, at the end."""
    encoder, words = SentenceEncoder(model, data.vectors), mean_of_words(model)
    figures = {"test_nats": nats(model, data.test.triples)}
    for suffix, encode in (("", encoder), ("_words", words)):
        own = data.test.own.figures(encode, protocol(config))
        figures |= {f"test_{name}{suffix}": value for name, value in own.items()}
    for task in data.tasks:
        unknown = encoder.unknown(task_sentences(task))
        print(f"{task.name}: {100 * unknown:.1f} % of the words are unknown", flush=True)
    return figures | task_figures(encoder, data.tasks, protocol(config), verbose=1)


def protocol(config: Config) -> Protocol:
    """How vectors are judged."""
    return Protocol(config.folds, config.inner_folds, config.costs)

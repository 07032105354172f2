"""What is measured of a network: on its own text, and by the sentence tasks that the user has."""

from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import Any

import keras
import numpy as np

from tf_layernorm.data.sentence_tasks import Classification, Relatedness
from tf_layernorm.data.sentences import Corpus, lines
from tf_layernorm.experiments.sentence_eval import (
    Encoder,
    Protocol,
    cross_validate,
    evaluate,
    mean_of_vectors,
    pair_features,
)
from tf_layernorm.experiments.skipthoughts.encoder import SentenceEncoder
from tf_layernorm.experiments.skipthoughts.model import SkipThoughts

Task = Classification | Relatedness
FEWEST = 20  # pairs and sentences by which vectors are judged
LOOK = Protocol(folds=2, inner_folds=2, costs=(256,))  # for a point of a curve


class OwnText:
    """A held-out part of the text, for two tasks that need no other data.

    *Adjacent*: is the second sentence the next after the first, or any of the same file? The
    features are SICK's, half of the pairs are adjacent. *File*: which of the files (the novels, of
    those that ship) is a sentence from?

    Args:
        corpus: The text.
        part: `"validation"` or `"test"`.
        limit: The most pairs, and the most sentences, as many from each of the part's blocks.
        seed: Seed of the pairs that aren't adjacent.
    """

    def __init__(self, corpus: Corpus, part: str, limit: int = 4000, seed: int = 0) -> None:
        self.sentences: list[str] = []
        files, runs = [], []
        blocks = corpus.parts[part]
        for run, block in enumerate(blocks):
            for words in islice(lines(block), limit // len(blocks)):
                if words:
                    self.sentences.append(" ".join(words))
                    files.append(corpus.files.index(block.path))
                    runs.append(run)
                else:
                    run += len(blocks)  # a number that no other run has
        self.files, same = np.array(files), np.array(runs)
        rng = np.random.default_rng(seed)
        first = rng.permutation(np.flatnonzero(same[:-1] == same[1:]))[: limit // 2]
        chosen = [rng.choice(np.flatnonzero(self.files == self.files[i])) for i in first]
        if len(first) < FEWEST:
            raise ValueError(
                f"The {part} part must hold {FEWEST} sentences with a next one, of "
                f"limit={limit}: a longer text, or a larger share held out. Received: "
                f"{len(first)} in {corpus.source}"
            )
        self.pairs = np.stack([np.tile(first, 2), np.concatenate([first + 1, chosen])])
        self.adjacent = np.repeat([1, 0], len(first))

    def figures(self, encode: Encoder, protocol: Protocol, **options: Any) -> dict[str, float]:
        """The accuracies `adjacent` and, where there is more than one file, `file`."""
        vectors = encode(self.sentences)
        features = pair_features(*vectors[self.pairs])
        found = {"adjacent": cross_validate(features, self.adjacent, protocol, **options).accuracy}
        if len(np.unique(self.files)) > 1:
            found["file"] = cross_validate(vectors, self.files, protocol, **options).accuracy
        return found


def mean_of_words(model: SkipThoughts) -> Encoder:
    """The mean of a network's own vectors of words: what its GRU has to be better than."""
    encoder = SentenceEncoder(model)
    return mean_of_vectors(encoder.known, encoder.tokenize)


def task_figures(
    encoder: Encoder, tasks: Sequence[Task], protocol: Protocol, **options: Any
) -> dict[str, float]:
    """What `sentence_eval.evaluate` finds of each task; a network reads `<eos>` for SICK only."""
    found: dict[str, float] = {}
    for task in tasks:
        encode = encoder
        if task.name == "SICK" and isinstance(encoder, SentenceEncoder):
            encode = partial(encoder, end=True)
        found |= evaluate(encode, task, protocol, **options)
    return found


def task_sentences(task: Task) -> list[str]:
    """All sentences of a task."""
    if isinstance(task, Classification):
        return task.sentences
    parts = (task.train, task.validation, task.test)
    return [sentence for part in parts for sentence in part.first + part.second]


def nats(model: keras.Model, dataset: Any) -> float:
    """The mean nats a word of both targets."""
    return float(model.evaluate(dataset, verbose=0, return_dict=True)["nats"])

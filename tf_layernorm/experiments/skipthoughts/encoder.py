"""Sentences of any text as vectors, by a trained network, also with words new to it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_layernorm.data.sentences import TOKENIZERS
from tf_layernorm.data.words import pad
from tf_layernorm.experiments.skipthoughts.model import SkipThoughts
from tf_layernorm.experiments.training import BEST, MODEL

BATCH, STEPS = 128, 8  # sentences are encoded by length, padded to a multiple of these steps


def load(folder: str | Path) -> SkipThoughts:
    """The model of a curve's folder, the best where one is kept.

    Raises:
        ValueError: If the folder has no model, or that of another experiment.
    """
    paths = [Path(folder) / name for name in (BEST, MODEL)]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        nearby = sorted(str(found.parent) for found in Path(folder).glob(f"**/{MODEL}"))
        raise ValueError(
            f"`model` must be a folder with a {MODEL}, that of one curve of a run"
            + (f", such as {nearby[0]}" if nearby else "")
            + f". Received: model={str(folder)!r}"
        )
    model = keras.models.load_model(path)
    if not isinstance(model, SkipThoughts):
        raise ValueError(
            f"`model` must hold skip-thoughts. Received: {type(model).__name__} in {str(folder)!r}"
        )
    return model


def expand(
    words: Sequence[str], embeddings: np.ndarray, vectors: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Vectors of the network's kind for words that it doesn't know, from pretrained ones.

    A linear regression with an intercept, from the pretrained vectors of the words that both have
    to the trained ones, maps all others. Words with `_` in them, word2vec's phrases, are left out.
    A word that was trained keeps its trained vector: that is what the network was trained to read,
    and the regression only comes near it.

    Args:
        words: The network's words, from id 2 on.
        embeddings: Their trained vectors, `(len(words), size)`.
        vectors: The pretrained vectors.

    Returns:
        A vector for each word that one of the two has.

    Raises:
        ValueError: If they share fewer words than the regression has unknowns an output.
    """
    from sklearn.linear_model import LinearRegression

    both = [i for i, word in enumerate(words) if word in vectors]
    size = len(next(iter(vectors.values()))) if vectors else 0
    if len(both) <= size:
        raise ValueError(
            f"The pretrained vectors must share more than {size} words, their size, with the "
            f"{len(words)} of the network. Received: {len(both)} shared words"
        )
    pretrained = np.stack([vectors[words[i]] for i in both])
    regression = LinearRegression().fit(pretrained, embeddings[both])
    trained = dict(zip(words, embeddings))
    others = [word for word in vectors if word not in trained and "_" not in word]
    if others:
        mapped = regression.predict(np.stack([vectors[word] for word in others]))
        trained |= zip(others, mapped.astype(embeddings.dtype))
    return trained


class SentenceEncoder:
    """A function from sentences to vectors of length 1.

    Args:
        model: A network.
        vectors: Pretrained vectors of words by which its vocabulary grows, see `expand`. Defaults
            to `None`: the words it was trained with.

    Example:

    >>> from tf_layernorm.experiments.skipthoughts.encoder import SentenceEncoder
    >>> from tf_layernorm.experiments.skipthoughts.model import SkipThoughts
    >>> encode = SentenceEncoder(SkipThoughts(("<eos>", "<unk>", "a", "cat"), size=3, units=5))
    >>> encode(["A cat.", "", "A dog."]).shape
    (3, 5)
    >>> round(encode.unknown(["A cat.", "", "A dog."]), 2)  # "dog" and twice "."
    0.5
    """

    def __init__(
        self, model: SkipThoughts, vectors: Mapping[str, np.ndarray] | None = None
    ) -> None:
        if not model.built:
            model.build(None)
        self.model, self.tokenize = model, TOKENIZERS[model.tokenizer]
        table = keras.ops.convert_to_numpy(model.embedding.embeddings)
        self.known = dict(zip(model.words[2:], table[2:]))  # by word, its vector
        if vectors is not None:
            self.known = expand(model.words[2:], table[2:], vectors)
        self._ids = {word: i for i, word in enumerate(self.known, 2)}
        self._table = tf.constant(np.concatenate([table[:2], np.stack([*self.known.values()])]))
        self._encode = tf.function(self._last_states)

    def _last_states(self, ids: Any, lengths: Any) -> Any:
        vectors = tf.cast(tf.gather(self._table, ids), self.model.compute_dtype)
        return self.model.encode(vectors, lengths)

    def __call__(self, sentences: Sequence[str], *, end: bool = False) -> np.ndarray:
        """The vectors, float32 `(sentences, units)`; of a sentence without words, zeros.

        Args:
            sentences: Texts, which the model's tokenizer cuts into words.
            end: Whether `<eos>` is read at the end, as the authors do only for SICK, whose
                sentences have no full stop.
        """
        numbers = [self._numbers(sentence, end) for sentence in sentences]
        states = np.zeros((len(sentences), self.model.units), "float32")
        order = sorted((i for i, ids in enumerate(numbers) if ids), key=lambda i: len(numbers[i]))
        for first in range(0, len(order), BATCH):
            rows = order[first : first + BATCH]
            longest = -(-len(numbers[rows[-1]]) // STEPS) * STEPS
            ids, lengths = pad([numbers[i] for i in rows], longest)
            # Arrays are constants of the program: one for each. Tensors share one.
            found = self._encode(tf.constant(ids), tf.constant(lengths))
            states[rows] = keras.ops.convert_to_numpy(found)
        norms = np.linalg.norm(states, axis=1, keepdims=True)
        return states / np.where(norms > 0, norms, 1)

    def _numbers(self, sentence: str, end: bool) -> list[int]:
        ids = [self._ids.get(word, 1) for word in self.tokenize(sentence)]
        return [*ids, 0] if ids and end else ids

    def unknown(self, sentences: Sequence[str]) -> float:
        """The share of the sentences' words that the encoder doesn't know."""
        words = [word for sentence in sentences for word in self.tokenize(sentence)]
        return float(np.mean([word not in self._ids for word in words])) if words else 0.0


def nearest(vectors: np.ndarray, among: np.ndarray, count: int) -> np.ndarray:
    """Of each vector the `count` rows of `among` with the largest cosines, nearest first."""
    cosines = (
        vectors
        @ among.T
        / (
            np.maximum(np.linalg.norm(vectors, axis=1), 1e-12)[:, None]
            * np.maximum(np.linalg.norm(among, axis=1), 1e-12)
        )
    )
    return np.argsort(-cosines, axis=1, kind="stable")[:, :count]

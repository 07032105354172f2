"""Sentences with their neighbours, streaming from text files of any size.

A text has one sentence a line, its words and signs parted by spaces. A blank line, or the end of a
file, parts sentences that aren't neighbours.
"""

import re
import shutil
import tarfile
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import resources
from itertools import count, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tf_layernorm.data.word_vectors import is_word_vectors
from tf_layernorm.data.words import Vocabulary, pad

BLOCK = 2**20  # bytes that are read at a time
GROUP = 8  # blocks that are shuffled together
CACHED = 32  # blocks whose numbers are kept
COUNTED = 256  # blocks at most of which the vocabulary is counted
TARGET_STEPS = 10  # the lengths of padded targets are multiples of this

_WORD = re.compile(r"\w+(?:['’]\w+)*|--|[^\w\s]")


def tokenize(text: str) -> list[str]:
    """Words and signs, in lower case.

    >>> from tf_layernorm.data.sentences import tokenize
    >>> tokenize("It isn't far, Mr. Elton!")
    ['it', "isn't", 'far', ',', 'mr', '.', 'elton', '!']
    """
    return _WORD.findall(text.lower())


def treebank(text: str) -> list[str]:
    """Words as the Penn Treebank cuts them ("is", "n't"), in their case: NLTK's, if it is there."""
    try:
        from nltk.tokenize import NLTKWordTokenizer
    except ModuleNotFoundError:
        raise ValueError(
            "The Penn Treebank's words need NLTK (pip install nltk), or take tokenizer='plain'. "
            "Received: tokenizer='treebank'"
        ) from None
    return NLTKWordTokenizer().tokenize(text)


TOKENIZERS: dict[str, Callable[[str], list[str]]] = {"plain": tokenize, "treebank": treebank}


class Block(NamedTuple):
    """The lines of a file that begin in `start..end - 1`, in bytes."""

    path: Path
    start: int
    end: int


@dataclass(frozen=True)
class Corpus:
    """Text files, of which no more than a few megabytes are in memory at a time.

    Each file's end is held out: its last part is for testing, the one before for validation.

    Attributes:
        files: The files, in order.
        held_out: The share of each file, in bytes, of either held-out part.
        source: What it is, for people.
    """

    files: tuple[Path, ...]
    held_out: float
    source: str

    @cached_property
    def parts(self) -> dict[str, list[Block]]:
        """The blocks of `train`, `validation` and `test`."""
        parts: dict[str, list[Block]] = {"train": [], "validation": [], "test": []}
        for path in self.files:
            size = path.stat().st_size
            borders = [0, *(round(size * (1 - k * self.held_out)) for k in (2, 1, 0))]
            for blocks, start, end in zip(parts.values(), borders, borders[1:]):
                blocks += [Block(path, a, min(a + BLOCK, end)) for a in range(start, end, BLOCK)]
        return parts

    def vocabulary(self, size: int) -> Vocabulary:
        """The most frequent words of the training part, counted on at most 256 MB of it."""
        train = self.parts["train"]
        counted = train[:: -(-len(train) // COUNTED)]
        return Vocabulary.of_sentences((line for block in counted for line in lines(block)), size)


def novels(held_out: float = 0.1) -> Corpus:
    """Six novels of Jane Austen, 31 thousand sentences in lower case: what the package ships."""
    folder = tempfile.mkdtemp(prefix="novels-")
    with resources.files("tf_layernorm.data").joinpath("novels.tar.xz").open("rb") as packed:
        with tarfile.open(fileobj=packed) as archive:
            archive.extractall(folder, filter="data")
    files = tuple(sorted(Path(folder).glob("*.txt")))
    corpus = Corpus(files, held_out, "six novels of Jane Austen, shipped with the package")
    weakref.finalize(corpus, shutil.rmtree, folder, ignore_errors=True)
    return corpus


def read_corpus(data_dir: str | Path, held_out: float = 0.1) -> Corpus:
    """All `.txt` files right in a folder, but for files of word vectors.

    Raises:
        ValueError: If there is none, or one isn't text.
    """
    files = sorted(p for p in Path(data_dir).glob("*.txt") if p.is_file())
    files = [path for path in files if not is_word_vectors(path)]
    if not files:
        raise ValueError(
            f"Text files with one sentence a line are expected, as DIR/books.txt. "
            f"Received: data_dir={str(data_dir)!r}"
        )
    for path in files:
        for _ in lines(Block(path, 0, 4096)):
            pass
    names = ", ".join(path.name for path in files[:5]) + ", ..." * (len(files) > 5)
    return Corpus(tuple(files), held_out, f"{len(files)} text files of the user's: {names}")


def lines(block: Block) -> Iterator[list[str]]:
    """The words of each line of a block; none of a blank line.

    Raises:
        ValueError: If it isn't text in UTF-8.
    """
    with block.path.open("rb") as file:
        if block.start:
            file.seek(block.start - 1)
            file.readline()  # a line belongs to the block that it begins in
        while file.tell() < block.end and (line := file.readline()):
            try:
                if b"\0" in line:
                    raise ValueError
                yield line.decode("utf-8").split()
            except ValueError:
                raise ValueError(
                    f"The text must be UTF-8. Received: {line[:40]!r} in {block.path}"
                ) from None


class Sentences(NamedTuple):
    """Sentences of a text in their order, and which of them have both neighbours."""

    ids: np.ndarray  # int32 (sentences, length)
    lengths: np.ndarray  # int32 (sentences,): ids in use, that of `<eos>` with them
    centres: np.ndarray  # int64: the sentences with one before and one after


def encode_block(
    block: Block, vocabulary: Vocabulary, length: int, longer: str = "cut"
) -> Sentences:
    """A block's sentences in numbers.

    Args:
        block: What to read.
        vocabulary: The words that have numbers.
        length: The most ids a sentence may have, with `<eos>`.
        longer: `"cut"`: sentences with more lose the rest and `<eos>`. `"drop"`: no sentence is a
            centre which is longer itself, or next to one.
    """
    runs: list[list[list[int]]] = [[]]
    for words in lines(block):
        if words:
            runs[-1].append(vocabulary.encode(words))
        elif runs[-1]:
            runs.append([])
    firsts = np.cumsum([0, *map(len, runs)])
    sentences = [sentence for run in runs for sentence in run]
    centres = np.concatenate([np.arange(a + 1, b - 1) for a, b in zip(firsts, firsts[1:])])
    if longer == "drop":
        short = np.array([len(sentence) <= length for sentence in sentences], bool)
        centres = centres[short[centres - 1] & short[centres] & short[centres + 1]]
    ids, lengths = pad(sentences, length)
    return Sentences(ids, lengths, centres)


def join(parts: Sequence[Sentences]) -> Sentences:
    """Sentences of several blocks, which aren't neighbours."""
    firsts = np.cumsum([0, *(len(part.lengths) for part in parts)])
    return Sentences(
        np.concatenate([part.ids for part in parts]),
        np.concatenate([part.lengths for part in parts]),
        np.concatenate([part.centres + first for part, first in zip(parts, firsts)]),
    )


Batch = dict[str, np.ndarray]


class Triples:
    """Batches of sentences, each with the next and the previous, in a dict of arrays.

    `source`, `next` and `previous` are int32 `(batch, steps)`; `lengths`, int32 `(batch, 3)`, are
    theirs in this order.

    Args:
        corpus: The text.
        vocabulary: The words that have numbers.
        length: The most ids a sentence may have.
        batch_size: Triples a batch.
        longer: What happens to longer sentences, see `encode_block`.
        equal_lengths: Whether the source sentences of a batch have one length, as in the authors'
            code, and its arrays as many steps as they need, in tens for the targets. Otherwise all
            arrays have `length` steps: one shape, one XLA program.
    """

    def __init__(
        self,
        corpus: Corpus,
        vocabulary: Vocabulary,
        length: int,
        batch_size: int,
        *,
        longer: str = "cut",
        equal_lengths: bool = False,
    ) -> None:
        self.corpus, self.vocabulary, self.length = corpus, vocabulary, length
        self.batch_size, self.equal_lengths = batch_size, equal_lengths
        # A short text is encoded once, a long one whenever it is needed.
        self.sentences = lru_cache(CACHED)(
            lambda block: encode_block(block, vocabulary, length, longer)
        )

    def training(self, seed: int, first_epoch: int, steps: int) -> tf.data.Dataset:
        """Batches without end, from an epoch of `steps` batches on.

        The blocks are read in an order that `(seed, epoch)` alone decides, and the sentences of
        eight at a time are shuffled. So an epoch sees no triple twice before the text is through,
        and the next starts anew.

        Raises:
            ValueError: If the text doesn't make one batch.
        """
        train = self.corpus.parts["train"]
        if not any(True for _ in self._pass(train, np.random.default_rng(0))):
            raise ValueError(
                f"The training text must make a batch of {self.batch_size} sentences with both "
                f"neighbours of at most {self.length} ids. Received: {self.corpus.source}"
            )

        def batches() -> Iterator[Batch]:
            for epoch in count(first_epoch):
                rng = np.random.default_rng((seed, epoch))
                passes = (batch for _ in count() for batch in self._pass(train, rng))
                yield from islice(passes, steps)

        return self._dataset(batches)

    def held_out(self, part: str, limit: int) -> tf.data.Dataset:
        """At most `limit` triples of a held-out part, as many of each block, unshuffled."""
        blocks = self.corpus.parts[part]

        def chosen(block: Block) -> list[np.ndarray]:
            centres = self.sentences(block).centres[: limit // len(blocks)]
            firsts = range(0, len(centres), self.batch_size)
            return [centres[first : first + self.batch_size] for first in firsts]

        def batches() -> Iterator[Batch]:
            for block in blocks:
                for centres in chosen(block):
                    yield self._batch(self.sentences(block), centres, False)

        # Keras takes the end of a dataset of unknown size for a fault.
        size = sum(len(chosen(block)) for block in blocks)
        return self._dataset(batches).apply(tf.data.experimental.assert_cardinality(size))

    def _pass(self, blocks: Sequence[Block], rng: np.random.Generator) -> Iterator[Batch]:
        order = rng.permutation(len(blocks))
        for group in range(0, len(order), GROUP):
            sentences = join([self.sentences(blocks[i]) for i in order[group : group + GROUP]])
            centres = rng.permutation(sentences.centres)
            if self.equal_lengths:
                lengths = sentences.lengths[centres]
                buckets = [centres[lengths == length] for length in np.unique(lengths)]
            else:
                buckets = [centres]
            size = self.batch_size
            chosen = [b[i : i + size] for b in buckets for i in range(0, len(b) - size + 1, size)]
            for i in rng.permutation(len(chosen)):
                yield self._batch(sentences, chosen[i], self.equal_lengths)

    def _batch(self, sentences: Sentences, centres: np.ndarray, trim: bool) -> Batch:
        places = np.stack([centres, centres + 1, centres - 1])
        lengths = sentences.lengths[places]  # (3, batch)
        steps = [self.length] * 3
        if trim:
            tens = -(-lengths.max(1) // TARGET_STEPS) * TARGET_STEPS
            steps = [lengths[0].max(), *np.minimum(tens[1:], self.length)]
        names = ("source", "next", "previous")
        batch = {
            name: sentences.ids[rows, :width] for name, rows, width in zip(names, places, steps)
        }
        return batch | {"lengths": lengths.T}

    def _dataset(self, batches: Callable[[], Iterator[Batch]]) -> tf.data.Dataset:
        signature = {
            name: tf.TensorSpec((None, None), tf.int32) for name in ("source", "next", "previous")
        }
        signature["lengths"] = tf.TensorSpec((None, 3), tf.int32)
        return tf.data.Dataset.from_generator(batches, output_signature=signature).prefetch(2)

"""Words as numbers, as the authors' text models count them."""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

END, UNKNOWN = "<eos>", "<unk>"


class Vocabulary:
    """Numbers of words: 0 is the end of a sentence, 1 every unknown word, 2 the most frequent word.

    Id 0 stands for padding too. So masks come from lengths, in which the end of the sentence is
    counted: see `pad`.

    Args:
        words: The words from id 2 on.

    Attributes:
        words: All words in the order of their ids, `<eos>` and `<unk>` first.

    Raises:
        ValueError: If a word comes twice, or is `<eos>` or `<unk>`.

    Example:

    >>> from tf_layernorm.data.words import Vocabulary
    >>> vocabulary = Vocabulary.of_sentences([["a", "red", "flag"], ["a", "cat"]], size=4)
    >>> vocabulary.words
    ('<eos>', '<unk>', 'a', 'red')
    >>> vocabulary.encode(["a", "cat"])
    [2, 1, 0]
    """

    def __init__(self, words: Iterable[str]) -> None:
        self.words = (END, UNKNOWN, *words)
        self._ids = {word: i for i, word in enumerate(self.words)}
        if len(self._ids) < len(self.words):
            twice = [word for word, count in Counter(self.words).items() if count > 1]
            raise ValueError(
                f"`words` must be different words, without {END} and {UNKNOWN}. "
                f"Received twice: {twice[:5]}"
            )

    @classmethod
    def of_sentences(
        cls, sentences: Iterable[Sequence[str]], size: int | None = None
    ) -> "Vocabulary":
        """The vocabulary of a text, by falling frequency; of equals the first to occur is first.

        Args:
            sentences: Lists of words. `<eos>` and `<unk>` among them are no words of their own.
            size: The largest size, `<eos>` and `<unk>` counted. Defaults to `None`: all words.

        Raises:
            ValueError: If `size` is below 3, or `sentences` holds a string, not a list of words.
        """
        if size is not None and size < 3:
            raise ValueError(f"`size` must be at least 3, for one word. Received: size={size}")
        counts: Counter[str] = Counter()
        for sentence in sentences:
            _check_words(sentence)
            counts.update(sentence)
        del counts[END], counts[UNKNOWN]
        return cls(word for word, _ in counts.most_common(None if size is None else size - 2))

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        """Whether the word has an id of its own."""
        return self._ids.get(word, 0) > 1

    def encode(self, sentence: Sequence[str], *, end: bool = True) -> list[int]:
        """The ids of a sentence's words, and of its end unless `end=False`.

        Raises:
            ValueError: If the sentence is a string, not a list of words.
        """
        _check_words(sentence)
        ids = [self._ids[word] if word in self else 1 for word in sentence]
        return [*ids, 0] if end else ids

    def decode(self, ids: Iterable[int]) -> list[str]:
        """The words before the end of the sentence."""
        words = []
        for i in ids:
            if i == 0:
                break
            words.append(self.words[i])
        return words


def _check_words(sentence: Sequence[str]) -> None:
    if isinstance(sentence, str):
        raise ValueError(f"A sentence must be a list of words. Received: {sentence!r}")


def pad(sentences: Sequence[Sequence[int]], length: int | None = None) -> tuple[np.ndarray, ...]:
    """Sentences as one array, and their lengths, of which masks are made.

    Args:
        sentences: Their ids.
        length: The length of the array. Longer sentences are cut, and lose the id of their end.
            Defaults to the longest sentence's.

    Returns:
        int32 `(sentences, length)`, filled up with 0, and int32 `(sentences,)`.

    Example:

    >>> from tf_layernorm.data.words import pad
    >>> ids, lengths = pad([[5, 7, 0], [5, 0]])
    >>> ids.tolist(), lengths.tolist()
    ([[5, 7, 0], [5, 0, 0]], [3, 2])
    """
    length = max(map(len, sentences), default=0) if length is None else length
    ids = np.zeros((len(sentences), length), np.int32)
    for row, sentence in zip(ids, sentences):
        row[: len(sentence)] = sentence[:length]
    return ids, np.array([min(len(s), length) for s in sentences], np.int32)

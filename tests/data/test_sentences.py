"""Sentences with their neighbours: texts, blocks, triples, batches, and the novels that ship."""

import itertools

import numpy as np
import pytest

from tf_layernorm.data import sentences
from tf_layernorm.data.sentences import (
    Block,
    Corpus,
    Triples,
    encode_block,
    join,
    lines,
    novels,
    read_corpus,
    tokenize,
    treebank,
)
from tf_layernorm.data.words import Vocabulary


def whole(path):
    return Block(path, 0, path.stat().st_size)


def write(path, text):
    path.write_text(text)
    return path


def words_of(part):
    """The first word's id of each centre and of its neighbours."""
    return [tuple(part.ids[c + k, 0] for k in (-1, 0, 1)) for c in part.centres]


@pytest.fixture
def corpus(tmp_path):
    """200 sentences of one word each, of 1 to 4 copies; number 100 is the end of a run."""
    text = "".join(f"{' '.join([f'w{i}'] * (i % 4 + 1))}\n" + "\n" * (i == 100) for i in range(200))
    write(tmp_path / "a.txt", text)
    return read_corpus(tmp_path, 0.1)


def test_triples_stay_within_runs(tmp_path):
    first = write(tmp_path / "a.txt", "a\nb\nc\nd\n\n \nalone\n\ne\nf\ng\n")
    second = write(tmp_path / "b.txt", "h\ni\nj")
    vocabulary = Vocabulary(["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"])
    parts = [encode_block(whole(path), vocabulary, 3) for path in (first, second)]
    # The first and the last of a run are never in the middle; no triple crosses a blank line.
    assert words_of(parts[0]) == [(2, 3, 4), (3, 4, 5), (6, 7, 8)]
    assert words_of(join(parts)) == [(2, 3, 4), (3, 4, 5), (6, 7, 8), (9, 10, 11)]


def test_longer_sentences(tmp_path):
    path = write(tmp_path / "a.txt", "a\nb b\nc c c\nd\ne\nf\n")
    vocabulary = Vocabulary("abcdef")
    cut = encode_block(whole(path), vocabulary, 3)
    assert cut.lengths.tolist() == [2, 3, 3, 2, 2, 2]
    # Where a sentence is cut its end goes: c c c, but b b <eos>.
    assert cut.ids[1:3].tolist() == [[3, 3, 0], [4, 4, 4]]
    assert cut.centres.tolist() == [1, 2, 3, 4]
    dropped = encode_block(whole(path), vocabulary, 3, "drop")
    assert dropped.centres.tolist() == [4]


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_blocks_lose_and_double_no_line(tmp_path, size):
    text = "one two\nthree\n\nfour five six\nseven"
    path = write(tmp_path / "a.txt", text)
    end = len(text)
    found = [
        line
        for start in range(0, end, size)
        for line in lines(Block(path, start, min(start + size, end)))
    ]
    assert found == [line.split() for line in text.split("\n")]


def test_held_out_parts_are_apart(corpus):
    parts = {
        name: {word for block in blocks for words in lines(block) for word in words}
        for name, blocks in corpus.parts.items()
    }
    assert sum(map(len, parts.values())) == 200 == len(set.union(*parts.values()))
    assert [len(part) for part in parts.values()] == pytest.approx([160, 20, 20], abs=6)
    assert "w199" in parts["test"] and "w0" in parts["train"]


def test_an_epoch_is_decided_by_seed_and_number(corpus):
    triples = Triples(corpus, corpus.vocabulary(300), 6, 4)

    def batches(seed, epoch, count):
        return [
            {k: v.numpy().tolist() for k, v in batch.items()}
            for batch in triples.training(seed, epoch, 10).take(count)
        ]

    straight = batches(1, 0, 20)
    assert batches(1, 1, 10) == straight[10:]
    assert batches(2, 0, 10) != straight[:10] != straight[10:]
    sources = [row[0] for batch in straight[:10] for row in batch["source"]]
    assert len(set(sources)) == 40  # none twice before the text is through


def test_batches_hold_neighbours(corpus):
    vocabulary = corpus.vocabulary(300)
    batch = next(iter(Triples(corpus, vocabulary, 6, 50).training(0, 0, 10)))
    numbers = {
        name: [int(vocabulary.words[row[0]][1:]) for row in batch[name].numpy()]
        for name in ("source", "next", "previous")
    }
    source = np.array(numbers["source"])
    np.testing.assert_array_equal(numbers["next"], source + 1)
    np.testing.assert_array_equal(numbers["previous"], source - 1)
    assert not {0, 100, 101} & set(numbers["source"])
    copies = np.stack([source, source + 1, source - 1], 1) % 4 + 1
    np.testing.assert_array_equal(batch["lengths"], copies + 1)  # and <eos>
    assert batch["source"].shape == (50, 6)


def test_sentences_of_equal_length(corpus):
    triples = Triples(corpus, corpus.vocabulary(300), 14, 4, equal_lengths=True)
    seen = set()
    for batch in triples.training(0, 0, 30).take(30):
        lengths = batch["lengths"].numpy()
        assert len(set(lengths[:, 0])) == 1 and batch["source"].shape[1] == lengths[0, 0]
        assert batch["next"].shape[1] == batch["previous"].shape[1] == 10
        seen.add(lengths[0, 0])
    assert seen == {2, 3, 4, 5}


def test_held_out_triples_come_in_order_and_end(corpus):
    triples = Triples(corpus, corpus.vocabulary(300), 6, 4)
    batches = list(triples.held_out("test", 10))
    assert sum(len(batch["lengths"]) for batch in batches) == 10
    again = list(triples.held_out("test", 10))
    np.testing.assert_array_equal(batches[-1]["source"], again[-1]["source"])


def test_only_some_blocks_are_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(sentences, "BLOCK", 100)
    monkeypatch.setattr(sentences, "GROUP", 2)
    monkeypatch.setattr(sentences, "CACHED", 3)
    write(tmp_path / "a.txt", "".join(f"word{i} a b c\n" for i in range(500)))
    corpus = read_corpus(tmp_path)
    triples = Triples(corpus, corpus.vocabulary(20), 6, 4)
    for batch in itertools.islice(triples.training(0, 0, 100), 100):
        assert batch["source"].shape == (4, 6)
    info = triples.sentences.cache_info()
    assert info.currsize == 3 and info.misses > 20
    assert len(corpus.parts["train"]) > 50


def test_the_vocabulary_is_of_the_training_part(corpus):
    assert "w0" in corpus.vocabulary(300) and "w199" not in corpus.vocabulary(300)
    assert len(corpus.vocabulary(10)) == 10


@pytest.mark.parametrize(
    "content, message",
    [
        (b"a\nb\x00\n", "UTF-8.*Received: b'b"),
        (b"caf\xe9\n", "UTF-8.*Received: b'caf"),
        (None, "e a line"),
    ],
    ids=["zeros", "latin-1", "none"],
)
def test_files_that_are_no_text(tmp_path, content, message):
    if content is not None:
        (tmp_path / "a.txt").write_bytes(content)
    (tmp_path / "glove.txt").write_text("cat 1 2\n")  # word vectors are no text
    with pytest.raises(ValueError, match=message):
        read_corpus(tmp_path)


def test_a_text_that_is_too_short(tmp_path):
    write(tmp_path / "a.txt", "a\nb\nc\n" * 4)
    corpus = read_corpus(tmp_path)
    with pytest.raises(ValueError, match="a batch of 64 .*Received: 1 text files"):
        Triples(corpus, corpus.vocabulary(9), 6, 64).training(0, 0, 1)


def test_words():
    assert tokenize("“Don’t,” said Mr. X--I") == [
        *("“", "don’t", ",", "”", "said", "mr", ".", "x", "--", "i"),
    ]
    try:
        import nltk  # noqa: F401
    except ModuleNotFoundError:
        with pytest.raises(ValueError, match="pip install nltk.*Received: tokenizer='treebank'"):
            treebank("It isn't.")
    else:
        assert treebank("It isn't.") == ["It", "is", "n't", "."]


def test_the_novels_that_ship():
    corpus = novels()
    assert [path.stem for path in corpus.files] == [
        *("emma", "mansfieldpark", "northangerabbey"),
        *("persuasion", "prideprejudice", "sensesensibility"),
    ]
    found = [words for path in corpus.files for words in lines(whole(path))]
    assert sum(map(bool, found)) == 32850
    assert found[0][:3] == ["emma", "woodhouse", ","]
    folder = corpus.files[0].parent
    del corpus, found
    assert not folder.exists()


def test_a_corpus_of_nothing_held_out_has_all(tmp_path):
    path = write(tmp_path / "a.txt", "a\nb\n")
    parts = Corpus((path,), 0.0, "").parts
    assert parts["train"] == [whole(path)] and not parts["validation"] and not parts["test"]


def test_keras_knows_where_held_out_triples_end(corpus):
    dataset = Triples(corpus, corpus.vocabulary(300), 6, 4).held_out("validation", 10)
    assert int(dataset.cardinality()) == len(list(dataset)) == 3

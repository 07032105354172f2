"""The commands `evaluate-sentences` and `encode`."""

import argparse
from pathlib import Path
from typing import Any

from tf_layernorm.experiments.experiment import Command

# Table 3 of the paper: SICK's r, rho and MSE; MR, CR, SUBJ, MPQA.
TABLE3 = {
    "paper: Original": (0.848, 0.778, 0.287, 75.5, 79.3, 92.1, 86.9),
    "paper: Ours": (0.842, 0.767, 0.298, 77.3, 81.8, 92.6, 87.9),
    "paper: Ours + LN": (0.854, 0.785, 0.277, 79.5, 82.6, 93.4, 89.0),
    "paper: Ours + LN, a month": (0.858, 0.788, 0.270, 79.4, 83.1, 93.7, 89.3),
}
KEYS = ("sick_pearson", "sick_spearman", "sick_mse", "mr", "cr", "subj", "mpqa")
HEADS = ("SICK r", "rho", "MSE", "MR", "CR", "SUBJ", "MPQA")


def _evaluate_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", metavar="DIR", help="folder of one curve of a run")
    parser.add_argument(
        "--data-dir",
        required=True,
        metavar="DIR",
        help="the tasks' files, in folders as SentEval's or in any others, or in archives",
    )
    parser.add_argument(
        "--vectors",
        metavar="FILE",
        help="word vectors, word2vec's .bin or text as GloVe's: they expand the model's "
        "vocabulary; without a model, the mean of a sentence's is evaluated",
    )
    parser.add_argument(
        "--tasks", default="SICK,MR,CR,SUBJ,MPQA", metavar="NAME,...", help="(default: all)"
    )
    parser.add_argument(
        "--short",
        action="store_true",
        help="5 x 3 folds and 5 costs, not the paper's 10 x 10 and 9: 80 fits a task, not 910",
    )
    parser.add_argument(
        "--processes", type=int, metavar="N", help="folds at a time (default: one a core)"
    )


def _evaluate(
    *,
    model: str | None,
    data_dir: str,
    vectors: str | None,
    tasks: str,
    short: bool,
    processes: int | None,
) -> str:
    if model is None and vectors is None:
        raise ValueError("Give --model, --vectors or both. Received: model=None, vectors=None")
    from tf_layernorm.data.sentence_tasks import load_tasks
    from tf_layernorm.data.sentences import TOKENIZERS
    from tf_layernorm.data.word_vectors import read_word_vectors
    from tf_layernorm.experiments.sentence_eval import SHORT, Protocol, mean_of_vectors
    from tf_layernorm.experiments.skipthoughts.encoder import SentenceEncoder, load
    from tf_layernorm.experiments.skipthoughts.evaluation import (
        mean_of_words,
        task_figures,
        task_sentences,
    )

    there, missing = load_tasks(data_dir, tuple(tasks.split(",")))
    network = None if model is None else load(model)
    tokenize = TOKENIZERS["plain" if network is None else network.tokenizer]
    words = {word for task in there for text in task_sentences(task) for word in tokenize(text)}
    if network is not None:
        words |= {*network.words}
    pretrained = None if vectors is None else read_word_vectors(vectors, words)
    encoders: dict[str, Any] = {}
    known = pretrained or {}
    if network is not None:
        encoder = SentenceEncoder(network, pretrained)
        encoders = {"the network": encoder, "mean of its words": mean_of_words(network)}
        known = encoder.known
    else:
        encoders["mean of the vectors"] = mean_of_vectors(known, tokenize)
    for task in there:
        tokens = [word for text in task_sentences(task) for word in tokenize(text)]
        unknown = sum(word not in known for word in tokens) / len(tokens)
        print(f"{task.source}; {100 * unknown:.1f} % of the words are unknown", flush=True)
    for name, files in missing.items():
        print(f"{name} left out: {files} not there")

    protocol = SHORT if short else Protocol()
    rows = {}
    for name, encode in encoders.items():
        print(f"\nEvaluating {name}", flush=True)
        rows[name] = task_figures(encode, there, protocol, processes=processes, verbose=1)
    return "\n" + table(rows)


def table(rows: dict[str, dict[str, float]]) -> str:
    """Figures as Table 3 has them, with the paper's rows, in Markdown."""
    numbers = {
        name: tuple(found[k] * (1 if "sick" in k else 100) if k in found else None for k in KEYS)
        for name, found in rows.items()
    }
    lines = ["| encoder | " + " | ".join(HEADS) + " |", "|-" * (len(HEADS) + 1) + "|"]
    for name, values in (numbers | TABLE3).items():
        cells = [
            "" if value is None else f"{value:.{3 if 'sick' in key else 1}f}"
            for key, value in zip(KEYS, values)
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _encode_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model", required=True, metavar="DIR", help="folder of one curve of a run"
    )
    parser.add_argument(
        "--text", required=True, metavar="FILE", help="one sentence a line, in UTF-8"
    )
    parser.add_argument("--vectors", metavar="FILE", help="word vectors, for more words")
    parser.add_argument(
        "--neighbours",
        type=int,
        default=0,
        metavar="N",
        help="print the N nearest other sentences of the first ten (default: 0)",
    )
    parser.add_argument("--out", default="vectors.npy", metavar="NPY", help="default: vectors.npy")


def _encode(*, model: str, text: str, vectors: str | None, neighbours: int, out: str) -> str:
    if not out.endswith(".npy"):
        raise ValueError(f"`out` must end in .npy. Received: out={out!r}")
    if neighbours < 0:
        raise ValueError(f"`neighbours` must be at least 0. Received: neighbours={neighbours}")
    import numpy as np

    from tf_layernorm.data.sentence_tasks import read_lines
    from tf_layernorm.data.word_vectors import read_word_vectors
    from tf_layernorm.experiments.skipthoughts.encoder import SentenceEncoder, load, nearest

    if not Path(text).is_file():
        raise ValueError(f"`text` must be a file. Received: text={text!r}")
    sentences = read_lines(Path(text).read_bytes(), text)
    network = load(model)
    pretrained = None
    if vectors is not None:
        encoder = SentenceEncoder(network)
        wanted = {word for sentence in sentences for word in encoder.tokenize(sentence)}
        pretrained = read_word_vectors(vectors, wanted | {*network.words})
    encoder = SentenceEncoder(network, pretrained)
    found = encoder(sentences)
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    np.save(out, found)
    told = []
    if neighbours:
        for i, places in enumerate(nearest(found[:10], found, neighbours + 1)):
            told.append(sentences[i])
            told += [f"    {sentences[j]}" for j in places if j != i][:neighbours]
    empty = sum(not sentence for sentence in sentences)
    unknown = f"{100 * encoder.unknown(sentences):.1f} % of the words are unknown"
    unknown += f"; {empty} blank lines are rows of zeros" * bool(empty)
    shape = " x ".join(map(str, found.shape))
    return "\n".join([*told, f"{out}: {shape}, float32, a row a line; {unknown}"])


COMMANDS = (
    Command(
        "evaluate-sentences",
        "judge a network of `run skipthoughts`, or word vectors, by SICK, MR, CR, SUBJ and MPQA",
        _evaluate_arguments,
        _evaluate,
    ),
    Command(
        "encode",
        "turn the sentences of a text into vectors by a network of `run skipthoughts`",
        _encode_arguments,
        _encode,
    ),
)

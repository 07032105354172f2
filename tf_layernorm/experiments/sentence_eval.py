"""How good sentence vectors are: the protocol of skip-thoughts (section 6.3), for any encoder.

An encoder is a function from a list of sentences to an array `(sentences, size)`. Nothing here
knows where the vectors come from.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import keras
import numpy as np
import tensorflow as tf

from tf_layernorm.data.sentence_tasks import Classification, Relatedness

Encoder: TypeAlias = Callable[[Sequence[str]], np.ndarray]
T = TypeVar("T")

_SEED = 1234  # and `RandomState`, for the published code's order
_GRADES = np.arange(1, 6)


@dataclass(frozen=True)
class Protocol:
    """How much of the protocol is run: the published one, or `SHORT`."""

    folds: int = 10  # outer folds: the accuracy is the mean over them
    inner_folds: int = 10  # of the other nine tenths, to choose the cost by
    costs: tuple[float, ...] = (1, 2, 4, 8, 16, 32, 64, 128, 256)  # liblinear's C
    block: int = 100  # epochs between two looks at SICK's validation pairs


SHORT = Protocol(folds=5, inner_folds=3, costs=(1, 4, 16, 64, 256))


@dataclass(frozen=True)
class CrossValidation:
    """Of each outer fold the accuracy on its test rows, and the cost chosen on its others."""

    accuracies: np.ndarray
    costs: list[float]

    @property
    def accuracy(self) -> float:
        """The mean accuracy."""
        return float(self.accuracies.mean())


def evaluate(
    encode: Encoder,
    task: Classification | Relatedness,
    protocol: Protocol = Protocol(),
    *,
    processes: int | None = None,
    verbose: Any = 0,
) -> dict[str, float]:
    """Judges an encoder by a task.

    Args:
        encode: Maps a list of N sentences to `(N, size)`.
        task: As `data.sentence_tasks.load_tasks` gives it, or one of your own.
        protocol: How much is done.
        processes: Folds at a time, each in a process of its own. Defaults to the number of cores.
        verbose: 1 for a progress bar.

    Returns:
        `sick_pearson`, `sick_spearman` and `sick_mse` on the test pairs of a `Relatedness` called
        SICK; `mr` for a `Classification` called MR: the mean accuracy of the outer folds.

    Raises:
        ValueError: If what `encode` returns isn't finite vectors of one size.

    Example:

    >>> import numpy as np
    >>> from tf_layernorm.data.sentence_tasks import Classification
    >>> from tf_layernorm.experiments.sentence_eval import SHORT, evaluate
    >>> task = Classification("LONG", ["no"] * 30 + ["yes yes"] * 30, np.repeat([0, 1], 30), "")
    >>> lengths = lambda sentences: np.array([[len(sentence)] for sentence in sentences])
    >>> evaluate(lengths, task, SHORT, processes=1)
    {'long': 1.0}
    """
    name = task.name.lower()
    if isinstance(task, Classification):
        vectors = _encode(encode, task.sentences)
        result = cross_validate(
            vectors, task.labels, protocol, processes=processes, verbose=verbose
        )
        return {name: result.accuracy}
    parts = [
        (pair_features(_encode(encode, part.first), _encode(encode, part.second)), part.scores)
        for part in (task.train, task.validation, task.test)
    ]
    figures = relatedness(*parts, block=protocol.block, verbose=verbose)
    return {f"{name}_{key}": value for key, value in figures.items()}


def cross_validate(
    vectors: np.ndarray,
    labels: np.ndarray,
    protocol: Protocol = Protocol(),
    *,
    processes: int | None = None,
    verbose: Any = 0,
) -> CrossValidation:
    """Nested cross-validation of logistic regression on frozen vectors.

    The rows are shuffled once and cut into consecutive folds. For each, the cost with the best mean
    accuracy in an inner cross-validation of all *other* rows is taken, the smallest among equals,
    and with it one regression is fitted to them. Two classes: liblinear, which penalises the
    intercept too, as scikit-learn's default was in 2015; more: lbfgs.

    Args:
        vectors: `(N, size)`.
        labels: int `(N,)`.
        protocol: Folds and costs.
        processes: Folds at a time. Defaults to the number of cores.
        verbose: 1 for a progress bar.
    """
    from joblib import Parallel, delayed
    from sklearn.base import clone
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, KFold

    order = np.arange(len(labels))
    np.random.RandomState(_SEED).shuffle(order)
    vectors, labels = np.asarray(vectors, "float64")[order], np.asarray(labels)[order]
    solver = "liblinear" if len(np.unique(labels)) == 2 else "lbfgs"
    search = GridSearchCV(
        LogisticRegression(solver=solver, max_iter=1000),
        {"C": sorted(protocol.costs)},  # the first of equals is taken
        cv=KFold(protocol.inner_folds),
    )
    folds = list(KFold(protocol.folds).split(vectors))
    # scikit-learn's own method goes to the processes, so that they needn't import TensorFlow.
    fits = Parallel(n_jobs=-1 if processes is None else processes, return_as="generator")(
        delayed(clone(search).fit)(vectors[rest], labels[rest]) for rest, _ in folds
    )
    bar = keras.utils.Progbar(len(folds), verbose=verbose, unit_name="fold")
    accuracies, costs = [], []
    for fitted, (_, test) in zip(fits, folds):
        accuracies.append(fitted.score(vectors[test], labels[test]))
        costs.append(fitted.best_params_["C"])
        bar.add(1, [("accuracy", accuracies[-1])])
    return CrossValidation(np.array(accuracies), costs)


def relatedness(
    train: tuple[np.ndarray, np.ndarray],
    validation: tuple[np.ndarray, np.ndarray],
    test: tuple[np.ndarray, np.ndarray],
    *,
    block: int = 100,
    verbose: Any = 0,
) -> dict[str, float]:
    """SICK's softmax regression from features of pairs to grades from 1 to 5.

    The grade y is a distribution over its two whole neighbours, and the prediction the expectation
    of the softmax. Adam, in batches of 128 in one fixed order, until a block of epochs brings no
    gain in Pearson's r on the validation pairs; the best block's weights are tested, once.

    Args:
        train: Features `(N, size)` and scores `(N,)`.
        validation: As `train`.
        test: As `train`.
        block: Epochs a block.
        verbose: 1 to print each block's r.

    Returns:
        `pearson`, `spearman` and `mse` on the test pairs.
    """
    from scipy.stats import spearmanr

    features, scores = train
    order = np.arange(len(scores))
    np.random.RandomState(_SEED).shuffle(order)
    features, targets = np.asarray(features, "float32")[order], grade_targets(scores[order])
    initializer = keras.initializers.GlorotUniform(_SEED)
    model = keras.Sequential([keras.layers.Dense(5, "softmax", kernel_initializer=initializer)])
    model.compile(
        keras.optimizers.Adam(1e-3),
        "categorical_crossentropy",
        steps_per_execution=32,
        jit_compile=False,
    )
    # A block is one epoch of Keras', whose own bookkeeping would take most of the time.
    batches = tf.data.Dataset.from_tensor_slices((features, targets)).batch(128).cache()

    def predict(x: np.ndarray) -> np.ndarray:
        return model.predict(np.asarray(x, "float32"), batch_size=512, verbose=0) @ _GRADES

    def train_block() -> None:
        model.fit(batches.repeat(block), shuffle=False, verbose=0)

    def score() -> float:
        r = pearson(predict(validation[0]), validation[1])
        if verbose:
            print(f"  {block} epochs more: r = {r:.4f} on the validation pairs", flush=True)
        return r

    model.set_weights(best_block(train_block, score, model.get_weights))
    predicted = predict(test[0])
    return {
        "pearson": pearson(predicted, test[1]),
        "spearman": float(spearmanr(predicted, test[1]).statistic) if np.ptp(predicted) else 0.0,
        "mse": float(np.mean((predicted - test[1]) ** 2)),
    }


def best_block(train: Callable[[], None], score: Callable[[], float], keep: Callable[[], T]) -> T:
    """Trains in blocks until one brings no gain; returns what was kept after the best."""
    best, kept = -np.inf, keep()
    while True:
        train()
        if not (now := score()) > best:
            return kept
        best, kept = now, keep()


def pair_features(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """`[|u - v|, u * v]`, which is the same for (v, u)."""
    return np.concatenate([np.abs(u - v), u * v], axis=-1)


def grade_targets(scores: np.ndarray) -> np.ndarray:
    """Distributions over the grades 1 to 5 whose expectation is the score, `(N, 5)`.

    >>> from tf_layernorm.experiments.sentence_eval import grade_targets
    >>> grade_targets([4.25, 5]).tolist()
    [[0.0, 0.0, 0.0, 0.75, 0.25], [0.0, 0.0, 0.0, 0.0, 1.0]]
    """
    return np.maximum(0, 1 - np.abs(np.asarray(scores)[:, None] - _GRADES))


def pearson(predicted: np.ndarray, scores: np.ndarray) -> float:
    """Pearson's r; 0 where all predictions are the same."""
    from scipy.stats import pearsonr

    return float(pearsonr(predicted, scores).statistic) if np.ptp(predicted) else 0.0


def mean_of_vectors(
    vectors: Mapping[str, np.ndarray], tokenize: Callable[[str], list[str]] = str.split
) -> Encoder:
    """The encoder without an encoder: the mean of the vectors of a sentence's known words.

    Args:
        vectors: The vector of each word.
        tokenize: Cuts a sentence into words.

    Returns:
        The encoder; a sentence without a known word becomes zeros.
    """
    if not vectors:
        raise ValueError(f"`vectors` must hold some words. Received: vectors={vectors}")
    zeros = np.zeros_like(next(iter(vectors.values())))

    def encode(sentences: Sequence[str]) -> np.ndarray:
        known = ([vectors[w] for w in tokenize(s) if w in vectors] for s in sentences)
        return np.stack([np.mean(words, axis=0) if words else zeros for words in known])

    return encode


def _encode(encode: Encoder, sentences: Sequence[str]) -> np.ndarray:
    vectors = np.asarray(encode(sentences))
    if vectors.ndim != 2 or len(vectors) != len(sentences) or not np.isfinite(vectors).all():
        raise ValueError(
            f"The encoder must return {len(sentences)} finite vectors for as many sentences. "
            f"Received: shape={vectors.shape}"
        )
    return vectors

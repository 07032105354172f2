"""The evaluation protocol of sentence vectors: nested cross-validation and SICK's regression."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from tf_layernorm.data.sentence_tasks import Classification, Pairs, Relatedness
from tf_layernorm.experiments import sentence_eval
from tf_layernorm.experiments.sentence_eval import (
    SHORT,
    Protocol,
    best_block,
    cross_validate,
    evaluate,
    grade_targets,
    mean_of_vectors,
    pair_features,
    relatedness,
)

QUICK = Protocol(folds=4, inner_folds=3, costs=(1, 16))


def test_grades_of_scores():
    scores = [1, 2.25, 4.5, 5]
    rows = [[1, 0, 0, 0, 0], [0, 0.75, 0.25, 0, 0], [0, 0, 0, 0.5, 0.5], [0, 0, 0, 0, 1]]
    np.testing.assert_allclose(grade_targets(scores), rows, atol=1e-12)
    many = np.random.default_rng(0).uniform(1, 5, 100)
    np.testing.assert_allclose(grade_targets(many) @ [1, 2, 3, 4, 5], many)
    np.testing.assert_allclose(grade_targets(many).sum(1), 1)


def test_features_of_a_pair_are_symmetric():
    u, v = np.random.default_rng(0).normal(size=(2, 7, 3))
    np.testing.assert_array_equal(pair_features(u, v), pair_features(v, u))
    np.testing.assert_allclose(pair_features(u, v)[:, :3] ** 2, (u - v) ** 2)
    np.testing.assert_allclose(pair_features(u, v)[:, 3:], u * v)


@pytest.mark.parametrize(
    "scores, best",
    [([0.1, 0.3, 0.2, 0.9], 1), ([0.1, 0.1, 0.9], 0), ([0.1, 0.2, 0.3, float("nan")], 2)],
)
def test_blocks_stop_at_the_first_without_a_gain(scores, best):
    done = []
    kept = best_block(lambda: done.append(1), lambda: scores[len(done) - 1], lambda: len(done) - 1)
    assert kept == best and len(done) == best + 2


def test_relatedness_learns_from_the_training_pairs_alone():
    rng = np.random.default_rng(0)

    def pairs(count, sign=1.0):
        scores = rng.uniform(1, 5, count)
        return sign * np.stack([scores - 3, rng.normal(size=count)], 1), scores

    train, validation, test = pairs(600), pairs(60), pairs(200)
    figures = relatedness(train, validation, test, block=20)
    assert figures["pearson"] > 0.95 and figures["spearman"] > 0.95 and figures["mse"] < 0.5
    # The training pairs alone decide what is learned: turned round, the test is predicted wrong.
    opposite = relatedness((-train[0], train[1]), validation, test, block=20)
    assert opposite["pearson"] < -0.8 and opposite["mse"] > 2


def test_relatedness_of_vectors_that_say_nothing():
    zeros = (np.zeros((20, 2)), np.linspace(1, 5, 20))
    figures = relatedness(zeros, zeros, zeros, block=1)
    assert figures["pearson"] == figures["spearman"] == 0 and figures["mse"] > 1


def test_random_labels_are_at_chance():
    rng = np.random.default_rng(0)
    vectors, labels = rng.normal(size=(200, 50)), rng.integers(0, 2, 200)
    assert 0.4 < cross_validate(vectors, labels, QUICK, processes=1).accuracy < 0.6


def test_a_feature_that_is_the_label_is_found():
    rng = np.random.default_rng(0)
    vectors, labels = rng.normal(size=(120, 5)), np.repeat([1, 0], 60)
    vectors[:, 3] = 20 * labels - 10
    result = cross_validate(vectors, labels, QUICK, processes=1)
    assert result.accuracies.tolist() == [1] * 4
    assert result.costs == [1] * 4  # the smallest of equals


def test_three_classes():
    labels = np.repeat([0, 1, 2], 30)
    vectors = np.eye(3)[labels] + np.random.default_rng(0).normal(size=(90, 3)) / 10
    assert cross_validate(vectors, labels, QUICK, processes=1).accuracy == 1


def test_against_the_protocol_written_out():
    """As the published code: consecutive folds of one shuffle, costs in rising order, argmax."""
    rng = np.random.default_rng(1)
    vectors, labels = rng.normal(size=(90, 6)), rng.integers(0, 2, 90)
    vectors[:, 0] += labels
    order = np.arange(90)
    np.random.RandomState(1234).shuffle(order)
    x, y = vectors[order], labels[order]

    def accuracy(train, test, cost):
        fitted = LogisticRegression(C=cost, solver="liblinear").fit(x[train], y[train])
        return np.mean(fitted.predict(x[test]) == y[test])

    accuracies, costs = [], []
    for test in np.split(np.arange(90), 3):
        rest = np.setdiff1d(np.arange(90), test)
        inner = [(np.setdiff1d(rest, part), part) for part in np.split(rest, 4)]
        scores = [np.mean([accuracy(*fold, cost) for fold in inner]) for cost in (0.01, 1, 16)]
        costs.append((0.01, 1, 16)[int(np.argmax(scores))])
        accuracies.append(accuracy(rest, test, costs[-1]))
    protocol = Protocol(folds=3, inner_folds=4, costs=(16, 0.01, 1))
    result = cross_validate(vectors, labels, protocol, processes=1)
    np.testing.assert_allclose(result.accuracies, accuracies)
    assert result.costs == costs and len(set(costs)) > 1


def test_no_fit_sees_the_rows_it_is_tested_on(monkeypatch):
    """A spy in the regression's place: of 40 rows, 10 are in no fit before they are predicted."""
    seen, predicted = [], []

    class Spy(LogisticRegression):
        def fit(self, x, y):
            seen.append(set(x[:, 0]))
            return super().fit(x, y)

        def predict(self, x):
            predicted.append((set(x[:, 0]), seen[-1]))
            return super().predict(x)

    monkeypatch.setattr("sklearn.linear_model.LogisticRegression", Spy)
    vectors = np.arange(40.0)[:, None]
    cross_validate(vectors, np.tile([0, 1], 20), QUICK, processes=1)
    assert all(not rows & fitted for rows, fitted in predicted)
    # Four outer folds of two costs times three inner fits and one of all; the first 10 rows of the
    # shuffled order are the first test.
    assert len(seen) == 4 * (2 * 3 + 1)
    order = np.arange(40)
    np.random.RandomState(1234).shuffle(order)
    first_test = set(order[:10].astype(float))
    assert all(not first_test & rows for rows in seen[:7])
    assert set.union(*seen[:7]) == set(np.arange(40.0)) - first_test


def test_processes_change_nothing():
    rng = np.random.default_rng(2)
    vectors, labels = rng.normal(size=(100, 8)), rng.integers(0, 2, 100)
    vectors[:, 0] += labels
    one, again, two = (cross_validate(vectors, labels, QUICK, processes=n) for n in (1, 1, 2))
    assert one.accuracies.tolist() == again.accuracies.tolist() == two.accuracies.tolist()
    assert one.costs == two.costs


def test_a_whole_evaluation_of_a_mean_of_vectors():
    vectors = {"red": np.array([1.0, 0]), "blue": np.array([0, 1.0])}
    encode = mean_of_vectors(vectors)
    np.testing.assert_array_equal(encode(["red blue", "blue", "green", ""])[:, 1], [0.5, 1, 0, 0])
    task = Classification("MR", ["red red"] * 40 + ["blue"] * 40, np.repeat([1, 0], 40), "")
    assert evaluate(encode, task, SHORT, processes=1) == {"mr": 1.0}
    pairs = Pairs(["red", "red"] * 30, ["red", "blue"] * 30, np.array([5.0, 1.0] * 30))
    sick = Relatedness("SICK", pairs, pairs, pairs, "")
    figures = evaluate(encode, sick, Protocol(block=50))
    assert set(figures) == {"sick_pearson", "sick_spearman", "sick_mse"}
    assert figures["sick_pearson"] > 0.999


@pytest.mark.parametrize("wrong", [np.zeros(2), np.zeros((3, 2)), np.full((2, 2), np.nan)], ids=str)
def test_encoders_that_give_no_vectors(wrong):
    task = Classification("MR", ["a", "b"], np.array([1, 0]), "")
    with pytest.raises(ValueError, match="2 finite vectors .* Received: shape="):
        evaluate(lambda sentences: wrong, task)


def test_no_words():
    with pytest.raises(ValueError, match="Received: vectors={}"):
        sentence_eval.mean_of_vectors({})

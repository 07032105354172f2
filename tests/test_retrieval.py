"""Ranks and recalls, against ranks found by hand and by sorting in every order."""

import doctest
import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_layernorm.experiments import retrieval
from tf_layernorm.experiments.retrieval import caption_ranks, figures, fold_figures, image_ranks

# Two captions of each of three images: rows are captions, columns images.
BY_HAND = np.array(
    [
        [0.1, 0.2, 0.3],  # of image 0, which it ranks 1
        [0.9, 0.4, 0.5],  # of image 0: rank 3
        [0.6, 0.7, 0.8],  # of image 1: rank 2
        [0.5, 0.3, 0.1],  # of image 1: rank 2
        [0.2, 0.1, 0.9],  # of image 2: rank 3
        [0.8, 0.9, 0.7],  # of image 2: rank 1
    ]
)


def test_ranks_by_hand():
    assert image_ranks(BY_HAND, 2).expected.tolist() == [1, 3, 2, 2, 3, 1]
    # Image 0: 0.1 is first. Image 1: 0.3 comes behind 0.1 and 0.2. Image 2: 0.7 behind three.
    assert caption_ranks(BY_HAND, 2).expected.tolist() == [1, 3, 4]


def test_figures_by_hand():
    found = figures(BY_HAND, 2)
    assert found["image_retrieval_r1"] == pytest.approx(2 / 6)
    assert found["image_retrieval_r5"] == 1
    assert found["image_retrieval_mean_rank"] == 2
    assert found["caption_retrieval_r1"] == pytest.approx(1 / 3)
    assert found["caption_retrieval_mean_rank"] == pytest.approx(8 / 3)
    assert found["caption_retrieval_median_rank"] == 3
    assert found["image_retrieval_recall"] == pytest.approx((2 / 6 + 1 + 1) / 3)


def test_directions_differ():
    distances = np.random.default_rng(0).random((4, 4))
    ours, transposed = figures(distances, 1), figures(distances.T, 1)
    assert ours["caption_retrieval_mean_rank"] == transposed["image_retrieval_mean_rank"]
    assert ours["caption_retrieval_mean_rank"] != ours["image_retrieval_mean_rank"]


def test_a_collapsed_model_scores_chance():
    found = figures(np.zeros((14, 7)), 2)
    assert found["image_retrieval_r1"] == pytest.approx(1 / 7)
    assert found["image_retrieval_r5"] == pytest.approx(5 / 7)
    assert found["image_retrieval_r10"] == 1
    assert found["image_retrieval_mean_rank"] == 4
    assert found["caption_retrieval_r1"] == pytest.approx(2 / 14)
    assert found["caption_retrieval_r5"] == pytest.approx(1 - math.comb(12, 5) / math.comb(14, 5))
    assert found["caption_retrieval_mean_rank"] == 5  # 12 strangers, evenly around 2 own


def in_every_order(distances, per_image):
    """Means over all orders of equal distances: places by sorting, ranks from 0."""
    count = distances.shape[1]
    queries = [("image", row, [i // per_image]) for i, row in enumerate(distances)]
    own = [list(range(i * per_image, (i + 1) * per_image)) for i in range(count)]
    queries += [("caption", distances[:, i], own[i]) for i in range(count)]
    ranks = {"image": [], "caption": []}
    for name, row, mine in queries:
        places = []
        for order in permutations(range(len(row))):
            ranked = sorted(order, key=lambda j: row[j])  # stable: equal ones stay in `order`
            places.append(min(ranked.index(j) for j in mine))
        ranks[name].append(places)
    return {name: np.array(places) for name, places in ranks.items()}


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 2), min_size=18, max_size=18))
def test_ties_are_expectations_over_their_orders(numbers):
    distances = np.array(numbers, float).reshape(6, 3)
    found, places = figures(distances, 2), in_every_order(distances, 2)
    for name in ("image", "caption"):
        for k in (1, 5):
            assert found[f"{name}_retrieval_r{k}"] == pytest.approx((places[name] < k).mean())
        assert found[f"{name}_retrieval_mean_rank"] == pytest.approx(places[name].mean() + 1)


def product(captions, images):
    return -captions @ images.T


def test_folds_are_consecutive_and_averaged():
    rng = np.random.default_rng(1)
    captions, images = rng.normal(size=(12, 4)), rng.normal(size=(6, 4))
    found = fold_figures(captions, images, product, fold=3)
    parts = [
        figures(product(captions[:6], images[:3]), 2),
        figures(product(captions[6:], images[3:]), 2),
    ]
    for key in found:
        assert found[key] == pytest.approx((parts[0][key] + parts[1][key]) / 2)
    pooled = figures(product(captions, images), 2)
    assert pooled["image_retrieval_mean_rank"] > found["image_retrieval_mean_rank"]


@pytest.mark.parametrize(
    "distances,per_image",
    [(np.zeros((6, 3)), 3), (np.zeros(6), 2), (np.full((6, 3), np.nan), 2)],
    ids=["shape", "rank", "nan"],
)
def test_ranks_refuse(distances, per_image):
    for rank in (caption_ranks, image_ranks):
        with pytest.raises(ValueError, match="Received: "):
            rank(distances, per_image)


@pytest.mark.parametrize("captions,fold", [(12, 4), (11, 3), (12, 0)])
def test_folds_refuse(captions, fold):
    with pytest.raises(ValueError, match=f"Received: 6 images, {captions} captions"):
        fold_figures(np.zeros((captions, 2)), np.zeros((6, 2)), product, fold)


def test_examples_in_docstrings_run():
    assert doctest.testmod(retrieval).failed == 0

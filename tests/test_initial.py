"""The authors' initial weights and their Adam."""

import doctest

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_layernorm import LNGRU
from tf_layernorm.experiments import initial
from tf_layernorm.experiments.initial import PerGate, UncorrectedAdam


def blocks_of(initializer, shape=(6, 18), blocks=3):
    return np.split(np.array(initializer(shape)), blocks, axis=-1)


def gram_error(block):
    return np.abs(block.T @ block - np.eye(block.shape[1])).max()


def test_each_gate_is_orthogonal_and_differs_from_the_others():
    blocks = blocks_of(PerGate("orthogonal", 3))
    assert max(map(gram_error, blocks)) < 1e-5
    assert min(np.abs(blocks[0] - blocks[1]).max(), np.abs(blocks[1] - blocks[2]).max()) > 0.1
    # What Keras' initializer does with the whole kernel.
    assert min(map(gram_error, blocks_of(keras.initializers.Orthogonal()))) > 0.3


def test_tied_gates_are_one_draw():
    blocks = blocks_of(PerGate("orthogonal", 3, tied=True))
    assert gram_error(blocks[0]) < 1e-5
    np.testing.assert_array_equal(blocks[0], blocks[1])
    np.testing.assert_array_equal(blocks[0], blocks[2])


def test_a_seed_repeats_the_draw_with_different_gates():
    def draw():
        return blocks_of(PerGate(keras.initializers.RandomUniform(-0.1, 0.1, seed=3), 3))

    first = draw()
    np.testing.assert_array_equal(first, draw())
    assert np.abs(first[0] - first[1]).max() > 0.01 and np.abs(first).max() <= 0.1


def test_without_a_seed_the_global_one_counts():
    draws = []
    for seed in (1, 1, 2):
        keras.utils.set_random_seed(seed)
        draws.append(np.array(PerGate("orthogonal", 3)((6, 18))))
    np.testing.assert_array_equal(draws[0], draws[1])
    assert np.abs(draws[0] - draws[2]).max() > 0.1


def test_initializer_in_a_layer_and_its_config(tmp_path):
    layer = LNGRU(4, recurrent_initializer=PerGate("orthogonal", 3))
    model = keras.Sequential([keras.Input((3, 2)), layer])
    assert max(map(gram_error, np.split(layer.cell.recurrent_kernel.numpy(), 3, 1))) < 1e-5
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras").layers[-1].cell
    assert loaded.recurrent_initializer.get_config() == PerGate("orthogonal", 3).get_config()
    again = PerGate.from_config(PerGate("orthogonal", 4, tied=True).get_config())
    assert (again.blocks, again.tied) == (4, True) and gram_error(blocks_of(again, (4, 16), 4)[0])


@pytest.mark.parametrize("blocks", [0, True, 1.5], ids=str)
def test_initializer_refuses_blocks(blocks):
    with pytest.raises(ValueError, match="Received: blocks="):
        PerGate("orthogonal", blocks)


def test_initializer_refuses_a_shape():
    with pytest.raises(ValueError, match=r"Received: shape=\(4, 10\)"):
        PerGate("zeros", 3)((4, 10))


def test_factors_on_the_rate():
    schedule = UncorrectedAdam(1.0)
    factors = [float(schedule(tf.constant(t - 1, tf.int64))) for t in (1, 12, 100, 1000, 3000)]
    np.testing.assert_allclose(factors, [3.512, 6.569, 3.241, 1.258, 1.026], atol=6e-4)


def published(gradients, x, rate=0.01, b1=0.1, b2=0.001, epsilon=1e-8):
    """`optim.py` of the authors' code, in float64: `b1` and `b2` are one minus the decays."""
    m, v, path = np.zeros_like(x), np.zeros_like(x), []
    for t, gradient in enumerate(gradients, start=1):
        m = b1 * gradient + (1 - b1) * m
        v = b2 * gradient**2 + (1 - b2) * v
        step = rate * np.sqrt(1 - b2**t) / (1 - b1**t)
        x = x - step * m / (np.sqrt(v) + epsilon)
        path.append(x)
    return np.array(path)


def updates(adam, x, gradients):
    path = []
    for gradient in gradients:
        adam.apply_gradients([(tf.constant(gradient, tf.float32), x)])
        path.append(x.numpy())
    return np.array(path)


def test_adam_is_the_published_one():
    gradients = np.random.default_rng(0).normal(size=(50, 7))
    x = keras.Variable(np.zeros(7))
    path = updates(keras.optimizers.Adam(UncorrectedAdam(0.01), 0.9, 0.999, 1e-8), x, gradients)
    np.testing.assert_allclose(path, published(gradients, np.zeros(7)), rtol=1e-5, atol=1e-6)
    corrected = updates(keras.optimizers.Adam(0.01, 0.9, 0.999, 1e-8), keras.Variable(np.zeros(7)),
                        gradients)  # fmt: skip
    assert np.abs(path - corrected).max() > 0.1


def test_adam_goes_on_from_a_saved_model(tmp_path):
    def model_and_data():
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
        adam = keras.optimizers.Adam(UncorrectedAdam(0.01), 0.9, 0.999, 1e-8)
        model.compile(adam, "mse")
        x = np.random.default_rng(2).normal(size=(40, 4, 3)).astype("float32")
        return model, [(batch, batch[:, :2]) for batch in x]

    straight, data = model_and_data()
    for batch in data:
        straight.train_on_batch(*batch)
    broken, _ = model_and_data()
    for batch in data[:20]:
        broken.train_on_batch(*batch)
    broken.save(tmp_path / "model.keras")
    resumed = keras.models.load_model(tmp_path / "model.keras")
    for batch in data[20:]:
        resumed.train_on_batch(*batch)
    for ours, theirs in zip(resumed.get_weights(), straight.get_weights()):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("options", [{"learning_rate": 0}, {"beta_1": 1.0}, {"beta_2": 0}], ids=str)
def test_schedule_refuses(options):
    with pytest.raises(ValueError, match="Received: "):
        UncorrectedAdam(**{"learning_rate": 1e-3, **options})


@pytest.mark.parametrize(
    "options,norms",
    [
        ({"clipnorm": 2}, (2, 2)),
        ({"global_clipnorm": 5}, (3, 4)),
        ({"global_clipnorm": 2.5}, (1.5, 2)),
    ],
    ids=str,
)
def test_clipping_is_per_variable_or_global(options, norms):
    variables = [keras.Variable(np.zeros(4)), keras.Variable(np.zeros((2, 2)))]
    sgd = keras.optimizers.SGD(1.0, **options)
    gradients = [tf.constant([0.0, 3.0, 0.0, 0.0]), tf.constant([[0.0, 0.0], [4.0, 0.0]])]
    sgd.apply_gradients(zip(gradients, variables))
    np.testing.assert_allclose([np.linalg.norm(v.numpy()) for v in variables], norms, rtol=1e-6)


def test_examples_in_docstrings_run():
    assert doctest.testmod(initial).failed == 0

"""The window cell against a float64 loop written from Graves' equations (46)-(51)."""

import keras
import numpy as np
import pytest
import reference
import tensorflow as tf
from kinds import built, normal

from tf_layernorm import LNLSTMCell
from tf_layernorm.attention import WindowCell, window_weights

B, T, C, N, A, U, K = 2, 4, 5, 3, 6, 4, 2


def window_loop(kind, x, characters, weights):
    """Outputs, and the states after the last step but for the characters."""
    kernel, bias, *own = weights
    units = kernel.shape[0]
    cell = kind.reference()
    states = [np.zeros((len(x), units)) for _ in range(cell.n_states)]
    shown, kappa, outputs = np.zeros((len(x), characters.shape[-1])), 0.0, []
    u = np.arange(1, characters.shape[1] + 1)
    for t in range(x.shape[1]):
        h, states = cell.step(np.concatenate([x[:, t], shown], -1), states, own)
        log_alpha, log_beta, step = np.split(h @ kernel + bias, 3, -1)
        kappa = kappa + np.exp(step)
        distance = kappa[..., None] - u
        phi = np.exp(log_alpha)[..., None] * np.exp(-np.exp(log_beta)[..., None] * distance**2)
        phi = phi.sum(1)
        shown = np.stack([phi[b] @ characters[b] for b in range(len(x))])
        outputs.append(np.concatenate([h, shown], -1))
    return np.stack(outputs, 1), [*states, np.concatenate([log_alpha, log_beta, kappa], -1), shown]


def window_rnn(kind):
    cell = WindowCell(kind.cell(U, dtype="float64"), A, K)
    layer = keras.layers.RNN(cell, return_sequences=True, return_state=True, dtype="float64")
    return built(layer, None, None, N)


def data():
    characters = normal(B, C, A, seed=5)
    characters[1, 3:] = 0  # a shorter text
    return normal(B, T, N, seed=4), characters


def test_window_is_the_reference(kind):
    layer, (x, characters) = window_rnn(kind), data()
    expected, states = window_loop(kind, x, characters, layer.get_weights())
    outputs, *found = layer(x, initial_state=layer.cell.initial_state(characters))
    np.testing.assert_allclose(outputs, expected, rtol=0, atol=1e-9)
    assert len(found) == len(states) + 1
    for state, value in zip(found, states):
        np.testing.assert_allclose(state, value, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(found[-1], characters)


def test_window_gradients_are_those_of_the_reference(kind):
    layer, (x, characters) = window_rnn(kind), data()
    weigh = normal(B, T, U + A, seed=6)
    variables = layer.trainable_variables
    watched = [tf.constant(x), tf.constant(characters)]
    with tf.GradientTape() as tape:
        tape.watch(watched)
        states = layer.cell.initial_state(watched[1])
        loss = tf.reduce_sum(layer(watched[0], initial_state=states)[0] * weigh)
    found = tape.gradient(loss, [*watched, *(v.value for v in variables)])

    def reference_loss(x, characters, *weights):
        return (window_loop(kind, x, characters, weights)[0] * weigh).sum()

    expected = reference.gradients(reference_loss, [x, characters, *layer.get_weights()])
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_window_wraps_cells_of_keras():
    for own in (keras.layers.SimpleRNNCell(U), keras.layers.LSTMCell(U)):
        cell = WindowCell(own, A)
        layer = keras.layers.RNN(cell, return_sequences=True)
        x, characters = (array.astype("float32") for array in data())
        outputs = layer(x, initial_state=cell.initial_state(characters))
        assert outputs.shape == (B, T, U + A)
        # The last U outputs of a step are what the next step is shown.
        again = layer(x[:, :2], initial_state=cell.initial_state(characters))
        np.testing.assert_allclose(again, outputs[:, :2], rtol=0, atol=1e-6)


def test_padding_of_the_text_changes_nothing():
    cell = WindowCell(LNLSTMCell(U), A, K)
    layer = built(keras.layers.RNN(cell, return_sequences=True), None, None, N)
    x, characters = (array.astype("float32") for array in data())
    longer = np.pad(characters, [[0, 0], [0, 7], [0, 0]])
    outputs = layer(x, initial_state=cell.initial_state(characters))
    np.testing.assert_allclose(layer(x, initial_state=cell.initial_state(longer)), outputs, 1e-5)


def test_masked_steps_do_not_move_the_window(kind):
    layer, (x, characters) = window_rnn(kind), data()
    x[:, 2:] = 99.0
    mask = np.array([[True, True, False, False]] * B)
    _, *found = layer(x, initial_state=layer.cell.initial_state(characters), mask=mask)
    _, states = window_loop(kind, x[:, :2], characters, layer.get_weights())
    for state, value in zip(found, states):
        np.testing.assert_allclose(state, value, rtol=0, atol=1e-9)


def test_untrained_window_stands_at_the_beginning_and_advances_slowly():
    cell = WindowCell(LNLSTMCell(64), A, 10, advance=0.1)
    layer = keras.layers.RNN(cell, return_state=True)
    x, characters = np.zeros((1, 20, N), "float32"), np.zeros((1, C, A), "float32")
    window = layer(x + 0.1, initial_state=cell.initial_state(characters))[-3]
    assert np.array(window)[0, 20:].mean() == pytest.approx(20 * 0.1, rel=0.5)
    phi = np.array(window_weights(window, np.arange(1, 41)))[0]
    assert phi[:4].sum() > 100 * phi[20:].sum()


def test_window_saves_in_a_functional_model(tmp_path):
    points, characters = keras.Input((None, N)), keras.Input((None, A))
    cell = WindowCell(LNLSTMCell(U), A, K, advance=0.2)
    layer = keras.layers.RNN(cell, return_sequences=True)
    outputs = layer(points, initial_state=cell.initial_state(characters))
    model = keras.Model([points, characters], outputs)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    x, text = (array.astype("float32") for array in data())
    np.testing.assert_array_equal(again([x, text]), model([x, text]))
    loaded = next(one for one in again.layers if isinstance(one, keras.layers.RNN)).cell
    assert (loaded.components, loaded.advance, loaded.cell.units) == (K, 0.2, U)


@pytest.mark.parametrize(
    "options", [{"features": 0}, {"components": 0}, {"advance": 0.0}, {"advance": -1.0}], ids=str
)
def test_wrong_arguments_are_refused(options):
    with pytest.raises(ValueError, match=f"Received: {next(iter(options))}="):
        WindowCell(LNLSTMCell(U), **{"features": A, **options})


def test_half_precision_and_a_missing_text_are_refused():
    with pytest.raises(ValueError, match="position.*Received: .*bfloat16"):
        WindowCell(LNLSTMCell(U, dtype="mixed_bfloat16"), A)
    layer = keras.layers.RNN(WindowCell(LNLSTMCell(U), A))
    with pytest.raises(ValueError, match="characters.*initial_state"):
        layer(np.zeros((1, 2, N), "float32"))

"""Dropout: one input and one recurrent mask for each sequence, shared by gates and time steps.

`echo` gives a cell weights with which its output shows the mask: an all-ones input (or state) is
seen as two values in each row, the greater one where the mask keeps.
"""

from concurrent.futures import ThreadPoolExecutor

import keras
import kinds
import numpy as np
import pytest
import reference
import tensorflow as tf
from kinds import DRIVERS, GRU, INPUTS, KINDS, LSTM, PAIRS, SIMPLE, WRAPPERS, built, f64, normal

import tf_layernorm
from tf_layernorm.recurrent import FusedRNN

UNITS, BATCH, TIME = 16, 6, 4
INPUT, RECURRENT = "dropout", "recurrent_dropout"


def echo(layer, rate=INPUT):
    """Identity for what `rate` masks, zero for the other product, no biases, gains of one."""
    shown = {INPUT: "kernel", RECURRENT: "recurrent_kernel"}[rate]
    for weight in layer.weights:
        if weight.name in ("kernel", "recurrent_kernel"):
            gates = weight.shape[1] // UNITS
            weight.assign((weight.name == shown) * np.tile(np.eye(UNITS), (1, gates)))
        elif "gamma" in weight.name:
            weight.assign(np.ones(weight.shape))
        elif "bias" in weight.name or "beta" in weight.name:
            weight.assign(np.zeros(weight.shape))
        if weight.name == "bias" and weight.shape == (3 * UNITS,):
            weight.assign(np.repeat([10.0, 0.0, 0.0], UNITS))  # the GRU takes its candidate
    return layer


def kept(outputs):
    """The mask that the outputs of an `echo` show, (B, T, U); each row holds only two values."""
    outputs = f64(outputs)
    low, high = outputs.min(-1, keepdims=True), outputs.max(-1, keepdims=True)
    nearest = np.minimum(abs(outputs - low), abs(outputs - high))
    assert (nearest < 0.01 * (high - low)).all(), "gates do not share one mask"
    return outputs > (low + high) / 2


def cell_of(kind, rate=INPUT, **options):
    return kind.cell(UNITS, "linear", **{rate: 0.5}, **options)


PLAYERS = ("rnn", *DRIVERS)


def make(player, kind, rate=INPUT, **options):
    """`keras.layers.RNN(cell)`, or the sequence layer with a `use_fused`, as an `echo`."""
    arguments = {"units": UNITS, "activation": "linear", rate: 0.5, **options}
    if player == "rnn":
        layer = keras.layers.RNN(kind.cell(**arguments), return_sequences=True)
    else:
        layer = kind.layer(**arguments, use_fused=player, return_sequences=True)
    layer.build((None, None, UNITS))
    return echo(layer, rate)


def run(layer, kind, batch=BATCH, time=TIME, training=True):
    states = [tf.ones((batch, UNITS)), *[tf.zeros((batch, UNITS))] * (kind.n_states - 1)]
    return layer(tf.ones((batch, time, UNITS)), initial_state=states, training=training)


@pytest.mark.parametrize(
    ("kind", "player", "mode", "rate"),
    [
        *[
            (kind, player, *how)
            for kind in KINDS
            for player in PLAYERS
            for how in (("eager", INPUT), ("graph", RECURRENT))
        ],
        (GRU, False, "jit", INPUT),
        (LSTM, True, "jit", RECURRENT),
    ],
    ids=str,
)
def test_masks_are_new_for_each_sequence_and_constant_over_time(kind, player, mode, rate):
    layer = make(player, kind, rate)
    call = WRAPPERS[mode](lambda: run(layer, kind))
    masks = [kept(call()) for _ in range(2)]
    for mask in masks:
        assert (mask == mask[:, :1]).all()
        assert len({row.tobytes() for row in mask[:, 0]}) == BATCH
        assert 0.25 < mask.mean() < 0.75
    assert (masks[0] != masks[1]).any(axis=(1, 2)).all()


@pytest.mark.parametrize("player", PLAYERS)
def test_nothing_is_dropped_at_inference(kind, player):
    layer = make(player, kind, INPUT, recurrent_dropout=0.5)
    built(layer, None, None, UNITS)
    plain = kind.layer(UNITS, "linear", use_fused=False, return_sequences=True)
    plain.build((None, None, UNITS))
    plain.set_weights(layer.get_weights())
    x = normal(BATCH, TIME, UNITS, dtype="float32")
    expected = plain(x)
    for training in ({}, {"training": False}, {"training": None}):
        np.testing.assert_allclose(layer(x, **training), expected, rtol=0, atol=1e-5)
    assert not np.allclose(layer(x, training=True), expected)


@pytest.mark.parametrize(
    ("which", "use_fused", "rate"),
    [(LSTM, False, 0.1), (LSTM, True, 0.75), (GRU, False, 0.75), (GRU, True, 0.1)],
    ids=str,
)
def test_dropout_keeps_the_expectation(which, use_fused, rate):
    # Without norms and with open gates of 1/2 the output is proportional to the masked input.
    layer = which.layer(UNITS, dropout=rate, normalize=(), use_fused=use_fused)
    layer.build((None, None, UNITS))
    block = {LSTM: 2, GRU: 2}[which]
    kernel = np.zeros(layer.cell.kernel.shape)
    kernel[:, block * UNITS : (block + 1) * UNITS] = 1e-3 * np.eye(UNITS)  # tanh(x) = x
    layer.set_weights([np.zeros(w.shape) for w in layer.weights])
    layer.cell.kernel.assign(kernel)
    x = tf.ones((2000, 1, UNITS))
    plain, dropped = np.array(layer(x)), np.array(layer(x, training=True))
    is_kept = dropped != 0
    np.testing.assert_allclose(dropped[is_kept], plain[is_kept] / (1 - rate), rtol=1e-5)
    assert is_kept.mean() == pytest.approx(1 - rate, abs=0.02)


def test_both_drivers_draw_the_same_masks_and_give_the_same_gradients(kind):
    scale, results = normal(BATCH, TIME, UNITS, dtype="float64"), []
    rates = dict(dropout=0.5, recurrent_dropout=0.5, seed=3, name="same", dtype="float64")
    for use_fused in DRIVERS:
        layer = kind.layer(UNITS, use_fused=use_fused, return_sequences=True, **rates)
        x = tf.constant(normal(BATCH, TIME, UNITS))
        built(layer, None, None, UNITS)
        with tf.GradientTape() as tape:
            tape.watch(x)
            outputs = layer(x, training=True)
            loss = tf.reduce_sum(outputs * scale)
        results.append([outputs, *tape.gradient(loss, [x, *layer.trainable_variables])])
    for loop, fused in zip(*results, strict=True):
        np.testing.assert_allclose(fused, loop, rtol=1e-7, atol=1e-9)
    is_kept = np.array(results[0][1]) != 0
    assert (is_kept == is_kept[:, :1]).all()
    assert 0.25 < is_kept.mean() < 0.75


@pytest.mark.parametrize("player", ["rnn", False])
def test_masks_act_on_the_two_products_and_on_nothing_else(kind, player):
    """A mask that all cases share does what scaled rows of the kernels do."""
    layer, _ = kinds.driven(player, kind, dropout=0.5, recurrent_dropout=0.5)
    cell, x = layer.cell, normal(BATCH, TIME, INPUTS)
    states = [normal(BATCH, kinds.UNITS, seed=2 + k) for k in range(kind.n_states)]
    for draw, like in ((cell.draw_dropout_mask, x[0]), (cell.draw_recurrent_mask, states[0])):
        assert set(np.unique(draw(tf.constant(like)))) == {0.0, 2.0}
    by_x, by_h = np.array([2.0, 0, 2, 0, 2]), np.array([0.0, 2, 2, 0])
    cell.draw_dropout_mask = lambda inputs: tf.zeros_like(inputs) + by_x
    cell.draw_recurrent_mask = lambda state: tf.zeros_like(state) + by_h
    kernel, recurrent_kernel, *others = layer.get_weights()
    weights = [by_x[:, None] * kernel, by_h[:, None] * recurrent_kernel, *others]
    expected = reference.sequence(kind.reference(), x, weights, states)
    outputs, *last = layer(x, initial_state=states, training=True)
    np.testing.assert_allclose(outputs, expected.outputs, rtol=0, atol=1e-9)
    for state, value in zip(last, expected.states, strict=True):
        np.testing.assert_allclose(state, value, rtol=0, atol=1e-9)


class WithoutMemoryLoss(LSTM.cell):
    """Recurrent dropout on the candidate only (Semeniuta et al., 2016): c is never dropped."""

    masks_recurrent_product = False

    def step(self, x, h, states, weights):
        i, f, g, o = (a + b for a, b in zip(x, h, strict=True))
        bi, bf, bg, bo = tf.split(weights["bias"], 4, axis=-1)
        g = tf.tanh(g + bg) * weights.get("recurrent_mask", 1.0)
        c = tf.sigmoid(f + bf) * states[1] + tf.sigmoid(i + bi) * g
        normalized = tf_layernorm.layer_norm(
            c, weights["state_gamma"][..., :], epsilon=self.epsilon
        )
        return [tf.sigmoid(o + bo) * tf.tanh(normalized + weights["state_beta"]), c]


def test_subclass_drops_the_candidate_alone():
    cells = [cls(UNITS, recurrent_dropout=0.5) for cls in (WithoutMemoryLoss, LSTM.cell)]
    layer, plain = (keras.layers.RNN(c, return_sequences=True, return_state=True) for c in cells)
    for each in (layer, plain):
        built(each, None, None, INPUTS)
    x = normal(BATCH, 1, INPUTS, dtype="float32")
    h, c = (normal(BATCH, UNITS, seed=k, dtype="float32") for k in (2, 3))
    *_, undropped = plain(x, initial_state=[h, c])
    *_, decayed = plain(x, initial_state=[h, np.zeros_like(c)])
    candidate = decayed  # i * g, as no c was there to decay
    *_, new = layer(x, initial_state=[h, c], training=True)
    mask = np.abs((new - (undropped - candidate)) / candidate)
    assert {0.0, 2.0} == set(np.unique(np.round(mask, 2)))
    np.testing.assert_allclose(layer(x)[0], plain(x)[0], rtol=0, atol=1e-6)
    # One mask a sequence, fused too.
    cells[0].draw_recurrent_mask = tf.zeros_like
    x = normal(BATCH, TIME, INPUTS, dtype="float32")
    *_, new = layer(x, initial_state=[h, c], training=True)
    assert (np.sign(new) == np.sign(c)).all() and (np.abs(new) < np.abs(c)).all()
    fused = FusedRNN(cells[0], return_sequences=True, return_state=True)
    np.testing.assert_allclose(
        fused(x, initial_state=[h, c], training=True)[-1], new, rtol=0, atol=1e-6
    )


@pytest.mark.parametrize(("kind", "player"), [(LSTM, "rnn"), (SIMPLE, True)], ids=str)
def test_a_seed_draws_the_same_again_and_again_and_in_every_thread(kind, player):
    """Dropout's masks are drawn before the loop, zoneout's by `keras.layers.RNN` inside it."""
    x = normal(2, TIME, UNITS, dtype="float32")

    def results(_):
        layer = make(player, kind, INPUT, recurrent_dropout=0.5, zoneout=0.5, seed=3)
        built(layer, None, None, UNITS)
        call, state = tf.function(lambda: layer(x, training=True)), layer.cell.seed_generator.state
        start, seen = tf.constant([5, 0], state.dtype), []
        for _ in range(250):
            state.assign(start)
            seen.append(call().numpy().tobytes())
        return seen

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(results, range(2))
    assert len(first) == 250 and len({*first, *second}) == 1


def drawn(kind, use_fused, name, seed=3):
    layer = make(use_fused, kind, seed=seed, name=name)
    return [kept(run(layer, kind)) for _ in range(2)]


@pytest.mark.parametrize(("kind", "use_fused"), PAIRS, ids=str)
def test_layers_of_one_seed_draw_different_masks_and_repeat_them(kind, use_fused):
    first = drawn(kind, use_fused, "first")
    keras.utils.set_random_seed(7)
    np.testing.assert_array_equal(drawn(kind, use_fused, "first"), first)
    assert (drawn(kind, use_fused, "second")[0] != first[0]).any(axis=(1, 2)).all()
    assert (drawn(kind, use_fused, "first", seed=4)[0] != first[0]).any(axis=(1, 2)).all()


@pytest.mark.parametrize(("kind", "use_fused"), PAIRS, ids=str)
def test_layers_without_a_seed_follow_the_global_one(kind, use_fused):
    masks = []
    for _ in range(2):
        keras.utils.set_random_seed(1)
        masks.append([drawn(kind, use_fused, name, seed=None) for name in ("first", "second")])
    np.testing.assert_array_equal(*masks)
    assert (masks[0][0][0] != masks[0][1][0]).any(axis=(1, 2)).all()


@pytest.mark.parametrize(("kind", "use_fused"), PAIRS, ids=str)
def test_halves_of_a_bidirectional_draw_different_masks(kind, use_fused):
    half = kind.layer(UNITS, dropout=0.5, seed=3, use_fused=use_fused, return_sequences=True)
    layer = keras.layers.Bidirectional(half)
    layer.build((None, None, UNITS))
    echo(layer.forward_layer), echo(layer.backward_layer)
    forward, backward = np.split(
        np.array(layer(tf.ones((BATCH, TIME, UNITS)), training=True)), 2, -1
    )
    assert (kept(forward) != kept(backward)).any(axis=(1, 2)).all()


def constant(cell):
    """A cell whose output is the same positive number in all units."""
    for weight in cell.weights:
        weight.assign(np.full(weight.shape, "bias" in weight.name or "beta" in weight.name))


@pytest.mark.parametrize(("mode", "dropping"), [("eager", 0), ("graph", 1)])
def test_stacked_cells_keep_their_masks_over_a_sequence(kind, mode, dropping):
    cells = [kind.cell(UNITS, "linear"), kind.cell(UNITS, "linear")]
    cells[dropping] = cell_of(kind)
    layer = keras.layers.RNN(cells, return_sequences=True)
    layer.build((None, None, UNITS))
    # The first cell shows its mask and the second hands it on; or the first is constant.
    echo(cells[1])
    if dropping == 0:
        echo(cells[0])
    else:
        constant(cells[0])
    call = WRAPPERS[mode](lambda x: layer(x, training=True))
    masks = [kept(call(tf.ones((BATCH, TIME, UNITS)))) for _ in range(2)]
    for mask in masks:
        assert (mask == mask[:, :1]).all()
    assert (masks[0] != masks[1]).any(axis=(1, 2)).all()


@keras.saving.register_keras_serializable(package="tests")
class Wrapper(keras.layers.Layer):
    """A cell around a cell, which `keras.layers.RNN` does not look into."""

    def __init__(self, cell, **kwargs):
        super().__init__(**kwargs)
        self.cell = cell
        self.state_size, self.output_size = cell.state_size, cell.output_size

    def build(self, shape):
        self.cell.build(shape)

    def call(self, inputs, states, training=False):
        return self.cell(inputs, states, training=training)


@pytest.mark.parametrize(
    ("kind", "mode"), [(SIMPLE, "eager"), (LSTM, "graph"), (GRU, "graph")], ids=str
)
def test_a_wrapped_cell_draws_anew_at_each_step(kind, mode):
    cell = cell_of(kind)
    layer = keras.layers.RNN(Wrapper(cell), return_sequences=True)
    layer.build((None, None, UNITS))
    echo(cell)
    x = tf.ones((BATCH, TIME, UNITS))
    call = WRAPPERS[mode](lambda x: layer(x, training=True))
    first, second = np.array(call(x)) > 0, np.array(call(x)) > 0
    assert (first != second).any(axis=(1, 2)).all()
    assert (first[:, 1:] != first[:, :-1]).any(axis=2).all()


def test_a_cell_by_hand_draws_anew_at_each_call(kind):
    cell = cell_of(kind)
    cell.build((None, UNITS))
    echo(cell)
    states = cell.get_initial_state(BATCH)
    masks = [kept(cell(tf.ones((BATCH, UNITS)), states, training=True)[0]) for _ in range(2)]
    assert (masks[0] != masks[1]).any(axis=1).all()


def test_no_tensor_of_a_graph_is_left_in_a_cell(kind):
    cell = built(cell_of(kind, recurrent_dropout=0.5), None, UNITS)

    def call(x):
        return cell(x, cell.get_initial_state(len(x)), training=True)[0]

    for mode, batch in (("graph", 3), ("eager", 2), ("jit", 3), ("eager", 3)):
        assert WRAPPERS[mode](call)(tf.ones((batch, UNITS))).shape == (batch, UNITS)


@pytest.mark.parametrize(
    ("kind", "player"), [(SIMPLE, "rnn"), (LSTM, False), (LSTM, True), (GRU, "rnn")], ids=str
)
def test_no_tensor_of_a_graph_is_left_in_a_layer(kind, player):
    layer = make(player, kind, INPUT, recurrent_dropout=0.5)
    cell = layer.cell

    def call(x):
        return layer(x, training=True)

    for function, batch in ((tf.function(call), BATCH), (call, BATCH), (call, 2)):
        assert function(tf.ones((batch, TIME, UNITS))).shape == (batch, TIME, UNITS)
        cell(tf.ones((batch + 1, UNITS)), cell.get_initial_state(batch + 1), training=True)


@pytest.mark.parametrize(("kind", "use_fused"), PAIRS, ids=str)
def test_masked_sequences_keep_their_dropout_mask(kind, use_fused):
    layer = make(use_fused, kind)
    valid = np.array([[1, 0, 1, 1], [1, 1, 0, 1]], bool)
    mask = kept(layer(tf.ones((2, TIME, UNITS)), mask=valid, training=True))
    assert (mask == mask[:, :1]).all()


@pytest.mark.parametrize(("kind", "use_fused"), [(LSTM, True), (GRU, False)], ids=str)
def test_a_seeded_run_of_training_repeats(kind, use_fused):
    x = normal(8, TIME, INPUTS, dtype="float32")

    def weights():
        keras.utils.set_random_seed(5)
        keras.backend.clear_session()
        layer = kind.layer(4, dropout=0.5, recurrent_dropout=0.5, seed=1, use_fused=use_fused)
        model = keras.Sequential([layer])
        model.compile("sgd", "mse", run_eagerly=True)
        model.fit(x, x[:, 0, :4], batch_size=4, epochs=1, verbose=0)
        return model.get_weights()

    for first, second in zip(weights(), weights(), strict=True):
        np.testing.assert_array_equal(first, second)

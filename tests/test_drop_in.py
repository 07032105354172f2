"""Where users of `keras.layers.LSTM` touch a layer: attributes, arguments, hints, and errors."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from kinds import GRU, INPUTS, KINDS, LSTM, UNITS, normal

from tf_layernorm import LNDense


def test_every_argument_is_readable_on_the_layer(kind):
    layer = kind.layer(UNITS, dropout=0.25, epsilon=1e-3, normalize=())
    assert (layer.units, layer.dropout, layer.epsilon, layer.normalize) == (UNITS, 0.25, 1e-3, ())
    for name in layer.cell.get_config().keys() - {"name", "dtype", "trainable"}:
        assert getattr(layer, name) is getattr(layer.cell, name)
    with pytest.raises(AttributeError, match=f"'{type(layer).__name__}'.*'nonsense'"):
        _ = layer.nonsense


def test_arguments_of_the_layer_go_to_the_layer(kind):
    with pytest.warns(UserWarning, match="input_shape"):
        model = keras.Sequential([kind.layer(UNITS, input_shape=(5, INPUTS))])
    assert model.built and model.output_shape == (None, UNITS)
    for wrong in ({"input_dim": 3}, {"autocast": True}):
        (name,) = wrong
        with pytest.raises(ValueError, match=f"`{kind.layer.__name__}` has no argument `{name}`"):
            kind.layer(UNITS, **wrong)


HINTS = [
    ({"retrun_sequences": True}, "return_sequences"),
    ({"norm": ()}, "normalize"),
    ({"norm_epsilon": 1e-3}, "epsilon"),
    ({"norm_gamma_initializer": "ones"}, "gamma_initializer"),
]


@pytest.mark.parametrize(("wrong", "meant"), HINTS, ids=[meant for _, meant in HINTS])
def test_near_misses_and_renamed_arguments_get_a_hint(kind, wrong, meant):
    name = kind.layer.__name__
    with pytest.raises(ValueError, match=f"`{name}` has no.*did you mean `{meant}`.*Received: "):
        kind.layer(UNITS, **wrong)


def test_what_the_layer_does_anyway_is_taken_and_else_refused():
    LSTM.layer(UNITS, use_cudnn="auto"), GRU.layer(UNITS, use_cudnn=False, reset_after=True)
    with pytest.raises(ValueError, match="`use_cudnn`.*cuDNN.*Received: use_cudnn=True"):
        LSTM.layer(UNITS, use_cudnn=True)
    with pytest.raises(ValueError, match="`reset_after`.*LNGRU.*Received: reset_after=False"):
        GRU.layer(UNITS, reset_after=False)


def test_states_in_a_list_with_the_sequences_are_refused_with_the_way_round(kind):
    states = [tf.zeros((2, UNITS))] * kind.n_states
    with pytest.raises(ValueError, match="initial_state="):
        kind.layer(UNITS)([tf.zeros((2, 3, INPUTS)), *states])


def test_numbers_may_be_numpys(kind):
    layer = kind.layer(UNITS, epsilon=np.float32(1e-3), dropout=np.float64(0.5))
    assert type(layer.epsilon) is float and type(layer.dropout) is float


@pytest.mark.parametrize("use_fused", ["auto", False])
def test_plain_simple_rnn_is_that_of_keras(use_fused):
    x = normal(2, 4, INPUTS, dtype="float32")
    ours = KINDS[0].layer(UNITS, normalize=(), use_fused=use_fused)
    plain = keras.layers.SimpleRNN(UNITS)
    plain.build(x.shape), ours.build(x.shape)
    ours.set_weights(plain.get_weights())
    np.testing.assert_allclose(ours(x), plain(x), rtol=0, atol=1e-6)


def test_plain_dense_is_that_of_keras():
    x = normal(2, INPUTS, dtype="float32")
    ours, plain = LNDense(UNITS, "relu", normalize=()), keras.layers.Dense(UNITS, "relu")
    plain.build(x.shape), ours.build(x.shape)
    ours.set_weights(plain.get_weights())
    np.testing.assert_allclose(ours(x), plain(x), rtol=0, atol=1e-6)


@pytest.mark.parametrize("shape", [(3, 1), (1, 5)], ids=["a mask of 1 step", "of 1 row"])
def test_masks_of_another_size_are_refused_at_run_time(kind, use_fused, shape):
    layer = kind.layer(UNITS, use_fused=use_fused)
    layer.build((None, None, INPUTS))
    signature = [tf.TensorSpec((None, None, INPUTS)), tf.TensorSpec((None, None), "bool")]
    call = tf.function(lambda x, mask: layer(x, mask=mask), input_signature=signature)
    x = tf.ones((3, 5, INPUTS))
    assert call(x, tf.ones((3, 5), bool)).shape == (3, UNITS)
    with pytest.raises(tf.errors.InvalidArgumentError, match="`mask`"):
        call(x, tf.ones(shape, bool))


def test_states_of_another_size_are_refused_at_run_time(kind, use_fused):
    layer = kind.layer(UNITS, use_fused=use_fused)
    layer.build((None, None, INPUTS))
    signature = [tf.TensorSpec((None, None, INPUTS)), tf.TensorSpec((None, UNITS))]
    call = tf.function(
        lambda x, h: layer(x, initial_state=[h] * kind.n_states), input_signature=signature
    )
    assert call(tf.ones((3, 5, INPUTS)), tf.ones((3, UNITS))).shape == (3, UNITS)
    with pytest.raises(tf.errors.InvalidArgumentError, match="`initial_state`"):
        call(tf.ones((1, 5, INPUTS)), tf.ones((4, UNITS)))


def test_a_stateful_layer_refuses_another_batch_before_it_stores_a_state(kind, use_fused):
    layer = kind.layer(UNITS, use_fused=use_fused, stateful=True)
    layer.build((2, None, INPUTS))
    call = tf.function(layer, input_signature=[tf.TensorSpec((None, None, INPUTS))])
    call(tf.ones((2, 3, INPUTS)))
    before = [state.numpy() for state in layer.states]
    with pytest.raises(tf.errors.InvalidArgumentError, match="(?s)`sequences`.*1.*2"):
        call(tf.ones((1, 3, INPUTS)))
    for state, value in zip(layer.states, before, strict=True):
        np.testing.assert_array_equal(state, value)
    model = keras.Sequential([keras.Input((3, INPUTS), batch_size=2), layer])
    for jit_compile in (False, True):
        model.compile(jit_compile=jit_compile)
        with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="(?s)1.*2|2.*1"):
            model.predict(np.ones((5, 3, INPUTS), "float32"), batch_size=2, verbose=0)


def test_exports_refuse_masks_of_another_size_too(tmp_path):
    layer = LSTM.layer(UNITS)
    layer.build((None, None, INPUTS))
    signature = [tf.TensorSpec((None, None, INPUTS)), tf.TensorSpec((None, None), "bool")]
    module = tf.Module()
    module.layer = layer
    module.call = tf.function(lambda x, mask: layer(x, mask=mask), input_signature=signature)
    tf.saved_model.save(module, str(tmp_path))
    loaded, x = tf.saved_model.load(str(tmp_path)), tf.ones((3, 5, INPUTS))
    np.testing.assert_allclose(loaded.call(x, tf.ones((3, 5), bool)), layer(x), rtol=0, atol=1e-6)
    with pytest.raises(tf.errors.InvalidArgumentError, match="`mask`"):
        loaded.call(x, tf.ones((3, 1), bool))

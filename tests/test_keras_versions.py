"""What other versions of Keras do differently doesn't reach through our layers."""

import keras
import numpy as np
import pytest
from kinds import UNITS, built, mask_of

IDS = np.array([[1, 2, 0, 0], [3, 0, 4, 0]])


@pytest.fixture
def rnn_without_masks(monkeypatch):
    """`keras.layers.RNN` as in Keras' development version 3.16: masks end there."""
    init = keras.layers.RNN.__init__

    def without_masks(self, *arguments, **options):
        init(self, *arguments, **options)
        self.supports_masking = False

    monkeypatch.setattr(keras.layers.RNN, "__init__", without_masks)
    monkeypatch.setattr(keras.layers.RNN, "compute_mask", lambda *_, **__: None)


def embedded():
    return keras.layers.Embedding(5, UNITS, mask_zero=True)(IDS)


def test_masks_pass_through_our_layers_where_keras_ends_them(kind, use_fused, rnn_without_masks):
    layer = built(kind.layer(UNITS, use_fused=use_fused, return_sequences=True), None, None, UNITS)
    np.testing.assert_array_equal(mask_of(layer(embedded())), IDS != 0)


@pytest.mark.filterwarnings("ignore:Layer 'rnn.*does not support mask")
def test_masks_end_where_keras_ends_them(kind, rnn_without_masks):
    """So the test above can fail: a cell of ours in Keras' own loop."""
    outputs = keras.layers.RNN(kind.cell(UNITS), return_sequences=True)(embedded())
    with pytest.raises(AssertionError, match="no mask"):
        mask_of(outputs)

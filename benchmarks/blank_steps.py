"""Gradient norms of recurrent layers with layer norm, by the number of blank steps in front.

    python benchmarks/blank_steps.py

Prints a row for each layer of each library that this environment has: tf_layernorm, TensorFlow
Addons, PyTorch. Each reads 32 sequences of 30 steps of 8 normal inputs, the first of them zeros,
from a zero state, and the loss is the mean square of its last output; 16 units, weights as the
library draws them (fastrnns' as Keras does: glorot, no bias).
"""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np

BLANK = (0, 1, 2, 5, 10, 20)
UNITS = 16


def inputs(blank: int) -> np.ndarray:
    x = np.random.default_rng(0).normal(size=(32, 30, 8)).astype("float32")
    x[:, :blank] = 0
    return x


def keras_norm(keras: Any, make: Any, x: np.ndarray) -> float:
    """The gradients' norm of a Keras layer, of Keras 3 or of TensorFlow 2.15's."""
    import tensorflow as tf

    keras.utils.set_random_seed(0)
    layer = make()
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(layer(x, training=True)))
    return float(tf.linalg.global_norm(tape.gradient(loss, layer.trainable_weights)))


def torch_norm(x: np.ndarray) -> float:
    """The same of the LN-LSTM of PyTorch's fastrnns, as tests/golden/make_fastrnns.py has it."""
    import make_fastrnns
    import torch

    torch.manual_seed(0)
    make_fastrnns.INPUTS, make_fastrnns.UNITS = x.shape[-1], UNITS
    cell = make_fastrnns.Cell(torch.nn.LayerNorm)
    for name, parameter in cell.named_parameters():
        if name.startswith("weight"):
            torch.nn.init.xavier_uniform_(parameter)
    states = [torch.zeros(len(x), UNITS)] * 2
    for x_t in torch.tensor(x).unbind(1):
        states = cell(x_t, *states)
    states[0].square().mean().backward()
    return float(torch.cat([p.grad.ravel() for p in cell.parameters()]).norm())


def main() -> None:
    rows: dict[str, list[float]] = {}
    if importlib.util.find_spec("tensorflow_addons"):
        import tensorflow as tf
        import tensorflow_addons as tfa

        for cell in (tfa.rnn.LayerNormLSTMCell, tfa.rnn.LayerNormSimpleRNNCell):
            make = lambda cell=cell: tf.keras.layers.RNN(cell(UNITS))  # noqa: E731
            rows[f"tfa {cell.__name__}"] = [keras_norm(tf.keras, make, inputs(n)) for n in BLANK]
    if importlib.util.find_spec("tf_layernorm") and importlib.util.find_spec("keras"):
        import keras

        if keras.__version__.startswith("3"):
            import tf_layernorm

            for layer in (tf_layernorm.LNLSTM, tf_layernorm.LNGRU, tf_layernorm.LNSimpleRNN):
                make = lambda layer=layer: layer(UNITS)  # noqa: E731
                rows[layer.__name__] = [keras_norm(keras, make, inputs(n)) for n in BLANK]
    if importlib.util.find_spec("torch"):
        sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "golden"))
        rows["fastrnns LayerNormLSTMCell"] = [torch_norm(inputs(n)) for n in BLANK]
    print("blank steps".ljust(30), *(f"{n:8}" for n in BLANK))
    for name, norms in rows.items():
        print(name.ljust(30), *(f"{norm:8.2g}" for norm in norms))


if __name__ == "__main__":
    main()

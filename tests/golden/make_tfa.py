"""Makes tfa.npz: what the cells of TensorFlow Addons compute, with random weights.

TensorFlow Addons needs an environment of its own:
    pip install "tensorflow-cpu==2.15.*" "tensorflow-addons==0.23.*" "numpy<2"
    python make_tfa.py
"""

import pathlib

import numpy as np
import tensorflow as tf
import tensorflow_addons as tfa

BATCH, TIME, INPUTS, UNITS = 2, 6, 3, 4
CELLS = {"lstm": tfa.rnn.LayerNormLSTMCell, "simple_rnn": tfa.rnn.LayerNormSimpleRNNCell}


def main() -> None:
    rng = np.random.default_rng(0)

    def draw(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype("float32")

    arrays = {"inputs": draw(BATCH, TIME, INPUTS)}
    for name, cell_class in CELLS.items():
        layer = tf.keras.layers.RNN(cell_class(UNITS), return_sequences=True, return_state=True)
        layer.build((None, None, INPUTS))
        weights = [draw(*weight.shape) for weight in layer.get_weights()]
        layer.set_weights(weights)
        initial = [draw(BATCH, UNITS) for _ in tf.nest.flatten(layer.cell.state_size)]
        outputs, *final = layer(arrays["inputs"], initial_state=[tf.constant(s) for s in initial])
        arrays[f"{name}_outputs"] = outputs.numpy()
        for kind, values in (("weight", weights), ("initial", initial), ("final", final)):
            arrays |= {f"{name}_{kind}_{k}": np.asarray(value) for k, value in enumerate(values)}
    np.savez_compressed(pathlib.Path(__file__).with_name("tfa.npz"), **arrays)


if __name__ == "__main__":
    main()

"""The fused recurrence as programs: how many there are, what is in them, and where they may run."""

import os
import subprocess
import sys

import pytest
import tensorflow as tf
from kinds import BATCH, INPUTS, TIME, UNITS, normal

from tf_layernorm.recurrent.recurrence import Constants


def test_program_lowers_for_a_gpu_with_one_loop_a_direction(kind):
    layer = kind.layer(UNITS, return_sequences=True)
    x = tf.constant(normal(BATCH, TIME, INPUTS, dtype="float32"))
    layer.build(x.shape)

    weights = layer.cell.step_weights()
    states = layer.get_initial_state(BATCH)

    def train(x, states, weights):  # a program that is lowered for a GPU can read no variables
        with tf.GradientTape() as tape:
            tape.watch([x, weights])
            outputs, _ = layer.cell.programs(
                x, states, weights, Constants(), sequences=True, training=True, compiled=True
            )
            loss = tf.reduce_sum(outputs**2)
        return tape.gradient(loss, [x, weights])

    program = tf.function(train, jit_compile=True)
    program = program.experimental_get_compiler_ir(x, states, weights)
    hlo = program(stage="hlo", platform_name="GPU")
    assert hlo.count(" while(") == 2
    # Of the loss: all others are products, since XLA's CPU backend reduces number by number.
    assert hlo.count(" reduce(") == 1
    for foreign in ("custom-call(", " send(", " recv(", " infeed(", " outfeed("):
        assert foreign not in hlo


@pytest.mark.parametrize("training", [False, True])
def test_only_a_training_graph_must_be_compiled(kind, training):
    """Keras traces an export as it traces a prediction: it has to run where no XLA is."""
    layer = kind.layer(UNITS)
    function = tf.function(lambda x: layer(x, training=training))
    graph = function.get_concrete_function(tf.TensorSpec((None, None, INPUTS))).graph
    definition = graph.as_graph_def()
    marked = [n for n in definition.node if n.attr["_XlaMustCompile"].b]
    marked += [f for f in definition.library.function if f.attr["_XlaMustCompile"].b]
    assert bool(marked) == training


PROGRAM = """
import os, sys
import keras, numpy as np, tensorflow as tf
from pathlib import Path
import tf_layernorm
from tf_layernorm.data.buckets import bucket_by_length

def compiled():
    return len(list(Path(sys.argv[1]).glob("*before_optimizations.txt")))

counts = []
for name in ("LNSimpleRNN", "LNLSTM", "LNGRU"):
    layer = getattr(tf_layernorm, name)(4)
    for batch, steps in ((2, 5), (2, 6), (1, 6), (2, 5), (1, 6)):
        layer(tf.zeros((batch, steps, 3)))
        counts.append(compiled())

cells = (tf_layernorm.LNSimpleRNNCell, tf_layernorm.LNLSTMCell, tf_layernorm.LNGRUCell)
for layer in (tf_layernorm.LNLSTM(4), *[keras.layers.RNN(cell(4)) for cell in cells]):
    model = keras.Sequential([keras.Input((None, 3)), layer])
    model.compile(jit_compile=True)
    before = compiled()
    for steps in (5, 6, 7, 5):
        model.predict(np.ones((3, steps, 3), "float32"), batch_size=2, verbose=0)
        counts.append(compiled() - before)

layer = tf_layernorm.LNLSTM(4)
lengths = np.random.default_rng(0).integers(1, 31, 40)
sequences = [np.ones((n, 3), "float32") for n in lengths]
dataset = tf.data.Dataset.from_generator(
    lambda: iter(sequences), output_signature=tf.TensorSpec((None, 3)))
before = compiled()
for x, mask in bucket_by_length(dataset, (10, 20, 30), 4, drop_remainder=True):
    layer(x, mask=mask)
print(*counts, compiled() - before)
"""


def test_one_compilation_a_shape_and_a_handful_with_buckets(tmp_path):
    """Counted by what XLA dumps: a trace is not a compilation."""
    environment = os.environ | {"XLA_FLAGS": f"--xla_dump_to={tmp_path}"}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    *counts, buckets = map(int, run.stdout.split())
    called, predicted = counts[:15], counts[15:]
    assert called == [n + before for before in (0, 3, 6) for n in (1, 2, 3, 3, 3)]
    # A batch of 2 and a last one of 1: one program for each, in our loop as in Keras'.
    assert predicted == 4 * [2, 4, 6, 6]
    assert buckets == 3

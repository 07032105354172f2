"""The fused recurrence as programs: how many there are, what is in them, and where they may run."""

import os
import re
import subprocess
import sys

import pytest
import tensorflow as tf
from kinds import BATCH, INPUTS, KINDS, OPTIONS, TIME, UNITS, normal

from tf_layernorm.recurrent.xla.recurrence import recurrence


def test_program_lowers_for_a_gpu_with_one_loop_a_direction(kind):
    layer = kind.layer(UNITS)
    x = tf.constant(normal(BATCH, TIME, INPUTS, dtype="float32"))
    layer(x)
    cell, named = layer.cell, layer.cell.step_weights()
    weights = [tf.convert_to_tensor(w) for w in named if w is not None]

    def train(x, *weights):
        given = iter(weights)
        with tf.GradientTape() as tape:
            tape.watch([x, *weights])
            outputs, _ = recurrence(
                cell.recurrence(),
                x,
                cell.get_initial_state(BATCH),
                named._make(None if w is None else next(given) for w in named),
                None,
                None,
                return_sequences=True,
                training=True,
                compiled=True,
            )
            loss = tf.reduce_sum(outputs**2)
        return tape.gradient(loss, [x, *weights])

    program = tf.function(train, jit_compile=True).experimental_get_compiler_ir(x, *weights)
    hlo = program(stage="hlo", platform_name="GPU")
    assert hlo.count(" while(") == 2
    # Of the loss: all others are products, since XLA's CPU backend reduces number by number.
    assert hlo.count(" reduce(") == 1
    for foreign in ("custom-call(", " send(", " recv(", " infeed(", " outfeed("):
        assert foreign not in hlo


@pytest.fixture(
    scope="module",
    params=[case for case in OPTIONS if case[1]["use_bias"]]
    + [(k, {"zoneout": 0.1}) for k in KINDS],
    ids=lambda case: "-".join(map(str, (case[0], *case[1].values()))),
)
def optimized(request):
    """A kind, and its programs of a training step and of a prediction, compiled."""
    kind, options = request.param
    layer = kind.layer(UNITS, return_sequences=True, **options)
    x = tf.constant(normal(BATCH, TIME, INPUTS, dtype="float32"))
    layer.build(x.shape)

    def train(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(layer(x, training=True) ** 2)
        return tape.gradient(loss, [x, *(v.value for v in layer.trainable_variables)])

    def compiled(function):
        program = tf.function(function, jit_compile=True)
        return program.experimental_get_compiler_ir(x)(stage="optimized_hlo")

    return kind, compiled(train), compiled(layer)


def test_no_kernel_cuts_what_it_reads_at_a_step(optimized):
    """XLA's CPU backend leaves such a kernel without vector instructions, seven times as slow."""
    for hlo in optimized[1:]:
        read = 0
        for kernel in hlo.split("\n\n"):
            over_time: dict[str, set[str]] = {}  # what is made of a step's slice, and of which
            cuts: dict[str, int] = {}
            for line in kernel.splitlines():
                match = re.match(r"\s+(?:ROOT )?%(\S+) = \w+\[([\d,]*)\]\S* ([\w-]+)\((.*)", line)
                if match is None:
                    continue
                name, shape, operation, rest = match.groups()
                operands = re.findall(r"%([\w.-]+)", rest)
                sources = set().union(*(over_time.get(operand, set()) for operand in operands))
                if operation == "dynamic-slice" and int(shape.split(",")[-1]) >= UNITS:
                    sources, read = {name}, read + 1
                if operation == "slice":
                    for source in sources:
                        cuts[source] = cuts.get(source, 0) + 1
                over_time[name] = sources
            assert max(cuts.values(), default=0) <= 1, kernel
        assert read


def test_xla_knows_how_often_each_loop_runs(optimized):
    """On a GPU the host would have to ask after every step."""
    for hlo, steps in zip(optimized[1:], ([TIME, TIME + 1], [TIME]), strict=True):
        assert hlo.count(" while(") == len(steps)
        assert list(map(int, re.findall(r'"known_trip_count":{"n":"(\d+)"}', hlo))) == steps


def test_gradients_by_the_products_take_the_products_place(optimized):
    """Two tensors over time as wide as the gates; in the loops no copy of one, nor of a sum."""
    kind, hlo, _ = optimized
    width = kind.gates * UNITS
    wide = rf"= f32\[{TIME + 1},{BATCH},{width}\]\S* "
    made = r"(?:fusion|copy|broadcast|concatenate)\("
    blocks = {block.split(" ", 1)[0]: block for block in hlo.split("\n\n")}
    loops = [blocks[name] for name in re.findall(r"body=(%[\w.-]+)", hlo)]
    assert len(loops) == 2
    sums = r"= f32\[\d+\]\S* "  # of the other weights' gradients
    assert not any(re.search(rf"(?:{wide}|{sums})copy\(", loop) for loop in loops)
    if kind.gates > 1:  # else the states are as wide
        # One is a product, which has them as rows; the other begins as zeros.
        assert len(re.findall(wide + made, blocks["ENTRY"])) == 1


def test_gradients_by_the_kernels_are_products_of_what_the_loops_leave(optimized):
    """Nothing over time is cut, padded or copied for them."""
    kind, hlo, _ = optimized
    (entry,) = (block for block in hlo.split("\n\n") if block.startswith("ENTRY"))
    rows = "|".join(str(steps * BATCH) for steps in (TIME, TIME + 1))
    assert f"= f32[{(TIME + 1) * BATCH},{kind.gates * UNITS}]" in entry
    assert not re.search(
        rf"= f32\[(?:{rows}),(?:{UNITS}|{kind.gates * UNITS})\]\S* (?!dot|bitcast)", entry
    )


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

"""Trains on several devices, in processes of its own: they are made before TensorFlow starts.

`mirrored FOLDER`: over two logical CPUs, by `fit` and by the command line.
`workers FOLDER INDEX PORT PORT`: one of two processes of a cluster.
Each leaves in FOLDER what it has trained.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import traceback
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf

from tf_layernorm import LNGRU, LNLSTM, LNSimpleRNN, cli
from tf_layernorm.data.mnist import Digits
from tf_layernorm.experiments import mnist
from tf_layernorm.experiments.draw.network import DRAW
from tf_layernorm.experiments.experiment import Preset
from tf_layernorm.experiments.strategies import make_strategy

LAYERS = (LNSimpleRNN, LNLSTM, LNGRU)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(16, 3, 6)).astype("float32")
Y = RNG.normal(size=(16, 1)).astype("float32")
SHARES = (slice(0, 8), slice(8, 16))
IMAGES, LABELS = RNG.integers(0, 256, (80, 784)).astype("uint8"), np.arange(80, dtype="int32") % 10
HELD_OUT = (IMAGES[64:], LABELS[64:])
CONFIG = dataclasses.replace(mnist.PRESETS["smoke"].config, hidden=(8,), batch_size=16)
DIGITS = Digits((IMAGES[:64], LABELS[:64]), HELD_OUT, HELD_OUT, "noise")


def dropping_model(drivers):
    """Layers side by side on one input, each kind once with each driver; names tell them."""
    keras.utils.set_random_seed(1)
    inputs = keras.Input((3, 6))
    outputs = [
        cls(
            4,
            use_fused=use_fused,
            dropout=0.3,
            recurrent_dropout=0.3,
            zoneout=0.3,
            seed=1,
            name=f"{cls.__name__}_{i}",
        )(inputs)
        for cls in LAYERS
        for i, use_fused in enumerate(drivers)
    ]
    return keras.Model(inputs, keras.layers.Concatenate()(outputs))


def fit_dropping(folder, name, drivers, **options):
    model = dropping_model(drivers)
    model.compile(keras.optimizers.SGD(0.1), "mse", **options)
    model.fit(X, Y, batch_size=8, epochs=2, shuffle=False, verbose=0)
    np.savez(folder / f"{name}.npz", **{w.path: w.numpy() for w in model.weights})


def fit_drawing(folder, name):
    keras.utils.set_random_seed(1)
    model = DRAW(glimpses=2, units=5, latent=2, write_size=3, pixels=4)
    model.build((None, 16))
    model.compile(keras.optimizers.SGD(0.01))
    model.fit(IMAGES[:16, 300:316] // 128, batch_size=8, epochs=2, shuffle=False, verbose=0)
    np.savez(folder / f"{name}.npz", **{w.path: w.numpy() for w in model.weights})


def mirrored(folder):
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    fit_dropping(folder, "one", (False, False), run_eagerly=True)
    fit_drawing(folder, "drawn_by_one")
    with make_strategy("mirrored", [CONFIG.batch_size]).scope():
        fit_dropping(folder, "two", (False, True))
        fit_drawing(folder, "drawn_by_two")

    mnist.PRESETS["smoke"] = Preset(CONFIG, seeds=1)
    mnist.EXPERIMENT = dataclasses.replace(mnist.EXPERIMENT, load=lambda *_: DIGITS)
    for name, *options in (
        ["one", "--norm", "layer"],
        ["two", "--norm", "layer", "--strategy", "mirrored", "--epochs", "1"],
        ["two", "--norm", "layer,batch", "--strategy", "mirrored"],
    ):
        run = ["run", "mnist", "--preset", "smoke", "--out", str(folder / name)]
        assert cli.main([*run, *options]) == 0


def descend(strategy, x, y):
    """A training loop of one's own: three steps down the mean over the cases of all replicas."""
    with strategy.scope():
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((3, 6)), LNLSTM(4, use_fused=True)])

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        replica = tf.distribute.get_replica_context()
        gradients = replica.all_reduce(tf.distribute.ReduceOp.MEAN, gradients)
        for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
            variable.assign_sub(0.1 * gradient)

    update = tf.function(lambda: strategy.run(step, args=(x, y)))
    for _ in range(3):
        update()
    return model.get_weights()


def workers(folder, index, *ports):
    cluster = {"worker": [f"127.0.0.1:{port}" for port in ports]}
    task = {"type": "worker", "index": int(index)}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": task})
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    share = SHARES[int(index)]
    np.savez(folder / f"worker{index}.npz", *descend(strategy, X[share], Y[share]))
    with strategy.scope():
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        data = tf.data.Dataset.from_tensor_slices((X[:, 0], Y)).batch(8)
        try:
            model.fit(data, verbose=0)
        except Exception:
            (folder / f"fit{index}.txt").write_text(traceback.format_exc())


if __name__ == "__main__":
    mode, folder, *rest = sys.argv[1:]
    {"mirrored": mirrored, "workers": workers}[mode](Path(folder), *rest)

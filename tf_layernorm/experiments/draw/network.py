"""DRAW, the Deep Recurrent Attentive Writer, as a Keras model."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf
from keras import ops

from tf_layernorm import _random
from tf_layernorm._arguments import ArgumentsMixin, Shape, Tensor, check_units, serializable
from tf_layernorm.experiments.draw.attention import PARAMETERS, Window, read, window, write
from tf_layernorm.recurrent.lstm import LNLSTMCell


class State(NamedTuple):
    """What goes from glimpse to glimpse; the canvas holds logits."""

    canvas: Tensor  # (B, pixels, pixels)
    encoder_h: Tensor  # (B, units), as the others
    encoder_c: Tensor
    decoder_h: Tensor
    decoder_c: Tensor


def _check_sizes(least: int, **sizes: Any) -> None:
    for name, size in sizes.items():
        if not isinstance(size, int) or size < least:
            raise ValueError(
                f"`{name}` must be an integer of at least {least}. Received: {name}={size!r}"
            )


@serializable
class DRAW(ArgumentsMixin, keras.Model):
    r"""A network that looks at an image through a small window, glimpse by glimpse, and redraws it.

    With read and write as in `attention`, one glimpse is

    $$\begin{aligned}
    r_t &= \mathrm{read}(x, x - \sigma(c_{t-1}), h^{dec}_{t-1}) \\
    h^{enc}_t &= \mathrm{LSTM}([r_t, h^{dec}_{t-1}], h^{enc}_{t-1}) \\
    (\mu_t, \log \sigma_t) &= W h^{enc}_t + b, \qquad z_t = \mu_t + \sigma_t \epsilon_t \\
    h^{dec}_t &= \mathrm{LSTM}(z_t, h^{dec}_{t-1}) \\
    c_t &= c_{t-1} + \mathrm{write}(h^{dec}_t)
    \end{aligned}$$

    and the bound on the negative log likelihood, in nats, is the reconstruction's cross-entropy
    under $\sigma(c_T)$ plus, for each glimpse, $\mathrm{KL}(z_t \| N(0, 1)) =
    \frac12 \sum (\mu_t^2 + \sigma_t^2 - \log \sigma_t^2 - 1)$, with one sample a case.
    The LSTMs are `LNLSTMCell`s: `normalize=("state",)` is the paper's, eq. (29)-(31).
    The first canvas and the first states are learned. The canvas starts at zero; the states start
    small and random, since an LN of W_h h multiplies the gradient of a zero h by 1 / sqrt(epsilon).

    The model takes images alone, as in `model.fit(images)` or a dataset of images, and needs no
    loss: `model.compile(optimizer, jit_compile=True)`.

    Args:
        glimpses: Number of steps. Defaults to `64`.
        units: Units of the encoder and of the decoder. Defaults to `256`.
        latent: Size of z. Defaults to `100`.
        read_size: Filters a side of the reading window, at least 2. Defaults to `2`.
        write_size: Filters a side of the writing window, at least 2. Defaults to `5`.
        pixels: Pixels a side of the image. Defaults to `28`.
        normalize: What the LSTMs normalise, as in `LNLSTMCell`. Defaults to `("state",)`.
        seed: Integer seed of the noise. The model counts the noise it has drawn, in a weight, so
            that training goes on where it was after saving and loading. Defaults to `0`.
        **kwargs: `name`, `dtype` and so on of `keras.Model`.

    Call arguments:
        images: `(batch, pixels ** 2)`, values in [0, 1].

    Returns:
        The logits of the last canvas `(batch, pixels ** 2)`, and the KL of each glimpse
        `(batch, glimpses)`.

    Example:

    >>> import numpy as np
    >>> from tf_layernorm.experiments.draw.network import DRAW
    >>> logits, kl = DRAW(glimpses=3, units=8, latent=4)(np.ones((2, 784), "float32"))
    >>> logits.shape, kl.shape
    (TensorShape([2, 784]), TensorShape([2, 3]))

    References:
        [Ba, Kiros, Hinton, 2016](https://arxiv.org/abs/1607.06450), eq. (29)-(31);
        [Gregor et al., 2015](https://arxiv.org/abs/1502.04623), eq. (3)-(13).
    """

    def __init__(
        self,
        glimpses: int = 64,
        units: int = 256,
        latent: int = 100,
        read_size: int = 2,
        write_size: int = 5,
        pixels: int = 28,
        normalize: Sequence[str] = ("state",),
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        _check_sizes(1, glimpses=glimpses, latent=latent)
        _check_sizes(2, read_size=read_size, write_size=write_size)
        units = check_units(units)
        normalize = tuple(normalize)
        self._set_arguments(locals())
        dtype = self.dtype_policy
        self.encoder = LNLSTMCell(units, normalize=normalize, dtype=dtype, name="encoder")
        self.decoder = LNLSTMCell(units, normalize=normalize, dtype=dtype, name="decoder")
        self.posterior = keras.layers.Dense(2 * latent, dtype=dtype, name="posterior")
        self.reader = keras.layers.Dense(PARAMETERS, dtype=dtype, name="reader")
        self.writer = keras.layers.Dense(PARAMETERS + write_size**2, dtype=dtype, name="writer")
        self._figures = [keras.metrics.Mean(name=n) for n in ("bound", "reconstruction", "kl")]

    def build(self, input_shape: Shape) -> None:
        if input_shape[-1] != self.pixels**2:
            raise ValueError(
                f"The images must have {self.pixels**2} pixels. "
                f"Received: input shape {tuple(input_shape)}"
            )
        self.encoder.build((None, 2 * self.read_size**2 + self.units))
        self.posterior.build((None, self.units))
        self.decoder.build((None, self.latent))
        self.reader.build((None, self.units))
        self.writer.build((None, self.units))
        small = keras.initializers.RandomNormal(stddev=0.1)
        self.first = [
            self.add_weight(
                name=f"first_{name}",
                shape=(self.pixels, self.pixels) if name == "canvas" else (self.units,),
                initializer="zeros" if name == "canvas" else small.clone(),
            )
            for name in State._fields
        ]
        # Keras' own `SeedGenerator` isn't saved with a model.
        self.draws = self.add_weight(
            name="draws",
            shape=(),
            initializer="zeros",
            dtype="int32",
            trainable=False,
            aggregation="only_first_replica",
        )

    @property
    def metrics(self) -> list[keras.Metric]:
        """The bound, its two parts; `fit` and `evaluate` reset them."""
        return list(self._figures)

    def first_state(self, batch: Any) -> State:
        """The learned state before the first glimpse, once a case."""
        return State(*(ops.broadcast_to(value, (batch, *value.shape)) for value in self.first))

    def draw(self, z: Tensor, state: State) -> tuple[State, Window]:
        """The decoder's half of a glimpse: the new state, and the window that was written in."""
        h, (_, c) = self.decoder(z, [state.decoder_h, state.decoder_c])
        head = self.writer(h)
        at = window(head[:, :PARAMETERS], self.write_size, self.pixels)
        canvas = state.canvas + write(head[:, PARAMETERS:], at)
        return state._replace(canvas=canvas, decoder_h=h, decoder_c=c), at

    def glimpse(self, x: Tensor, noise: Tensor, state: State) -> tuple[State, Tensor]:
        """One glimpse at images `(B, pixels, pixels)`: the new state and the KL, `(B,)`."""
        at = window(self.reader(state.decoder_h), self.read_size, self.pixels)
        seen = read(ops.stack([x, x - ops.sigmoid(state.canvas)], 1), at)
        inputs = ops.concatenate([seen, state.decoder_h], -1)
        h, (_, c) = self.encoder(inputs, [state.encoder_h, state.encoder_c])
        mean, log_deviation = ops.split(self.posterior(h), 2, -1)
        deviation = ops.exp(log_deviation)
        terms = ops.square(mean) + ops.square(deviation) - 2 * log_deviation - 1
        state, _ = self.draw(mean + deviation * noise, state._replace(encoder_h=h, encoder_c=c))
        return state, ops.sum(terms, -1) / 2

    def infer(self, images: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """What `call` does, with the noise `(glimpses, batch, latent)` given."""
        x = ops.reshape(ops.cast(images, self.compute_dtype), (-1, self.pixels, self.pixels))
        noise = ops.convert_to_tensor(noise, self.compute_dtype)
        kl = tf.TensorArray(x.dtype, self.glimpses, element_shape=x.shape[:1])

        def body(t: Tensor, kl: tf.TensorArray, state: State) -> tuple[Tensor, Any, State]:
            state, divergence = self.glimpse(x, noise[t], state)
            return t + 1, kl.write(t, divergence), state

        # A variable that is read inside a loop is kept for the gradient once a step.
        values = [(v, tf.convert_to_tensor(v)) for v in self.trainable_variables]
        with keras.StatelessScope(state_mapping=values):
            # The number of steps is static, which XLA needs for the gradient of the loop.
            _, kl, state = tf.while_loop(
                lambda t, *_: t < self.glimpses,
                body,
                (0, kl, self.first_state(ops.shape(x)[0])),
                maximum_iterations=self.glimpses,
            )
        return ops.reshape(state.canvas, (-1, self.pixels**2)), ops.transpose(kl.stack())

    def call(self, images: Tensor) -> tuple[Tensor, Tensor]:
        shape = (self.glimpses, ops.shape(images)[0], self.latent)
        seed = tf.stack([self.seed, tf.convert_to_tensor(self.draws)])
        noise = _random.draw(tf.random.stateless_normal, shape, seed, self.compute_dtype, axis=1)
        self.draws.assign_add(1)
        return self.infer(images, noise)

    def bound(self, images: Tensor, logits: Tensor, kl: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The bound of each image, in nats, and its parts: reconstruction, KL of all glimpses."""
        x = ops.cast(images, logits.dtype)
        reconstruction = ops.sum(ops.softplus(logits) - x * logits, -1)
        return reconstruction + ops.sum(kl, -1), reconstruction, ops.sum(kl, -1)

    def _measured(self, data: Any) -> Tensor:
        images, _, _ = keras.utils.unpack_x_y_sample_weight(data)
        values = self.bound(images, *self(images))
        for figure, value in zip(self._figures, values, strict=True):
            figure.update_state(value)
        return ops.mean(values[0])

    def train_step(self, data: Any) -> dict[str, Tensor]:
        with tf.GradientTape() as tape:
            # A strategy adds the gradients of its replicas up.
            loss = self._measured(data) / tf.distribute.get_strategy().num_replicas_in_sync
        self.optimizer.apply(tape.gradient(loss, self.trainable_weights), self.trainable_weights)
        return {figure.name: figure.result() for figure in self._figures}

    def test_step(self, data: Any) -> dict[str, Tensor]:
        self._measured(data)
        return {figure.name: figure.result() for figure in self._figures}

    def generate(self, noise: Tensor) -> tuple[Tensor, list[Window]]:
        """Digits from noise, `(glimpses, batch, latent)`.

        Returns:
            The canvas after each glimpse as probabilities of ink,
            `(glimpses, batch, pixels, pixels)`, and the windows it was drawn in.
        """
        state, canvases, windows = self.first_state(noise.shape[1]), [], []
        for z in noise:
            state, at = self.draw(z, state)
            canvases.append(ops.sigmoid(state.canvas))
            windows.append(at)
        return ops.stack(canvases), windows

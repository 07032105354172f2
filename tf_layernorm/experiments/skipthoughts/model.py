"""The network of skip-thoughts: an encoder and two decoders, GRUs that share their words."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import keras
import tensorflow as tf
from keras import ops

from tf_layernorm import LNGRU
from tf_layernorm._arguments import ArgumentsMixin, Tensor, check_units, serializable
from tf_layernorm.experiments.initial import PerGate
from tf_layernorm.experiments.words import WordEmbedding

CONDITIONING = ("initial", "every_step")


@serializable
class SkipThoughts(ArgumentsMixin, keras.Model):
    r"""Reads a sentence, and predicts the words of the next and of the previous one from it.

    The last state h of the encoder is the sentence's vector. Each decoder reads the words of its
    target, one step late and zeros first, and predicts word t from h and the words before it. All
    three share the vectors of words, and both decoders the layer that makes logits of states.

    Args:
        words: All words in the order of their ids: `<eos>`, `<unk>`, then those with ids from 2 on.
        size: Size of a word's vector.
        units: Size of h.
        normalize: What the GRUs normalise, as in `LNGRUCell`. Defaults to both products.
        conditioning: How a decoder knows h. `"initial"`: as its first state, as in the authors'
            code and the runs of Ba et al. `"every_step"`: beside each input too, as in Kiros et
            al.'s equations with $C_r h$, $C_z h$ and $C h$; the rows of the kernel that h meets are
            C, and with layer norm the sum $W x + C h$ is normalised as one.
        tokenizer: How `encode` of other texts cuts them into words, a name in
            `data.sentences.TOKENIZERS`. Saved with the model, which doesn't use it.
        **kwargs: `name`, `dtype` and so on of `keras.Model`.

    Call arguments:
        batch: A dict of int32 arrays, as `data.sentences.Triples` makes them: `source`, `next` and
            `previous` `(batch, steps)`, each with its own number of steps, and `lengths`
            `(batch, 3)`, those of the three in this order.

    Returns:
        The nats of each target word, `<eos>` with them, `(words,)`: first all of the next
        sentences, then all of the previous. As in the authors' code, $-\log(p + 10^{-8})$.

    Raises:
        ValueError: If an argument is out of its range.

    Example:

    >>> import numpy as np
    >>> from tf_layernorm.experiments.skipthoughts.model import SkipThoughts
    >>> model = SkipThoughts(("<eos>", "<unk>", "a", "b"), size=3, units=5)
    >>> ids = np.array([[2, 3, 0], [2, 0, 0]])
    >>> batch = {"source": ids, "next": ids, "previous": ids, "lengths": [[3, 3, 3], [2, 2, 2]]}
    >>> model(batch).shape
    TensorShape([10])

    References:
        [Kiros et al., 2015](https://arxiv.org/abs/1506.06726);
        [Ba, Kiros, Hinton, 2016](https://arxiv.org/abs/1607.06450), section 6.3, eq. (26)-(28);
        https://github.com/ryankiros/skip-thoughts, commit 6661cad.
    """

    def __init__(
        self,
        words: Sequence[str],
        size: int,
        units: int,
        normalize: Sequence[str] = ("kernel", "recurrent"),
        conditioning: Literal["initial", "every_step"] = "initial",
        tokenizer: str = "plain",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        units, words, normalize = check_units(units), tuple(words), tuple(normalize)
        if conditioning not in CONDITIONING:
            raise ValueError(
                f"`conditioning` must be one of {CONDITIONING}. "
                f"Received: conditioning={conditioning!r}"
            )
        self._set_arguments(locals())
        dtype = self.dtype_policy
        uniform = keras.initializers.RandomUniform(-0.1, 0.1)

        def gru(name: str, **options: Any) -> LNGRU:
            return LNGRU(
                units,
                normalize=normalize,
                kernel_initializer=PerGate(uniform.clone(), 3),
                recurrent_initializer=PerGate("orthogonal", 3),
                dtype=dtype,
                name=name,
                **options,
            )

        self.embedding = WordEmbedding(len(words), size, uniform.clone(), dtype=dtype)
        self.encoder = gru("encoder")
        self.next_decoder = gru("next_decoder", return_sequences=True)
        self.previous_decoder = gru("previous_decoder", return_sequences=True)
        self.logits = keras.layers.Dense(
            len(words), kernel_initializer=uniform.clone(), dtype=dtype, name="logits"
        )
        self._nats = keras.metrics.Mean(name="nats")

    def build(self, input_shape: Any) -> None:
        seen = self.size + (self.units if self.conditioning == "every_step" else 0)
        self.embedding.build((None, None))
        self.encoder.build((None, None, self.size))
        self.next_decoder.build((None, None, seen))
        self.previous_decoder.build((None, None, seen))
        self.logits.build((None, self.units))

    @property
    def metrics(self) -> list[keras.Metric]:
        """Nats a word; `fit` and `evaluate` reset them."""
        return [self._nats]

    def encode(self, vectors: Tensor, lengths: Tensor) -> Tensor:
        """The last states `(batch, units)` for words' vectors `(batch, steps, size)`."""
        mask = tf.sequence_mask(lengths, ops.shape(vectors)[1])
        return self.encoder(vectors, mask=mask)

    def decode(self, decoder: LNGRU, ids: Tensor, h: Tensor) -> Tensor:
        """A decoder's states `(batch, steps, units)`, from which word t of `ids` is predicted."""
        vectors = self.embedding(ids)
        inputs = ops.pad(vectors[:, :-1], [(0, 0), (1, 0), (0, 0)])
        if self.conditioning == "every_step":
            at_each = ops.broadcast_to(h[:, None], (*ops.shape(ids), self.units))
            inputs = ops.concatenate([inputs, at_each], -1)
        return decoder(inputs, initial_state=h)

    def call(self, batch: Mapping[str, Tensor]) -> Tensor:
        lengths = tf.convert_to_tensor(batch["lengths"])
        h = self.encode(self.embedding(batch["source"]), lengths[:, 0])
        states, targets = [], []
        for i, (name, decoder) in enumerate(
            [("next", self.next_decoder), ("previous", self.previous_decoder)], 1
        ):
            ids = tf.convert_to_tensor(batch[name])
            # Half the cost is the logits: of steps that count, and of both decoders at once.
            counts = tf.sequence_mask(lengths[:, i], tf.shape(ids)[1])
            states.append(tf.boolean_mask(self.decode(decoder, ids, h), counts))
            targets.append(tf.boolean_mask(ids, counts))
        logits = ops.cast(self.logits(tf.concat(states, 0)), "float32")  # (words, vocabulary)
        nats = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.concat(targets, 0), logits)
        return -tf.math.log(tf.exp(-nats) + 1e-8)

    def train_step(self, data: Any) -> dict[str, Tensor]:
        data, _, _ = keras.utils.unpack_x_y_sample_weight(data)
        with tf.GradientTape() as tape:
            nats = self(data, training=True)
            loss = self.optimizer.scale_loss(tf.reduce_sum(nats))
        self.optimizer.apply(tape.gradient(loss, self.trainable_weights), self.trainable_weights)
        self._nats.update_state(nats)
        return {"nats": self._nats.result()}

    def test_step(self, data: Any) -> dict[str, Tensor]:
        data, _, _ = keras.utils.unpack_x_y_sample_weight(data)
        self._nats.update_state(self(data))
        return {"nats": self._nats.result()}

"""Batch normalisation as the paper's small-batch baseline needs it."""

from typing import Any

import keras
from keras import ops

from tf_layernorm._arguments import (
    ArgumentsMixin,
    Shape,
    Tensor,
    check_epsilon,
    check_rate,
    check_shape,
    serializable,
)


@serializable
class BatchNorm(ArgumentsMixin, keras.layers.Layer):
    r"""Batch normalisation whose variance may be the unbiased one (section 6.6 of the paper).

    $$y = \gamma \frac{z - \mu}{\sqrt{\sigma^2 + \epsilon}} + \beta$$

    In training, mu and sigma^2 are taken over all axes but the last. With `unbiased=True` the sum
    of squares is divided by n - 1 instead of n, which at n = 4 makes sigma^2 a third larger;
    `keras.layers.BatchNormalization` has no such option. The moving averages, used in inference,
    follow the mean and the variance that the normaliser used.

    Args:
        unbiased: Whether to divide by n - 1 in training. A batch of one row then has no variance
            and the result is NaN. Defaults to `False`.
        momentum: Share of the old value in a moving average, in [0, 1). Defaults to `0.99`.
        epsilon: Small positive number added to the variance. Defaults to `1e-5`.
        **kwargs: `name`, `dtype`, `trainable` of `keras.layers.Layer`. With `trainable=False` the
            layer always uses its moving averages, as Keras' own does.

    Call arguments:
        inputs: `(batch, ..., features)`.
        training: Whether to use the batch's statistics.

    Weights:
        gamma, beta: `(features,)`.
        moving_mean, moving_variance: `(features,)`, not trained.

    Raises:
        ValueError: If an argument is out of its range or the input has fewer than 2 axes.

    Example:

    >>> import numpy as np
    >>> from tf_layernorm.baselines.batch_norm import BatchNorm
    >>> z = np.array([[1.0], [3.0]], "float32")
    >>> y = BatchNorm(unbiased=True)(z, training=True)
    >>> [round(float(value), 3) for value in y[:, 0]]
    [-0.707, 0.707]

    References:
        [Ba, Kiros, Hinton, 2016](https://arxiv.org/abs/1607.06450), section 6.6;
        [Ioffe, Szegedy, 2015](https://arxiv.org/abs/1502.03167).
    """

    def __init__(
        self,
        unbiased: bool = False,
        *,
        momentum: float = 0.99,
        epsilon: float = 1e-5,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        momentum = check_rate("momentum", momentum)
        epsilon = check_epsilon(epsilon, self.compute_dtype)
        self._set_arguments(locals())

    def build(self, input_shape: Shape) -> None:
        shape = (check_shape(self, input_shape, 2, at_least=True),)

        def add(name: str, value: str, trainable: bool = True) -> Any:
            return self.add_weight(
                name=name,
                shape=shape,
                initializer=value,
                trainable=trainable,
                autocast=False,
                # Under a strategy the replicas would each keep a moving average of their own.
                aggregation="mean",
            )

        self.gamma, self.beta = add("gamma", "ones"), add("beta", "zeros")
        self.moving_mean = add("moving_mean", "zeros", trainable=False)
        self.moving_variance = add("moving_variance", "ones", trainable=False)

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        z = ops.cast(inputs, self.gamma.dtype)
        if training and self.trainable:
            axes = tuple(range(len(z.shape) - 1))
            mean, variance = ops.mean(z, axes), ops.var(z, axes)
            if self.unbiased:
                n = ops.cast(ops.prod(ops.shape(z)[:-1]), variance.dtype)
                variance *= n / (n - 1)
            for average, value in ((self.moving_mean, mean), (self.moving_variance, variance)):
                average.assign(average + (1 - self.momentum) * (value - average))
        else:
            mean, variance = self.moving_mean, self.moving_variance
        scale = self.gamma * ops.rsqrt(variance + self.epsilon)
        return ops.cast((z - mean) * scale + self.beta, self.compute_dtype)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return tuple(input_shape)

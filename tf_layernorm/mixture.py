r"""A mixture of bivariate Gaussians and a pen bit as the output of a network (Graves 2013, 4.1).

A point is `(x, y, pen)`, pen being 1 on the last point of a stroke. The network gives it the
density

$$\sum_j \pi_j\, \mathcal N(x, y;\ \mu_j, \sigma_j, \rho_j) \cdot e^{pen} (1 - e)^{1 - pen}$$

All of it is computed from logarithms, in at least float32, so that nothing has to be clipped: a
far point or an unlikely pen bit costs what it costs, and its gradient is that of the equations.
"""

import math
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from tf_layernorm._arguments import Tensor, check_units, serializable
from tf_layernorm.normalization import at_least_float32

__all__ = ["Mixture", "MixtureHead", "MixtureNLL", "mixture", "mixture_nll", "sample_points"]

MIN_SIGMA = 1e-3
MAX_ATANH_RHO = 10.0


class Mixture(NamedTuple):
    """The parameters of the density, `M` components each."""

    log_weights: Tensor  # log pi, (..., M)
    means: Tensor  # mu, (..., M, 2)
    log_sigmas: Tensor  # (..., M, 2)
    atanh_rhos: Tensor  # rho is its tanh, (..., M)
    pen_logits: Tensor  # e is its sigmoid, (...)


def mixture(outputs: Tensor) -> Mixture:
    """The parameters of the density from the outputs of a network, `(..., 6 * M + 1)`.

    As in Graves' equations (18)-(22) a softmax gives the weights, exp the sigmas, tanh the rhos and
    a sigmoid the pen bit (ours of the output itself, his of its negative), with two smooth limits
    that keep the density of any one point finite: sigma is `exp(.) + MIN_SIGMA`, and the argument
    of tanh bends to stay within `MAX_ATANH_RHO`, which it follows to 0.1 % up to a rho of 0.99.

    Args:
        outputs: First the pen bit, then M weights, 2 M means, 2 M sigmas, M rhos.

    Raises:
        ValueError: If the last axis doesn't hold `6 * M + 1` values.

    Example:

    >>> import numpy as np
    >>> from tf_layernorm.mixture import mixture
    >>> mixture(np.zeros((2, 5, 121), "float32")).means.shape
    TensorShape([2, 5, 20, 2])
    """
    size = outputs.shape[-1]
    if size is None or size < 7 or size % 6 != 1:
        raise ValueError(
            "The outputs must hold 6 * components + 1 values a point. "
            f"Received: shape={tuple(outputs.shape)}"
        )
    m = size // 6
    outputs = ops.cast(outputs, at_least_float32(keras.backend.standardize_dtype(outputs.dtype)))
    pen, weights, means, sigmas, rhos = ops.split(outputs, [1, m + 1, 3 * m + 1, 5 * m + 1], -1)
    pairs = (*ops.shape(outputs)[:-1], m, 2)
    floor = math.log(MIN_SIGMA)
    # The derivative fades below the floor but never steps to 0, as it does in a maximum.
    log_sigmas = floor + ops.softplus(ops.reshape(sigmas, pairs) - floor)
    limit = MAX_ATANH_RHO
    rhos = ops.softplus(rhos + limit) - ops.softplus(rhos - limit) - limit
    return Mixture(
        ops.log_softmax(weights), ops.reshape(means, pairs), log_sigmas, rhos, pen[..., 0]
    )


@serializable
def mixture_nll(points: Tensor, outputs: Tensor) -> Tensor:
    r"""The negative log-likelihood of each point, in nats, equation (26) of Graves.

    With $z = (x - \mu) / \sigma$ and $\rho = \tanh r$ the exponent of a Gaussian is

    $$\frac{z_1^2 + z_2^2 - 2 \rho z_1 z_2}{1 - \rho^2}
      = \tfrac14 (z_1 + z_2)^2 (1 + e^{-2r}) + \tfrac14 (z_1 - z_2)^2 (1 + e^{2r}),$$

    whose right side has no cancellation as $\rho$ approaches 1, and
    $\log(1 - \rho^2) = 2 (\log 2 - |r| - \mathrm{softplus}(-2|r|))$.

    Args:
        points: `(..., 3)`: x, y and the pen bit.
        outputs: `(..., 6 * components + 1)`, see `mixture`.

    Returns:
        `(...)`, in at least float32.

    Example:

    >>> import numpy as np
    >>> from tf_layernorm.mixture import mixture_nll
    >>> nll = mixture_nll(np.zeros((1, 3), "float32"), np.zeros((1, 7), "float32"))
    >>> print(f"{nll[0]:.3f}")  # log(2 pi) + log(2), and 0.002 for the floor under sigma
    2.533
    """
    log_weights, means, log_sigmas, r, pen_logits = mixture(outputs)
    points = ops.cast(points, means.dtype)
    z = (points[..., None, :2] - means) * ops.exp(-log_sigmas)
    plus, minus = ops.square(z[..., 0] + z[..., 1]), ops.square(z[..., 0] - z[..., 1])
    exponent = (plus * (1 + ops.exp(-2 * r)) + minus * (1 + ops.exp(2 * r))) / 4
    size = ops.abs(r)
    log_scale = ops.sum(log_sigmas, -1) + math.log(2) - size - ops.softplus(-2 * size)
    log_densities = -math.log(2 * math.pi) - log_scale - exponent / 2
    pen_nll = ops.softplus(pen_logits) - points[..., 2] * pen_logits
    return pen_nll - ops.logsumexp(log_weights + log_densities, axis=-1)


def sample_points(outputs: Any, rng: np.random.Generator, bias: float = 0.0) -> np.ndarray:
    """Draws a point from the density of each of a network's outputs, section 5.4 of Graves.

    Args:
        outputs: `(batch, 6 * components + 1)`, see `mixture`.
        rng: Where the randomness comes from.
        bias: Graves' probability bias, at least 0: sigma becomes `exp(log sigma - bias)`, and the
            weights a softmax of `(1 + bias)` times their logits. The larger it is, the more
            regular the writing. Defaults to 0: as the network says.

    Returns:
        `(batch, 3)`: x, y and the pen bit, float32.
    """
    parts = (ops.convert_to_numpy(part).astype("float64") for part in mixture(outputs))
    log_weights, means, log_sigmas, r, pen_logits = parts
    # The Gumbel trick: the argmax is a draw from the softmax.
    chosen = np.argmax(log_weights * (1 + bias) + rng.gumbel(size=log_weights.shape), -1)
    rows = np.arange(len(chosen))
    mean, sigma = means[rows, chosen], np.exp(log_sigmas[rows, chosen] - bias)
    rho = np.tanh(r[rows, chosen])
    first, second = rng.normal(size=(2, len(rows)))
    second = rho * first + np.sqrt(1 - rho**2) * second
    pen = rng.uniform(size=len(rows)) < (1 + np.tanh(pen_logits / 2)) / 2
    point = mean + sigma * np.stack([first, second], -1)
    return np.concatenate([point, pen[:, None]], -1).astype("float32")


@serializable
class MixtureHead(keras.layers.Dense):
    """A dense layer that gives the outputs of a mixture density, in at least float32.

    Args:
        components: Number of bivariate Gaussians. Defaults to Graves' 20.
        **kwargs: Of `keras.layers.Dense`, but for `units` and `activation`.

    Input shape:
        `(batch, ..., features)`.

    Output shape:
        `(batch, ..., 6 * components + 1)`, what `MixtureNLL`, `mixture` and `sample_points` take.

    Raises:
        ValueError: If `components` is no positive integer.

    Example:

    >>> import keras, numpy as np
    >>> from tf_layernorm.mixture import MixtureHead, MixtureNLL
    >>> model = keras.Sequential([MixtureHead(20)])
    >>> model.compile(loss=MixtureNLL())
    >>> model(np.ones((2, 5, 8), "float32")).shape
    TensorShape([2, 5, 121])

    References:
        [Graves, 2013](https://arxiv.org/abs/1308.0850), section 4.1.
    """

    def __init__(self, components: int = 20, **kwargs: Any) -> None:
        try:
            self.components = check_units(components)
        except ValueError:
            raise ValueError(
                f"`components` must be a positive integer. Received: components={components!r}"
            ) from None
        super().__init__(6 * self.components + 1, **kwargs)

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        return ops.cast(super().call(inputs), at_least_float32(self.compute_dtype))

    def compute_output_spec(self, inputs: Tensor, training: bool | None = None) -> Any:
        shape = self.compute_output_shape(inputs.shape)
        return keras.KerasTensor(shape, at_least_float32(self.compute_dtype))

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["units"], config["activation"]
        return {**config, "components": self.components}


@serializable
class MixtureNLL(keras.losses.Loss):
    """The mean over points of `mixture_nll`, as a Keras loss.

    Sample weights of shape `(batch, time)`, such as the mask of padded points, weigh the points;
    the mean is over the weights.

    Args:
        reduction: As in `keras.losses.Loss`. Defaults to the mean over the sample weights.
        name: Defaults to `"mixture_nll"`.
        **kwargs: `dtype` of `keras.losses.Loss`.

    Call arguments:
        y_true: `(batch, ..., 3)`: x, y and the pen bit.
        y_pred: `(batch, ..., 6 * components + 1)`, as of `MixtureHead`.
        sample_weight: `(batch, ...)`.

    References:
        [Graves, 2013](https://arxiv.org/abs/1308.0850), equation (26).
    """

    def __init__(
        self,
        reduction: str | None = "mean_with_sample_weight",
        name: str = "mixture_nll",
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, reduction=reduction, **kwargs)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        return mixture_nll(y_true, y_pred)

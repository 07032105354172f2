"""How the authors' text models start: weights drawn gate by gate, and Adam's steps as theirs.

Both are in the code of the paper's runs of sections 6.1 to 6.3, and in no library.
"""

from typing import Any

import keras
from keras import ops

from tf_layernorm._arguments import Shape, Tensor, serializable


@serializable
class PerGate(keras.initializers.Initializer):
    """Draws the block of each gate of a kernel on its own.

    A GRU's recurrent kernel has the shape (U, 3U). `"orthogonal"` on the whole makes its *rows*
    orthonormal, so that each gate's (U, U) block is smaller by about the root of 3, and with it the
    gate's summed inputs. The authors drew three orthogonal (U, U) matrices.

    Args:
        initializer: What to draw a block with: an initializer, its name or its config.
        blocks: Number of blocks, side by side on the last axis: 3 for a GRU, 4 for an LSTM.
        tied: Whether one draw is used for all blocks, as in the authors' attentive reader. Defaults
            to `False`: a draw for each.

    Raises:
        ValueError: If `blocks` is no positive integer, or on a shape whose last axis isn't a
            multiple of it.

    Example:

    >>> import numpy as np
    >>> from tf_layernorm.experiments.initial import PerGate
    >>> kernel = np.array(PerGate("orthogonal", 3)((4, 12)))
    >>> all(np.allclose(block.T @ block, np.eye(4), atol=1e-5) for block in np.split(kernel, 3, 1))
    True

    References:
        `param_init_gru` of https://github.com/ivendrov/order-embedding, commit 2057e60.
    """

    def __init__(self, initializer: Any, blocks: int, tied: bool = False) -> None:
        if isinstance(blocks, bool) or not isinstance(blocks, int) or blocks < 1:
            raise ValueError(f"`blocks` must be a positive integer. Received: blocks={blocks!r}")
        self.initializer = keras.initializers.get(initializer)
        self.blocks, self.tied = blocks, tied
        config = self.initializer.get_config()
        seed = config.get("seed")
        # An initializer gives the same numbers at each call: each block needs one of its own.
        self._draws = [
            type(self.initializer).from_config(
                config if seed is None or tied else {**config, "seed": seed + block}
            )
            for block in range(1 if tied else blocks)
        ]

    def __call__(self, shape: Shape, dtype: Any = None) -> Tensor:
        *rows, columns = shape
        if columns is None or columns % self.blocks:
            raise ValueError(
                f"The last axis must be a multiple of blocks={self.blocks}. "
                f"Received: shape={tuple(shape)}"
            )
        drawn = [draw((*rows, columns // self.blocks), dtype=dtype) for draw in self._draws]
        return ops.concatenate(drawn * self.blocks if self.tied else drawn, axis=-1)

    def get_config(self) -> dict[str, Any]:
        return {
            "initializer": keras.initializers.serialize(self.initializer),
            "blocks": self.blocks,
            "tied": self.tied,
        }


@serializable
class UncorrectedAdam(keras.optimizers.schedules.LearningRateSchedule):
    r"""A learning rate with which `keras.optimizers.Adam` steps as Adam did in the authors' code.

    That code corrects the bias of Adam's moments with $1 - \beta$ in the place of $\beta$, which
    leaves almost all of it in. At update t, counted from 1, the rate is multiplied by

    $$\frac{\sqrt{1 - (1 - \beta_2)^t}}{1 - (1 - \beta_1)^t} \cdot
      \frac{1 - \beta_1^t}{\sqrt{1 - \beta_2^t}}$$

    whose second part takes back what Keras' Adam does: 3.5 at the first update, 6.6 at the twelfth,
    1.03 at the 3,000th. The moments are the same, so nothing else differs but rounding.

    Args:
        learning_rate: Adam's.
        beta_1: The decay of the first moment, which must be the optimizer's. Defaults to 0.9.
        beta_2: The decay of the second moment, likewise. Defaults to 0.999.

    Raises:
        ValueError: If `learning_rate` isn't positive, or a decay lies outside (0, 1).

    Example:

    >>> import keras
    >>> from tf_layernorm.experiments.initial import UncorrectedAdam
    >>> adam = keras.optimizers.Adam(UncorrectedAdam(1e-3), 0.9, 0.999, 1e-8)
    >>> round(float(adam.learning_rate), 6)
    0.003512

    References:
        `optim.py` of https://github.com/ivendrov/order-embedding, commit 2057e60, and of
        https://github.com/ryankiros/skip-thoughts, commit 6661cad.
    """

    def __init__(self, learning_rate: float, beta_1: float = 0.9, beta_2: float = 0.999) -> None:
        super().__init__()
        if not learning_rate > 0:
            raise ValueError(
                f"`learning_rate` must be positive. Received: learning_rate={learning_rate!r}"
            )
        if not (0 < beta_1 < 1 and 0 < beta_2 < 1):
            raise ValueError(
                f"The decays must lie between 0 and 1. Received: beta_1={beta_1!r}, "
                f"beta_2={beta_2!r}"
            )
        self.learning_rate, self.beta_1, self.beta_2 = learning_rate, beta_1, beta_2

    def __call__(self, step: Tensor) -> Tensor:
        t = ops.cast(step, "float32") + 1

        def correction(beta_1: float, beta_2: float) -> Tensor:
            # In float32, as Keras': 1 - 0.999 is off by 5e-5 there, in both, and must cancel.
            powers = (ops.power(ops.cast(beta, "float32"), t) for beta in (beta_1, beta_2))
            first, second = (1 - power for power in powers)
            return ops.sqrt(second) / first

        authors = correction(1 - self.beta_1, 1 - self.beta_2)
        return self.learning_rate * authors / correction(self.beta_1, self.beta_2)

    def get_config(self) -> dict[str, Any]:
        return {
            "learning_rate": self.learning_rate,
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
        }

"""The network of the experiment on binarised MNIST, compiled."""

from tf_layernorm.experiments.draw import EXPERIMENT, NORMALIZE, Config
from tf_layernorm.experiments.draw.network import DRAW
from tf_layernorm.experiments.optimizer import adam


def build_model(config: Config, norm: str, seed: int = 0) -> DRAW:
    """The compiled network.

    Args:
        config: The run's `Config`.
        norm: `"layer"`, `"none"` or `"all"`.
        seed: Seed of the noise.

    Raises:
        ValueError: If `norm` is unknown.

    Example:

    >>> from tf_layernorm.experiments.draw import Config
    >>> from tf_layernorm.experiments.draw.model import build_model
    >>> build_model(Config(), "none").count_params()  # and a count of the noise drawn
    961276
    """
    EXPERIMENT.norm(norm)
    model = DRAW(
        config.glimpses,
        config.units,
        config.latent,
        config.read_size,
        config.write_size,
        normalize=NORMALIZE[norm],
        seed=seed,
        name=f"draw_{norm}",
    )
    model.build((None, 784))
    optimizer = adam(config.learning_rate, config.adam_epsilon, global_clipnorm=config.clip_norm)
    model.compile(optimizer, jit_compile=True)
    return model

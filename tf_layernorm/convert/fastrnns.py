"""From the LN-LSTM of PyTorch's fastrnns benchmark, and its many copies."""

from collections.abc import Mapping
from typing import Any

from tf_layernorm.convert.weights import filled, take
from tf_layernorm.recurrent.lstm import LNLSTM

_SHAPES = {
    "weight_ih": "4U, D",
    "weight_hh": "4U, U",
    "layernorm_i.weight": "4U",
    "layernorm_i.bias": "4U",
    "layernorm_h.weight": "4U",
    "layernorm_h.bias": "4U",
    "layernorm_c.weight": "U",
    "layernorm_c.bias": "U",
}


def from_fastrnns(
    state_dict: Mapping[str, Any], prefix: str = "", *, epsilon: float = 1e-5, **kwargs: Any
) -> LNLSTM:
    """An `LNLSTM` that computes what fastrnns' `LayerNormLSTMCell` does.

    That is the cell of benchmarks/fastrnns/custom_lstms.py in the repository of PyTorch. It carries
    LN(c) on in place of the c of equation (21); the biases of its norms of the gates add up to
    `bias` here.

    Args:
        state_dict: The arrays or CPU tensors of `module.state_dict()`, by name.
        prefix: What stands before the cell's own names: `"layers.0.cell."` for the first layer of
            `script_lnlstm(...)`. Defaults to `""`.
        epsilon: That of `torch.nn.LayerNorm`, `1e-5`, which is the default. The variant with
            `decompose_layernorm=True` has none: give a tiny one, as `1e-12`.
        **kwargs: Other arguments of `LNLSTM`, as `return_sequences`.

    Returns:
        A built layer with `carry_normalized_state=True`.

    Raises:
        ValueError: If the arrays are not those of such a cell, or if it has others.

    Example:

    >>> import keras, numpy as np
    >>> from tf_layernorm.convert import from_fastrnns
    >>> norms = {f"layernorm_{k}.{w}": np.ones(16) for k in "ih" for w in ("weight", "bias")}
    >>> norms |= {"layernorm_c.weight": np.ones(4), "layernorm_c.bias": np.ones(4)}
    >>> kernels = {"weight_ih": np.ones((16, 3)), "weight_hh": np.ones((16, 4))}
    >>> keras.Sequential([keras.Input((None, 3)), from_fastrnns(kernels | norms)]).output_shape
    (None, 4)

    References:
        [Ba, Kiros, Hinton, 2016](https://arxiv.org/abs/1607.06450), eq. (20)-(22).
    """
    names = [key.removeprefix(prefix) for key in state_dict if key.startswith(prefix)]
    others = sorted(set(names) - set(_SHAPES))
    w = take("fastrnns' LayerNormLSTMCell", state_dict, _SHAPES, prefix)
    if others:
        raise ValueError(
            "fastrnns' LayerNormLSTMCell has no other parameters than its two kernels and three "
            f"layer norms. Received: {others}"
        )
    gates = [w["weight_ih"].T, w["weight_hh"].T, w["layernorm_i.bias"] + w["layernorm_h.bias"]]
    gates += [w["layernorm_i.weight"], w["layernorm_h.weight"]]
    state = [w["layernorm_c.weight"], w["layernorm_c.bias"]]
    layer = LNLSTM(len(state[0]), carry_normalized_state=True, epsilon=epsilon, **kwargs)
    return filled(layer, gates + state)

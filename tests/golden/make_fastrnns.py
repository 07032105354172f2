"""Makes fastrnns.npz: what PyTorch's fastrnns LN-LSTM computes, with random parameters.

The wheel of PyTorch has no fastrnns, so its cell is written anew here, with the parameters' names
of benchmarks/fastrnns/custom_lstms.py in pytorch/pytorch at 02ed7257e27f: `LayerNorm` (used with
`decompose_layernorm=True`; it has no epsilon) and `LayerNormLSTMCell`.
    pip install torch==2.13.0 numpy
    python make_fastrnns.py
"""

import pathlib

import numpy as np
import torch

BATCH, TIME, INPUTS, UNITS = 2, 6, 3, 4


class DecomposedLayerNorm(torch.nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(size))
        self.bias = torch.nn.Parameter(torch.empty(size))

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        deviation, mean = torch.std_mean(z, dim=-1, correction=0, keepdim=True)
        return (z - mean) / deviation * self.weight + self.bias


class Cell(torch.nn.Module):
    def __init__(self, layer_norm: type[torch.nn.Module]) -> None:
        super().__init__()
        self.weight_ih = torch.nn.Parameter(torch.empty(4 * UNITS, INPUTS))
        self.weight_hh = torch.nn.Parameter(torch.empty(4 * UNITS, UNITS))
        self.layernorm_i = layer_norm(4 * UNITS)
        self.layernorm_h = layer_norm(4 * UNITS)
        self.layernorm_c = layer_norm(UNITS)

    def forward(self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> list[torch.Tensor]:
        gates = self.layernorm_i(x @ self.weight_ih.T) + self.layernorm_h(h @ self.weight_hh.T)
        i, f, g, o = torch.split(gates, UNITS, dim=1)
        c = self.layernorm_c(f.sigmoid() * c + i.sigmoid() * g.tanh())
        return [o.sigmoid() * c.tanh(), c]


def main() -> None:
    torch.manual_seed(0)
    inputs, initial = torch.randn(BATCH, TIME, INPUTS), torch.randn(2, BATCH, UNITS)
    arrays = {"inputs": inputs, "initial": initial}
    for name, layer_norm in (("fused", torch.nn.LayerNorm), ("decomposed", DecomposedLayerNorm)):
        cell, states, outputs = Cell(layer_norm), list(initial), []
        with torch.no_grad():
            for parameter in cell.parameters():
                parameter.normal_()
            for x in inputs.unbind(1):
                states = cell(x, *states)
                outputs.append(states[0])
        arrays[f"{name}_outputs"] = torch.stack(outputs, dim=1)
        arrays[f"{name}_final"] = torch.stack(states)
        arrays |= {f"{name}_cell.{key}": value for key, value in cell.state_dict().items()}
    arrays = {name: value.numpy() for name, value in arrays.items()}
    np.savez_compressed(pathlib.Path(__file__).with_name("fastrnns.npz"), **arrays)


if __name__ == "__main__":
    main()

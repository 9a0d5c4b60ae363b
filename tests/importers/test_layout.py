# SPDX-License-Identifier: Apache-2.0
"""Operators that depend on layout, on the result of a convolution (which lies channels last), for every axis: the
quantized outputs must be those of PyTorch's converted model."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pillion import passes
from pillion.importers.torch.quantize.ptq import ptq
from pillion.importers.torch.to_graph import import_program
from pillion.ir.graph import Graph
from pillion.ops import Transpose
from pillion.passes.convert_to_integer import float_ops
from torch_oracle import compare

pytestmark = pytest.mark.slow

BATCH, CHANNELS, HEIGHT, WIDTH = 2, 3, 11, 7


class AfterConv(nn.Module):
    """A convolution (5 channels out of 3), then `body`."""

    def __init__(self, body: Callable[..., Tensor]) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.conv = nn.Conv2d(CHANNELS, 5, 3, padding=1)
        self.side = nn.Conv2d(CHANNELS, 5, 1)
        self.after = nn.Conv2d(5, 4, 1)
        self.rows = nn.Linear(WIDTH, 6)
        self.flat = nn.Linear(5 * HEIGHT * WIDTH, 4)
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        return self.body(self, self.conv(x), self.side(x))


BODIES: dict[str, Callable[..., Tensor]] = {
    "permute": lambda m, x, y: x.permute(0, 2, 3, 1),
    "permute_all": lambda m, x, y: x.permute(3, 1, 0, 2),
    "permute_and_back": lambda m, x, y: m.after(x.permute(0, 2, 3, 1).permute(0, 3, 1, 2)),
    "transpose": lambda m, x, y: x.transpose(1, 2),
    "view": lambda m, x, y: x.reshape(BATCH, 5, HEIGHT * WIDTH),
    "view_merging_channels": lambda m, x, y: x.reshape(BATCH * 5, HEIGHT, WIDTH),
    "view_splitting_channels": lambda m, x, y: (
        x[:, :4].reshape(BATCH, 2, 2, HEIGHT, WIDTH).transpose(1, 2).reshape(BATCH, 4, HEIGHT, WIDTH)
    ),
    "flatten_linear": lambda m, x, y: m.flat(x.flatten(1)),
    "flatten_relu_linear": lambda m, x, y: m.flat(F.relu(x).flatten(1)),
    "linear_on_width": lambda m, x, y: m.rows(x),
    "squeeze": lambda m, x, y: x[:, :, :1].squeeze(2),
    "unsqueeze": lambda m, x, y: x.unsqueeze(2),
    "add_permuted": lambda m, x, y: x + y.permute(0, 1, 3, 2).permute(0, 1, 3, 2),
    "add": lambda m, x, y: x + y,
    "sub": lambda m, x, y: x - y,
    "mul": lambda m, x, y: x * y,
    "gate": lambda m, x, y: x * torch.sigmoid(F.adaptive_avg_pool2d(y, 1)),
    "broadcast_width": lambda m, x, y: x + y[:, :, :, :1],
    "broadcast_channels": lambda m, x, y: x + y[:, :1],
    "broadcast_rows_of_lower_rank": lambda m, x, y: x + y.mean((0, 1)),
    "minimum_broadcast": lambda m, x, y: torch.minimum(x, y[:, :, :1, :1]),
    "maximum": lambda m, x, y: torch.maximum(x, y),
    "conv_after_cat": lambda m, x, y: m.after(torch.cat([x[:, :2], y[:, 2:]], 1)),
    "pad_all_around": lambda m, x, y: F.pad(x, (1, 2, 3, 0)),
    "pad_channels": lambda m, x, y: F.pad(x, (0, 0, 0, 0, 1, 2)),
    "pad_value": lambda m, x, y: F.pad(x, (1, 0), value=0.5),
    "crop": lambda m, x, y: F.pad(x, (-1, -2, 0, -1)),
    "mean_hw": lambda m, x, y: x.mean((2, 3)),
    "mean_hw_keep": lambda m, x, y: x.mean((2, 3), keepdim=True),
    "mean_all": lambda m, x, y: x.mean(),
    "chunk": lambda m, x, y: torch.cat(list(x[:, :4].chunk(2, 1))[::-1], 1),
    "split": lambda m, x, y: x.split([2, 3], 1)[1],
    "stack": lambda m, x, y: torch.stack([x, y], 1),
    "select": lambda m, x, y: x[:, 2],
    "strided": lambda m, x, y: x[:, :, ::2, 1::3],
    "max_pool_ceil": lambda m, x, y: F.max_pool2d(x, 3, 2, ceil_mode=True),
    "max_pool_pad": lambda m, x, y: F.max_pool2d(x, 3, 2, 1),
    "avg_pool_pad": lambda m, x, y: F.avg_pool2d(x, 3, 2, 1),
    "avg_pool_pad_not_counted": lambda m, x, y: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "avg_pool_ceil": lambda m, x, y: F.avg_pool2d(x, 2, 2, ceil_mode=True),
    "avg_pool_ceil_pad": lambda m, x, y: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
    "avg_pool_ceil_pad_not_counted": lambda m, x, y: F.avg_pool2d(
        x, 3, 2, 1, ceil_mode=True, count_include_pad=False
    ),
    "relu6": lambda m, x, y: F.relu6(x * 4),
    "hardswish_after_add": lambda m, x, y: F.hardswish(x + y),
    "silu": lambda m, x, y: F.silu(x),
    "leaky_relu": lambda m, x, y: F.leaky_relu(x, 0.2),
    "gelu": lambda m, x, y: F.gelu(x),
    "conv1d": lambda m, x, y: F.conv1d(x.mean(2), m.after.weight[:, :, 0], m.after.bias),
}
for _function in (torch.erf, torch.sin, F.mish, F.selu, torch.log1p, torch.sign, lambda x: x**3):
    BODIES[f"tabulated_{len(BODIES)}"] = lambda m, x, y, f=_function: f(F.relu(x) + 0.5)
for _dim in range(4):
    BODIES[f"softmax_{_dim}"] = lambda m, x, y, d=_dim: F.softmax(x, d)
    BODIES[f"mean_{_dim}"] = lambda m, x, y, d=_dim: x.mean(d)
    BODIES[f"mean_{_dim}_keep"] = lambda m, x, y, d=_dim: x.mean(d, keepdim=True)
    BODIES[f"cat_{_dim}"] = lambda m, x, y, d=_dim: torch.cat([x, y], d)
    BODIES[f"slice_{_dim}"] = lambda m, x, y, d=_dim: x.narrow(d, 1, 1)


def graph_of(module: nn.Module, *inputs: Tensor) -> tuple[torch.fx.GraphModule, Graph]:
    quantized = ptq(module.eval(), inputs, [inputs])
    graph = passes.run(import_program(quantized.graph_module, "net"))
    return quantized.graph_module, graph


@pytest.mark.turns(9)
@pytest.mark.torch
@pytest.mark.parametrize("name", BODIES)
def test_a_layout_sensitive_op_is_right(name: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)
    module, graph = graph_of(AfterConv(BODIES[name]), x)
    assert float_ops(graph) == []
    comparison = compare(module, graph, x)
    assert comparison.largest, "nothing was compared"
    assert max(comparison.largest.values()) <= 1
    ours = graph.reference(x.numpy())[0]
    with torch.no_grad():
        theirs = module(x)
    theirs = theirs[0] if isinstance(theirs, (tuple, list)) else theirs
    assert ours.shape == tuple(theirs.shape)
    step = graph.producers[graph.outputs[0]].x.scale  # type: ignore[attr-defined]  # a dequantize
    # Here differences of one step per op add up; a wrong order would be far off.
    assert abs(ours - theirs.numpy()).max() <= 4.001 * step


@pytest.mark.torch
def test_flatten_linear_moves_weights_not_activations() -> None:
    x = torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)
    _, graph = graph_of(AfterConv(BODIES["flatten_linear"]), x)
    transposes = [op for op in graph if isinstance(op, Transpose)]
    assert [op.operands[0] for op in transposes] == [graph.ops[0].results[0]], "only the input is transposed"


@pytest.mark.torch
def test_opposite_permutations_cancel() -> None:
    x = torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)
    _, graph = graph_of(AfterConv(BODIES["permute_and_back"]), x)
    assert sum(isinstance(op, Transpose) for op in graph) == 2, "input and output only"

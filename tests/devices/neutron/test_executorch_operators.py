# SPDX-License-Identifier: Apache-2.0
"""The operators that ExecuTorch 1.5.1's backend for Neutron converts, each between two convolutions: they run on the NPU here, too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import pillion
from pillion.ops import Segment

OPERATORS: dict[str, Callable[[Tensor], Tensor]] = {
    "abs": torch.abs,
    "_adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, (5, 5)),
    "addmm": lambda x: F.linear(x.flatten(0, 2), WEIGHTS, BIAS).reshape(1, 8, 10, 10),
    "add": lambda x: x + x.neg().sigmoid(),
    "amax": lambda x: x.amax((2, 3), keepdim=True),
    "amin": lambda x: x.amin((2, 3), keepdim=True),
    "avg_pool2d": lambda x: F.avg_pool2d(x, 2),
    "avg_pool2d, padded": lambda x: F.avg_pool2d(x, 2, padding=1),
    "bmm": lambda x: torch.bmm(x[0], x[0].transpose(1, 2))[None],
    "cat": lambda x: torch.cat([x, x.relu()], 2),
    "clamp": lambda x: x.clamp(-0.2, 0.3),
    "clone": lambda x: x.clone().relu(),
    "constant_pad_nd": lambda x: F.pad(x, (1, 2, 1, 0)),
    "constant_pad_nd, of a value": lambda x: F.pad(x, (1, 2, 1, 0), value=0.25),
    "convolution": lambda x: F.conv2d(x, KERNEL, stride=2, padding=1, dilation=2),
    "convolution, depthwise": lambda x: F.conv2d(x, KERNEL[:, :1], groups=8),
    "convolution, in groups": lambda x: F.conv2d(x, KERNEL[:, :4], groups=2),
    "convolution, of one axis": lambda x: F.conv1d(x[:, :, 0], KERNEL[:, :, 0])[:, :, None],
    "convolution, transposed": lambda x: F.conv_transpose2d(x, KERNEL, stride=2),
    "exp": torch.exp,
    "hardswish": F.hardswish,
    "hardtanh": lambda x: F.hardtanh(x, -0.3, 0.4),
    "leaky_relu": F.leaky_relu,
    "log": lambda x: (x.abs() + 1).log(),
    "max_pool2d_with_indices": lambda x: F.max_pool2d(x, 2, padding=1),
    "maximum": lambda x: torch.maximum(x, x.neg()),
    "mean": lambda x: x.mean((2, 3), keepdim=True),
    "minimum": lambda x: torch.minimum(x, x.neg()),
    "mm": lambda x: F.linear(x.flatten(0, 2), WEIGHTS).reshape(1, 8, 10, 10),
    "mul": lambda x: x * x.sigmoid(),
    "neg": torch.neg,
    "pad, reflect": lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
    "permute_copy": lambda x: x.permute(0, 1, 3, 2),
    "prelu": lambda x: F.prelu(x, torch.linspace(0.1, 0.4, 8)),
    "relu": F.relu,
    "rsqrt": lambda x: (x.abs() + 0.5).rsqrt(),
    "sigmoid": torch.sigmoid,
    "slice_copy": lambda x: x[:, :, 1:6],
    "_softmax": lambda x: x.softmax(1),
    "sub": lambda x: x - x.sigmoid(),
    "sum": lambda x: x.sum((2, 3), keepdim=True),
    "tanh": torch.tanh,
    "upsample_bilinear2d": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "upsample_nearest2d": lambda x: F.interpolate(x, scale_factor=4),
    "view_copy": lambda x: x.reshape(1, 8, 5, 20),
}
"""Edge operator, and where needed the case → its call."""
WEIGHTS, BIAS = torch.linspace(-0.3, 0.3, 100).reshape(10, 10), torch.linspace(-1, 1, 10)
KERNEL = torch.linspace(-0.2, 0.2, 8 * 8 * 9).reshape(8, 8, 3, 3)
X = torch.randn(1, 3, 12, 12, generator=torch.Generator().manual_seed(3))


class Between(nn.Module):
    """An operator between two convolutions."""

    def __init__(self, call: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.call = call
        self.first, self.second = nn.Conv2d(3, 8, 3), nn.LazyConv2d(8, 1)
        self(X)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.call(self.first(x)))


@pytest.mark.parametrize("name", OPERATORS)
def test_the_npu_takes_the_operator(name: str) -> None:
    program = pillion.compile(Between(OPERATORS[name]).eval(), (X,), target="imxrt700", prefer_npu=True)
    assert {e.op.kind for e in program.ledger if e.segment is None} == {"quantize", "dequantize"}
    assert sum(isinstance(op, Segment) for op in program.graph.ops) == 1


def test_one_name_chooses_quantizer_split_and_kernels(tmp_path: Path) -> None:
    """The name of ExecuTorch's combined backend, which stands for its recipe: the same files as with the chip's name."""
    made = []
    for name in ("imxrt700cm", "imxrt700"):
        program = pillion.compile(Between(torch.relu).eval(), (X,), target=name, name="net")
        program.save(tmp_path / f"{name}.pte")
        made.append((program.target, program.files, (tmp_path / f"{name}.pte").read_bytes()))
    assert made[0] == made[1]
    trained = pillion.prepare_qat(Between(torch.relu), (X,), "imxrt700cm")
    trained(X)
    assert pillion.compile(trained, (X,), target="imxrt700cm").ledger.on_npu

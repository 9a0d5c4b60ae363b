# SPDX-License-Identifier: Apache-2.0
"""MobileNetV3-Small: squeeze-and-excite and hard-swish (Howard et al., 2019, table 2)."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn

from pillion.zoo.conv_block import ConvBN

EPS = 1e-3
STEM = 16
FEATURES = 576
HIDDEN = 1024


class BlockSpec(NamedTuple):
    """One row of the paper's table, which describes a block of the network."""

    kernel: int
    hidden: int
    outputs: int
    excite: bool
    activation: type[nn.Module]
    stride: int


BLOCKS = (
    BlockSpec(3, 16, 16, True, nn.ReLU, 2),
    BlockSpec(3, 72, 24, False, nn.ReLU, 2),
    BlockSpec(3, 88, 24, False, nn.ReLU, 1),
    BlockSpec(5, 96, 40, True, nn.Hardswish, 2),
    BlockSpec(5, 240, 40, True, nn.Hardswish, 1),
    BlockSpec(5, 240, 40, True, nn.Hardswish, 1),
    BlockSpec(5, 120, 48, True, nn.Hardswish, 1),
    BlockSpec(5, 144, 48, True, nn.Hardswish, 1),
    BlockSpec(5, 288, 96, True, nn.Hardswish, 2),
    BlockSpec(5, 576, 96, True, nn.Hardswish, 1),
    BlockSpec(5, 576, 96, True, nn.Hardswish, 1),
)


class MobileNetV3Small(nn.Module):
    """Width 1.0, for images of any size, with logits as output."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.stem = ConvBN(3, STEM, 3, 2, activation=nn.Hardswish, eps=EPS)
        inputs = (STEM, *(block.outputs for block in BLOCKS))
        self.blocks = nn.Sequential(*(Bottleneck(*pair) for pair in zip(inputs, BLOCKS, strict=False)))
        self.top = ConvBN(inputs[-1], FEATURES, activation=nn.Hardswish, eps=EPS)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.hidden = nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.Hardswish())
        self.head = nn.Linear(HIDDEN, classes)

    def forward(self, x: Tensor) -> Tensor:
        y = self.pool(self.top(self.blocks(self.stem(x))))
        out: Tensor = self.head(self.hidden(y.flatten(1)))
        return out


class Bottleneck(nn.Module):
    """Expansion, depthwise convolution, squeeze-and-excite, linear projection; plus the input if the shapes
    are equal."""

    def __init__(self, inputs: int, row: BlockSpec) -> None:
        super().__init__()
        hidden, act = row.hidden, row.activation
        expand = [ConvBN(inputs, hidden, activation=act, eps=EPS)] if hidden != inputs else []
        depthwise = ConvBN(hidden, hidden, row.kernel, row.stride, depthwise=True, activation=act, eps=EPS)
        excite = [SqueezeExcite(hidden)] if row.excite else []
        project = ConvBN(hidden, row.outputs, activation=None, eps=EPS)
        self.body = nn.Sequential(*expand, depthwise, *excite, project)
        self.residual = row.stride == 1 and inputs == row.outputs

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.body(x)
        return x + y if self.residual else y


class SqueezeExcite(nn.Module):
    """Scales each channel by a gate computed from the means of all channels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        squeezed = _multiple_of_8(channels / 4)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.gate = nn.Sequential(
            nn.Conv2d(channels, squeezed, 1), nn.ReLU(), nn.Conv2d(squeezed, channels, 1), nn.Hardsigmoid()
        )

    def forward(self, x: Tensor) -> Tensor:
        gate: Tensor = self.gate(self.pool(x))
        return x * gate


def _multiple_of_8(channels: float) -> int:
    """Returns the nearest multiple of 8, ties up, but at least nine tenths of `channels`."""
    nearest = max(8, int(channels + 4) // 8 * 8)
    return nearest if nearest >= 0.9 * channels else nearest + 8

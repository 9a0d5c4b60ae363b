# SPDX-License-Identifier: Apache-2.0
"""A U-Net for segmentation on a microcontroller: all its large tensors are live until their skips."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pillion.zoo.conv_block import ConvBN

WIDTHS = (16, 32, 64, 96)


class UNet(nn.Module):
    """Four levels of two 3x3 convolutions down; nearest upsampling, concatenation with the skip and one
    convolution up."""

    def __init__(self, classes: int = 2) -> None:
        super().__init__()
        inputs = (3, *WIDTHS[:-1])
        self.down = nn.ModuleList(
            nn.Sequential(ConvBN(i, o, 3), ConvBN(o, o, 3)) for i, o in zip(inputs, WIDTHS, strict=True)
        )
        pairs = zip(WIDTHS[:0:-1], WIDTHS[-2::-1], strict=True)
        self.up = nn.ModuleList(ConvBN(below + skip, skip, 3) for below, skip in pairs)
        self.head = nn.Conv2d(WIDTHS[0], classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        skips: list[Tensor] = []
        for level in self.down:
            x = level(F.max_pool2d(x, [min(2, side) for side in x.shape[-2:]]) if skips else x)
            skips.append(x)
        for conv, skip in zip(self.up, skips[-2::-1], strict=True):
            x = conv(torch.cat([F.interpolate(x, size=skip.shape[-2:]), skip], 1))
        out: Tensor = self.head(x)
        return out

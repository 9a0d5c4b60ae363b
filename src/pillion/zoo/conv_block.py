# SPDX-License-Identifier: Apache-2.0
"""The convolution block of the zoo's models."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

Sides = tuple[int, int, int, int]  # left, right, top, bottom: the order of nn.ZeroPad2d


class ConvBN(nn.Sequential):
    """A convolution, a batch norm and an activation.

    Without `pad`, all sides have half of the kernel as padding. `pad` is for TFLite's SAME padding, which
    puts the odd pixel at the bottom and right and needs a layer of its own in torch."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int | tuple[int, int] = 1,
        stride: int = 1,
        *,
        depthwise: bool = False,
        activation: type[nn.Module] | None = nn.ReLU,
        pad: Sides | None = None,
        eps: float = 1e-5,
    ) -> None:
        height, width = (kernel, kernel) if isinstance(kernel, int) else kernel
        padding = (0, 0) if pad else ((height - 1) // 2, (width - 1) // 2)
        groups = inputs if depthwise else 1
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        if pad:
            layers["pad"] = nn.ZeroPad2d(pad)
        # No bias: the batch norm that follows has one.
        layers["conv"] = nn.Conv2d(
            inputs, outputs, (height, width), stride, padding, groups=groups, bias=False
        )
        layers["norm"] = nn.BatchNorm2d(outputs, eps=eps)
        if activation:
            layers["act"] = activation()
        super().__init__(layers)

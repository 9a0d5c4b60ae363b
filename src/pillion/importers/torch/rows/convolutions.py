# SPDX-License-Identifier: Apache-2.0
"""Rows of convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch.fx import Node

from pillion.importers.torch.fx_nodes import is_constant
from pillion.importers.torch.layout import NHWC, NLC, Builder, LayoutValue, from_logical_order
from pillion.importers.torch.rows.quantization import rule_of_op
from pillion.importers.torch.rows.table import (
    Lowering,
    aten,
    height_and_width,
    lowers,
    require_constant,
    symmetric_padding,
)
from pillion.ir.types import Value, constant_value
from pillion.ops import Conv2d, DepthwiseConv2d, TransposeConv2d


def computed_weights_refusal(node: Node) -> str:
    """Returns why a call with weights that are not constant is refused; empty if they are constant."""
    return "" if is_constant(node.args[1]) else "its weights are computed from the input"


CONVOLUTION = rule_of_op(Conv2d, weight=1, axis=0, refusal=computed_weights_refusal, also=(DepthwiseConv2d,))
TRANSPOSED = rule_of_op(TransposeConv2d, weight=1, axis=1, refusal=computed_weights_refusal)


@lowers(aten.conv2d.default, quantized=CONVOLUTION)
def conv2d(
    b: Builder,
    x: LayoutValue,
    weight: LayoutValue,
    bias: LayoutValue | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    **result: Any,
) -> LayoutValue:
    """Lowers a convolution; a depthwise one if every channel has its own filters. `result` may have the result's type."""
    require_constant("conv2d", "weight", weight)
    out_channels, channels = weight.shape[0], x.shape[1]
    fields: dict[str, Any] = {
        "x": b.arrange(x, NHWC),
        "bias": bias_or_zeros(b, bias, out_channels),
        "stride": height_and_width(stride),
        "padding": symmetric_padding(padding),
        "dilation": height_and_width(dilation),
        **result,
    }
    if groups == channels and out_channels % channels == 0 and groups > 1:
        return LayoutValue(b.emit(DepthwiseConv2d, weights=b.arrange(weight, (1, 2, 3, 0)), **fields), NHWC)
    return LayoutValue(b.emit(Conv2d, weights=b.arrange(weight, NHWC), groups=groups, **fields), NHWC)


@lowers(aten.conv_transpose2d.input, quantized=TRANSPOSED)
def conv_transpose2d(
    b: Builder,
    x: LayoutValue,
    weight: LayoutValue,
    bias: LayoutValue | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> LayoutValue:
    """Lowers a transposed convolution with weights [in, out, height, width]."""
    assert groups == 1, "groups are decomposed (`decompositions.volumes`)"
    require_constant("conv_transpose2d", "weight", weight)
    y = b.emit(
        TransposeConv2d,
        x=b.arrange(x, NHWC),
        weights=b.arrange(weight, (1, 2, 3, 0)),
        bias=bias_or_zeros(b, bias, weight.shape[1]),
        stride=height_and_width(stride),
        dilation=height_and_width(dilation),
        padding=symmetric_padding(padding),
        output_padding=height_and_width(output_padding),
    )
    return LayoutValue(y, NHWC)


def _signal_lowering(name: str, of_images: Lowering, fills: Sequence[int | None]) -> Lowering:
    """Returns the lowering of a layer over signals as one over images of height 1. `fills` are the window's
    arguments along the height, None for the number of groups."""

    def lower(
        b: Builder, x: LayoutValue, weight: LayoutValue, bias: LayoutValue | None = None, *window: Any
    ) -> LayoutValue:
        require_constant(name, "weight", weight)
        pairs = zip(fills, window, strict=False)
        wide = [given if fill is None else (fill, height_and_width(given)[0]) for fill, given in pairs]
        return as_rows(b, of_images(b, as_image(b, x), with_height(weight), bias, *wide))

    return lower


lowers(aten.conv1d.default, quantized=CONVOLUTION)(_signal_lowering("conv1d", conv2d, (1, 0, 1, None)))
lowers(aten.conv_transpose1d.default, quantized=TRANSPOSED)(
    _signal_lowering("conv_transpose1d", conv_transpose2d, (1, 0, 0, None, 1))
)


def as_image(b: Builder, x: LayoutValue) -> LayoutValue:
    """Reshapes [N, C, L] to images of height 1."""
    batch, channels, length = x.shape
    return LayoutValue(b.reshape(b.arrange(x, NLC), (batch, 1, length, channels)), NHWC)


def as_rows(b: Builder, image: LayoutValue) -> LayoutValue:
    """Reshapes images of height 1 to [N, C, L]."""
    batch, channels, _, length = image.shape
    return LayoutValue(b.reshape(image.value, (batch, length, channels)), NLC)


def with_height(weight: LayoutValue) -> LayoutValue:
    """Reshapes constant weights [O, I, K] to [O, I, 1, K]."""
    value = weight.value
    return from_logical_order(constant_value(value.name, value.constant[:, :, None, :], value.type.quant))


def bias_or_zeros(b: Builder, bias: LayoutValue | None, count: int) -> Value:
    """Returns the bias, or zeros if there is none."""
    if bias is not None:
        return b.plain(bias)
    return b.constant(constant_value(f"{b.hint}bias_or_zeros", np.zeros(count, np.float32)))

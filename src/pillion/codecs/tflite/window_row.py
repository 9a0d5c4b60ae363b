# SPDX-License-Identifier: Apache-2.0
"""Convolutions and pools, whose windows the format pads as SAME or VALID."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pillion import ops
from pillion.codecs.tflite import exact
from pillion.codecs.tflite.geometry import levels, padding_sides
from pillion.codecs.tflite.node import Node, int32_constant
from pillion.codecs.tflite.operands import INT8_OR_16, bias_of, require_int8, weights_of, with_axes
from pillion.codecs.tflite.operator_row import Row
from pillion.codecs.tflite.read_operator import ReadOperator
from pillion.ir.op import Op
from pillion.ir.types import PerTensor, TensorType, Value, constant_value
from pillion.ops.layer import zero_dead_channel_biases
from pillion.schemas import tflite
from pillion.schemas.tflite import Padding

PAIRS = {
    "kernel": ("filter_h", "filter_w"),
    "stride": ("stride_h", "stride_w"),
    "dilation": ("dilation_h", "dilation_w"),
}
"""Attributes, and the pairs of options with the same values."""


@dataclass(frozen=True)
class WindowRow(Row):
    """An operator on the windows of an image."""

    channel_axis: int | None = None
    """The axis of the weights with the channels of the result; None: a pool, which has no weights."""
    fill: Callable[[Any], int | None] = lambda op: op.x.zero_point
    """Returns the level of a padding that neither SAME nor VALID is; None if there is none."""

    def read(self, call: ReadOperator) -> list[Op]:
        """Returns the op of an operator."""
        require_int8(call, types=INT8_OR_16)
        options: Any = call.options_as(self.table)
        x, y = (with_axes(call, value, 4) for value in (call.operand(0), call.result))
        fields: dict[str, Any] = {
            name: (getattr(options, h), getattr(options, w)) for name, h, w in self.pairs
        }
        kernel = fields.get("kernel")
        if self.channel_axis is not None:
            fields["weights"] = weights = weights_of(call, x, 4)
            kernel = (weights.shape[1], weights.shape[2])
        if self.op is ops.Conv2d:
            fields["groups"] = max(x.shape[3] // weights.shape[3], 1)
        windows: Any = (kernel, fields["stride"], fields.get("dilation", (1, 1)))
        fields["padding"] = padding_sides(call, options.padding, x.shape, *windows)
        fields |= levels(call, y, options.fused_activation)
        if self.channel_axis is None:
            return [self.op(x=x, y=y, source=call.source, **fields)]
        fields["bias"] = bias_of(call, 2, x, weights, weights.shape[self.channel_axis])
        op = self.op(x=x, y=y, source=call.source, **fields)
        return [op if call.is_float else zero_dead_channel_biases(op, call.fresh)]

    def write(self, op: Any) -> list[Node]:
        """Returns the operator of an op, with a PAD before it if neither SAME nor VALID is exactly its padding."""
        exact.int8_or_16_only(op)
        inputs: tuple[Value, ...] = ()
        if self.channel_axis is not None:
            exact.require_constants(op, op.weights, op.bias)
            inputs = (exact.symmetric_weights(op, op.weights), exact.scaled_bias(op))
        values: dict[str, Any] = {option: getattr(op, name) for name, option in self.fields.items()}
        for name, h, w in self.pairs:
            values[h], values[w] = getattr(op, name)
        x, before, padding = self._padded(op)
        node = Node(self.code, (x, *inputs), (op.y,), self.table(padding=padding, **values))
        return [*before, *exact.with_fused_activation(op, node)]

    @property
    def table(self) -> Any:
        """The class of the options."""
        return self.options

    @property
    def pairs(self) -> list[tuple[str, str, str]]:
        """The attributes that are pairs of this operator's options."""
        known = {name for name, *_ in self.table.layout}
        return [(name, h, w) for name, (h, w) in PAIRS.items() if h in known]

    def _padded(self, op: Any) -> tuple[Value, list[Node], Padding]:
        """Returns the image, the operator that pads it, and the padding of the windows."""
        dilation = getattr(op, "dilation", (1, 1))
        mode = exact.padding_code(op.x.shape, op.output_shape, op.kernel, op.stride, dilation, op.padding)
        if mode is not None:
            return op.x, [], mode
        level = self.fill(op)
        if level is None:
            raise exact.inexact_op_error(
                op,
                "a window counts the pixels inside the image only: padding is none, or that of SAME",
                f"padding {op.padding}, kernel {op.kernel}, stride {op.stride}, image {op.x.shape[1:3]}",
                "count_include_pad=True makes the padding an op of its own",
            )
        top, left, bottom, right = op.padding
        n, h, w, c = op.x.shape
        shape = (n, top + h + bottom, left + w + right, c)
        y = Value(f"{op.name}/padded", TensorType(shape, op.x.dtype, op.x.type.quant))
        before, after = (0, top, left, 0), (0, bottom, right, 0)
        return y, [pad_node(op.name, op.x, y, before, after, level)], Padding.VALID


def pad_node(
    name: str, x: Value, y: Value, before: tuple[int, ...], after: tuple[int, ...], level: float
) -> Node:
    """Returns the operator of a padding: PAD fills with real zero, PADV2 with any value."""
    paddings = int32_constant(f"{name}/paddings", list(zip(before, after, strict=True)))
    zero = x.zero_point if isinstance(x.type.quant, PerTensor) else 0
    if level == zero:
        return Node("PAD", (x, paddings), (y,), tflite.PadOptions())
    fill = constant_value(f"{name}/fill", np.full(1, level, x.dtype.numpy), x.type.quant)
    return Node("PADV2", (x, paddings, fill), (y,), tflite.PadV2Options())


WINDOW_ROWS = (
    WindowRow("CONV_2D", ops.Conv2d, options=tflite.Conv2DOptions, channel_axis=0),
    WindowRow(
        "DEPTHWISE_CONV_2D",
        ops.DepthwiseConv2d,
        options=tflite.DepthwiseConv2DOptions,
        fields={"depth_multiplier": "depth_multiplier"},
        channel_axis=3,
    ),
    WindowRow(
        "MAX_POOL_2D", ops.MaxPool2d, options=tflite.Pool2DOptions, fill=lambda op: op.x.dtype.bounds[0]
    ),
    WindowRow("AVERAGE_POOL_2D", ops.AvgPool2d, options=tflite.Pool2DOptions, fill=lambda op: None),
)

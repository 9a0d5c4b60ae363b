# SPDX-License-Identifier: Apache-2.0
"""Writes transposed convolutions."""

from __future__ import annotations

from pillion.codecs.tflite import exact
from pillion.codecs.tflite.node import Node, int32_constant
from pillion.ir.types import TensorType, Value
from pillion.ops.transpose_conv import TransposeConv2d
from pillion.schemas import tflite
from pillion.schemas.tflite import Padding


def transpose_conv(op: TransposeConv2d) -> list[Node]:
    """Returns the operators of a transposed convolution: VALID with the uncropped result, and a slice if
    something is cropped."""
    exact.int8_or_16_only(op)
    exact.require_constants(op, op.weights, op.bias)
    if op.dilation != (1, 1):
        raise exact.inexact_op_error(op, "TRANSPOSE_CONV: the dilation is 1", op.dilation)
    shape = (op.x.shape[0], *op.uncropped_size, op.weights_out_channels)
    uncropped = (
        Value(f"{op.name}/whole", TensorType(shape, op.y.dtype, op.y.type.quant)) if any(op.padding) else op.y
    )
    inputs = (
        int32_constant(f"{op.name}/shape", shape),
        exact.symmetric_weights(op, op.weights),
        op.x,
        exact.scaled_bias(op),
    )
    options = tflite.TransposeConvOptions(padding=Padding.VALID, stride_h=op.stride[0], stride_w=op.stride[1])
    return [
        *exact.with_fused_activation(op, Node("TRANSPOSE_CONV", inputs, (uncropped,), options)),
        *_crop_nodes(op, uncropped),
    ]


def _crop_nodes(op: TransposeConv2d, uncropped: Value) -> list[Node]:
    if uncropped is op.y:
        return []
    begin = int32_constant(f"{op.name}/begin", (0, op.padding[0], op.padding[1], 0))
    return [
        Node(
            "SLICE",
            (uncropped, begin, int32_constant(f"{op.name}/size", op.y.shape)),
            (op.y,),
            tflite.SliceOptions(),
        )
    ]

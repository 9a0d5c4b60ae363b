# SPDX-License-Identifier: Apache-2.0
"""Convolutions whose multiplier is that of LiteRT's uint8 kernels are written as operators on uint8."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pillion.emitters.tflite.node import Node
from pillion.ir.types import DType, PerTensor, TensorType, Value, constant
from pillion.ops.conv import Convolution
from pillion.schemas import tflite

APART = 128
"""How far the zero points of a tensor lie apart in uint8 and in int8."""


def in_uint8(op: Convolution, nodes: list[Node]) -> list[Node]:
    """Gives the operators of a convolution with that one on uint8 which has the weights, between two that convert."""
    made: list[Node] = []
    for node in nodes:
        weights = next((v for v in node.inputs if v is op.weights), None)
        made += [node] if weights is None else _one(op, node)
    return made


def _one(op: Convolution, node: Node) -> list[Node]:
    levels = (op.weights.constant.astype(np.int16) + APART).astype(np.uint8)
    weights = constant(f"{op.name}/weights_uint8", levels, PerTensor(op.weights.scale, APART))
    y = _unsigned(node.outputs[0], f"{op.name}/uint8")
    x = next(v for v in node.inputs if not v.is_constant)
    inner = _unsigned(x, f"{op.name}/operand_uint8")
    instead = {op.weights: weights, x: inner}
    return [
        Node("QUANTIZE", (x,), (inner,), tflite.QuantizeOptions()),
        replace(node, inputs=tuple(instead.get(v, v) for v in node.inputs), outputs=(y,)),
        Node("QUANTIZE", (y,), node.outputs, tflite.QuantizeOptions()),
    ]


def _unsigned(value: Value, name: str) -> Value:
    return Value(name, TensorType(value.shape, DType.UINT8, PerTensor(value.scale, value.zero_point + APART)))

# SPDX-License-Identifier: Apache-2.0
"""Writes ops with the arithmetic of LiteRT's uint8 kernels as operators on uint8: convolutions with uint8
multipliers, and ops with other rounding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from pillion.codecs.tflite.exact import UNSIGNED_BY, as_uint8
from pillion.codecs.tflite.node import Node
from pillion.ir.op import Op
from pillion.ir.types import PerTensor, Value, constant_value
from pillion.ops.conv import Convolution
from pillion.schemas import tflite


def convolution_in_uint8(op: Convolution, nodes: list[Node]) -> list[Node]:
    """Returns a convolution's operators, with the weighted one on uint8 between two conversions."""
    converted: list[Node] = []
    for node in nodes:
        weights = next((v for v in node.inputs if v is op.weights), None)
        converted += [node] if weights is None else _node_in_uint8(op, node)
    return converted


def _node_in_uint8(op: Convolution, node: Node) -> list[Node]:
    levels = (op.weights.constant.astype(np.int16) + UNSIGNED_BY).astype(np.uint8)
    weights = constant_value(f"{op.name}/weights_uint8", levels, PerTensor(op.weights.scale, UNSIGNED_BY))
    return between_uint8(op, node, {op.weights: weights})


def between_uint8(op: Op, node: Node, instead: Mapping[Value, Value] = MappingProxyType({})) -> list[Node]:
    """Returns an operator on uint8 between two conversions, with some operands replaced."""
    y = Value(f"{op.name}/uint8", as_uint8(node.outputs[0].type))
    x = next(v for v in node.inputs if v is not None and not v.is_constant)
    inner = Value(f"{op.name}/operand_uint8", as_uint8(x.type))
    instead = {**instead, x: inner}
    return [
        Node("QUANTIZE", (x,), (inner,), tflite.QuantizeOptions()),
        replace(
            node, inputs=tuple(None if v is None else instead.get(v, v) for v in node.inputs), outputs=(y,)
        ),
        Node("QUANTIZE", (y,), node.outputs, tflite.QuantizeOptions()),
    ]

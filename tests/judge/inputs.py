# SPDX-License-Identifier: Apache-2.0
"""What programs are judged on: any bytes, the ends of the range in turn, and all elements at one end, where sums are largest.

The numbers come from a hash and not from a generator of some library, so that recorded answers stay answers."""

from __future__ import annotations

import hashlib

import numpy as np

from example_graphs import boundary_like
from pillion.ir.graph import Graph
from pillion.ir.types import Array, DType, Value
from pillion.ops import Quantize, Transpose

MOST_STEPS = 32_000
"""Of an input beyond zero. Helium's quantize narrows to 16 bits without a look, so that 32,768 steps become -32,768."""


def samples(graph: Graph) -> list[list[Array]]:
    """Three samples of a program's inputs."""
    low, high = (-128, 127) if len(graph.ops) % 2 else (127, -128)
    ends = [_all(v, graph, low if number % 2 else high) for number, v in enumerate(graph.inputs)]
    return [[_any(v, graph) for v in graph.inputs], [_turns(v, graph) for v in graph.inputs], ends]


def _bytes(name: str, count: int) -> Array:
    return np.frombuffer(hashlib.shake_128(name.encode()).digest(count), np.uint8)


def _any(value: Value, graph: Graph) -> Array:
    if value.dtype is not DType.FLOAT32:
        return _bytes(value.name, value.type.size_bytes).view(value.dtype.numpy).reshape(value.shape)
    raw = _bytes(value.name, 2 * value.type.elements).view(np.int16).reshape(value.shape)
    far = np.sign(raw) * (np.abs(raw.astype(np.int32)) // 7 + 300)
    # Most lie within the range of int8, the rest up to where 16 bits end.
    return _real(np.where(raw % 8 == 0, far, raw % 300 - 150), raw, value, graph)


def _real(steps: Array, raw: Array, value: Value, graph: Graph) -> Array:
    """Numbers by steps of the scale at which they are quantized, up to 3/8 of one beside them.

    At a tie, Helium rounds a product once that other cores round twice, so they answer differently there."""
    scale = np.float32(_scale(value, graph))
    beside = (raw % 7 - 3).astype(np.float32) / 8
    return (np.clip(steps, -MOST_STEPS, MOST_STEPS).astype(np.float32) + beside) * scale


def _scale(value: Value, graph: Graph) -> float:
    """At which an input is quantized, behind transposes."""
    for op in graph.ops:
        if value in op.operands and isinstance(op, Quantize):
            return op.y.scale
        if value in op.operands and isinstance(op, Transpose):
            return _scale(op.y, graph)
    return 1.0


def _turns(value: Value, graph: Graph) -> Array:
    if value.dtype is not DType.FLOAT32:
        return boundary_like(value)
    steps = np.resize(np.array([-128, 127, 126, -127, 0, -MOST_STEPS, MOST_STEPS, 128]), value.shape)
    return _real(steps, np.zeros(value.shape, np.int16), value, graph)


def _all(value: Value, graph: Graph, level: int) -> Array:
    if value.dtype is not DType.FLOAT32:
        held = np.full(value.shape, level + 128 if value.dtype is DType.UINT8 else level)
        return held.astype(value.dtype.numpy)
    return _real(np.full(value.shape, level), np.zeros(value.shape, np.int16), value, graph)

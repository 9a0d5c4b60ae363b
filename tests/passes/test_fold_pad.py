# SPDX-License-Identifier: Apache-2.0
"""Padding of an image goes into the op that reads it, on whichever side; padding of batches or channels does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.types import DType, PerTensor, TensorType, Value, constant_value
from pillion.ir.verify import verify_graph
from pillion.ops import Conv2d, DepthwiseConv2d, MaxPool2d, Pad, Requantize
from pillion.ops.example_values import make_op, random_like, value
from pillion.passes.fold_pad import fold_pad

Sides4 = tuple[int, ...]
ZERO_POINT = 7
SMALLEST = -128


def reader(cls: type[Op], x: Value) -> Op:
    fields: dict[str, Any] = {"kernel": (3, 3)}
    wide = x.dtype is DType.INT16
    y = Value("y", TensorType((), x.dtype, PerTensor(0.1, 0 if wide else ZERO_POINT)))
    if cls is not MaxPool2d:
        channels = x.shape[3]
        shape = (2, 3, 3, channels) if cls is Conv2d else (1, 3, 3, channels)
        out = 2 if cls is Conv2d else channels
        data = np.arange(int(np.prod(shape))).reshape(shape).astype(np.int8)
        fields = {
            "weights": constant_value("w", data, PerTensor(0.01)),
            "bias": constant_value("b", np.zeros(out, np.int32), PerTensor(1e-3)),
        }
    return make_op(cls, y, x=x, **fields)


def padded(cls: type[Op], before: Sides4, after: Sides4, level: int) -> Graph:
    x = value("x", (2, 4, 5, 3), 0.1, ZERO_POINT)
    pad = make_op(Pad, Value("p", x.type), x=x, before=before, after=after, value=level)
    op = reader(cls, pad.results[0])
    return verify_graph(Graph("g", (x,), (pad, op), op.results))


@pytest.mark.parametrize("cls", [Conv2d, DepthwiseConv2d, MaxPool2d], ids=lambda cls: cls.kind)
@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("axis", range(4), ids=["batch", "height", "width", "channels"])
def test_one_side_of_one_axis(cls: type[Op], side: str, axis: int) -> None:
    one, none = tuple(int(a == axis) for a in range(4)), (0, 0, 0, 0)
    before, after = (one, none) if side == "before" else (none, one)
    graph = padded(cls, before, after, SMALLEST if cls is MaxPool2d else ZERO_POINT)
    folded = verify_graph(fold_pad(graph))
    assert [op.kind for op in folded.without_dead_ops()] == (
        [cls.kind] if axis in (1, 2) else ["pad", cls.kind]
    )
    sample = random_like(graph.inputs[0])
    assert folded.reference(sample)[0].tobytes() == graph.reference(sample)[0].tobytes()


@pytest.mark.parametrize("cls", [Conv2d, DepthwiseConv2d, MaxPool2d], ids=lambda cls: cls.kind)
def test_another_level_stays(cls: type[Op]) -> None:
    """What lies outside of an image is zero to a convolution and less than anything to a pool."""
    graph = padded(cls, (0, 1, 1, 0), (0, 0, 0, 0), ZERO_POINT if cls is MaxPool2d else ZERO_POINT + 1)
    assert fold_pad(graph).ops == graph.ops


@pytest.mark.parametrize(("padding", "folds"), [(2, True), (3, False)])
@pytest.mark.parametrize("place", [("before", 1), ("before", 2), ("after", 1), ("after", 2)], ids=str)
def test_a_window_of_a_pool_sees_the_image(place: tuple[str, int], padding: int, folds: bool) -> None:
    """A pool has no answer for windows that lie outside."""
    some, none = tuple(padding * (a == place[1]) for a in range(4)), (0, 0, 0, 0)
    before, after = (some, none) if place[0] == "before" else (none, some)
    folded = fold_pad(padded(MaxPool2d, before, after, SMALLEST)).without_dead_ops()
    assert ([op.kind for op in folded] == ["max_pool2d"]) == folds


@pytest.mark.parametrize("level", [ZERO_POINT, ZERO_POINT + 1])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16], ids=str)
@pytest.mark.parametrize("cls", [Conv2d, DepthwiseConv2d], ids=lambda cls: cls.kind)
def test_a_pad_folds_from_before_a_conversion(cls: type[Op], dtype: DType, level: int) -> None:
    """Zeros stay zeros in other steps."""
    x = value("x", (2, 4, 5, 3), 0.1, ZERO_POINT)
    wide = TensorType((2, 6, 5, 3), DType.INT8, x.type.quant)
    pad = make_op(Pad, Value("p", wide), x=x, before=(0, 2, 0, 0), after=(0, 0, 0, 0), value=level)
    read = Value("r", TensorType(wide.shape, dtype, PerTensor(0.03, 0 if dtype is DType.INT16 else -5)))
    conversion = Requantize(x=pad.results[0], y=read, to=dtype)
    op = reader(cls, read)
    graph = verify_graph(Graph("g", (x,), (pad, conversion, op), op.results))
    folded = verify_graph(fold_pad(graph)).without_dead_ops()
    assert [one.kind for one in folded] == [
        *["pad"] * (level != ZERO_POINT),
        conversion.kind,
        cls.kind,
    ]
    sample = random_like(x)
    assert folded.reference(sample)[0].tobytes() == graph.reference(sample)[0].tobytes()

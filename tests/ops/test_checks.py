# SPDX-License-Identifier: Apache-2.0
"""What every op refuses to be: one thing is changed in an op that is right, and the op says what."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from pillion.errors import PillionError
from pillion.ir.op import Op
from pillion.ir.types import DType, PerTensor, Quant, TensorType, Value, constant_value
from pillion.ops import (
    Add,
    AvgPool2d,
    BatchMatmul,
    Concat,
    Conv2d,
    DepthwiseConv2d,
    Dequantize,
    Function,
    Linear,
    Lut,
    Maximum,
    MaxPool2d,
    Mean,
    Pad,
    Prelu,
    Quantize,
    ReduceMax,
    ReduceMin,
    ReduceSum,
    Requantize,
    Reshape,
    ResizeBilinear,
    ResizeNearest,
    Slice,
    Softmax,
    Transpose,
    TransposeConv2d,
)
from pillion.ops.example_values import float_value, make_op, value

IMAGE = value("x", (1, 5, 7, 6), 0.1)
OTHER = PerTensor(0.3, 1)


def like(
    held: Value, shape: tuple[int, ...] | None = None, dtype: DType | None = None, quant: Quant | None = None
) -> Value:
    changed = TensorType(
        held.shape if shape is None else shape,
        dtype or held.dtype,
        quant if quant is not None else held.type.quant,
    )
    return Value(held.name, changed)


def filled(name: str, shape: tuple[int, ...], dtype: Any = np.int8) -> Value:
    return constant_value(name, np.ones(shape, dtype), PerTensor(0.01))


def weighted(cls: type[Op], weights: tuple[int, ...], out: int, x: Value = IMAGE, **fields: Any) -> Op:
    return make_op(
        cls,
        value("y", (), 0.1),
        x=x,
        weights=filled("w", weights),
        bias=filled("b", (out,), np.int32),
        **fields,
    )


RIGHT: dict[str, Op] = {
    "conv2d": weighted(Conv2d, (4, 3, 3, 6), 4),
    "grouped": weighted(Conv2d, (4, 3, 3, 3), 4, groups=2),
    "depthwise": weighted(DepthwiseConv2d, (1, 3, 3, 6), 6),
    "transpose_conv2d": weighted(TransposeConv2d, (4, 3, 3, 6), 4, stride=(2, 3), output_padding=(1, 2)),
    "linear": weighted(Linear, (4, 6), 4),
    "batch_matmul": make_op(
        BatchMatmul,
        value("y", ()),
        a=value("a", (2, 3, 4)),
        b=value("b", (2, 4, 5)),
        adj_x=False,
        adj_y=False,
    ),
    "add": make_op(Add, value("y", ()), a=value("a", (3, 1)), b=value("b", (1, 4))),
    "maximum": make_op(Maximum, value("y", ()), a=value("a", (3, 4)), b=value("b", (4,))),
    "avg_pool2d": make_op(AvgPool2d, IMAGE, x=IMAGE, kernel=(2, 3), padding=(1, 2, 1, 2)),
    "max_pool2d": make_op(MaxPool2d, IMAGE, x=IMAGE, kernel=(2, 3), padding=(1, 2, 1, 2)),
    "mean": make_op(Mean, value("y", ()), x=IMAGE, axes=(1, 3)),
    "reduce_sum": make_op(ReduceSum, value("y", ()), x=IMAGE, axes=(1, 3)),
    "reduce_max": make_op(ReduceMax, IMAGE, x=IMAGE, axes=(1, 3)),
    "reduce_min": make_op(ReduceMin, IMAGE, x=IMAGE, axes=(1, 3)),
    "softmax": make_op(Softmax, value("y", (), 1 / 256, -128), x=value("x", (2, 5))),
    "prelu": make_op(Prelu, value("y", ()), x=IMAGE, slope=value("slope", (6,))),
    "resize_nearest": make_op(ResizeNearest, IMAGE, x=IMAGE, size=(10, 14)),
    "resize_bilinear": make_op(ResizeBilinear, IMAGE, x=IMAGE, size=(10, 14)),
    "reshape": Reshape(x=IMAGE, y=like(IMAGE, (7, 30))),
    "transpose": make_op(Transpose, IMAGE, x=IMAGE, order=(0, 3, 1, 2)),
    "slice": Slice(x=IMAGE, y=like(IMAGE, (1, 3, 7, 2)), begin=(0, 0, 0, 4), step=(1, 2, 1, 1)),
    "concat": make_op(Concat, IMAGE, xs=(IMAGE, value("z", (1, 5, 7, 2), 0.1)), axis=3),
    "pad": make_op(Pad, IMAGE, x=IMAGE, before=(0, 1, 2, 0), after=(0, 0, 1, 0)),
    "quantize": make_op(Quantize, value("y", ()), x=float_value("x", (3,))),
    "dequantize": Dequantize(x=value("x", (3,)), y=float_value("y", (3,))),
    "requantize": make_op(Requantize, value("y", (), 0.2), x=value("x", (3,))),
    "lut": make_op(Lut, value("y", ()), x=value("x", (3,)), function=Function.GELU),
}
SHARED = ("maximum", "avg_pool2d", "max_pool2d", "reduce_max", "reduce_min", "resize_nearest", "resize_bilinear", "reshape",
          "transpose", "slice", "concat", "pad")  # fmt: skip

WRONG: list[tuple[str, dict[str, Any], str]] = [
    *(
        (name, {field: like(getattr(RIGHT[name], field), (2, 3, 4, 5, 6))}, "rank")
        for name, fields in {
            "conv2d": ("x", "weights"), "transpose_conv2d": ("x", "weights"), "linear": ("weights",), "avg_pool2d": ("x",),
            "batch_matmul": ("a", "b"), "resize_nearest": ("x",), "resize_bilinear": ("x",),
        }.items()
        for field in fields
    ),
    *(
        (name, {field: (0, 1)}, "positive")
        for name in ("conv2d", "depthwise", "transpose_conv2d")
        for field in ("stride", "dilation")
    ),
    *((name, {"padding": (0, 0, -1, 0)}, "not negative") for name in ("conv2d", "depthwise", "transpose_conv2d")),
    *((name, {"bias": filled("b", (5,), np.int32)}, "bias for each") for name in ("conv2d", "transpose_conv2d", "linear")),
    *((name, {"bias": filled("b", (4,), np.int8)}, "int32") for name in ("conv2d", "transpose_conv2d", "linear")),
    ("conv2d", {"x": like(IMAGE, (1, 2, 7, 6))}, "fits into the padded image"),
    ("conv2d", {"dilation": (3, 1)}, "fits into the padded image"),
    ("grouped", {"groups": 4}, "groups"),
    ("depthwise", {"x": like(IMAGE, (1, 5, 7, 4))}, "channels"),
    ("transpose_conv2d", {"output_padding": (2, 2)}, "smaller than the stride"),
    ("transpose_conv2d", {"output_padding": (1, 3)}, "smaller than the stride"),
    ("transpose_conv2d", {"output_padding": (-1, 0)}, "not negative"),
    ("transpose_conv2d", {"padding": (6, 0, 6, 0)}, "leaves something"),
    ("transpose_conv2d", {"x": like(IMAGE, (1, 5, 7, 5))}, "weights are"),
    ("linear", {"x": like(IMAGE, (1, 5, 7, 5))}, "last axis"),
    ("linear", {"x": like(IMAGE, ())}, "last axis"),
    ("batch_matmul", {"a": value("a", (3, 3, 4))}, r"\[B, M, K\]"),
    ("batch_matmul", {"adj_x": True}, r"\[B, M, K\]"),
    ("batch_matmul", {"a": float_value("a", (2, 3, 4))}, "one type"),
    ("add", {"b": value("b", (2, 4))}, "broadcast"),
    ("add", {"b": float_value("b", (1, 4))}, "one type"),
    *((name, {"kernel": (0, 3)}, "fits into") for name in ("avg_pool2d", "max_pool2d")),
    *((name, {"stride": (1, 0)}, "fits into") for name in ("avg_pool2d", "max_pool2d")),
    *((name, {"kernel": (8, 3)}, "fits into") for name in ("avg_pool2d", "max_pool2d")),
    *(
        (name, {"padding": padding}, "smaller than the kernel")
        for name in ("avg_pool2d", "max_pool2d")
        for padding in ((2, 0, 0, 0), (0, 3, 0, 0), (0, 0, 2, 0), (0, 0, 0, 3), (-1, 0, 0, 0))
    ),
    *(
        (name, {"axes": axes}, "axes are different")
        for name in ("mean", "reduce_sum", "reduce_max", "reduce_min")
        for axes in ((1, 1), (4,), (-1,))
    ),
    *((name, {"axes": ()}, "at least one axis") for name in ("reduce_sum", "reduce_max", "reduce_min")),
    *(
        (name, {"x": like(IMAGE, (1, 0, 7, 6))}, "none of them empty")
        for name in ("reduce_sum", "reduce_max", "reduce_min")
    ),
    ("softmax", {"x": value("x", ())}, "at least one axis"),
    ("softmax", {"y": value("y", (2, 5), 1 / 255, -128)}, "scale from 2\\^-21 to 1/256"),
    ("softmax", {"y": value("y", (2, 5), 2.0**-21.01, -128)}, "scale from 2\\^-21 to 1/256"),
    ("softmax", {"y": value("y", (2, 5), 1 / 256, -127)}, "zero point -128"),
    ("prelu", {"slope": value("slope", (5,))}, "one number"),
    ("prelu", {"slope": value("slope", (7, 6))}, "one number"),
    ("prelu", {"slope": float_value("slope", (6,))}, "int8"),
    *((name, {"size": (0, 14)}, "positive") for name in ("resize_nearest", "resize_bilinear")),
    *((name, {"x": like(IMAGE, (1, 5, 0, 6))}, "positive") for name in ("resize_nearest", "resize_bilinear")),
    *(
        (name, {"align_corners": True, "half_pixel": True}, "exclude each other")
        for name in ("resize_nearest", "resize_bilinear")
    ),
    ("reshape", {"y": like(IMAGE, (7, 31))}, "number of elements"),
    ("transpose", {"order": (0, 3, 1, 1)}, "permutation"),
    ("slice", {"step": (1, 0, 1, 1)}, "steps are positive"),
    ("slice", {"begin": (0, 0, 4)}, "4 numbers"),
    ("slice", {"begin": (0, 1, 0, 4)}, "."),
    ("slice", {"begin": (0, 0, 0, -1)}, "."),
    ("concat", {"axis": 2}, "all axes but 2"),
    ("concat", {"xs": (IMAGE, float_value("z", (1, 5, 7, 2)))}, "agree in type|parameters|share"),
    ("pad", {"before": (0, 1, 2)}, "."),
    ("pad", {"after": (0, 0, -1, 0)}, "."),
    ("quantize", {"x": value("x", (3,))}, "float32"),
    ("requantize", {"x": float_value("x", (3,))}, "int8"),
    ("dequantize", {"x": float_value("x", (3,))}, "quantized"),
    ("lut", {"table": constant_value("t", np.zeros(256, np.int8), PerTensor(0.1))}, "only with it"),
    *((name, {"y": like(RIGHT[name].results[0], quant=OTHER)}, "share") for name in SHARED),
]  # fmt: skip


def judge(op: Op) -> tuple[int, ...]:
    op.check()
    return op.infer().shape


@pytest.mark.parametrize("name", RIGHT)
def test_valid_ops_pass_their_checks(name: str) -> None:
    assert judge(RIGHT[name]) == RIGHT[name].results[0].shape


@pytest.mark.parametrize(
    ("name", "change", "words"),
    WRONG,
    ids=[f"{name}-{'-'.join(c)}-{i}" for i, (name, c, _) in enumerate(WRONG)],
)
def test_one_thing_wrong_is_refused(name: str, change: dict[str, Any], words: str) -> None:
    op = dataclasses.replace(RIGHT[name], **change)  # type: ignore[arg-type]  # all ops are dataclasses
    with pytest.raises(PillionError, match=words) as refused:
        judge(op)
    assert refused.value.rule

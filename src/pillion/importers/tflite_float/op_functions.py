# SPDX-License-Identifier: Apache-2.0
"""Operators that are read as in int8 files: each of their ops is a PyTorch function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pillion import ops
from pillion.codecs.tflite.read_operator import Reading as Int8Reading
from pillion.codecs.tflite.read_operator import ReadOperator
from pillion.codecs.tflite.rows import READERS
from pillion.importers.tflite import table
from pillion.importers.tflite_float import readings
from pillion.importers.torch.loop_nodes import CARRIED, ELEMENT, LAST, STACKED, new_loop
from pillion.ir.op import Op
from pillion.ir.types import DType

WEIGHTS = {ops.Conv2d: (0, 3, 1, 2), ops.DepthwiseConv2d: (3, 0, 1, 2)}
"""The axes of weights in PyTorch's order."""


def in_torch(reading: Int8Reading) -> readings.Reading:
    """Returns the reader of an operator from its reader in int8 files."""

    def row(call: ReadOperator) -> readings.FloatCall:
        read_ops: list[Any] = reading(readings.without_activation(call))
        for op in read_ops:
            _require_function(call, op)
        read = {v.name for op in read_ops for v in op.operands}
        numbers = tuple(n for n, v in enumerate(call.inputs) if v is not None and v.name in read)
        written = {y.name: y for op in read_ops for y in op.results}
        results = tuple(written[y.name] for y in call.outputs if y.name in written)
        parts, after = _parameters_or_step(read_ops), readings.activation(call)
        if "weight" in parts:
            numbers = (0,)

        def forward(*operands: Tensor) -> tuple[Tensor, ...]:
            known = {call.operand(n).name: x for n, x in zip(numbers, operands, strict=True)}
            for op in read_ops:
                if type(op) in IMAGES:
                    image, weights = readings.to_nchw(known[op.x.name]), parts.values()
                    known[op.name] = readings.to_nhwc(after(IMAGES[type(op)](op, image, *weights)))
                    continue
                xs = (
                    known[v.name] if v.name in known else readings.as_tensor(v.constant) for v in op.operands
                )
                made = after(FUNCTIONS[type(op)](op, *xs))
                ys = made if isinstance(made, tuple) else (made,)
                known.update(zip((y.name for y in op.results), ys, strict=True))
            return tuple(known[y.name] for y in results)

        return readings.FloatCall(call, forward, numbers, parts, results=results)

    return row


def _parameters_or_step(read_ops: list[Any]) -> dict[str, nn.Parameter | nn.Module]:
    """Returns the parameters of a convolution, or the step of a loop."""
    for op in read_ops:
        if type(op) in WEIGHTS:
            weights = op.weights.constant.transpose(WEIGHTS[type(op)])
            return {"weight": readings.as_parameter(weights), "bias": readings.as_parameter(op.bias.constant)}
        if isinstance(op, ops.Scan):
            return {"step": op.body}  # type: ignore[dict-item]  # a module in files that compute in float
    return {}


def _require_function(call: ReadOperator, op: Op) -> None:
    """Raises on ops that PyTorch's functions compute otherwise."""
    if isinstance(op, ops.Gather) and op.batch:
        raise call.refuse("there are no batch axes", op.batch)
    if isinstance(op, ops.ResizeNearest) and op.align_corners:
        raise call.refuse("pixels are repeated without aligned corners", "align_corners")
    if isinstance(op, (ops.AvgPool2d, ops.MaxPool2d)):
        more = zip(_extra_padding(op), op.stride, strict=True)
        if any(m and s == 1 for m, s in more) or 2 * max(op.padding[:2]) > min(op.kernel):
            raise call.refuse(
                "a pool with stride 1 has the same padding on both sides",
                f"kernel {op.kernel}, stride {op.stride}, image {list(op.x.shape)}",
                "use an odd window, or valid padding",
            )
    if isinstance(op, ops.Scan):
        for value in (*op.initial, *op.ys):
            if value.dtype is not DType.FLOAT32 or not value.shape:
                rule, help = "steps hand on tensors of float32", "carry real numbers with an axis"
                raise call.refuse(rule, repr(value), help)
        if all(v.is_constant for v in op.operands):
            raise call.refuse("a loop computes something of the inputs", "all that it reads are constants")
    elif type(op) not in (*FUNCTIONS, *IMAGES):
        raise call.refuse("operands are real numbers", repr(op.operands[0]))


# Functions on images of PyTorch's layout


def _convolution(op: ops.Conv2d | ops.DepthwiseConv2d, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Pads in the layer where the padding is symmetric, otherwise before it."""
    top, left, bottom, right = op.padding
    padding = (top, left)
    if padding != (bottom, right):
        x, padding = F.pad(x, (left, right, top, bottom)), (0, 0)
    groups = op.groups if isinstance(op, ops.Conv2d) else op.x.shape[3]
    return F.conv2d(x, weight, bias, op.stride, padding, op.dilation, groups)


def _extra_padding(op: ops.AvgPool2d | ops.MaxPool2d) -> tuple[int, int]:
    """Returns the additional padding at the bottom and right, where windows end outside of the image."""
    top, left, bottom, right = op.padding
    return bottom - top, right - left


def _resize_bilinear(op: ops.ResizeBilinear, x: Tensor) -> Tensor:
    """Resizes. The legacy form aligns corners, and repeats and then crops the last row and column."""
    if op.align_corners or op.half_pixel or op.size == op.x.shape[1:3]:
        return F.interpolate(x, size=op.size, mode="bilinear", align_corners=op.align_corners)
    longer = torch.cat((x, x[:, :, -1:]), 2)
    wider = torch.cat((longer, longer[:, :, :, -1:]), 3)
    more = (op.size[0] + 1, op.size[1] + 1)
    resized = F.interpolate(wider, size=more, mode="bilinear", align_corners=True)
    return resized[:, :, : op.size[0], : op.size[1]]


def _resize_nearest(op: ops.ResizeNearest, x: Tensor) -> Tensor:
    return F.interpolate(x, size=op.size, mode="nearest-exact" if op.half_pixel else "nearest")


IMAGES: dict[type[Any], Callable[..., Tensor]] = {
    ops.Conv2d: _convolution,
    ops.DepthwiseConv2d: _convolution,
    ops.MaxPool2d: lambda op, x: F.max_pool2d(
        x, op.kernel, op.stride, op.padding[:2], ceil_mode=any(_extra_padding(op))
    ),
    ops.AvgPool2d: lambda op, x: F.avg_pool2d(
        x, op.kernel, op.stride, op.padding[:2], any(_extra_padding(op)), count_include_pad=False
    ),
    ops.ResizeBilinear: _resize_bilinear,
    ops.ResizeNearest: _resize_nearest,
}
"""The functions of ops on images, which are handed over and returned with the channels first."""


# Functions on unchanged tensors


def _slice(op: ops.Slice, x: Tensor) -> Tensor:
    axes = zip(op.begin, op.step, op.y.shape, strict=True)
    return x[tuple(slice(begin, begin + (size - 1) * step + 1, step) for begin, step, size in axes)]


def _pad(op: ops.Pad, x: Tensor) -> Tensor:
    sides = [n for pair in zip(op.before[::-1], op.after[::-1], strict=True) for n in pair]
    return F.pad(x, sides, value=float(op.value))


def _gather(op: ops.Gather, x: Tensor, indices: Tensor) -> Tensor:
    return torch.index_select(x, op.axis, indices.reshape(-1)).reshape(op.y.shape)


def _trace_scan_step(op: ops.Scan, *tensors: Tensor) -> tuple[Tensor, ...]:
    """Returns the calls of one step of a loop, and its results."""
    number, given, rows = new_loop(), iter(tensors), len(op.stacked)
    values = (*op.sequences, *op.initial, *op.invariants)
    anchor = next(x for v, x in zip(values, tensors, strict=True) if not v.is_constant).reshape(1, 1, -1)
    elements = [ELEMENT(next(given), number, False) for _ in op.sequences]
    states = [CARRIED(next(given), anchor, number, index) for index in range(len(op.initial))]
    step: Any = op.body
    results = step(*elements, *states, *given)
    results = results if isinstance(results, (tuple, list)) else (results,)
    nexts = zip(states, results[rows:], strict=True)
    return (
        *(STACKED(y, number, op.count, False) for y in results[:rows]),
        *(LAST(state, new, number, index, op.count) for index, (state, new) in enumerate(nexts)),
    )


def _reduction_function(compute: Callable[[Tensor, list[int], bool], Tensor]) -> Callable[..., Tensor]:
    return lambda op, x: compute(x, [*op.axes], op.keepdims) if op.axes else x


FUNCTIONS: dict[type[Any], Callable[..., Any]] = {
    ops.Reshape: lambda op, x: x.reshape(op.y.shape),
    ops.Transpose: lambda op, x: x.permute(op.order),
    ops.Slice: _slice,
    ops.Pad: _pad,
    ops.Concat: lambda op, *xs: torch.cat(xs, op.axis),
    ops.Flip: lambda op, x: torch.flip(x, op.axes),
    ops.Gather: _gather,
    ops.Mean: _reduction_function(torch.mean),
    ops.ReduceSum: _reduction_function(torch.sum),
    ops.ReduceMax: _reduction_function(torch.amax),
    ops.ReduceMin: _reduction_function(torch.amin),
    ops.ArgMax: lambda op, x: torch.argmax(x, op.axis).to(torch.int32),
    ops.ArgMin: lambda op, x: torch.argmin(x, op.axis).to(torch.int32),
    ops.Scan: _trace_scan_step,
}
"""The functions of other ops."""

CODES = """
CONV_2D DEPTHWISE_CONV_2D MAX_POOL_2D AVERAGE_POOL_2D RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR MEAN SUM REDUCE_MAX
REDUCE_MIN ARG_MAX ARG_MIN GATHER CONCATENATION FILL SHAPE RESHAPE SQUEEZE EXPAND_DIMS TRANSPOSE PACK UNPACK SPLIT SPLIT_V
SLICE STRIDED_SLICE REVERSE_V2 PAD PADV2 TILE SPACE_TO_DEPTH DEPTH_TO_SPACE SPACE_TO_BATCH_ND BATCH_TO_SPACE_ND
""".split()  # noqa: SIM905 - as a list, they would take a screen
ROWS: dict[str, readings.Reading] = {code: in_torch({**table.ROWS, **READERS}[code]) for code in CODES}
"""The readers of this file, by operator name."""

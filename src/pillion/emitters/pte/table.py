# SPDX-License-Identifier: Apache-2.0
"""Op → kernel calls of the ExecuTorch runtime. The only part of this emitter that knows which op is which kernel.

Every row is exact: where a `cortex_m` kernel computes something else for a layout or a value, the row says the same
with other kernels or refuses. None is an op that is refused on purpose."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pillion.emitters.pte import convolve, elementwise, matmul, movement, pool, reduce, resize
from pillion.emitters.pte.node import Delegate, KernelCall, Settings, plain, refusal
from pillion.ir.op import Op
from pillion.ops import (
    Add,
    ArgMax,
    ArgMin,
    AvgPool2d,
    AvgPool2dUp,
    Bag,
    BatchMatmul,
    Cast,
    Clamp,
    Compare,
    Concat,
    Conv2d,
    DepthwiseConv2d,
    Dequantize,
    Detections,
    Div,
    Flip,
    Gather,
    L2Normalize,
    Linear,
    LogSoftmax,
    LstmCell,
    LstmOutput,
    Lut,
    Magnitude,
    Maximum,
    MaxPool2d,
    Mean,
    Minimum,
    Mul,
    Pad,
    Prelu,
    Quantize,
    ReduceMax,
    ReduceMin,
    ReduceSum,
    Requantize,
    Reshape,
    ResizeBilinear,
    ResizeBilinearFloat,
    ResizeNearest,
    Segment,
    Slice,
    Softmax,
    SquaredDifference,
    Standardize,
    Sub,
    SvdfMemory,
    SvdfOutput,
    TopPlaces,
    TopValues,
    Transpose,
    TransposeConv2d,
    Where,
    Whole,
    WideAdd,
    WideLut,
    WideMul,
)

Step = KernelCall | Delegate
CallsOf = Callable[[Any, Settings], Sequence[Step]]


def segment(op: Segment, settings: Settings) -> list[Delegate]:
    """Gives the call of an NPU segment. What crosses the border is contiguous, as the payload says."""
    inputs, outputs = tuple(map(plain, op.xs)), tuple(map(plain, op.ys))
    return [Delegate(settings.delegate or op.device, settings.payloads[op.body], (), inputs, outputs)]


TABLE: Mapping[type[Op], CallsOf | None] = {
    Conv2d: convolve.conv2d,
    DepthwiseConv2d: convolve.depthwise_conv2d,
    Linear: convolve.linear,
    TransposeConv2d: convolve.transpose_conv2d,
    BatchMatmul: matmul.batch_matmul,
    Div: matmul.div,
    Prelu: matmul.prelu,
    Mean: reduce.mean,
    ReduceSum: reduce.reduce_sum,
    ReduceMax: reduce.reduce_max,
    ReduceMin: reduce.reduce_min,
    ResizeNearest: resize.resize_nearest,
    # A mixture of four pixels, rounded once: no kernel of the runtime.
    **dict.fromkeys((ResizeBilinear, ResizeBilinearFloat)),
    Add: elementwise.add,
    Sub: elementwise.sub,
    Mul: elementwise.mul,
    Minimum: elementwise.extremum,
    Maximum: elementwise.extremum,
    Lut: elementwise.function,
    Clamp: elementwise.function,
    Requantize: elementwise.function,
    Quantize: elementwise.quantize,
    Dequantize: elementwise.dequantize,
    AvgPool2d: pool.avg_pool2d,
    AvgPool2dUp: pool.avg_pool2d_up,
    MaxPool2d: pool.max_pool2d,
    Softmax: pool.softmax,
    Concat: movement.concat,
    Slice: movement.slice_copy,
    Pad: movement.pad,
    Transpose: movement.transpose,
    Flip: movement.flip,
    # The logarithm of softmax has finer steps than the table of a softmax could give it.
    LogSoftmax: None,
    # No kernel of the runtime has square roots.
    L2Normalize: None,
    # Written as ops that there are (`passes.compose_norms`).
    Standardize: None,
    # It has 8 bits there (`passes.narrow_sums`).
    **dict.fromkeys((WideAdd, WideLut, WideMul)),
    # It is looked up in one scale there (`passes.plain_bags`).
    Bag: None,
    # No kernel of the runtime: Sub and Mul round on the way.
    SquaredDifference: None,
    # Written as products, a sum and a table (`passes.compose_magnitudes`).
    Magnitude: None,
    # What is chosen and looked up by numbers: no kernel of the runtime.
    **dict.fromkeys((Gather, Compare, Whole, Where, ArgMax, ArgMin, TopValues, TopPlaces, Cast)),
    # Layers that remember in 16 bits, and what detectors end in: no kernel of the runtime.
    **dict.fromkeys((LstmCell, LstmOutput, SvdfMemory, SvdfOutput, Detections)),
    Segment: segment,
    # The result is another view of its operand's bytes.
    Reshape: lambda op, settings: [],
}


def steps(op: Op, settings: Settings) -> Sequence[Step]:
    """Gives the calls of an op, in order."""
    row = TABLE.get(type(op))
    if row is None:
        raise refusal(op, "the ExecuTorch runtime has kernels for it", op.kind, "write C: -o folder/")
    return row(op, settings)

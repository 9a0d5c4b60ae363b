# SPDX-License-Identifier: Apache-2.0
"""Op → kernel calls of the ExecuTorch runtime. Every row is exact: if a `cortex_m` kernel deviates for a
layout or a value, the row uses other kernels or refuses. None is a deliberate refusal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pillion.emitters.pte import conv, elementwise, matmul, movement, pool, reduce, resize
from pillion.emitters.pte.node import Delegate, KernelCall, PteSettings, plain, refusal
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
CallsOf = Callable[[Any, PteSettings], Sequence[Step]]


def segment(op: Segment, settings: PteSettings) -> list[Delegate]:
    """Returns the call of an NPU segment. Its inputs and outputs are contiguous, as in the payload."""
    inputs, outputs = tuple(map(plain, op.xs)), tuple(map(plain, op.ys))
    return [Delegate(settings.delegate or op.device, settings.payloads[op.body], (), inputs, outputs)]


TABLE: Mapping[type[Op], CallsOf | None] = {
    Conv2d: conv.conv2d,
    DepthwiseConv2d: conv.depthwise_conv2d,
    Linear: conv.linear,
    TransposeConv2d: conv.transpose_conv2d,
    BatchMatmul: matmul.batch_matmul,
    Div: matmul.div,
    Prelu: matmul.prelu,
    Mean: reduce.mean,
    ReduceSum: reduce.reduce_sum,
    ReduceMax: reduce.reduce_max,
    ReduceMin: reduce.reduce_min,
    ResizeNearest: resize.resize_nearest,
    # No kernel of the runtime rounds an interpolation of four pixels once.
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
    # A softmax and a lookup table are coarser than a log softmax.
    LogSoftmax: None,
    # No kernel of the runtime has square roots.
    L2Normalize: None,
    # Decomposed by `passes.compose_norms`.
    Standardize: None,
    # Demoted to 8 bits by `passes.demote_sums`.
    **dict.fromkeys((WideAdd, WideLut, WideMul)),
    # Legalized to one scale by `passes.legalize_embedding_bags`.
    Bag: None,
    # No kernel of the runtime: Sub and Mul round in between.
    SquaredDifference: None,
    # Decomposed by `passes.compose_magnitudes`.
    Magnitude: None,
    # Selections and lookups by index: no kernel of the runtime.
    **dict.fromkeys((Gather, Compare, Whole, Where, ArgMax, ArgMin, TopValues, TopPlaces, Cast)),
    # Recurrent layers with 16-bit states, and detections: no kernel of the runtime.
    **dict.fromkeys((LstmCell, LstmOutput, SvdfMemory, SvdfOutput, Detections)),
    Segment: segment,
    # The result is another view of its operand's bytes.
    Reshape: lambda op, settings: [],
}


def steps(op: Op, settings: PteSettings) -> Sequence[Step]:
    """Returns the calls of an op, in order."""
    row = TABLE.get(type(op))
    if row is None:
        raise refusal(op, "the ExecuTorch runtime has kernels for it", op.kind, "write C: -o folder/")
    return row(op, settings)

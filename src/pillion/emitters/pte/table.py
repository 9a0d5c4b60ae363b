# SPDX-License-Identifier: Apache-2.0
"""Op → kernel calls of the ExecuTorch runtime. Every row is exact: if a `cortex_m` kernel deviates for a
layout or a value, the row uses other kernels or refuses. None is a deliberate refusal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pillion import ops
from pillion.emitters.pte import conv, elementwise, matmul, movement, pool, reduce, resize
from pillion.emitters.pte.node import (
    Delegate,
    KernelCall,
    PteSettings,
    contiguous_view,
    no_exact_kernel_error,
)
from pillion.ir.op import Op
from pillion.ops.movement import computes_in_16_bits

Step = KernelCall | Delegate
CallsOf = Callable[[Any, PteSettings], Sequence[Step]]


def segment_call(op: ops.Segment, settings: PteSettings) -> list[Delegate]:
    """Returns the call of an NPU segment. Its inputs and outputs are contiguous, as in the payload."""
    inputs, outputs = tuple(map(contiguous_view, op.xs)), tuple(map(contiguous_view, op.ys))
    return [Delegate(settings.delegate or op.device, settings.payloads[op.body], (), inputs, outputs)]


TABLE: Mapping[type[Op], CallsOf | None] = {
    ops.Conv2d: conv.conv2d,
    ops.DepthwiseConv2d: conv.depthwise_conv2d,
    ops.Linear: conv.linear,
    ops.TransposeConv2d: conv.transpose_conv2d,
    ops.BatchMatmul: matmul.batch_matmul,
    ops.Div: matmul.div,
    ops.Prelu: matmul.prelu,
    ops.Mean: reduce.mean,
    ops.ReduceSum: reduce.reduce_sum,
    ops.ReduceMax: reduce.reduce_max,
    ops.ReduceMin: reduce.reduce_min,
    ops.ResizeNearest: resize.resize_nearest,
    # No kernel of the runtime rounds an interpolation of four pixels once.
    **dict.fromkeys((ops.ResizeBilinear, ops.ResizeBilinearFloat)),
    ops.Add: elementwise.add,
    ops.Sub: elementwise.sub,
    ops.Mul: elementwise.mul,
    ops.Minimum: elementwise.extremum,
    ops.Maximum: elementwise.extremum,
    ops.Lut: elementwise.lower_unary_function,
    ops.Clamp: elementwise.lower_unary_function,
    ops.Requantize: elementwise.lower_unary_function,
    ops.Quantize: elementwise.quantize,
    ops.Dequantize: elementwise.dequantize,
    ops.AvgPool2d: pool.avg_pool2d,
    ops.AvgPool2dUp: pool.avg_pool2d_up,
    ops.MaxPool2d: pool.max_pool2d,
    ops.Softmax: pool.softmax,
    ops.Concat: movement.concat,
    ops.Slice: movement.slice_copy,
    ops.Pad: movement.pad,
    ops.Transpose: movement.transpose,
    ops.Flip: movement.flip,
    # A softmax and a lookup table are coarser than a log softmax.
    ops.LogSoftmax: None,
    # No kernel of the runtime has square roots.
    ops.L2Normalize: None,
    # Decomposed by `passes.compose_norms`.
    ops.Normalize: None,
    # Legalized to one scale by `passes.legalize_embedding_bags`.
    ops.EmbeddingBag: None,
    # No kernel of the runtime: Sub and Mul round in between.
    ops.SquaredDifference: None,
    # Decomposed by `passes.compose_magnitudes`.
    ops.Magnitude: None,
    # Of 16-bit operands: refused by `passes.legalize_for_runtime`.
    ops.LogMel: None,
    ops.Stft: None,
    ops.Biquads: None,
    # No kernel of the runtime.
    ops.WindowStatistic: None,
    # Of files of TensorFlow Lite Micro: no other runtime has them.
    ops.SignalStage: None,
    # Selections and lookups by index: no kernel of the runtime.
    **dict.fromkeys(
        (
            ops.Gather,
            ops.Compare,
            ops.IntegerArithmetic,
            ops.Where,
            ops.ArgMax,
            ops.ArgMin,
            ops.TopValues,
            ops.TopPlaces,
            ops.NonMaxSuppression,
            ops.RunLengths,
            ops.Cast,
        )
    ),
    # Recurrent layers with 16-bit states, and detections: no kernel of the runtime.
    **dict.fromkeys((ops.LstmCell, ops.LstmOutput, ops.SvdfMemory, ops.SvdfOutput, ops.Detections)),
    ops.Segment: segment_call,
    # The result is another view of its operand's bytes.
    ops.Reshape: lambda op, settings: [],
}


def steps(op: Op, settings: PteSettings) -> Sequence[Step]:
    """Returns the calls of an op, in order."""
    row, is_wide = TABLE.get(type(op)), computes_in_16_bits(op)
    if row is None or is_wide:
        here = f"{op.kind} of 16 bits" if is_wide else op.kind
        raise no_exact_kernel_error(
            op, "the ExecuTorch runtime has kernels for it", here, "--kernels pillion, or write C: -o folder/"
        )
    calls = row(op, settings)
    wrong = [call for call in calls if isinstance(call, KernelCall) and not call.has_signature]
    assert not wrong, wrong
    return calls

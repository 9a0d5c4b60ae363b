# SPDX-License-Identifier: Apache-2.0
"""The list of all ops. The text form, the completeness test of the tables and the docs read it."""

from __future__ import annotations

from collections.abc import Mapping

from pillion.ir import text
from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ops.biquads import Biquads
from pillion.ops.clamp import Clamp
from pillion.ops.compare_select import ArgMax, ArgMin, Compare, Relation, TopPlaces, TopValues, Where
from pillion.ops.conv import Conv2d, DepthwiseConv2d
from pillion.ops.detections import Detections
from pillion.ops.div import Div
from pillion.ops.elementwise import Add, Maximum, Minimum, Mul, Sub
from pillion.ops.embedding_bag import EmbeddingBag
from pillion.ops.formats import Dequantize, Quantize, Requantize
from pillion.ops.indexing import Cast, Gather
from pillion.ops.integer_arithmetic import Calculation, IntegerArithmetic
from pillion.ops.l2_normalize import L2Normalize
from pillion.ops.linear import Linear
from pillion.ops.log_mel import LogMel
from pillion.ops.log_softmax import LogSoftmax
from pillion.ops.lstm import LstmCell, LstmOutput
from pillion.ops.lut import Lut
from pillion.ops.magnitude import Magnitude
from pillion.ops.matmul import BatchMatmul
from pillion.ops.movement import Concat, Flip, Pad, Reshape, Slice, Transpose
from pillion.ops.normalize import Normalize
from pillion.ops.pool import AvgPool2d, AvgPool2dUp, MaxPool2d
from pillion.ops.prelu import Prelu
from pillion.ops.reduce import Mean, ReduceMax, ReduceMin, ReduceSum
from pillion.ops.region import Region, split_into_tiles
from pillion.ops.resize import ResizeBilinear, ResizeBilinearFloat, ResizeNearest
from pillion.ops.run_lengths import RunLengths
from pillion.ops.scan import Scan, flatten_ops, has_repeats, op_run_counts, unroll_for_format, unroll_loops
from pillion.ops.segment import Segment
from pillion.ops.signal_stages import SignalStage, Stage
from pillion.ops.softmax import Softmax
from pillion.ops.squared_difference import SquaredDifference
from pillion.ops.stft import Stft
from pillion.ops.suppression import NonMaxSuppression
from pillion.ops.svdf import SvdfMemory, SvdfOutput
from pillion.ops.transpose_conv import TransposeConv2d
from pillion.ops.unary_functions import Function
from pillion.ops.window_statistic import Statistic, WindowStatistic
from pillion.registry import REGISTRY

ALL_OPS: tuple[type[Op], ...] = (
    *(Conv2d, DepthwiseConv2d, TransposeConv2d, Linear, BatchMatmul),
    *(Add, Sub, SquaredDifference, Magnitude),
    *(Mul, Div, Minimum, Maximum, Lut, Prelu, Clamp),
    *(AvgPool2d, AvgPool2dUp, MaxPool2d),
    *(Mean, ReduceSum, ReduceMax, ReduceMin),
    *(ResizeNearest, ResizeBilinear, ResizeBilinearFloat),
    *(Softmax, LogSoftmax, L2Normalize, Normalize, Stft, LogMel, Biquads, WindowStatistic, SignalStage),
    *(Concat, Slice, Pad, Reshape, Transpose, Flip),
    *(Gather, EmbeddingBag, Compare, IntegerArithmetic),
    *(Where, ArgMax, ArgMin, TopValues, TopPlaces, NonMaxSuppression, RunLengths, Cast),
    *(LstmCell, LstmOutput, SvdfMemory, SvdfOutput, Detections),
    *(Quantize, Dequantize, Requantize),
)

for _op in (Segment, Region, Scan, *ALL_OPS):
    REGISTRY.add_op(_op)
KINDS: Mapping[str, type[Op]] = REGISTRY.ops
"""Op classes by kind, the name in the text form. Segments, regions and loops are made by compilation and hold
other ops."""


def listed_ops() -> tuple[type[Op], ...]:
    """Returns the ops of models, including those of plug-ins."""
    return tuple(op for op in KINDS.values() if op not in (Segment, Region, Scan))


def parse(source: str) -> Graph:
    """Parses the text of a graph with any ops."""
    return text.parse(source, KINDS)


__all__ = [
    "ALL_OPS",
    "KINDS",
    "Add",
    "ArgMax",
    "ArgMin",
    "AvgPool2d",
    "AvgPool2dUp",
    "BatchMatmul",
    "Biquads",
]
__all__ += ["Calculation", "Cast", "Clamp", "Compare", "Concat", "Conv2d", "DepthwiseConv2d", "Dequantize"]
__all__ += ["Detections", "Div", "EmbeddingBag", "Flip", "Function", "Gather", "IntegerArithmetic"]
__all__ += ["L2Normalize", "Linear", "LogMel", "LogSoftmax", "LstmCell", "LstmOutput", "Lut", "Magnitude"]
__all__ += ["MaxPool2d", "Maximum", "Mean", "Minimum", "Mul", "NonMaxSuppression", "Normalize", "Op", "Pad"]
__all__ += ["Prelu", "Quantize"]
__all__ += ["ReduceMax", "ReduceMin", "ReduceSum", "Region", "Relation", "Requantize", "Reshape"]
__all__ += ["ResizeBilinear", "ResizeBilinearFloat", "ResizeNearest", "RunLengths", "Scan", "Segment"]
__all__ += ["SignalStage", "Slice", "Softmax"]
__all__ += [
    "SquaredDifference",
    "Stage",
    "Statistic",
    "Stft",
    "Sub",
    "SvdfMemory",
    "SvdfOutput",
    "TopPlaces",
    "TopValues",
    "Transpose",
]
__all__ += ["TransposeConv2d", "Where", "WindowStatistic", "flatten_ops", "split_into_tiles"]
__all__ += ["has_repeats", "listed_ops", "op_run_counts", "parse", "unroll_for_format", "unroll_loops"]

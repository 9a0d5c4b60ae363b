# SPDX-License-Identifier: Apache-2.0
"""The supported subset of the TensorFlow Lite format, version 3. Field numbers are the format's."""

from __future__ import annotations

from typing import Any

from pillion.schemas.flatbuffer import (
    Bytes,
    Table,
    data,
    number_field,
    numbers_field,
    optional_int32s_field,
    presence_field,
    table_field,
    tables_field,
    text_field,
    union_field,
)
from pillion.schemas.tflite_enums import OPERATOR_NUMBERS as OPERATOR_NUMBERS
from pillion.schemas.tflite_enums import OPERATORS as OPERATORS
from pillion.schemas.tflite_enums import Activation as Activation
from pillion.schemas.tflite_enums import ElementType as ElementType
from pillion.schemas.tflite_enums import Padding as Padding

VERSION = 3
IDENTIFIER = b"TFL3"
TABLE_OPERATOR = "pillion_table"
"""Pillion's own operator in files of segments. Its operands are int8 numbers, and the 256 results of -128 to 127."""
LAST_DEPRECATED_CODE = 127
"""The largest operator number that fits the byte of old readers."""


class Model(Table):
    version: int = number_field(0, "I")
    operator_codes: list[OperatorCode] = tables_field(1, lambda: OperatorCode)
    subgraphs: list[SubGraph] = tables_field(2, lambda: SubGraph)
    description: str = text_field(3)
    buffers: list[Buffer] = tables_field(4, lambda: Buffer)


class OperatorCode(Table):
    deprecated_builtin_code: int = number_field(0, "b")
    custom_code: str = text_field(1)
    version: int = number_field(2, "i", 1)
    builtin_code: int = number_field(3, "i")

    @property
    def number(self) -> int:
        """The operator's number, which old files have in the first field."""
        return max(self.builtin_code, self.deprecated_builtin_code)


class SubGraph(Table):
    tensors: list[Tensor] = tables_field(0, lambda: Tensor)
    inputs: list[int] = numbers_field(1, "i")
    outputs: list[int] = numbers_field(2, "i")
    operators: list[Operator] = tables_field(3, lambda: Operator)
    name: str = text_field(4)


class Tensor(Table):
    shape: list[int] = numbers_field(0, "i")
    type: int = number_field(1, "b")
    buffer: int = number_field(2, "I")
    name: str = text_field(3)
    quantization: Quantization | None = table_field(4, lambda: Quantization)
    is_variable: bool = number_field(5, "?")
    is_sparse: bool = presence_field(6)
    shape_signature: list[int] | None = optional_int32s_field(7)
    has_rank: bool = number_field(8, "?")
    external_buffer: int = number_field(10, "I")


class Quantization(Table):
    scale: list[float] = numbers_field(2, "f")
    zero_point: list[int] = numbers_field(3, "q")
    details_type: int = number_field(4, "B")
    quantized_dimension: int = number_field(6, "i")


class Buffer(Table):
    data: Bytes | None = data(0)
    offset: int = number_field(1, "Q")
    size: int = number_field(2, "Q")


class Operator(Table):
    opcode_index: int = number_field(0, "I")
    inputs: list[int] = numbers_field(1, "i")
    outputs: list[int] = numbers_field(2, "i")
    options_type: int = number_field(3, "B")
    options: Table | None = union_field(4, "options_type", lambda: OPTIONS)
    custom_options: Bytes | None = data(5)
    intermediates: list[int] | None = optional_int32s_field(8)


OPTIONS: dict[int, Any] = {}
"""Option tables by the format's number."""


def _define_options_table(name: str, number: int, fields: str = "", first: int = 0) -> Any:
    """Returns an option table with fields `name:kind` that are numbered in order. A kind is a letter of `struct`,
    `[i]` for a vector or `text`; a default other than 0 follows `=`."""
    kinds = {
        field: kind.partition("=") for field, _, kind in (word.partition(":") for word in fields.split())
    }
    members: dict[str, Any] = {"__module__": __name__, "__annotations__": dict.fromkeys(kinds, Any)}
    for index, (field, (kind, _, default)) in enumerate(kinds.items(), first):
        if kind == "text":
            members[field] = text_field(index)
        elif kind.startswith("["):
            members[field] = numbers_field(index, kind[1])
        else:
            members[field] = number_field(index, kind, int(default or 0))
    OPTIONS[number] = table_class = type(name, (Table,), members)
    return table_class


Conv2DOptions = _define_options_table(
    "Conv2DOptions",
    1,
    "padding:b stride_w:i stride_h:i fused_activation:b dilation_w:i=1 dilation_h:i=1 quantized_bias_type:b",
)
DepthwiseConv2DOptions = _define_options_table(
    "DepthwiseConv2DOptions",
    2,
    "padding:b stride_w:i stride_h:i depth_multiplier:i fused_activation:b dilation_w:i=1 dilation_h:i=1",
)
Pool2DOptions = _define_options_table(
    "Pool2DOptions", 5, "padding:b stride_w:i stride_h:i filter_w:i filter_h:i fused_activation:b"
)
FullyConnectedOptions = _define_options_table(
    "FullyConnectedOptions",
    8,
    "fused_activation:b weights_format:b keep_num_dims:? asymmetric_quantize_inputs:? quantized_bias_type:b",
)
SoftmaxOptions = _define_options_table("SoftmaxOptions", 9, "beta:f")
ConcatenationOptions = _define_options_table("ConcatenationOptions", 10, "axis:i fused_activation:b")
AddOptions = _define_options_table("AddOptions", 11, "fused_activation:b pot_scale_int16:?=1")
SubOptions = _define_options_table("SubOptions", 28, "fused_activation:b pot_scale_int16:?=1")
MulOptions = _define_options_table("MulOptions", 21, "fused_activation:b")
ReshapeOptions = _define_options_table("ReshapeOptions", 17, "new_shape:[i]")
PadOptions = _define_options_table("PadOptions", 22)
PadV2Options = _define_options_table("PadV2Options", 43)
TransposeOptions = _define_options_table("TransposeOptions", 26)
ReducerOptions = _define_options_table("ReducerOptions", 27, "keep_dims:?")
SqueezeOptions = _define_options_table("SqueezeOptions", 30, "squeeze_dims:[i]")
StridedSliceOptions = _define_options_table(
    "StridedSliceOptions",
    32,
    "begin_mask:i end_mask:i ellipsis_mask:i new_axis_mask:i shrink_axis_mask:i offset:?",
)
ExpOptions = _define_options_table("ExpOptions", 33)
SplitOptions = _define_options_table("SplitOptions", 35, "num_splits:i")
SplitVOptions = _define_options_table("SplitVOptions", 79, "num_splits:i")
DivOptions = _define_options_table("DivOptions", 29, "fused_activation:b")
TransposeConvOptions = _define_options_table(
    "TransposeConvOptions", 49, "padding:b stride_w:i stride_h:i fused_activation:b quantized_bias_type:b"
)
ResizeBilinearOptions = _define_options_table(
    "ResizeBilinearOptions", 15, "align_corners:? half_pixel_centers:?", first=2
)
ResizeNearestNeighborOptions = _define_options_table(
    "ResizeNearestNeighborOptions", 74, "align_corners:? half_pixel_centers:?"
)
BatchMatMulOptions = _define_options_table(
    "BatchMatMulOptions", 101, "adj_x:? adj_y:? asymmetric_quantize_inputs:?"
)
DequantizeOptions = _define_options_table("DequantizeOptions", 38)
MaximumMinimumOptions = _define_options_table("MaximumMinimumOptions", 39)
SliceOptions = _define_options_table("SliceOptions", 48)
PackOptions = _define_options_table("PackOptions", 59, "values_count:i axis:i")
UnpackOptions = _define_options_table("UnpackOptions", 64, "num:i axis:i")
LeakyReluOptions = _define_options_table("LeakyReluOptions", 75, "alpha:f")
AbsOptions = _define_options_table("AbsOptions", 78)
QuantizeOptions = _define_options_table("QuantizeOptions", 89)
HardSwishOptions = _define_options_table("HardSwishOptions", 91)
GeluOptions = _define_options_table("GeluOptions", 116, "approximate:?")
GatherOptions = _define_options_table("GatherOptions", 23, "axis:i batch_dims:i")
ArgMaxOptions = _define_options_table("ArgMaxOptions", 40, "output_type:b")
ArgMinOptions = _define_options_table("ArgMinOptions", 57, "output_type:b")
CastOptions = _define_options_table("CastOptions", 37, "in_data_type:b out_data_type:b")
OneHotOptions = _define_options_table("OneHotOptions", 61, "axis:i")
SequenceLstmOptions = _define_options_table(
    "SequenceLstmOptions",
    71,
    "fused_activation:b cell_clip:f projection_clip:f time_major:? "
    "asymmetric_quantize_inputs:? diagonal_recurrent_tensors:?",
)
SpaceToDepthOptions = _define_options_table("SpaceToDepthOptions", 19, "block_size:i")
DepthToSpaceOptions = _define_options_table("DepthToSpaceOptions", 94, "block_size:i")
MirrorPadOptions = _define_options_table("MirrorPadOptions", 77, "mode:b")
SvdfOptions = _define_options_table(
    "SvdfOptions", 6, "rank:i fused_activation:b asymmetric_quantize_inputs:?"
)
CallOnceOptions = _define_options_table("CallOnceOptions", 103, "init_subgraph_index:i")
WhileOptions = _define_options_table("WhileOptions", 93, "cond_subgraph_index:i body_subgraph_index:i")
DynamicUpdateSliceOptions = _define_options_table("DynamicUpdateSliceOptions", 117)
VarHandleOptions = _define_options_table("VarHandleOptions", 111, "container:text shared_name:text")
ReadVariableOptions = _define_options_table("ReadVariableOptions", 112)
ShapeOptions = _define_options_table("ShapeOptions", 55, "out_type:b")
CumsumOptions = _define_options_table("CumsumOptions", 102, "exclusive:? reverse:?")
ReverseSequenceOptions = _define_options_table("ReverseSequenceOptions", 87, "seq_dim:i batch_dim:i")
L2NormOptions = _define_options_table("L2NormOptions", 12, "fused_activation:b")
AssignVariableOptions = _define_options_table("AssignVariableOptions", 113)
OPTION_NUMBERS = {cls: number for number, cls in OPTIONS.items()}

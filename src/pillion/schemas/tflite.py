# SPDX-License-Identifier: Apache-2.0
"""The supported subset of the TensorFlow Lite format, version 3. Field numbers are those of the format."""

from __future__ import annotations

from pillion.schemas.flatbuffer import (
    Bytes,
    Table,
    data,
    numbers,
    present,
    scalar,
    some_numbers,
    table,
    tables,
    text,
    union,
)
from pillion.schemas.tflite_enums import OPERATOR_NUMBERS as OPERATOR_NUMBERS
from pillion.schemas.tflite_enums import OPERATORS as OPERATORS
from pillion.schemas.tflite_enums import Activation as Activation
from pillion.schemas.tflite_enums import ElementType as ElementType
from pillion.schemas.tflite_enums import Padding as Padding

VERSION = 3
IDENTIFIER = b"TFL3"
LAST_DEPRECATED_CODE = 127
"""The largest operator number that fits the byte of old readers."""


class Model(Table):
    version: int = scalar(0, "I")
    operator_codes: list[OperatorCode] = tables(1, lambda: OperatorCode)
    subgraphs: list[SubGraph] = tables(2, lambda: SubGraph)
    description: str = text(3)
    buffers: list[Buffer] = tables(4, lambda: Buffer)


class OperatorCode(Table):
    deprecated_builtin_code: int = scalar(0, "b")
    custom_code: str = text(1)
    version: int = scalar(2, "i", 1)
    builtin_code: int = scalar(3, "i")


class SubGraph(Table):
    tensors: list[Tensor] = tables(0, lambda: Tensor)
    inputs: list[int] = numbers(1, "i")
    outputs: list[int] = numbers(2, "i")
    operators: list[Operator] = tables(3, lambda: Operator)
    name: str = text(4)


class Tensor(Table):
    shape: list[int] = numbers(0, "i")
    type: int = scalar(1, "b")
    buffer: int = scalar(2, "I")
    name: str = text(3)
    quantization: Quantization | None = table(4, lambda: Quantization)
    is_variable: bool = scalar(5, "?")
    is_sparse: bool = present(6)
    shape_signature: list[int] | None = some_numbers(7, "i")
    has_rank: bool = scalar(8, "?")
    external_buffer: int = scalar(10, "I")


class Quantization(Table):
    scale: list[float] = numbers(2, "f")
    zero_point: list[int] = numbers(3, "q")
    details_type: int = scalar(4, "B")
    quantized_dimension: int = scalar(6, "i")


class Buffer(Table):
    data: Bytes | None = data(0)
    offset: int = scalar(1, "Q")
    size: int = scalar(2, "Q")


class Operator(Table):
    opcode_index: int = scalar(0, "I")
    inputs: list[int] = numbers(1, "i")
    outputs: list[int] = numbers(2, "i")
    options_type: int = scalar(3, "B")
    options: Table | None = union(4, "options_type", lambda: OPTIONS)
    custom_options: Bytes | None = data(5)
    intermediates: list[int] | None = some_numbers(8, "i")


class Conv2DOptions(Table):
    padding: int = scalar(0, "b")
    stride_w: int = scalar(1, "i")
    stride_h: int = scalar(2, "i")
    fused_activation: int = scalar(3, "b")
    dilation_w: int = scalar(4, "i", 1)
    dilation_h: int = scalar(5, "i", 1)


class DepthwiseConv2DOptions(Table):
    padding: int = scalar(0, "b")
    stride_w: int = scalar(1, "i")
    stride_h: int = scalar(2, "i")
    depth_multiplier: int = scalar(3, "i")
    fused_activation: int = scalar(4, "b")
    dilation_w: int = scalar(5, "i", 1)
    dilation_h: int = scalar(6, "i", 1)


class Pool2DOptions(Table):
    padding: int = scalar(0, "b")
    stride_w: int = scalar(1, "i")
    stride_h: int = scalar(2, "i")
    filter_w: int = scalar(3, "i")
    filter_h: int = scalar(4, "i")
    fused_activation: int = scalar(5, "b")


class FullyConnectedOptions(Table):
    fused_activation: int = scalar(0, "b")
    weights_format: int = scalar(1, "b")
    keep_num_dims: bool = scalar(2, "?")


class SoftmaxOptions(Table):
    beta: float = scalar(0, "f")


class ConcatenationOptions(Table):
    axis: int = scalar(0, "i")
    fused_activation: int = scalar(1, "b")


class AddOptions(Table):
    fused_activation: int = scalar(0, "b")
    pot_scale_int16: bool = scalar(1, "?", True)


class SubOptions(Table):
    fused_activation: int = scalar(0, "b")
    pot_scale_int16: bool = scalar(1, "?", True)


class MulOptions(Table):
    fused_activation: int = scalar(0, "b")


class ReshapeOptions(Table):
    new_shape: list[int] = numbers(0, "i")


class PadOptions(Table):
    pass


class PadV2Options(Table):
    pass


class TransposeOptions(Table):
    pass


class ReducerOptions(Table):
    keep_dims: bool = scalar(0, "?")


class SqueezeOptions(Table):
    squeeze_dims: list[int] = numbers(0, "i")


class StridedSliceOptions(Table):
    begin_mask: int = scalar(0, "i")
    end_mask: int = scalar(1, "i")
    ellipsis_mask: int = scalar(2, "i")
    new_axis_mask: int = scalar(3, "i")
    shrink_axis_mask: int = scalar(4, "i")
    offset: bool = scalar(5, "?")


class ExpOptions(Table):
    pass


class SplitOptions(Table):
    num_splits: int = scalar(0, "i")


class SplitVOptions(Table):
    num_splits: int = scalar(0, "i")


class DivOptions(Table):
    fused_activation: int = scalar(0, "b")


class TransposeConvOptions(Table):
    padding: int = scalar(0, "b")
    stride_w: int = scalar(1, "i")
    stride_h: int = scalar(2, "i")
    fused_activation: int = scalar(3, "b")
    quantized_bias_type: int = scalar(4, "b")


class ResizeBilinearOptions(Table):
    align_corners: bool = scalar(2, "?")
    half_pixel_centers: bool = scalar(3, "?")


class ResizeNearestNeighborOptions(Table):
    align_corners: bool = scalar(0, "?")
    half_pixel_centers: bool = scalar(1, "?")


class BatchMatMulOptions(Table):
    adj_x: bool = scalar(0, "?")
    adj_y: bool = scalar(1, "?")
    asymmetric_quantize_inputs: bool = scalar(2, "?")


class DequantizeOptions(Table):
    pass


class MaximumMinimumOptions(Table):
    pass


class SliceOptions(Table):
    pass


class PackOptions(Table):
    values_count: int = scalar(0, "i")
    axis: int = scalar(1, "i")


class UnpackOptions(Table):
    num: int = scalar(0, "i")
    axis: int = scalar(1, "i")


class LeakyReluOptions(Table):
    alpha: float = scalar(0, "f")


class AbsOptions(Table):
    pass


class QuantizeOptions(Table):
    pass


class HardSwishOptions(Table):
    pass


class GeluOptions(Table):
    approximate: bool = scalar(0, "?")


class GatherOptions(Table):
    axis: int = scalar(0, "i")
    batch_dims: int = scalar(1, "i")


class ArgMaxOptions(Table):
    output_type: int = scalar(0, "b")


class ArgMinOptions(Table):
    output_type: int = scalar(0, "b")


class CastOptions(Table):
    in_data_type: int = scalar(0, "b")
    out_data_type: int = scalar(1, "b")


class OneHotOptions(Table):
    axis: int = scalar(0, "i")


class SequenceLstmOptions(Table):
    fused_activation: int = scalar(0, "b")
    cell_clip: float = scalar(1, "f")
    projection_clip: float = scalar(2, "f")
    time_major: bool = scalar(3, "?")
    asymmetric_quantize_inputs: bool = scalar(4, "?")
    diagonal_recurrent_tensors: bool = scalar(5, "?")


class SpaceToDepthOptions(Table):
    block_size: int = scalar(0, "i")


class DepthToSpaceOptions(Table):
    block_size: int = scalar(0, "i")


class MirrorPadOptions(Table):
    mode: int = scalar(0, "b")


class SvdfOptions(Table):
    rank: int = scalar(0, "i")
    fused_activation: int = scalar(1, "b")
    asymmetric_quantize_inputs: bool = scalar(2, "?")


class CallOnceOptions(Table):
    init_subgraph_index: int = scalar(0, "i")


class WhileOptions(Table):
    cond_subgraph_index: int = scalar(0, "i")
    body_subgraph_index: int = scalar(1, "i")


class DynamicUpdateSliceOptions(Table):
    pass


class VarHandleOptions(Table):
    container: str = text(0)
    shared_name: str = text(1)


class ReadVariableOptions(Table):
    pass


class ShapeOptions(Table):
    out_type: int = scalar(0, "b")


class CumsumOptions(Table):
    exclusive: bool = scalar(0, "?")
    reverse: bool = scalar(1, "?")


class ReverseSequenceOptions(Table):
    seq_dim: int = scalar(0, "i")
    batch_dim: int = scalar(1, "i")


class L2NormOptions(Table):
    fused_activation: int = scalar(0, "b")


class AssignVariableOptions(Table):
    pass


OPTIONS: dict[int, type[Table]] = {
    1: Conv2DOptions,
    2: DepthwiseConv2DOptions,
    5: Pool2DOptions,
    6: SvdfOptions,
    8: FullyConnectedOptions,
    9: SoftmaxOptions,
    10: ConcatenationOptions,
    11: AddOptions,
    12: L2NormOptions,
    15: ResizeBilinearOptions,
    17: ReshapeOptions,
    19: SpaceToDepthOptions,
    21: MulOptions,
    22: PadOptions,
    23: GatherOptions,
    26: TransposeOptions,
    27: ReducerOptions,
    28: SubOptions,
    29: DivOptions,
    30: SqueezeOptions,
    32: StridedSliceOptions,
    33: ExpOptions,
    35: SplitOptions,
    37: CastOptions,
    38: DequantizeOptions,
    39: MaximumMinimumOptions,
    40: ArgMaxOptions,
    43: PadV2Options,
    48: SliceOptions,
    49: TransposeConvOptions,
    55: ShapeOptions,
    57: ArgMinOptions,
    59: PackOptions,
    61: OneHotOptions,
    64: UnpackOptions,
    71: SequenceLstmOptions,
    74: ResizeNearestNeighborOptions,
    75: LeakyReluOptions,
    77: MirrorPadOptions,
    78: AbsOptions,
    79: SplitVOptions,
    87: ReverseSequenceOptions,
    89: QuantizeOptions,
    91: HardSwishOptions,
    93: WhileOptions,
    94: DepthToSpaceOptions,
    101: BatchMatMulOptions,
    102: CumsumOptions,
    103: CallOnceOptions,
    111: VarHandleOptions,
    112: ReadVariableOptions,
    113: AssignVariableOptions,
    116: GeluOptions,
    117: DynamicUpdateSliceOptions,
}
"""Option tables by the format's number."""

OPTION_NUMBERS = {cls: number for number, cls in OPTIONS.items()}

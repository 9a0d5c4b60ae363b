# SPDX-License-Identifier: Apache-2.0
"""The supported subset of the TensorFlow Lite format, version 3. Field numbers are those of the format."""

from __future__ import annotations

from pillion.schemas.flatbuffer import (
    Bytes,
    Table,
    data,
    number_field,
    numbers_field,
    optional_numbers_field,
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
    shape_signature: list[int] | None = optional_numbers_field(7, "i")
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
    intermediates: list[int] | None = optional_numbers_field(8, "i")


OPTIONS: dict[int, type[Table]] = {}
"""Option tables by the format's number."""


class Options(Table):
    """The base of option tables."""

    def __init_subclass__(cls, number: int) -> None:
        super().__init_subclass__()
        OPTIONS[number] = cls


class Conv2DOptions(Options, number=1):
    padding: int = number_field(0, "b")
    stride_w: int = number_field(1, "i")
    stride_h: int = number_field(2, "i")
    fused_activation: int = number_field(3, "b")
    dilation_w: int = number_field(4, "i", 1)
    dilation_h: int = number_field(5, "i", 1)


class DepthwiseConv2DOptions(Options, number=2):
    padding: int = number_field(0, "b")
    stride_w: int = number_field(1, "i")
    stride_h: int = number_field(2, "i")
    depth_multiplier: int = number_field(3, "i")
    fused_activation: int = number_field(4, "b")
    dilation_w: int = number_field(5, "i", 1)
    dilation_h: int = number_field(6, "i", 1)


class Pool2DOptions(Options, number=5):
    padding: int = number_field(0, "b")
    stride_w: int = number_field(1, "i")
    stride_h: int = number_field(2, "i")
    filter_w: int = number_field(3, "i")
    filter_h: int = number_field(4, "i")
    fused_activation: int = number_field(5, "b")


class FullyConnectedOptions(Options, number=8):
    fused_activation: int = number_field(0, "b")
    weights_format: int = number_field(1, "b")
    keep_num_dims: bool = number_field(2, "?")


class SoftmaxOptions(Options, number=9):
    beta: float = number_field(0, "f")


class ConcatenationOptions(Options, number=10):
    axis: int = number_field(0, "i")
    fused_activation: int = number_field(1, "b")


class AddOptions(Options, number=11):
    fused_activation: int = number_field(0, "b")
    pot_scale_int16: bool = number_field(1, "?", True)


class SubOptions(Options, number=28):
    fused_activation: int = number_field(0, "b")
    pot_scale_int16: bool = number_field(1, "?", True)


class MulOptions(Options, number=21):
    fused_activation: int = number_field(0, "b")


class ReshapeOptions(Options, number=17):
    new_shape: list[int] = numbers_field(0, "i")


class PadOptions(Options, number=22):
    pass


class PadV2Options(Options, number=43):
    pass


class TransposeOptions(Options, number=26):
    pass


class ReducerOptions(Options, number=27):
    keep_dims: bool = number_field(0, "?")


class SqueezeOptions(Options, number=30):
    squeeze_dims: list[int] = numbers_field(0, "i")


class StridedSliceOptions(Options, number=32):
    begin_mask: int = number_field(0, "i")
    end_mask: int = number_field(1, "i")
    ellipsis_mask: int = number_field(2, "i")
    new_axis_mask: int = number_field(3, "i")
    shrink_axis_mask: int = number_field(4, "i")
    offset: bool = number_field(5, "?")


class ExpOptions(Options, number=33):
    pass


class SplitOptions(Options, number=35):
    num_splits: int = number_field(0, "i")


class SplitVOptions(Options, number=79):
    num_splits: int = number_field(0, "i")


class DivOptions(Options, number=29):
    fused_activation: int = number_field(0, "b")


class TransposeConvOptions(Options, number=49):
    padding: int = number_field(0, "b")
    stride_w: int = number_field(1, "i")
    stride_h: int = number_field(2, "i")
    fused_activation: int = number_field(3, "b")
    quantized_bias_type: int = number_field(4, "b")


class ResizeBilinearOptions(Options, number=15):
    align_corners: bool = number_field(2, "?")
    half_pixel_centers: bool = number_field(3, "?")


class ResizeNearestNeighborOptions(Options, number=74):
    align_corners: bool = number_field(0, "?")
    half_pixel_centers: bool = number_field(1, "?")


class BatchMatMulOptions(Options, number=101):
    adj_x: bool = number_field(0, "?")
    adj_y: bool = number_field(1, "?")
    asymmetric_quantize_inputs: bool = number_field(2, "?")


class DequantizeOptions(Options, number=38):
    pass


class MaximumMinimumOptions(Options, number=39):
    pass


class SliceOptions(Options, number=48):
    pass


class PackOptions(Options, number=59):
    values_count: int = number_field(0, "i")
    axis: int = number_field(1, "i")


class UnpackOptions(Options, number=64):
    num: int = number_field(0, "i")
    axis: int = number_field(1, "i")


class LeakyReluOptions(Options, number=75):
    alpha: float = number_field(0, "f")


class AbsOptions(Options, number=78):
    pass


class QuantizeOptions(Options, number=89):
    pass


class HardSwishOptions(Options, number=91):
    pass


class GeluOptions(Options, number=116):
    approximate: bool = number_field(0, "?")


class GatherOptions(Options, number=23):
    axis: int = number_field(0, "i")
    batch_dims: int = number_field(1, "i")


class ArgMaxOptions(Options, number=40):
    output_type: int = number_field(0, "b")


class ArgMinOptions(Options, number=57):
    output_type: int = number_field(0, "b")


class CastOptions(Options, number=37):
    in_data_type: int = number_field(0, "b")
    out_data_type: int = number_field(1, "b")


class OneHotOptions(Options, number=61):
    axis: int = number_field(0, "i")


class SequenceLstmOptions(Options, number=71):
    fused_activation: int = number_field(0, "b")
    cell_clip: float = number_field(1, "f")
    projection_clip: float = number_field(2, "f")
    time_major: bool = number_field(3, "?")
    asymmetric_quantize_inputs: bool = number_field(4, "?")
    diagonal_recurrent_tensors: bool = number_field(5, "?")


class SpaceToDepthOptions(Options, number=19):
    block_size: int = number_field(0, "i")


class DepthToSpaceOptions(Options, number=94):
    block_size: int = number_field(0, "i")


class MirrorPadOptions(Options, number=77):
    mode: int = number_field(0, "b")


class SvdfOptions(Options, number=6):
    rank: int = number_field(0, "i")
    fused_activation: int = number_field(1, "b")
    asymmetric_quantize_inputs: bool = number_field(2, "?")


class CallOnceOptions(Options, number=103):
    init_subgraph_index: int = number_field(0, "i")


class WhileOptions(Options, number=93):
    cond_subgraph_index: int = number_field(0, "i")
    body_subgraph_index: int = number_field(1, "i")


class DynamicUpdateSliceOptions(Options, number=117):
    pass


class VarHandleOptions(Options, number=111):
    container: str = text_field(0)
    shared_name: str = text_field(1)


class ReadVariableOptions(Options, number=112):
    pass


class ShapeOptions(Options, number=55):
    out_type: int = number_field(0, "b")


class CumsumOptions(Options, number=102):
    exclusive: bool = number_field(0, "?")
    reverse: bool = number_field(1, "?")


class ReverseSequenceOptions(Options, number=87):
    seq_dim: int = number_field(0, "i")
    batch_dim: int = number_field(1, "i")


class L2NormOptions(Options, number=12):
    fused_activation: int = number_field(0, "b")


class AssignVariableOptions(Options, number=113):
    pass


OPTION_NUMBERS = {cls: number for number, cls in OPTIONS.items()}

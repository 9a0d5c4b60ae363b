# SPDX-License-Identifier: Apache-2.0
"""The TensorFlow Lite format, version 3, as far as Pillion writes or reads it. Field numbers are those of the format."""

from __future__ import annotations

from enum import IntEnum

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

VERSION = 3
IDENTIFIER = b"TFL3"
LAST_DEPRECATED_CODE = 127
"""Operators up to here are also named in the byte that old readers look at."""


class ElementType(IntEnum):
    """Element types that Pillion has a name for."""

    FLOAT32 = 0
    FLOAT16 = 1
    INT32 = 2
    UINT8 = 3
    INT64 = 4
    STRING = 5
    BOOL = 6
    INT16 = 7
    COMPLEX64 = 8
    INT8 = 9
    FLOAT64 = 10
    RESOURCE = 13
    INT4 = 17


class Padding(IntEnum):
    """The ways in which the format pads images."""

    SAME = 0
    VALID = 1


class Activation(IntEnum):
    """The functions that an operator can put behind its result."""

    NONE = 0
    RELU = 1
    RELU_N1_TO_1 = 2
    RELU6 = 3
    TANH = 4
    SIGN_BIT = 5


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


class VarHandleOptions(Table):
    container: str = text(0)
    shared_name: str = text(1)


class ReadVariableOptions(Table):
    pass


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
    89: QuantizeOptions,
    91: HardSwishOptions,
    94: DepthToSpaceOptions,
    101: BatchMatMulOptions,
    103: CallOnceOptions,
    111: VarHandleOptions,
    112: ReadVariableOptions,
    113: AssignVariableOptions,
    116: GeluOptions,
}
"""Options by the number that an operator names them with."""

OPTION_NUMBERS = {cls: number for number, cls in OPTIONS.items()}

# fmt: off
OPERATORS: tuple[str, ...] = tuple("""
ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE EMBEDDING_LOOKUP FLOOR
FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D LOCAL_RESPONSE_NORMALIZATION LOGISTIC
LSH_PROJECTION LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX
SPACE_TO_DEPTH SVDF TANH CONCAT_EMBEDDINGS SKIP_GRAM CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD
UNIDIRECTIONAL_SEQUENCE_RNN GATHER BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE
UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT LOG_SOFTMAX DELEGATE
BIDIRECTIONAL_SEQUENCE_LSTM CAST PRELU MAXIMUM ARG_MAX MINIMUM LESS NEG PADV2 GREATER GREATER_EQUAL
LESS_EQUAL SELECT SLICE SIN TRANSPOSE_CONV SPARSE_TO_DENSE TILE EXPAND_DIMS EQUAL NOT_EQUAL LOG SUM SQRT
RSQRT SHAPE POW ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK LOGICAL_OR ONE_HOT LOGICAL_AND LOGICAL_NOT
UNPACK REDUCE_MIN FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL FLOOR_MOD RANGE RESIZE_NEAREST_NEIGHBOR
LEAKY_RELU SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL REVERSE_V2 ADD_N GATHER_ND COS WHERE RANK
ELU REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND HARD_SWISH IF WHILE NON_MAX_SUPPRESSION_V4
NON_MAX_SUPPRESSION_V5 SCATTER_ND SELECT_V2 DENSIFY SEGMENT_SUM BATCH_MATMUL
PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO RFFT2D CONV_3D IMAG REAL COMPLEX_ABS
HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL CONV_3D_TRANSPOSE VAR_HANDLE
READ_VARIABLE ASSIGN_VARIABLE BROADCAST_ARGS RANDOM_STANDARD_NORMAL BUCKETIZE RANDOM_UNIFORM MULTINOMIAL
GELU DYNAMIC_UPDATE_SLICE RELU_0_TO_1 UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_SUM ATAN2
UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR RIGHT_SHIFT STABLEHLO_LOGISTIC STABLEHLO_ADD STABLEHLO_DIVIDE
STABLEHLO_MULTIPLY STABLEHLO_MAXIMUM STABLEHLO_RESHAPE STABLEHLO_CLAMP STABLEHLO_CONCATENATE
STABLEHLO_BROADCAST_IN_DIM STABLEHLO_CONVOLUTION STABLEHLO_SLICE STABLEHLO_CUSTOM_CALL STABLEHLO_REDUCE
STABLEHLO_ABS STABLEHLO_AND STABLEHLO_COSINE STABLEHLO_EXPONENTIAL STABLEHLO_FLOOR STABLEHLO_LOG
STABLEHLO_MINIMUM STABLEHLO_NEGATE STABLEHLO_OR STABLEHLO_POWER STABLEHLO_REMAINDER STABLEHLO_RSQRT
STABLEHLO_SELECT STABLEHLO_SUBTRACT STABLEHLO_TANH STABLEHLO_SCATTER STABLEHLO_COMPARE STABLEHLO_CONVERT
STABLEHLO_DYNAMIC_SLICE STABLEHLO_DYNAMIC_UPDATE_SLICE STABLEHLO_PAD STABLEHLO_IOTA STABLEHLO_DOT_GENERAL
STABLEHLO_REDUCE_WINDOW STABLEHLO_SORT STABLEHLO_WHILE STABLEHLO_GATHER STABLEHLO_TRANSPOSE DILATE
STABLEHLO_RNG_BIT_GENERATOR REDUCE_WINDOW STABLEHLO_COMPOSITE STABLEHLO_SHIFT_LEFT STABLEHLO_CBRT
STABLEHLO_CASE
""".split())  # noqa: SIM905 - words are easier to compare with the format
# fmt: on
"""Operators by number."""

OPERATOR_NUMBERS = {name: number for number, name in enumerate(OPERATORS)}

# SPDX-License-Identifier: Apache-2.0
"""Operators on uint8: most of LiteRT's kernels compute as those for int8 do, with all numbers and zero points smaller by 128."""

from __future__ import annotations

from pillion.importers.tflite.model import Reading, ReadOperator

SAME = frozenset(
    {
        *("ADD", "SUB", "MUL", "MINIMUM", "MAXIMUM", "PRELU", "LEAKY_RELU", "RELU", "RELU6", "RELU_N1_TO_1"),
        *("RELU_0_TO_1", "LOGISTIC", "TANH", "HARD_SWISH", "GELU", "SOFTMAX", "LOG_SOFTMAX", "MAX_POOL_2D"),
        *("MEAN", "REDUCE_MAX", "REDUCE_MIN", "RESIZE_NEAREST_NEIGHBOR", "CONCATENATION", "SPLIT", "SPLIT_V"),
        *("PACK", "UNPACK", "SLICE", "STRIDED_SLICE", "PAD", "PADV2", "SHAPE", "RESHAPE", "SQUEEZE"),
        *("EXPAND_DIMS", "TRANSPOSE", "REVERSE_V2", "QUANTIZE", "DEQUANTIZE", "GATHER", "TILE"),
        *("ARG_MAX", "ARG_MIN", "CUSTOM TFLite_Detection_PostProcess"),
    }
)
"""The operators that make the same of uint8 numbers as of int8 ones, which the tests compare."""


def unsigned(call: ReadOperator, row: Reading) -> Reading:
    """Gives the reading of an operator on uint8: that of the one on int8, where LiteRT computes the same."""
    if call.code not in SAME:
        raise call.refuse(
            "LiteRT rounds this operator otherwise for uint8 than for int8, or does not have it",
            f"{call.code} on uint8",
            "convert with full integer quantization to int8",
        )
    return row

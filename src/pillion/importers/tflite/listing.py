# SPDX-License-Identifier: Apache-2.0
"""Lists the support of each TFLite operator for the docs: supported, limited, or refused with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pillion.importers.tflite.refusal_reasons import REASONS
from pillion.importers.tflite.signals import ROWS as SIGNALS
from pillion.importers.tflite.table import OF_16_BITS, ROWS
from pillion.importers.tflite.uint8_ops import OWN, SAME
from pillion.importers.tflite.variables import CODES
from pillion.importers.tflite.weight_zero_points import WEIGHTED
from pillion.schemas import tflite

LIMITS = {
    "ARG_MAX": "of int8, along one axis",
    "ARG_MIN": "of int8, along one axis",
    "BATCH_MATMUL": "int8; batches may be broadcast",
    "CALL_ONCE": "a subgraph that assigns constants to variables",
    "CAST": "from bool, uint8, int8, int16 and int32, to these and float32",
    "ADD_N": "of whole numbers, as in LiteRT",
    "BITWISE_XOR": "of whole numbers",
    "BROADCAST_ARGS": "of known shapes",
    "CUMSUM": "of whole numbers, as in LiteRT",
    "DYNAMIC_UPDATE_SLICE": "at a known place",
    "L2_NORMALIZATION": "along the last axis, of up to 33025 elements",
    "RANGE": "of known numbers",
    "REDUCE_PROD": "of whole numbers",
    "REVERSE_SEQUENCE": "known lengths",
    "RIGHT_SHIFT": "of whole numbers",
    "SCATTER_ND": "at known places, each named once",
    "SIGN": "of whole numbers, as in LiteRT",
    "CONCATENATION": "without an activation",
    "BROADCAST_TO": "copies; LiteRT's reference kernels lack it",
    "ELU": "as LiteRT's optimized kernel: the reference kernels lack it",
    "NEG": "as LiteRT: it negates the numbers, whatever their zero points",
    "FLOOR_DIV": "of whole numbers, or of those of int16, whatever their scales",
    "FLOOR_MOD": "of whole numbers, or of those of int16, whatever their scales",
    "PRELU": "on int16 by slopes of int8, as in LiteRT",
    "SQRT": "a negative number counts as 0, at which LiteRT stops",
    "RSQRT": "a negative number counts as 0, at which LiteRT stops",
    "SUM": "as LiteRT's optimized kernel: the reference kernel takes all numbers for uint8",
    "FILL": "sizes and the number are known",
    "GATHER": "of int8, int16, int32, bool and float32, by int32 and int64",
    "GATHER_ND": "numbers that are known, or one for each slice",
    "RESHAPE": "to a fixed shape",
    "STRIDED_SLICE": "all masks, positive steps",
    "SVDF": "int8, with an int16 memory; relu",
    "TILE": "counts are known",
    "WHILE": "counters, slices by a counter, lists, and tensors that go from step to step; the number of steps is known",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "int8, with an int16 cell; no peephole, projection, layer norm, or coupled gates",
    **dict.fromkeys(SIGNALS, "int16, TensorFlow Lite Micro's bytes: docs/guide/sound.md"),
    "CUSTOM TFLite_Detection_PostProcess": "one class for each box; float32 or uint8",
    "CUSTOM pillion_table": "Pillion's own operator in files of segments: 256 int8 results",
}
"""The limits of supported operators beyond int8 with one scale."""


@dataclass(frozen=True)
class Listed:
    """An operator and its support."""

    name: str
    is_read: bool
    is_read_as_uint8: bool
    is_read_as_int16: bool
    note: str


def list_operators() -> Iterator[Listed]:
    """Yields all operators of the format and the supported custom ones, by name."""
    known = {*ROWS, *CODES}
    for name in sorted({*tflite.OPERATORS, *ROWS} - {"PLACEHOLDER_FOR_GREATER_OP_CODES", "DELEGATE"}):
        note = LIMITS.get(name, "") if name in known else REASONS.get(name, "")
        yield Listed(name, name in known, name in {*SAME, *WEIGHTED, *OWN}, name in OF_16_BITS, note)

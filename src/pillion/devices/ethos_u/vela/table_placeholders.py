# SPDX-License-Identifier: Apache-2.0
"""Lookup tables that Vela has no operator for: it compiles leaky ReLUs instead, whose tables are then exchanged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from pillion.devices.ethos_u.vela.compiled import CompiledSegment
from pillion.devices.ethos_u.vela.vela_process import VelaError
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import DType, PerTensor, TensorType, Value
from pillion.ops import Lut
from pillion.ops.unary_functions import Function
from pillion.schemas import tflite
from pillion.schemas.flatbuffer import read_root_table, write_flatbuffer

Compile = Callable[[bytes], CompiledSegment]
_SLOPES = ((0.3, 0.013), (0.61, 0.017))
"""The first slope and the distance to the next one, of two compilations."""


@dataclass(frozen=True)
class Placeholder:
    """A table that Vela writes, and the one that belongs in its place."""

    written: bytes
    wanted: bytes


def compile_with_tables(file: bytes, compile_file: Compile) -> CompiledSegment:
    """Returns a compiled segment with its own tables.

    Two compilations with different leaky ReLUs show where the tables are: they differ there alone. Raises if they
    differ elsewhere, for example if Vela shares a table between operators."""
    if tflite.TABLE_OPERATOR.encode() not in file:
        return compile_file(file)
    made, others = [], []
    for first, step in _SLOPES:
        placed, tables = _with_leaky_relus(file, first, step)
        made.append(compile_file(placed))
        others.append(tables)
    constants, other = (bytearray(segment.constants) for segment in made)
    for table, changed in zip(*others, strict=True):
        at = constants.find(table.written)
        found = at >= 0 and other[at : at + len(changed.written)] == changed.written
        _require(found, f"{constants.count(table.written)} tables like this")
        constants[at : at + len(table.wanted)] = other[at : at + len(table.wanted)] = table.wanted
    _require(constants == other and made[0].commands == made[1].commands, "others differ, too")
    return replace(made[0], constants=bytes(constants))


def _require(holds: bool, here: str) -> None:
    if not holds:
        raise VelaError(
            "a lookup table is not found in Vela's constants",
            rule="each table has a place of its own",
            here=here,
            help="--keep-on-cpu keeps the function away from the NPU",
        )


def _with_leaky_relus(file: bytes, slope: float, step: float) -> tuple[bytes, list[Placeholder]]:
    """Returns a file with leaky ReLUs instead of tables, and their placeholders, each once."""
    model = read_root_table(tflite.Model, file, tflite.IDENTIFIER)
    number = [code.custom_code for code in model.operator_codes].index(tflite.TABLE_OPERATOR)
    leaky = tflite.OPERATOR_NUMBERS["LEAKY_RELU"]
    model.operator_codes[number] = tflite.OperatorCode(deprecated_builtin_code=leaky, builtin_code=leaky)
    (graph, *_) = model.subgraphs
    slopes: dict[tuple[bytes, ...], float] = {}
    placeholders = []
    for operator in graph.operators:
        if operator.opcode_index != number:
            continue
        x, table, y = (graph.tensors[at] for at in (*operator.inputs, *operator.outputs))
        data = model.buffers[table.buffer].data
        assert data is not None
        key = (data.tobytes(), repr(_quant(x)).encode(), repr(_quant(y)).encode())
        alpha = slopes.setdefault(key, slope + step * len(slopes))
        operator.inputs = operator.inputs[:1]
        operator.options = tflite.LeakyReluOptions(alpha=alpha)
        operator.options_type = tflite.OPTION_NUMBERS[tflite.LeakyReluOptions]
        one = Placeholder(_leaky_entries(_quant(x), _quant(y), alpha), key[0])
        if one not in placeholders:
            placeholders.append(one)
    return write_flatbuffer(model, tflite.IDENTIFIER), placeholders


def _quant(tensor: tflite.Tensor) -> PerTensor:
    assert tensor.quantization is not None
    return PerTensor(tensor.quantization.scale[0], tensor.quantization.zero_point[0])


def _leaky_entries(x: PerTensor, y: PerTensor, alpha: float) -> bytes:
    """Returns the table of a leaky ReLU as Vela writes it."""
    alpha = float(np.float32(alpha))
    before, after = (Value(name, TensorType((1,), DType.INT8, quant)) for name, quant in (("x", x), ("y", y)))
    op = Lut(x=before, y=after, table=None, function=Function.LEAKY_RELU, alpha=alpha)
    return op.entries(Arithmetic.TFLITE).tobytes()

# SPDX-License-Identifier: Apache-2.0
"""Knows the program format: values, instructions, constants, segments, header. Knows no op."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from pillion.emitters.pte.lower import Lowered
from pillion.emitters.pte.node import Arg, Call, Temp, View
from pillion.emitters.pte.pack import Table, pack
from pillion.ir.types import Array, Value
from pillion.pte_schema import ALIGNMENT, ARENA, HEADER, HEADER_MAGIC, RECORD_KEY, SCALAR_TYPES

SEGMENT_ALIGNMENT = 128
"""Of the first segment in the file: a cache line of any core."""
HEADER_ROOM = 32
"""Bytes that the header takes: itself and what keeps the flatbuffer's alignment."""
EMPTY = b""
"""Stands at index 0 of the constants, which means `no constant`."""


class Constants:
    """Data of constants, stored once each."""

    def __init__(self) -> None:
        self.numbers: dict[bytes, int] = {EMPTY: 0}
        self.offsets = [0]
        self.segment = bytearray()

    def number(self, array: Array) -> int:
        raw = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
        if raw not in self.numbers:
            self.segment += bytes(-len(self.segment) % ALIGNMENT)
            self.numbers[raw] = len(self.offsets)
            self.offsets.append(len(self.segment))
            self.segment += raw
        return self.numbers[raw]


class Writer:
    """Collects values, operators and constants while the calls are added."""

    def __init__(self, lowered: Lowered) -> None:
        self.lowered = lowered
        self.constants = Constants()
        self.values: list[Table] = []
        self.numbers: dict[Hashable, int] = {}
        self.operators: dict[str, int] = {}
        self.instructions: list[Table] = []

    def program(self, record: bytes) -> bytes:
        """The whole file; `record` becomes named data."""
        graph = self.lowered.graph
        inputs = [self.whole(v) for v in graph.inputs]
        for call in self.lowered.calls:
            self.add(call)
        outputs = [self.whole(v) for v in graph.outputs]
        return assemble(self.tables(inputs, outputs), bytes(self.constants.segment), record)

    def add(self, call: Call) -> None:
        number = self.operators.setdefault(call.operator, len(self.operators))
        out = self.tensor(call.out)
        # The result is on the stack twice: as the out argument and as what the operator returns.
        args = [*(self.argument(a) for a in call.args), out, out]
        self.instructions.append({"instr_args": ("KernelCall", {"op_index": number, "args": args})})

    def argument(self, arg: Arg) -> int:
        """The number of a value with this content, made when it is first asked for."""
        match arg:
            case View():
                return self.tensor(arg)
            case None:
                return self.value("none", "Null", {})
            case bool():
                return self.value(("bool", arg), "Bool", {"bool_val": arg})
            case int():
                return self.value(("int", arg), "Int", {"int_val": arg})
            case float():
                return self.value(("float", arg), "Double", {"double_val": arg})
            case (View(), *_):
                items = [self.tensor(view) for view in arg if isinstance(view, View)]
                return self.value(("tensors", *items), "TensorList", {"items": items})
            case _:
                # A list of integers lists the values that hold them.
                items = [self.argument(number) for number in arg]
                return self.value(("ints", *items), "IntList", {"items": items})

    def value(self, key: Hashable, kind: str, table: Table) -> int:
        if key not in self.numbers:
            self.numbers[key] = len(self.values)
            self.values.append({"val": (kind, table)})
        return self.numbers[key]

    def whole(self, value: Value) -> int:
        """An input or output of the program."""
        return self.tensor(View(value, value.dtype, value.shape, tuple(range(value.type.rank))))

    def tensor(self, view: View) -> int:
        table: dict[str, Any] = {
            "scalar_type": SCALAR_TYPES[view.dtype],
            "sizes": view.sizes,
            "dim_order": view.order,
        }
        of: Hashable = view.of
        if isinstance(view.of, Value) and view.of.is_constant:
            table["data_buffer_idx"] = of = self.constants.number(view.of.constant)
        else:
            offset = self.lowered.offset(view.of)
            table["allocation_info"] = allocation(offset)
            of = ("scratch", offset) if isinstance(view.of, Temp) else view.of
        return self.value((of, view.dtype, view.sizes, view.order), "Tensor", table)

    def tables(self, inputs: list[int], outputs: list[int]) -> dict[str, Any]:
        plan = {
            "name": "forward",
            "container_meta_type": {"encoded_inp_str": "", "encoded_out_str": ""},
            "values": self.values,
            "inputs": inputs,
            "outputs": outputs,
            "chains": [{"inputs": [], "outputs": [], "instructions": self.instructions}],
            "operators": [_operator(name) for name in self.operators],
            "delegates": [],
            "non_const_buffer_sizes": [0, self.lowered.memory.arena_bytes],
        }
        return {
            "execution_plan": [plan],
            "backend_delegate_data": [],
            "constant_segment": {"offsets": self.constants.offsets},
        }


def allocation(offset: int) -> Table:
    return {"memory_id": ARENA, "memory_offset_low": offset & 0xFFFFFFFF, "memory_offset_high": offset >> 32}


def _operator(name: str) -> Table:
    base, _, overload = name.rpartition(".")
    return {"name": base, "overload": overload}


def assemble(tables: dict[str, Any], constants: bytes, record: bytes) -> bytes:
    """Header, flatbuffer, then the segments: constants, and the record as named data."""
    start = -(-len(constants) // ALIGNMENT) * ALIGNMENT
    tables["segments"] = [{"offset": 0, "size": len(constants)}, {"offset": start, "size": len(record)}]
    tables["named_data"] = [{"key": RECORD_KEY, "segment_index": 1}]
    buffer = pack(tables)
    size = len(buffer) + HEADER_ROOM
    base = -(-size // SEGMENT_ALIGNMENT) * SEGMENT_ALIGNMENT
    root = int.from_bytes(buffer[:4], "little") + HEADER_ROOM
    header = HEADER.pack(HEADER_MAGIC, HEADER.size, size, base, start + len(record))
    program = root.to_bytes(4, "little") + buffer[4:8] + header.ljust(HEADER_ROOM, b"\0") + buffer[8:]
    return program + bytes(base - size) + constants + bytes(start - len(constants)) + record

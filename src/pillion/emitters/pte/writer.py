# SPDX-License-Identifier: Apache-2.0
"""Writes the program format: values, instructions, constants, segments, header. It knows no op."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np

from pillion.emitters.pte.lower import LoweredProgram
from pillion.emitters.pte.node import Arg, Delegate, KernelCall, NodeView, Temp, contiguous_view
from pillion.ir.state import State
from pillion.ir.types import Array, Value
from pillion.memory import MemoryLocation
from pillion.schemas import pte
from pillion.schemas.flatbuffer import Table, write_flatbuffer
from pillion.schemas.pte import ALIGNMENT, ScalarType
from pillion.schemas.pte_record import ProgramRecord

SEGMENT_ALIGNMENT = 128
"""The alignment of the first segment in the file: a cache line of any core."""
HEADER_ROOM = 32
"""The bytes of the header with its padding."""
EMPTY = b""
"""Index 0 of the constants means "no constant"."""


class Constants:
    """Deduplicated constant data."""

    def __init__(self) -> None:
        self.numbers: dict[bytes, int] = {EMPTY: 0}
        self.offsets = [0]
        self.segment = bytearray()

    def find(self, array: Array) -> int | None:
        """Returns the number under which these bytes are stored, or None if they are not."""
        return self.numbers.get(little_endian(array))

    @property
    def segments(self) -> tuple[Constants, ...]:
        """This segment, if it is not empty."""
        return (self,) if len(self.offsets) > 1 else ()

    def number(self, array: Array) -> int:
        """Stores an array once and returns its number."""
        raw = little_endian(array)
        if raw not in self.numbers:
            self.segment += bytes(-len(self.segment) % ALIGNMENT)
            self.numbers[raw] = len(self.offsets)
            self.offsets.append(len(self.segment))
            self.segment += raw
        return self.numbers[raw]


def little_endian(array: Array) -> bytes:
    """Returns the bytes of an array as files hold them."""
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()


class Writer:
    """Collects values, operators and constants while calls are added."""

    def __init__(self, lowered: LoweredProgram) -> None:
        self.lowered = lowered
        self.constants = Constants()
        self.initial = Constants()
        """The initial values of states."""
        self.values: list[pte.EValue] = []
        self.numbers: dict[Hashable, int] = {}
        self.operators: dict[str, int] = {}
        self.delegates: list[Delegate] = []
        self.instructions: list[pte.Instruction] = []

    def program(self, record: Callable[[], ProgramRecord]) -> bytes:
        """Returns the file; `record` is called after all constants have numbers, and becomes named data."""
        graph = self.lowered.graph
        for state in graph.states:
            self.add_state(state)
        inputs = [self.value_tensor(v) for v in graph.inputs]
        for step in self.lowered.steps:
            self.add(step)
        outputs = [self.value_tensor(v) for v in graph.outputs]
        return assemble_file(
            self.plan(inputs, outputs), self.delegates, self.constants, record(), self.initial.segments
        )

    def add_state(self, state: State) -> None:
        """Adds a tensor that the runtime initializes when it loads the program; other tensors at its place
        have no initial data."""
        number = self.initial.number(state.initial)
        tensor = pte.Tensor(
            scalar_type=ScalarType[state.before.dtype.name],
            sizes=list(state.before.shape),
            dim_order=list(range(state.before.type.rank)),
            data_buffer_idx=number,
            allocation_info=_allocation_details(self.lowered.spot(state.before)),
            extra_tensor_info=pte.ExtraTensorInfo(fully_qualified_name=state.name),
        )
        self.value(("state", state.name), tensor)

    def add(self, step: KernelCall | Delegate) -> None:
        """Adds one instruction, a kernel call or a delegate call."""
        if isinstance(step, Delegate):
            args = [self.tensor(view) for view in step.views]
            call: Table = pte.DelegateCall(len(self.delegates), args)
            self.delegates.append(step)
        else:
            number = self.operators.setdefault(step.operator, len(self.operators))
            out = self.tensor(step.out)
            # The result is passed twice: as the out argument and as the return value.
            call = pte.KernelCall(number, [*(self.argument(a) for a in step.args), out, out])
        self.instructions.append(pte.Instruction(_class_tag(pte.INSTRUCTIONS, call), call))

    def argument(self, arg: Arg) -> int:
        """Returns the number of the value with this content."""
        match arg:
            case NodeView():
                return self.tensor(arg)
            case None:
                return self.value("none", pte.Null())
            case bool():
                return self.value(("bool", arg), pte.Bool(arg))
            case int():
                return self.value(("int", arg), pte.Int(arg))
            case float():
                return self.value(("float", arg), pte.Double(arg))
            case (NodeView(), *_):
                tensors = [self.tensor(view) for view in arg if isinstance(view, NodeView)]
                return self.value(("tensors", *tensors), pte.TensorList(tensors))
            case _:
                # A list of integers has the indices of their values.
                items = [self.argument(number) for number in arg]
                return self.value(("ints", *items), pte.IntList(items))

    def value(self, key: Hashable, held: Table) -> int:
        """Returns the number of an entry in the table of values, added at the first use."""
        if key not in self.numbers:
            self.numbers[key] = len(self.values)
            self.values.append(pte.EValue(_class_tag(pte.VALUES, held), held))
        return self.numbers[key]

    def value_tensor(self, value: Value) -> int:
        """Returns the number of an input or output of the program."""
        return self.tensor(contiguous_view(value))

    def tensor(self, view: NodeView) -> int:
        """Returns the number of a tensor argument: constant data, or a place in the arena."""
        argument = pte.Tensor(
            scalar_type=ScalarType[view.dtype.name], sizes=list(view.sizes), dim_order=list(view.order)
        )
        of: Hashable = view.of
        if isinstance(view.of, Value) and view.of.is_constant:
            argument.data_buffer_idx = of = self.constants.number(view.of.constant)
        else:
            spot = self.lowered.spot(view.of)
            argument.allocation_info = _allocation_details(spot)
            of = ("scratch", spot.offset) if isinstance(view.of, Temp) else view.of
        return self.value((of, view.dtype, view.sizes, view.order), argument)

    def plan(self, inputs: list[int], outputs: list[int]) -> pte.ExecutionPlan:
        """Returns the execution plan."""
        memory = self.lowered.memory
        return pte.ExecutionPlan(
            name="forward",
            container_meta_type=pte.ContainerMetadata(),
            values=self.values,
            inputs=inputs,
            outputs=outputs,
            chains=[pte.Chain(instructions=self.instructions)],
            operators=[_pte_operator(name) for name in self.operators],
            delegates=[_backend_delegate(i, delegate) for i, delegate in enumerate(self.delegates)],
            non_const_buffer_sizes=[
                0,
                memory.arena_bytes,
                *([memory.state_bytes] if memory.state_bytes else []),
            ],
        )


def _allocation_details(spot: MemoryLocation) -> pte.AllocationDetails:
    memory = {"arena": pte.ARENA, "state": pte.STATE}[spot.area]
    return pte.AllocationDetails(memory, spot.offset & 0xFFFFFFFF, spot.offset >> 32)


def _class_tag(classes: Mapping[int, type[Table]], table: Table) -> int:
    """Returns the format's number of a table's class."""
    return next(number for number, cls in classes.items() if isinstance(table, cls))


def _pte_operator(name: str) -> pte.Operator:
    base, _, overload = name.rpartition(".")
    return pte.Operator(base, overload)


def _backend_delegate(index: int, delegate: Delegate) -> pte.BackendDelegate:
    specs = [pte.CompileSpec(key, np.frombuffer(value, np.uint8)) for key, value in delegate.specs]
    place = pte.DataReference(pte.DelegateDataLocation.INLINE, index)
    return pte.BackendDelegate(delegate.backend, place, specs)


def assemble_file(
    plan: pte.ExecutionPlan,
    delegates: Sequence[Delegate],
    constants: Constants,
    record: ProgramRecord,
    initial: Sequence[Constants] = (),
) -> bytes:
    """Returns the file: header, flatbuffer, then segments (constants, initial states, record as named
    data)."""
    segments, data = [], b""
    for entry in (constants, *initial):
        segments.append(pte.DataSegment(len(data), len(entry.segment)))
        data += bytes(entry.segment)
        data += bytes(-len(data) % ALIGNMENT)
    program = pte.Program(
        execution_plan=[plan],
        constant_buffer=None,
        backend_delegate_data=[pte.InlineData(np.frombuffer(entry.payload, np.uint8)) for entry in delegates],
        segments=[*segments, pte.DataSegment(len(data), record.size)],
        constant_segment=pte.SubsegmentOffsets(0, constants.offsets),
        mutable_data_segments=[pte.SubsegmentOffsets(1, entry.offsets) for entry in initial] or None,
        named_data=[pte.NamedData(pte.RECORD_KEY, len(segments))],
    )
    buffer = write_flatbuffer(program, pte.IDENTIFIER, share=True)
    size = len(buffer) + HEADER_ROOM
    base = -(-size // SEGMENT_ALIGNMENT) * SEGMENT_ALIGNMENT
    root = int.from_bytes(buffer[:4], "little") + HEADER_ROOM
    header = pte.HEADER.pack(pte.HEADER_MAGIC, pte.HEADER.size, size, base, len(data) + record.size)
    first = root.to_bytes(4, "little") + buffer[4:8] + header.ljust(HEADER_ROOM, b"\0") + buffer[8:]
    body = first + bytes(base - size) + data
    return body + record.sealed(body)

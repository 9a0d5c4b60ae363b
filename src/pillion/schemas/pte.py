# SPDX-License-Identifier: Apache-2.0
"""The ExecuTorch program format, as version 1.4 writes and reads it. Field numbers are the format's."""

from __future__ import annotations

import struct
from enum import IntEnum

from pillion.schemas.flatbuffer import (
    Bytes,
    Table,
    data,
    number_field,
    numbers_field,
    table_field,
    tables_field,
    text_field,
    union_field,
)

IDENTIFIER = b"ET12"
HEADER_MAGIC = b"eh00"
"""The bytes at offset 8 of a program with segments."""
HEADER = struct.Struct("<4sIQQQ")
"""Magic, header length, size of the program with this header, offset of the segments, size of all
segments."""
CHANNELS_LAST = (0, 2, 3, 1)
"""The dim order of a tensor with sizes [n, c, h, w] and NHWC memory."""
ARENA, STATE = 1, 2
"""The memory ids of planned tensors: valid during a run, or persistent states."""
ALIGNMENT = 16
"""The alignment of planned tensors, constants and delegate data."""
PILLION_BACKEND = "PillionBackend"
"""The delegate whose payloads are program images."""
RECORD_KEY = "pillion"
"""The named data with the program's origin and core, which a runtime never reads."""


class ScalarType(IntEnum):
    """Element types by PyTorch's numbers."""

    UINT8 = 0
    INT8 = 1
    INT16 = 2
    INT32 = 3
    INT64 = 4
    FLOAT32 = 6
    FLOAT64 = 7
    BOOL = 11


class DelegateDataLocation(IntEnum):
    """The places of a delegate's data."""

    INLINE = 0
    SEGMENT = 1


class AllocationDetails(Table):
    """A place in planned memory; the 64-bit offset has two halves."""

    memory_id: int = number_field(0, "I")
    memory_offset_low: int = number_field(1, "I")
    memory_offset_high: int = number_field(2, "I")

    @property
    def offset(self) -> int:
        """The 64-bit offset."""
        return self.memory_offset_high << 32 | self.memory_offset_low


class ExtraTensorInfo(Table):
    fully_qualified_name: str = text_field(1)


class Null(Table):
    """The value of an omitted argument."""


class Int(Table):
    int_val: int = number_field(0, "q")


class Bool(Table):
    bool_val: bool = number_field(0, "?")


class Double(Table):
    double_val: float = number_field(0, "d")


class Tensor(Table):
    """A tensor. `data_buffer_idx` 0 means no constant; without `allocation_info` a tensor is not planned."""

    scalar_type: int = number_field(0, "b")
    storage_offset: int = number_field(1, "i")
    sizes: list[int] = numbers_field(2, "i")
    dim_order: list[int] = numbers_field(3, "B")
    data_buffer_idx: int = number_field(5, "I")
    allocation_info: AllocationDetails | None = table_field(6, lambda: AllocationDetails)
    extra_tensor_info: ExtraTensorInfo | None = table_field(9, lambda: ExtraTensorInfo)


class IntList(Table):
    """A list of the indices of values that hold the integers."""

    items: list[int] = numbers_field(0, "q")


class TensorList(Table):
    items: list[int] = numbers_field(0, "i")


def _name_only_tables(names: dict[int, str]) -> dict[int, type[Table]]:
    """Returns tables that programs may have, without fields: only their names are read, for messages."""
    members = {"__module__": __name__, "__annotations__": dict[str, object]()}
    return {number: type(name, (Table,), {**members}) for number, name in names.items()}


VALUES: dict[int, type[Table]] = {1: Null, 2: Int, 3: Bool, 4: Double, 5: Tensor, 7: IntList, 10: TensorList}
"""The kinds of values by the format's number."""
VALUES |= _name_only_tables({6: "String", 8: "DoubleList", 9: "BoolList", 11: "OptionalTensorList"})


class EValue(Table):
    val_type: int = number_field(0, "B")
    val: Table | None = union_field(1, "val_type", lambda: VALUES)


class Operator(Table):
    name: str = text_field(0)
    overload: str = text_field(1)


class KernelCall(Table):
    """A kernel call: arguments in schema order, then the out argument twice."""

    op_index: int = number_field(0, "i")
    args: list[int] = numbers_field(1, "i")


class DelegateCall(Table):
    """A delegate call: inputs, then outputs."""

    delegate_index: int = number_field(0, "i")
    args: list[int] = numbers_field(1, "i")


INSTRUCTIONS: dict[int, type[Table]] = {1: KernelCall, 2: DelegateCall}
"""The kinds of instructions by the format's number."""
INSTRUCTIONS |= _name_only_tables({3: "MoveCall", 4: "JumpFalseCall", 5: "FreeCall"})


class Instruction(Table):
    instr_args_type: int = number_field(0, "B")
    instr_args: Table | None = union_field(1, "instr_args_type", lambda: INSTRUCTIONS)


class Chain(Table):
    inputs: list[int] = numbers_field(0, "i")
    outputs: list[int] = numbers_field(1, "i")
    instructions: list[Instruction] = tables_field(2, lambda: Instruction)


class DataReference(Table):
    location: int = number_field(0, "b")
    index: int = number_field(1, "I")


class CompileSpec(Table):
    key: str = text_field(0)
    value: Bytes | None = data(1)


class BackendDelegate(Table):
    id: str = text_field(0)
    processed: DataReference | None = table_field(1, lambda: DataReference)
    compile_specs: list[CompileSpec] = tables_field(2, lambda: CompileSpec)


class ContainerMetadata(Table):
    encoded_inp_str: str = text_field(0)
    encoded_out_str: str = text_field(1)


class ExecutionPlan(Table):
    name: str = text_field(0)
    container_meta_type: ContainerMetadata | None = table_field(1, lambda: ContainerMetadata)
    values: list[EValue] = tables_field(2, lambda: EValue)
    inputs: list[int] = numbers_field(3, "i")
    outputs: list[int] = numbers_field(4, "i")
    chains: list[Chain] = tables_field(5, lambda: Chain)
    operators: list[Operator] = tables_field(6, lambda: Operator)
    delegates: list[BackendDelegate] = tables_field(7, lambda: BackendDelegate)
    non_const_buffer_sizes: list[int] = numbers_field(8, "q")


class InlineData(Table):
    data: Bytes | None = data(0)


class DataSegment(Table):
    """A range of bytes behind the flatbuffer, relative to the first segment."""

    offset: int = number_field(0, "Q")
    size: int = number_field(1, "Q")


class SubsegmentOffsets(Table):
    """The offset of each constant in its segment; number 0 means none."""

    segment_index: int = number_field(0, "I")
    offsets: list[int] = numbers_field(1, "Q")


class NamedData(Table):
    key: str = text_field(0)
    segment_index: int = number_field(1, "I")


class Program(Table):
    version: int = number_field(0, "I")
    execution_plan: list[ExecutionPlan] = tables_field(1, lambda: ExecutionPlan)
    constant_buffer: list[InlineData] | None = tables_field(2, lambda: InlineData)
    backend_delegate_data: list[InlineData] = tables_field(3, lambda: InlineData)
    segments: list[DataSegment] = tables_field(4, lambda: DataSegment)
    constant_segment: SubsegmentOffsets | None = table_field(5, lambda: SubsegmentOffsets)
    mutable_data_segments: list[SubsegmentOffsets] | None = tables_field(6, lambda: SubsegmentOffsets)
    named_data: list[NamedData] | None = tables_field(7, lambda: NamedData)

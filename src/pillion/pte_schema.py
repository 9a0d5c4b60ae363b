# SPDX-License-Identifier: Apache-2.0
"""The ExecuTorch program format (schema of 1.4, file identifier ET12): tables, enumerations, file layout.

Written once, for the writer and for the reader. A field is `name:kind`; kinds are numbers (`i8`, `u32`, `f64`, …),
`string`, a table, a union (which takes two slots), or a vector `[kind]`. The order of fields is that of their slots."""

from __future__ import annotations

import struct
from typing import NamedTuple

from pillion.ir.types import DType


class Field(NamedTuple):
    """A field of a table: its first slot and what it holds."""

    name: str
    kind: str
    slot: int


NUMBERS = {"bool": "?", "i8": "b", "u8": "B", "i32": "i", "u32": "I", "i64": "q", "u64": "Q", "f64": "d"}
"""Number kinds → the letters of Python's `struct`."""

UNIONS: dict[str, tuple[str, ...]] = {
    "KernelTypes": (
        "Null",
        "Int",
        "Bool",
        "Double",
        "Tensor",
        "String",
        "IntList",
        "DoubleList",
        "BoolList",
        "TensorList",
        "OptionalTensorList",
    ),
    "InstructionArguments": ("KernelCall", "DelegateCall", "MoveCall", "JumpFalseCall", "FreeCall"),
}
"""Union → its tables; the type number of the first is 1."""

_TABLES = {
    "ContainerMetadata": "encoded_inp_str:string encoded_out_str:string",
    "Null": "",
    "AllocationDetails": "memory_id:u32 memory_offset_low:u32 memory_offset_high:u32",
    "ExtraTensorInfo": "mutable_data_segments_idx:u64 fully_qualified_name:string location:i8 device_type:i8 device_index:i8",
    "Tensor": (
        "scalar_type:i8 storage_offset:i32 sizes:[i32] dim_order:[u8] requires_grad:bool data_buffer_idx:u32 "
        "allocation_info:AllocationDetails layout:i8 shape_dynamism:i8 extra_tensor_info:ExtraTensorInfo"
    ),
    "Int": "int_val:i64",
    "Bool": "bool_val:bool",
    "Double": "double_val:f64",
    "String": "string_val:string",
    "IntList": "items:[i64]",
    "DoubleList": "items:[f64]",
    "BoolList": "items:[bool]",
    "TensorList": "items:[i32]",
    "OptionalTensorList": "items:[i32]",
    "EValue": "val:KernelTypes",
    "Operator": "name:string overload:string",
    "KernelCall": "op_index:i32 args:[i32]",
    "DelegateCall": "delegate_index:i32 args:[i32]",
    "MoveCall": "move_from:i32 move_to:i32",
    "JumpFalseCall": "cond_value_index:i32 destination_instruction:i32",
    "FreeCall": "value_index:i32",
    "Instruction": "instr_args:InstructionArguments",
    "Frame": "filename:string lineno:i32 name:string context:string",
    "FrameList": "items:[Frame]",
    "BackendDelegateDataReference": "location:i8 index:u32",
    "CompileSpec": "key:string value:[u8]",
    "BackendDelegate": "id:string processed:BackendDelegateDataReference compile_specs:[CompileSpec]",
    "Chain": "inputs:[i32] outputs:[i32] instructions:[Instruction] stacktrace:[FrameList]",
    "ExecutionPlan": (
        "name:string container_meta_type:ContainerMetadata values:[EValue] inputs:[i32] outputs:[i32] chains:[Chain] "
        "operators:[Operator] delegates:[BackendDelegate] non_const_buffer_sizes:[i64] "
        "non_const_buffer_device:[NonConstBufferDevice]"
    ),
    "NonConstBufferDevice": "buffer_idx:i32 device_type:i8 device_index:i8",
    "Buffer": "storage:[u8]",
    "BackendDelegateInlineData": "data:[u8]",
    "DataSegment": "offset:u64 size:u64",
    "SubsegmentOffsets": "segment_index:u32 offsets:[u64]",
    "NamedData": "key:string segment_index:u32",
    "Program": (
        "version:u32 execution_plan:[ExecutionPlan] constant_buffer:[Buffer] "
        "backend_delegate_data:[BackendDelegateInlineData] segments:[DataSegment] constant_segment:SubsegmentOffsets "
        "mutable_data_segments:[SubsegmentOffsets] named_data:[NamedData]"
    ),
}


def _fields(text: str) -> tuple[Field, ...]:
    fields, slot = [], 0
    for name, kind in (word.split(":") for word in text.split()):
        fields.append(Field(name, kind, slot))
        slot += 2 if kind in UNIONS else 1
    return tuple(fields)


TABLES: dict[str, tuple[Field, ...]] = {name: _fields(text) for name, text in _TABLES.items()}

IDENTIFIER = b"ET12"
"""At byte 4 of the file."""
HEADER_MAGIC = b"eh00"
"""At byte 8, where the program has segments."""
HEADER = struct.Struct("<4sIQQQ")
"""Magic, length of the header, bytes of the program (with this header), begin of the segments, bytes of all segments."""

SCALAR_TYPES: dict[DType, int] = {
    DType.UINT8: 0,
    DType.INT8: 1,
    DType.INT16: 2,
    DType.INT32: 3,
    DType.FLOAT32: 6,
    DType.BOOL: 11,
}
"""Element types by their number in the format."""

CHANNELS_LAST = (0, 2, 3, 1)
"""The dim order of a tensor whose sizes are [n, c, h, w] and whose memory is NHWC."""

ARENA = 1
"""The memory id of the planned arena."""
ALIGNMENT = 16
"""Of planned tensors, constants and delegate data."""
RECORD_KEY = "pillion"
"""Named data that the runtime never asks for: what the program was made from and for which core."""

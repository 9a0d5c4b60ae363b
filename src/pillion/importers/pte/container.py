# SPDX-License-Identifier: Apache-2.0
"""Reads the file's container: header, tables, segments, constants, delegate payloads. Everything is checked
before use."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from pillion.errors import PillionError
from pillion.schemas import pte
from pillion.schemas.flatbuffer import Bytes, MalformedError, read_root_table
from pillion.schemas.pte import DelegateDataLocation
from pillion.schemas.pte_record import OpenedRecord, open_record

HEADER_PLACE = 8
OLDEST_HEADER = 24
"""The length in bytes of a header without the segments' size."""


class Container:
    """The plan of the only method, and access to its data."""

    def __init__(self, raw: bytes, name: str) -> None:
        self.raw, self.name = raw, name
        self.tables, self.base = self.split()
        self.program = read_root_table(pte.Program, self.tables, pte.IDENTIFIER)
        self.plan = self.only_plan()

    def split(self) -> tuple[bytes, int]:
        """Returns the flatbuffer and the offset of the segments."""
        if self.raw[HEADER_PLACE : HEADER_PLACE + 4] != pte.HEADER_MAGIC:
            return self.raw, len(self.raw)
        if len(self.raw) < HEADER_PLACE + pte.HEADER.size:
            raise MalformedError("its header is cut off")
        _, length, size, base, rest = pte.HEADER.unpack_from(self.raw, HEADER_PLACE)
        if length < OLDEST_HEADER or not HEADER_PLACE < size <= len(self.raw):
            raise MalformedError(
                f"its header speaks of {size} bytes of program, the file has {len(self.raw)}"
            )
        if length >= pte.HEADER.size and base + rest > len(self.raw):
            raise MalformedError(f"its header speaks of {base + rest} bytes, the file has {len(self.raw)}")
        return self.raw[:size], base

    def only_plan(self) -> pte.ExecutionPlan:
        """Returns the plan of the only method; raises if there are several methods or chains."""
        plans = self.program.execution_plan
        if len(plans) != 1 or len(plans[0].chains) != 1:
            raise PillionError(
                f"`{self.name}` is not one straight program",
                rule="one method, one chain of instructions",
                here=", ".join(f"{p.name}: {len(p.chains)} chains" for p in plans[:8]) or "no method",
                help="export the method `forward` alone",
            )
        return plans[0]

    def segment(self, number: int) -> Bytes:
        """Returns the bytes of a segment."""
        if not 0 <= number < len(self.program.segments):
            raise MalformedError(f"segment {number} of {len(self.program.segments)}")
        entry = self.program.segments[number]
        begin = self.base + entry.offset
        if begin + entry.size > len(self.raw):
            raise MalformedError(f"segment {number} ends at byte {begin + entry.size} of {len(self.raw)}")
        return np.frombuffer(self.raw, np.uint8, entry.size, begin)

    @cached_property
    def constants(self) -> Bytes | None:
        """The segment of all constants, or None."""
        segment = self.program.constant_segment
        return None if segment is None or not segment.offsets else self.segment(segment.segment_index)

    def constant(self, number: int, size: int) -> Bytes:
        """Returns the first `size` bytes of a constant."""
        data = self.from_constant(number)
        if size > data.size:
            raise MalformedError(f"constant {number} has {data.size} bytes at most, {size} are wanted")
        return data[:size]

    def from_constant(self, number: int) -> Bytes:
        """Returns all bytes from the start of a constant on: the file does not store its end."""
        if self.constants is not None and self.program.constant_segment is not None:
            offsets = self.program.constant_segment.offsets
            if not 0 < number < len(offsets) or offsets[number] > self.constants.size:
                raise MalformedError(f"constant {number} of {len(offsets)} is not there")
            return self.constants[offsets[number] :]
        buffers = self.program.constant_buffer or []
        data = buffers[number].data if 0 < number < len(buffers) else None
        if data is None:
            raise MalformedError(f"constant {number} of {len(buffers)} is not there")
        return data

    def delegate(self, number: int) -> pte.BackendDelegate:
        """Returns a delegate by its index."""
        if not 0 <= number < len(self.plan.delegates):
            raise MalformedError(f"delegate {number} of {len(self.plan.delegates)}")
        return self.plan.delegates[number]

    def payload(self, delegate: pte.BackendDelegate) -> bytes:
        """Returns the payload of a delegate."""
        where = delegate.processed
        if where is None:
            raise MalformedError(f"delegate `{delegate.id}` has no data")
        if where.location == DelegateDataLocation.SEGMENT:
            return self.segment(where.index).tobytes()
        if where.index >= len(self.program.backend_delegate_data):
            raise MalformedError(f"delegate data {where.index} of {len(self.program.backend_delegate_data)}")
        data = self.program.backend_delegate_data[where.index].data
        return b"" if data is None else data.tobytes()

    @cached_property
    def record(self) -> OpenedRecord | None:
        """Pillion's record, if Pillion wrote the file."""
        for entry in self.program.named_data or []:
            if entry.key == pte.RECORD_KEY:
                data = self.segment(entry.segment_index)
                before = self.base + self.program.segments[entry.segment_index].offset
                return open_record(data.tobytes(), memoryview(self.raw)[:before])
        return None

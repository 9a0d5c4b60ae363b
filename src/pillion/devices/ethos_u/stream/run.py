# SPDX-License-Identifier: Apache-2.0
"""Runs a command stream: constants and scratch memory in, what it leaves in scratch memory out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from pillion.devices.ethos_u.accelerators import Accelerator
from pillion.devices.ethos_u.stream.blocks import want_blocks_wait
from pillion.devices.ethos_u.stream.compute import compute
from pillion.devices.ethos_u.stream.decode import Decoder
from pillion.devices.ethos_u.stream.errors import not_modelled, wrong
from pillion.devices.ethos_u.stream.hazards import want_waits
from pillion.devices.ethos_u.stream.memory import Memory
from pillion.devices.ethos_u.stream.operations import INTERNAL, Compute, Copy, Operation, Range, Stop, Wait
from pillion.devices.ethos_u.stream.tables import Tables
from pillion.devices.ethos_u.stream.words import Stream, read_stream


@dataclass(frozen=True)
class Interpreter:
    """A command stream with its constants, ready to be run. Each run starts with empty memory."""

    payload: bytes
    constants: bytes
    sizes: Mapping[int, int]
    """The bytes of every other region."""

    @cached_property
    def stream(self) -> Stream:
        """The commands, and the NPU that they are for."""
        return read_stream(self.payload)

    @property
    def accelerator(self) -> Accelerator:
        """The size of NPU that the stream is for."""
        return self.stream.accelerator

    @cached_property
    def operations(self) -> tuple[Operation, ...]:
        """What the commands do. Copies that overlap with operations under way are refused here, and
        operations that read what the one before may not have written."""
        found = operations(self.stream)
        want_waits(found, self.accelerator)
        want_blocks_wait(found)
        return found

    def run(self, inputs: Mapping[Range, bytes], outputs: tuple[Range, ...]) -> tuple[bytes, ...]:
        """Gives what lies in some places after the run, with inputs in theirs before it."""
        memory, tables = Memory(self.constants, self.sizes), Tables(self.accelerator)
        for where, data in inputs.items():
            memory.write(where, data, 0)
        for op in self.operations:
            match op:
                case Copy(at, source, destination) if destination.region == INTERNAL:
                    tables.write(destination.start, memory.read(source, at), at)
                case Copy(at, source, destination):
                    memory.copy(source, destination, at)
                case Compute():
                    compute(op, memory, tables, self.accelerator)
                case Wait():
                    pass
                case _:
                    raise not_modelled("an operation", op)
        end = self.operations[-1].at if self.operations else 0
        return tuple(memory.read(where, end) for where in outputs)


def operations(stream: Stream) -> tuple[Operation, ...]:
    """Gives what a stream does, step by step. It ends with its only STOP."""
    decoder = Decoder(stream.accelerator)
    made: list[Operation] = []
    for instruction in stream.instructions:
        if made and isinstance(made[-1], Stop):
            raise wrong("commands stand behind STOP", "STOP is the last command", f"word {instruction.at}")
        if instruction.command.is_operation:
            made.append(decoder.operation(instruction))
        else:
            decoder.registers.set(instruction)
    if not made or not isinstance(made[-1], Stop):
        raise wrong(
            "the stream does not end", "its last command is STOP", f"{len(stream.instructions)} commands"
        )
    return tuple(made[:-1])

# SPDX-License-Identifier: Apache-2.0
"""Runs a command stream on constants and inputs in memory, and returns the outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from pillion.devices.ethos_u.accelerators import Accelerator
from pillion.devices.ethos_u.stream import operations as npu
from pillion.devices.ethos_u.stream.block_dependency import require_blocks_wait
from pillion.devices.ethos_u.stream.command_words import CommandStream, read_stream
from pillion.devices.ethos_u.stream.compute import execute_operation
from pillion.devices.ethos_u.stream.decode_u85 import decoder_of
from pillion.devices.ethos_u.stream.hazards import require_waits
from pillion.devices.ethos_u.stream.lookup_tables import Tables
from pillion.devices.ethos_u.stream.memory import StreamMemory
from pillion.devices.ethos_u.stream.stream_errors import at_word, not_modelled_error, require_valid


@dataclass(frozen=True)
class StreamInterpreter:
    """A command stream with its constants, ready to run. Each run starts with empty memory."""

    payload: bytes
    constants: bytes
    sizes: Mapping[int, int]
    """The sizes of the other regions in bytes."""

    @cached_property
    def stream(self) -> CommandStream:
        """The commands and their NPU."""
        return read_stream(self.payload)

    @property
    def accelerator(self) -> Accelerator:
        """The NPU size that the stream was compiled for."""
        return self.stream.accelerator

    @cached_property
    def operations(self) -> tuple[npu.Operation, ...]:
        """The operations of the commands. Raises on copies that overlap operations in progress, and on
        operations that may read unfinished results of the previous one."""
        ops = decode_operations(self.stream)
        require_waits(ops, self.accelerator)
        require_blocks_wait(ops)
        return ops

    def run(self, inputs: Mapping[npu.Range, bytes], outputs: tuple[npu.Range, ...]) -> tuple[bytes, ...]:
        """Returns the bytes at the places of `outputs` after a run with these inputs."""
        memory, tables = StreamMemory(self.constants, self.sizes), Tables(self.accelerator)
        for where, data in inputs.items():
            memory.write(where, data)
        for op in self.operations:
            with at_word(op.at):
                self._execute_operation(op, memory, tables)
        return tuple(map(memory.read, outputs))

    def _execute_operation(self, op: npu.Operation, memory: StreamMemory, tables: Tables) -> None:
        match op:
            case npu.DmaCopy(_, source, destination) if destination.region == npu.INTERNAL:
                tables.write(destination.start, memory.read(source))
            case npu.DmaCopy(_, source, destination):
                memory.copy(source, destination)
            case npu.TensorOperation():
                execute_operation(op, memory, tables)
            case npu.Wait():
                pass
            case _:
                raise not_modelled_error("an operation", op)


def decode_operations(stream: CommandStream) -> tuple[npu.Operation, ...]:
    """Returns the operations of a stream in order; raises unless its only STOP is its last command."""
    decoder = decoder_of(stream.accelerator)
    decoded: list[npu.Operation] = []
    for instruction in stream.instructions:
        with at_word(instruction.at):
            is_over = bool(decoded) and isinstance(decoded[-1], npu.Stop)
            require_valid(not is_over, "commands stand behind STOP", "STOP is the last command")
            if instruction.command.is_operation:
                decoded.append(decoder.operation(instruction))
            else:
                decoder.set(instruction)
    ends = bool(decoded) and isinstance(decoded[-1], npu.Stop)
    count = f"{len(stream.instructions)} commands"
    require_valid(ends, "the stream does not end", "its last command is STOP", count)
    return tuple(decoded[:-1])

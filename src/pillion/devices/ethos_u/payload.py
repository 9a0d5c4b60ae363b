# SPDX-License-Identifier: Apache-2.0
"""The payload of ExecuTorch's Ethos-U delegate: named consecutive blocks, each padded to 16 bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import chain

from pillion.devices.ethos_u.stream import dump
from pillion.devices.ethos_u.vela.compiled import RANK, CompiledSegment, VelaPort
from pillion.devices.payloads import Executable, PayloadMemory
from pillion.errors import PillionError

FIRST, LAST = "vela_bin_stream", "vela_end_stream"
_HEADER = struct.Struct("<16sIB11x")
_UNIT = 16
_PORT = struct.Struct(f"<{RANK + 3}i")
_ORDER = (FIRST, "cmd_data", "weight_data", "scratch_size", "inputs", "outputs", LAST)


def compose_payload(made: CompiledSegment) -> bytes:
    """Returns the blocks of a segment. A buffer of the NPU's own belongs to the firmware, so no block
    describes it."""
    blocks = (
        b"",
        made.commands,
        made.constants,
        struct.pack("<I", made.scratch_bytes),
        _pack_ports(made.inputs),
        _pack_ports(made.outputs),
        b"",
    )
    return b"".join(_pack_block(name, data) for name, data in zip(_ORDER, blocks, strict=True))


def parse_payload(payload: bytes) -> CompiledSegment:
    """Returns the segment in a payload; raises on blocks that the delegate does not know."""
    blocks = dict(_parse_blocks(payload))
    if tuple(blocks) != _ORDER:
        raise _damaged_payload_error("the blocks " + ", ".join(_ORDER), ", ".join(blocks))
    if len(blocks["scratch_size"]) != 4:
        raise _damaged_payload_error("a scratch size of 4 bytes", f"{len(blocks['scratch_size'])}")
    return CompiledSegment(
        version="",
        commands=blocks["cmd_data"],
        constants=blocks["weight_data"],
        scratch_bytes=struct.unpack("<I", blocks["scratch_size"])[0],
        fast_bytes=0,
        inputs=_read_ports(blocks["inputs"]),
        outputs=_read_ports(blocks["outputs"]),
        estimates={},
    )


def payload_lines(payload: bytes, commands: bool) -> Iterator[str] | None:
    """Yields a payload as text: the NPU, then its steps or every command. Returns None for a foreign
    payload."""
    if not payload.startswith(FIRST.encode()):
        return None
    interpreter = parse_payload(payload).interpreter
    lines = (
        dump.command_lines(interpreter.stream) if commands else dump.operation_lines(interpreter.operations)
    )
    return chain((interpreter.accelerator.name,), lines)


def memory_of(payload: bytes) -> PayloadMemory | None:
    """Returns the scratch memory that a payload asks for; None for a foreign payload."""
    own = payload.startswith(FIRST.encode())
    return PayloadMemory(parse_payload(payload).scratch_bytes) if own else None


def executable_of(payload: bytes) -> Executable | None:
    """Returns an executable for a payload, or None for a foreign payload. Raises if its commands contain
    something unknown."""
    if not payload.startswith(FIRST.encode()):
        return None
    segment = parse_payload(payload)
    inputs, outputs = (
        tuple(port.place.length for port in ports) for ports in (segment.inputs, segment.outputs)
    )
    return Executable(segment.interpreter.accelerator.name, inputs, outputs, segment.run)


def _pack_block(name: str, data: bytes) -> bytes:
    return _HEADER.pack(name.encode(), len(data), 0) + data + bytes(-len(data) % _UNIT)


def _pack_ports(ports: tuple[VelaPort, ...]) -> bytes:
    rows = (_PORT.pack(*port.shape, port.element_bytes, port.offset, port.region) for port in ports)
    return struct.pack("<i", len(ports)) + b"".join(rows)


def _parse_blocks(payload: bytes) -> Iterator[tuple[str, bytes]]:
    at = 0
    while at < len(payload):
        if at + _HEADER.size > len(payload):
            raise _damaged_payload_error(
                "a header of 32 bytes before each block", f"{len(payload) - at} bytes"
            )
        name, size, external = _HEADER.unpack_from(payload, at)
        at += _HEADER.size
        if external or any(payload[at - 11 : at]):
            raise _damaged_payload_error("blocks that hold their data", f"{name!r} lies elsewhere")
        if at + size > len(payload):
            raise _damaged_payload_error(f"{size} bytes of {name!r}", f"{len(payload) - at}")
        yield name.rstrip(b"\0").decode("ascii", "replace"), payload[at : at + size]
        at += size + -size % _UNIT


def _read_ports(data: bytes) -> tuple[VelaPort, ...]:
    count = struct.unpack_from("<i", data)[0] if len(data) >= 4 else -1
    if count < 0 or len(data) != 4 + count * _PORT.size:
        raise _damaged_payload_error("36 bytes for each tensor", f"{len(data)} bytes for {count}")
    rows = (_PORT.unpack_from(data, 4 + number * _PORT.size) for number in range(count))
    return tuple(
        VelaPort(tuple(row[:RANK]), row[RANK], region=row[RANK + 2], offset=row[RANK + 1]) for row in rows
    )


def _damaged_payload_error(rule: str, here: str) -> PillionError:
    return PillionError(
        "a payload for Ethos-U is damaged", rule=rule, here=here, help="compile the program again"
    )

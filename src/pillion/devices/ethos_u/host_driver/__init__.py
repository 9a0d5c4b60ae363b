# SPDX-License-Identifier: Apache-2.0
"""A substitute for Arm's driver on this computer: the C of segments calls it, and the interpreter executes the segments.
`ethosu_driver.h` and `ethosu_driver.c` send each call through a channel to the parent process; `answers` serves it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from importlib.resources import files

import numpy as np

from pillion.devices.ethos_u.payload import parse_payload
from pillion.devices.ethos_u.stream.stream_errors import StreamError
from pillion.devices.ethos_u.vela.compiled import CompiledSegment
from pillion.devices.host_driver import Driver
from pillion.errors import PillionError

_SIZES = struct.Struct("=4Q")
_JUNK = 0xA5
"""Fills the scratch memory outside the results after a segment: no program may rely on its contents."""


def substitute_driver() -> Driver:
    """Returns the substitute driver for this computer."""
    folder = files(__name__)
    names = ("ethosu_driver.h", "ethosu_driver.c")
    return Driver({name: (folder / name).read_text("utf-8") for name in names}, segment_executor)


def segment_executor(payloads: Sequence[bytes]) -> Callable[[bytes], bytes]:
    """Returns the function that executes the segments which the driver requests; raises at once if a command
    stream contains something unknown."""
    segments = {segment.commands: segment for segment in map(parse_payload, payloads)}
    for segment in segments.values():
        segment.interpreter.operations  # noqa: B018  # raises for unknown commands before anything runs
    return lambda question: _execute_request(segments, question)


def _execute_request(segments: dict[bytes, CompiledSegment], question: bytes) -> bytes:
    if not question:
        raise PillionError(
            "the C calls the NPU's driver incorrectly",
            rule="a reserved driver, three regions, commands and regions at multiples of 16 bytes",
            here="ethosu_reserve_driver or ethosu_invoke_v3",
            help="were files of npu/ changed? compile the model again",
        )
    commands, constants, scratch, fast = _parse_request(question)
    segment = segments.get(commands)
    if segment is None:
        raise _mismatch_error("commands of a segment", f"{len(commands)} bytes of others")
    if not constants and not scratch and segment.scratch_bytes:
        return struct.pack("=Q", len(segment.constants))
    if constants != segment.constants:
        raise _mismatch_error(
            f"the segment's {len(segment.constants)} bytes of constants", f"{len(constants)} bytes of others"
        )
    if len(scratch) < segment.scratch_bytes or fast < segment.fast_bytes:
        required = f"{segment.scratch_bytes} bytes of scratch memory, {segment.fast_bytes} of fast memory"
        raise StreamError("the C passes too little memory to the NPU", required, f"{len(scratch)} and {fast}")
    inputs = (
        np.frombuffer(scratch, np.uint8, port.place.length, port.place.start) for port in segment.inputs
    )
    left = bytearray([_JUNK]) * len(scratch)
    for port, data in zip(segment.outputs, segment.run(*inputs), strict=True):
        left[port.place.start : port.place.end] = data
    return bytes(left)


def _parse_request(question: bytes) -> tuple[bytes, bytes, bytes, int]:
    """Returns commands, constants, scratch memory, and the size of fast memory in bytes."""
    if len(question) < _SIZES.size:
        raise _mismatch_error(f"{_SIZES.size} bytes of sizes", f"{len(question)} bytes")
    *sizes, fast = _SIZES.unpack_from(question)
    ends = [_SIZES.size + sum(sizes[: number + 1]) for number in range(3)]
    if ends[-1] != len(question):
        raise _mismatch_error(f"{ends[-1]} bytes", f"{len(question)}")
    first, second, third = (question[end - size : end] for end, size in zip(ends, sizes, strict=True))
    return first, second, third, fast


def _mismatch_error(expected: str, actual: str) -> PillionError:
    return PillionError(
        "the C passes other data to the NPU than npu_segment_N.bin contains",
        rule=expected,
        here=actual,
        help="were files of npu/ changed? compile the model again",
    )

# SPDX-License-Identifier: Apache-2.0
"""Reads the header of the NPU's microcode, to check a payload without the driver."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from pillion.errors import PillionError
from pillion.schemas.ir_payload import damaged_payload_error

MAGIC = 0x64434D6E
VERSIONS = (0, 1)
MICROCODE_BYTES_WORD, WEIGHTS_BYTES_WORD, SCRATCH_BYTES_WORD = 6, 7, 9
MORE_RAM_WORDS = {
    0: {10: "bytes of SRAM for prefetched weights"},
    1: {10: "bytes of profile", 11: "bytes of debug data", 12: "bytes of SRAM for prefetched weights"},
}
"""The words with sizes of further memory, and its use, by payload version."""
FLAG = 1 << 31
"""The top bit of the profile's size, which is no part of it."""
INPUTS_WORD = {0: 11, 1: 13}
"""The word with the number of inputs, by payload version; the number of outputs follows it."""


@dataclass(frozen=True)
class Microcode:
    """The header words that must agree with other parts of a payload."""

    microcode_bytes: int
    weights_bytes: int
    inputs: int
    outputs: int
    scratch_bytes: int
    """The RAM for tensors inside the segment, in bytes."""
    prefetch_bytes: int = 0
    """The RAM for prefetched weights, in bytes."""
    record_bytes: int = 0
    """The RAM for the code's records, in bytes."""


def read_microcode(block: bytes, version: int) -> Microcode:
    """Returns the header of a microcode block of this payload version."""
    if version not in VERSIONS:
        raise PillionError(
            "the payload is of a version that is not known",
            rule=f"payload version {' or '.join(map(str, VERSIONS))}",
            here=str(version),
            help="it was written by another generation of NXP's converter, or it is no payload",
        )
    count = INPUTS_WORD[version] + 2
    if len(block) < 4 * count:
        raise damaged_payload_error(
            f"the microcode of payload version {version} begins with {count} words", f"{len(block)} bytes"
        )
    words = struct.unpack_from(f"<{count}I", block)
    if words[0] != MAGIC:
        raise damaged_payload_error(f"the microcode begins with {MAGIC:#x}", f"{words[0]:#x}")
    return Microcode(
        words[MICROCODE_BYTES_WORD],
        words[WEIGHTS_BYTES_WORD],
        words[count - 2],
        words[count - 1],
        words[SCRATCH_BYTES_WORD],
        *(words[count - 3], sum(word & ~FLAG for word in words[SCRATCH_BYTES_WORD + 1 : count - 3])),
    )


def payload_version(block: bytes, inputs: int, tensors: int) -> int:
    """Returns the version whose header counts agree with the operator: data inputs, and output tensors with the
    extra ones (scratch; in version 1 also profile and debug data)."""
    for version in reversed(VERSIONS):
        first = INPUTS_WORD[version]
        extra = 3 if version else 1
        if len(block) >= 4 * (first + 2) and struct.unpack_from("<2I", block, 4 * first) == (
            inputs,
            tensors - extra,
        ):
            return version
    return 0

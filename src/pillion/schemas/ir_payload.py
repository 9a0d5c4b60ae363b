# SPDX-License-Identifier: Apache-2.0
"""The payload of a segment if the NPU's converter is not installed: TFLite behind Pillion's mark.

    0   16 bytes  mark; for the NPU's runtime: no inputs, no outputs, payload version 255
    16  u32       version of this format, where the runtime expects the microcode's magic number
    20  u32       size of the TFLite file
    24  u32       size of the names
    28  u32       CRC-32 of everything after it
    32            TFLite file, then names, each padded to a multiple of 16

Names are two u16 counts (inputs, outputs), then each name as u16 length and UTF-8; then, in the same form, the arithmetic unless it is
TFLite's. A device refuses such a payload for three reasons; Pillion's executors run it."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

from pillion.errors import PillionError

MARK = b"\0\0\0\xff" + b"pillion:ir\0\0"
VERSION = 1
HEAD = struct.Struct("<16s4I")
TFLITE_IDENTIFIER = b"TFL3"
BLOCK_BYTES = 16
DEFAULT_ARITHMETIC = "tflite"
"""The default arithmetic."""
MAX_NAME_BYTES = 65535


@dataclass(frozen=True)
class IrPayload:
    """A segment as TFLite, the names of its inputs and outputs in the order of the program's arguments, and
    its arithmetic."""

    tflite: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    arithmetic: str = DEFAULT_ARITHMETIC

    def compose(self) -> bytes:
        """Returns the payload's bytes."""
        names = _pack_names(self.inputs, self.outputs, self.arithmetic)
        behind = to_block(self.tflite) + to_block(names)
        return HEAD.pack(MARK, VERSION, len(self.tflite), len(names), zlib.crc32(behind)) + behind


def damaged_payload_error(rule: str, here: str) -> PillionError:
    """Returns the error for bytes that are not a payload."""
    return PillionError("the NPU's payload is damaged", rule=rule, here=here, help="compile the model again")


def to_block(raw: bytes) -> bytes:
    """Returns the bytes padded with zeros to a multiple of 16."""
    return raw + bytes(-len(raw) % BLOCK_BYTES)


def ir_payload(
    tflite: bytes, inputs: tuple[str, ...], outputs: tuple[str, ...], arithmetic: str = DEFAULT_ARITHMETIC
) -> bytes:
    """Returns the payload of a segment without a converter."""
    return IrPayload(tflite, inputs, outputs, arithmetic).compose()


def is_ir(raw: bytes) -> bool:
    """Whether bytes begin with Pillion's mark."""
    return raw.startswith(MARK)


def parse_ir(raw: bytes) -> IrPayload:
    """Returns the payload in unchecked bytes that begin with the mark."""
    if len(raw) < HEAD.size:
        raise damaged_payload_error(f"a payload of Pillion's has at least {HEAD.size} bytes", f"{len(raw)}")
    _, version, tflite_bytes, names_bytes, checksum = HEAD.unpack_from(raw)
    if version != VERSION:
        raise damaged_payload_error(f"version {VERSION} of the format", str(version))
    names_start = HEAD.size + tflite_bytes + -tflite_bytes % BLOCK_BYTES
    end = names_start + names_bytes + -names_bytes % BLOCK_BYTES
    if end != len(raw):
        raise damaged_payload_error(f"{end} bytes by its head", f"{len(raw)}")
    if zlib.crc32(raw[HEAD.size :]) != checksum:
        raise damaged_payload_error(f"checksum {checksum:#010x}", f"{zlib.crc32(raw[HEAD.size :]):#010x}")
    tflite = raw[HEAD.size : HEAD.size + tflite_bytes]
    if tflite[4:8] != TFLITE_IDENTIFIER:
        raise damaged_payload_error(f"a TFLite file with {TFLITE_IDENTIFIER!r} at byte 4", repr(tflite[4:8]))
    return IrPayload(tflite, *_unpack_names(raw[names_start : names_start + names_bytes]))


def _pack_names(inputs: tuple[str, ...], outputs: tuple[str, ...], arithmetic: str) -> bytes:
    encoded = [
        name.encode()
        for name in (*inputs, *outputs, *([] if arithmetic == DEFAULT_ARITHMETIC else [arithmetic]))
    ]
    if len(encoded) > MAX_NAME_BYTES or any(len(name) > MAX_NAME_BYTES for name in encoded):
        longest = max(map(len, encoded), default=0)
        rule = f"at most {MAX_NAME_BYTES} names of at most {MAX_NAME_BYTES} bytes"
        raise damaged_payload_error(rule, f"{len(encoded)} names, the longest of {longest} bytes")
    counts = struct.pack("<2H", len(inputs), len(outputs))
    return counts + b"".join(struct.pack("<H", len(name)) + name for name in encoded)


def _unpack_names(raw: bytes) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    names: list[str] = []
    try:
        inputs, outputs = struct.unpack_from("<2H", raw)
        at = 4
        while len(names) < inputs + outputs or (len(names) == inputs + outputs and at < len(raw)):
            (length,) = struct.unpack_from("<H", raw, at)
            names.append(struct.unpack_from(f"{length}s", raw, at + 2)[0].decode())
            at += 2 + length
    except (struct.error, UnicodeDecodeError) as error:
        raise damaged_payload_error("names of inputs and outputs in UTF-8", str(error)) from None
    if at != len(raw):
        raise damaged_payload_error(f"{at} bytes of names", f"{len(raw)}")
    count = inputs + outputs
    return (
        tuple(names[:inputs]),
        tuple(names[inputs:count]),
        names[count] if len(names) > count else DEFAULT_ARITHMETIC,
    )

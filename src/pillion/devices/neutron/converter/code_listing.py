# SPDX-License-Identifier: Apache-2.0
"""Lists Neutron code as text: a payload, or a TFLite file that NXP's converter returned, with the operators that it
left to the CPU."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from pillion.devices.neutron.converter.extract import NEUTRON_GRAPH, converted_operators
from pillion.devices.neutron.converter.microcode import (
    INPUTS_WORD,
    MAGIC,
    MORE_RAM_WORDS,
    VERSIONS,
    read_microcode,
)
from pillion.devices.neutron.converter.payload import BLOCK_BYTES, DevicePayload, parse_payload
from pillion.devices.payloads import PayloadMemory
from pillion.schemas import tflite
from pillion.schemas.ir_payload import is_ir

TITLE = "eIQ Neutron"
WORDS = {
    0: "magic number",
    6: "bytes of microcode",
    7: "bytes of weights",
    8: "bytes of kernels",
    9: "bytes of scratch memory",
}
"""Meanings of header words in both payload versions. Word 8 equals the size of the kernels in eight published
results of the converter."""


@dataclass(frozen=True)
class HeaderWord:
    """A word of the microcode's header; the meaning is empty if no public source names it."""

    number: int
    value: int
    meaning: str


def header_words(microcode: bytes, version: int) -> list[HeaderWord]:
    """Returns all words up to the number of outputs."""
    read_microcode(microcode, version)
    first = INPUTS_WORD[version]
    meanings = {**WORDS, **MORE_RAM_WORDS[version], first: "inputs", first + 1: "outputs"}
    words = struct.unpack_from(f"<{first + 2}I", microcode)
    return [HeaderWord(number, word, meanings.get(number, "")) for number, word in enumerate(words)]


def list_neutron_code(file: bytes, all_words: bool) -> Iterator[str] | None:
    """Returns the lines of a payload or of a converted TFLite file; None for other files. Unnamed header words
    are listed if the flag is set."""
    if file[4:8] == tflite.IDENTIFIER:
        return _converted_file_lines(file, all_words) if NEUTRON_GRAPH.encode() in file else None
    payload = read_payload(file)
    if payload is None:
        return None
    return iter([f"{TITLE}, payload version {payload.version}", *_header_lines(payload, all_words)])


def read_payload(file: bytes) -> DevicePayload | None:
    """Returns the payload that these bytes are; None for other files and for marked TFLite."""
    if is_ir(file) or not _has_microcode(file):
        return None
    payload = parse_payload(file)
    assert isinstance(payload, DevicePayload)  # marked TFLite is excluded above
    return payload


def memory_of(file: bytes) -> PayloadMemory | None:
    """Returns the RAM that a payload asks for; None for other files. Code that fetches its weights reads them where
    they are."""
    payload = read_payload(file)
    return None if payload is None else _memory_needed(payload)


def _memory_needed(payload: DevicePayload) -> PayloadMemory:
    fetches = read_microcode(payload.microcode, payload.version).prefetch_bytes
    return PayloadMemory(payload.ram_bytes, 0 if fetches else len(payload.weights))


def _has_microcode(file: bytes) -> bool:
    """Whether the second block starts with the magic number; the first has 4 bytes and 2 per tensor."""
    if len(file) < 2 * BLOCK_BYTES:
        return False
    header = 4 + 2 * (file[0] + file[1])
    at = -(-header // BLOCK_BYTES) * BLOCK_BYTES
    return file[header - 1] in VERSIONS and file[at : at + 4] == MAGIC.to_bytes(4, "little")


def _converted_file_lines(file: bytes, all_words: bool) -> Iterator[str]:
    yield f"{TITLE}, result of NXP's converter"
    for operator in converted_operators(file):
        if operator.payload is None:
            yield f"{operator.name} on the CPU"
        else:
            yield f"{operator.name}, payload version {operator.payload.version}"
            yield from _header_lines(operator.payload, all_words)


def _header_lines(payload: DevicePayload, all_words: bool) -> Iterator[str]:
    for word in header_words(payload.microcode, payload.version):
        if word.meaning or all_words:
            shown = f"{word.value:#x}" if word.number == 0 else f"{word.value:,}"
            yield f"  word {word.number:2}  {shown:>10}  {word.meaning or 'no public meaning'}"
    need = _memory_needed(payload)
    ram = f"{need.scratch_bytes + need.ram_constant_bytes:,}"
    yield f"  RAM      {ram:>10}  bytes, without inputs and outputs"

# SPDX-License-Identifier: Apache-2.0
"""Reads program images: their contents, and the kernels that they call."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pillion.devices.cortex_m import CORES
from pillion.emitters.c.manifest import ManifestBuffer
from pillion.emitters.image.kernel_abi import kernel_abi
from pillion.emitters.image.writer import (
    BRANCH,
    BY_ROWS,
    CALL,
    DONE,
    DTYPES,
    END,
    FILL,
    HEADER_WORDS,
    LOOP,
    MAGIC,
    MOVE,
    MOVES,
    NOWHERE,
    SEGMENT,
    TAKE,
    VERSION,
)
from pillion.errors import PillionError
from pillion.host_io.atomic_files import read_whole

MOST_BYTES = 1 << 28
AREAS = ("constants", "arena", "state")
"""The memories of operands by their number."""


@dataclass(frozen=True)
class ImageOperand:
    """The bytes that a call reads or writes; in a loop, the bytes of its first iteration."""

    area: str
    """`constants`, `arena` or `state`."""
    offset: int
    bytes: int
    role: str
    """`read`, `written` or `scratch`."""
    moves: bool


@dataclass(frozen=True)
class ImageCall:
    """A call of a schedule."""

    what: str
    """The kernel's name, `copy`, `take rows` or `NPU segment`."""
    op: int
    """The op of the program that it belongs to; rows are copied between ops, for the next one."""
    runs: int
    operands: tuple[ImageOperand, ...]


@dataclass(frozen=True)
class ProgramImage:
    """The contents of an image."""

    content: bytes
    name: str
    core: str
    arena_bytes: int
    state_bytes: int
    constant_bytes: int
    schedule_bytes: int
    params_bytes: int
    rows: int
    segments: int
    warm_up: int
    """The first run of a stream whose outputs are valid, counted from 1; 0 if it is no stream."""
    inputs: tuple[ManifestBuffer, ...]
    outputs: tuple[ManifestBuffer, ...]
    kernels: tuple[int, ...]
    """The numbers of its kernels, each once."""
    checksums: tuple[int, ...]
    """CRC-32 of the reference's outputs for known inputs, for `pillion verify`; empty if there are none."""
    calls: tuple[ImageCall, ...]
    """The calls of a run, in order."""


@dataclass(frozen=True)
class ScheduleStep:
    """A step of a schedule: its kind and number, and the positions of its own words and of its operands' words."""

    kind: int
    number: int
    at: int
    operands: tuple[int, ...]
    depth: int
    """The loops around it."""


def schedule_steps(words: tuple[int, ...], start: int, count: int) -> Iterator[ScheduleStep]:
    """Yields the steps of a schedule that begins at a word."""
    at, end, depth = start, start + count, 0
    while at < end:
        kind, number, first = words[at] & 0xFF, words[at] >> 8, at
        at += 2 if kind in (CALL, LOOP, MOVE, FILL, TAKE, SEGMENT, BRANCH) else 1
        operands = []
        for _ in range(_operand_count(kind, number, words[at - 1])):
            operands.append(at)
            at += 2 + (depth if words[at] & MOVES else 0)
        yield ScheduleStep(kind, number, first, tuple(operands), depth)
        depth += (kind == LOOP) - (kind == END)


def _operand_count(kind: int, number: int, argument: int) -> int:
    if kind == CALL:
        return len(kernel_abi().kernels[number].operands)
    return {MOVE: 2, FILL: 1, TAKE: 1, BRANCH: 1, SEGMENT: (argument >> 8) + 1}.get(kind, 0)


def read_image(path: Path) -> ProgramImage:
    """Reads the image in a file. Raises if it is none, is damaged, or is of another version."""
    return image_in(read_whole(path, "program image", MOST_BYTES), str(path))


def image_in(content: bytes, place: str) -> ProgramImage:
    """Reads the image in bytes that were found at a place."""
    why = _why_refused(content)
    if not why:
        try:
            return _parse(content)
        except (struct.error, IndexError, ValueError) as error:
            why = f"a damaged image: {error}"
    raise PillionError(
        f"{place} is no program image that this version reads",
        rule="a file that `pillion compile MODEL -o net.plm` wrote, with the same version of the kernels",
        here=why,
        help="compile the model again",
    )


def _why_refused(content: bytes) -> str:
    """Returns the reason why content is not read; empty if it is."""
    if len(content) < 4 * HEADER_WORDS or content[:4] != MAGIC:
        return "the file does not begin as images do"
    _, version, size, crc, abi = struct.unpack("<5I", content[:20])
    if version != VERSION:
        return f"format {version}, and this version reads {VERSION}"
    if size != len(content) or zlib.crc32(content[16:]) != crc:
        return f"the checksum is wrong, or the file has {len(content):,} of {size:,} bytes"
    return "" if abi == kernel_abi().hash else "another version of the kernels"


def _parse(content: bytes) -> ProgramImage:
    words = struct.unpack(f"<{len(content) // 4}I", content)
    arena, state, _, schedule, count, _, reset_count, data, buffers, inputs, outputs = words[6:17]
    segments, rows, _, name, warm_up, core, checksums = words[17:24]
    steps = [*schedule_steps(words, schedule // 4, count)]
    tensors = [_buffer(content, words, buffers // 4 + 8 * i) for i in range(inputs + outputs)]
    core_name = _text(content, core)
    if core_name not in CORES:
        raise ValueError(f"there is no core {core_name!r}")
    return ProgramImage(
        content,
        *(_text(content, name), core_name, arena, state),
        constant_bytes=len(content) - data,
        schedule_bytes=4 * (count + reset_count),
        params_bytes=schedule - buffers - 32 * len(tensors) - 4 * sum(len(one.shape) for one in tensors),
        **{"rows": rows, "segments": segments, "warm_up": warm_up},
        inputs=tuple(tensors[:inputs]),
        outputs=tuple(tensors[inputs:]),
        kernels=tuple(sorted({step.number for step in steps if step.kind == CALL})),
        checksums=tuple(int(word, 16) for word in _text(content, checksums).split()) if checksums else (),
        calls=tuple(_calls(words, steps)),
    )


def _calls(words: tuple[int, ...], steps: Sequence[ScheduleStep]) -> Iterator[ImageCall]:
    """Yields the calls of a schedule with the ops that they belong to, which are named behind them."""
    loops, waiting, op = [1], list[ImageCall](), -1
    for step in steps:
        if step.kind == LOOP:
            loops.append(loops[-1] * words[step.at + 1])
        elif step.kind == END:
            loops.pop()
        elif step.kind == DONE:
            op = step.number
            yield from (replace(call, op=op) for call in waiting)
            waiting.clear()
        elif step.operands:
            waiting.append(ImageCall(_name_of(step), op, loops[-1], tuple(_operands(words, step))))
    yield from waiting


def _name_of(step: ScheduleStep) -> str:
    named = {
        MOVE: "copy",
        FILL: "fill",
        TAKE: "take rows",
        BRANCH: "branch",
        SEGMENT: f"NPU segment {step.number}",
    }
    return named.get(step.kind) or kernel_abi().kernels[step.number].name


def _operands(words: tuple[int, ...], step: ScheduleStep) -> Iterator[ImageOperand]:
    has_scratch = step.kind in (CALL, SEGMENT)
    written = _result_positions(words, step)
    for number, at in enumerate(step.operands):
        area, size = words[at] >> 29, words[at + 1]
        if area != NOWHERE and size:
            role = "written" if number in written else "read"
            if has_scratch and at == step.operands[-1]:
                role = "scratch"
            yield ImageOperand(AREAS[area], words[at] % MOVES, size, role, bool(words[at] & MOVES))


def _result_positions(words: tuple[int, ...], step: ScheduleStep) -> Container[int]:
    """Returns the positions of the operands that a step writes, and possibly the position of its scratch memory."""
    if step.kind == CALL:
        kinds = kernel_abi().kernels[step.number].operands
        return [n for n, kind in enumerate(kinds) if not kind.startswith("const")]
    if step.kind == BRANCH:
        return ()
    return range(words[step.at + 1] & 0xFF, len(step.operands)) if step.kind == SEGMENT else (0,)


def _buffer(content: bytes, words: tuple[int, ...], at: int) -> ManifestBuffer:
    name, dtype, offset, size, rank, shape = words[at : at + 6]
    scale, zero_point = struct.unpack("<fi", content[4 * at + 24 : 4 * at + 32])
    sizes = words[shape // 4 : shape // 4 + rank]
    return ManifestBuffer(
        name=_text(content, name),
        dtype=DTYPES[dtype],
        shape=sizes,
        offset=None if offset == BY_ROWS else offset,
        bytes=size,
        scale=scale or None,
        zero_point=zero_point if scale else None,
    )


def _text(content: bytes, at: int) -> str:
    return content[at : content.index(b"\0", at)].decode()

# SPDX-License-Identifier: Apache-2.0
"""Writes a lowered program as an image: header, buffers, schedule, params and constants (runtime/pillion_image.c runs it)."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np

from pillion.emitters.c.actions import (
    LoadConstant,
    MoveRows,
    MovingLocation,
    ProgramItem,
    RolledLoop,
    RowIndex,
    RunBranch,
    RunStep,
    TakeRows,
)
from pillion.emitters.c.branch_items import without_branches
from pillion.emitters.c.escaping import replace_surrogates
from pillion.emitters.c.kernel import Call
from pillion.emitters.c.lower import CProgram, CStep, is_filled_on_reset
from pillion.emitters.c.stream_entry import COUNTERS
from pillion.emitters.image.kernel_abi import KernelAbi, isa_bits, kernel_abi
from pillion.errors import PillionError
from pillion.ir.types import DType, PerTensor, Value
from pillion.memory import ARENA, STATE, MemoryLocation
from pillion.memory.events import align_up
from pillion.ops import Segment

MAGIC = b"PLM1"
VERSION = 1
HEADER_WORDS = 24
STOP, CALL, LOOP, END, MOVE, FILL, TAKE, PAUSE, DONE, SEGMENT, BRANCH = range(11)
"""The kinds of steps in a schedule."""
IN_BLOCK, IN_ARENA, IN_STATE, NOWHERE = range(4)
MOVES = 1 << 28
MOST_BYTES = MOVES - 1
"""The largest offset in an area."""
MOST_LOOPS = 8
MOST_BRANCHES = 8
MOST_SEGMENT_OPERANDS = 8
OVERREAD = 32
"""Zeros behind the constants: kernels may read beyond the end of an operand."""
DTYPES = (DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.FLOAT32, DType.BOOL)
"""The element types by their number."""
BY_ROWS = 2**32 - 1
"""The offset of an input that is handed over row by row."""


@dataclass
class _Data:
    """Bytes with an offset that is known when all sections have their sizes."""

    content: bytearray = field(default_factory=bytearray)

    def add(self, more: bytes, alignment: int = 4) -> int:
        """Appends aligned bytes, and returns their offset in the section."""
        self.content += bytes(-len(self.content) % alignment)
        self.content += more
        return len(self.content) - len(more)


def image_bytes(program: CProgram, core: str, checksums: str = "") -> bytes:
    """Returns the image of a program for a core, with checksums of the reference's outputs for `pillion verify`.
    Raises for programs that need features that images lack."""
    _refuse_unsupported(program)
    return _ImageWriter(program, core, kernel_abi(), checksums).image()


def _refuse_unsupported(program: CProgram) -> None:
    several = program.memory.several
    if program.memory.arenas or (several is not None and (several.streamed or several.constants_in)):
        _refuse(
            program, "its memory is divided among the memories of the chip", "leave the memory options out"
        )
    if program.in_steps:
        _refuse(program, "core and NPU overlap in it", "leave --overlap out")
    if program.stream is not None and program.stream.streaming.calls > 1:
        calls = program.stream.streaming.calls
        _refuse(
            program,
            f"its stream collects the frames of {calls} calls for a run",
            "choose a --hop that runs in each call",
        )
    if max(program.memory.arena_bytes, program.memory.state_bytes, program.constant_bytes) > MOST_BYTES // 2:
        _refuse(program, "a memory of it has more than 128 MB", "choose a smaller model")


def _refuse(program: CProgram, here: str, help: str) -> NoReturn:
    raise PillionError(
        f"`{program.graph.name}` has no program image",
        rule="images hold programs with one arena whose calls the core runs one after another",
        here=here,
        help=f"{help}, or compile to a C project: -o FOLDER/",
    )


def _text(name: str) -> bytes:
    """Returns a name as it lies in the image."""
    return replace_surrogates(name).encode() + b"\0"


class _ImageWriter:
    """Writes the sections of an image. Constants are laid out first, and their offsets are known."""

    def __init__(self, program: CProgram, core: str, abi: KernelAbi, checksums: str) -> None:
        self.program, self.abi = program, abi
        self.texts = tuple(map(_text, (program.graph.name, core, checksums)))
        own = {op for op in program.graph.ops if isinstance(op, Segment)}
        segments = [step.index for step in program.steps if step.choice.op in own]
        self.segments = {index: number for number, index in enumerate(segments)}
        self.constants = _Data()
        self.constant_offsets = {
            c.name: self.constants.add(np.ascontiguousarray(c.data).tobytes() or bytes(c.bytes), 16)
            for c in program.constants
        }
        self.constants.add(bytes(OVERREAD))
        self.params = _Data()
        self.params_at: dict[bytes, int] = {}
        self.branches = 0
        """The branches around the items that are being written."""
        self.fixups: list[int] = []
        """The words of the params section that are offsets of constants."""

    def image(self) -> bytes:
        """Returns the bytes of the image."""
        reset = self._reset_schedule()
        run = self._run_schedule()
        facts, names = self._buffers()
        head = HEADER_WORDS * 4
        buffers_at = head
        params_at = buffers_at + len(facts)
        run_at = params_at + len(self.params.content)
        reset_at = run_at + 4 * len(run)
        names_at = reset_at + 4 * len(reset)
        data_at = align_up(names_at + len(names) + 1)
        words = self._words(run, params_at, data_at) + self._words(reset, params_at, data_at)
        total = align_up(data_at + len(self.constants.content))
        header = self._header(
            size=total,
            schedule=(run_at, len(run)),
            reset=(reset_at, len(reset)),
            data=data_at,
            buffers=buffers_at,
            name=names_at,
        )
        body = header[16:] + self._placed_buffers(facts, names_at) + self._placed_params(data_at)
        body += np.array(words, "<u4").tobytes() + names
        body += bytes(data_at - names_at - len(names)) + self.constants.content
        body += bytes(total - 16 - len(body))
        return header[:12] + struct.pack("<I", zlib.crc32(body)) + body

    def _header(
        self, size: int, schedule: tuple[int, int], reset: tuple[int, int], data: int, buffers: int, name: int
    ) -> bytes:
        program, feed = self.program, self.program.feed
        name_bytes, core_bytes = map(len, self.texts[:2])
        words = [
            *(
                VERSION,
                size,
                0,
                self.abi.hash,
                self._isas(),
                program.memory.arena_bytes,
                program.memory.state_bytes,
            ),
            *(min(program.memory.alignment, 16), *schedule, *reset, data, buffers),
            *(len(program.graph.inputs), len(program.graph.outputs), len(self.segments)),
            *((feed.rows, feed.row_bytes) if feed is not None else (0, 0)),
            *(
                name,
                program.stream.streaming.first if program.stream is not None else 0,
                name + name_bytes,
                name + name_bytes + core_bytes,
            ),
        ]
        return MAGIC + struct.pack(f"<{HEADER_WORDS - 1}I", *words)

    def _isas(self) -> int:
        """Returns the instruction sets of the kernels in use, as bits."""
        numbers = {self.abi.number(routine.name) for routine in self.program.routines}
        return isa_bits(self.abi.kernels[n].isa for n in numbers)

    # Buffers: 8 words each, then the shapes; names are in a section of their own.

    def _buffers(self) -> tuple[bytes, bytes]:
        values = [*self.program.graph.inputs, *self.program.graph.outputs]
        names = bytearray(b"".join(self.texts))
        records, shapes = bytearray(), bytearray()
        shapes_at = HEADER_WORDS * 4 + 32 * len(values)
        for value in values:
            scale = value.type.quant.scale if isinstance(value.type.quant, PerTensor) else 0.0
            zero_point = value.zero_point if value.is_quantized else 0
            records += struct.pack(
                "<6Ifi",
                *(len(names), DTYPES.index(value.dtype), self._buffer_offset(value), value.type.size_bytes),
                *(len(value.shape), shapes_at + len(shapes), scale, zero_point),
            )
            shapes += struct.pack(f"<{len(value.shape)}I", *value.shape)
            names += _text(value.name)
        return bytes(records + shapes), bytes(names)

    def _buffer_offset(self, value: Value) -> int:
        feed = self.program.feed
        return (
            BY_ROWS
            if feed is not None and value is feed.value
            else self.program.memory.location(value).offset
        )

    def _placed_buffers(self, facts: bytes, names_at: int) -> bytes:
        words = np.frombuffer(facts, "<u4").copy()
        count = len(self.program.graph.inputs) + len(self.program.graph.outputs)
        words[: 8 * count : 8] += names_at
        return words.tobytes()

    # Params: one word per field; pointers are offsets of constants, which are placed last.

    def _params(self, step: CStep, number: int) -> int:
        """Returns the offset of a call's params in their section; equal ones are stored once."""
        call, pointers = step.calls[number], step.pointers[number]
        words = b"".join(self._param_word(key, value, pointers) for key, value in call.params.items())
        key = bytes(key in pointers for key in call.params) + words
        if key not in self.params_at:
            at = self.params_at[key] = self.params.add(words)
            self.fixups += [at // 4 + i for i, name in enumerate(call.params) if name in pointers]
        return self.params_at[key]

    def _param_word(self, key: str, value: object, pointers: Mapping[str, str]) -> bytes:
        if key in pointers:
            return struct.pack("<I", self.constant_offsets[pointers[key]])
        return struct.pack("<f", value) if isinstance(value, float) else struct.pack("<i", int(value))  # type: ignore[call-overload]

    def _placed_params(self, data_at: int) -> bytes:
        words = np.frombuffer(bytes(self.params.content), "<u4").copy()
        words[self.fixups] += data_at
        return words.tobytes()

    # Schedules: words, and tuples of a section and an offset in it, which are placed last.

    def _words(self, schedule: Sequence[int | tuple[str, int]], params_at: int, data_at: int) -> list[int]:
        places = {"params": lambda at: (params_at + at) // 4, "data": lambda at: data_at + at}
        return [(places[w[0]](w[1]) if isinstance(w, tuple) else w) & 0xFFFFFFFF for w in schedule]

    def _run_schedule(self) -> list[int | tuple[str, int]]:
        items, feed = self.program.items, self.program.feed
        if feed is None:
            return [*self._items(items, 0), STOP]
        first, last = feed.items.start, feed.items.stop
        parts = (items[:first], items[first:last], items[last:])
        before, fed, rest = (self._items(part, 0) for part in parts)
        return [*before, PAUSE, *fed, PAUSE, *rest, STOP]

    def _items(self, items: Iterable[ProgramItem], depth: int) -> list[int | tuple[str, int]]:
        return [word for item in items for word in self._item(item, depth)]

    def _item(self, item: ProgramItem, depth: int) -> list[int | tuple[str, int]]:
        what, places = item.what, item.places
        match what:
            case RunStep():
                return self._run_step(what, places)
            case MoveRows(size):
                return [MOVE, size, *self._place(places[0], size), *self._place(places[1], size)]
            case LoadConstant(size, value):
                return [MOVE, size, *self._place(places[0], size), *self._constant(value, size)]
            case TakeRows(rows):
                assert self.program.feed is not None
                size = rows * self.program.feed.row_bytes
                return [TAKE, rows, *(self._place(places[0], size) if places else (NOWHERE << 29, 0))]
            case RolledLoop(count, body):
                if depth == MOST_LOOPS:
                    _refuse(self.program, f"{depth + 1} loops lie inside each other", "unroll a loop")
                return [LOOP, count, *self._items(body, depth + 1), END]
            case RunBranch(_, value, body):
                return self._branch(value, places[0], body, depth)
        _refuse(self.program, f"it holds a {type(what).__name__}", "leave the options of memory and NPU out")

    def _branch(
        self, value: bool, flag: MovingLocation, body: Sequence[ProgramItem], depth: int
    ) -> list[int | tuple[str, int]]:
        """Returns a branch. The body of a branch that is nested too deep always runs."""
        if self.branches == MOST_BRANCHES:
            return self._items(without_branches(body), depth)
        self.branches += 1
        words = self._items(body, depth)
        self.branches -= 1
        return [BRANCH | value << 8, len(words), *self._place(flag, 1), *words]

    def _run_step(self, run: RunStep, places: Sequence[MovingLocation]) -> list[int | tuple[str, int]]:
        step = self.program.steps[run.step]
        variant = step.variants[run.variant]
        located = dict(zip(variant.values, places, strict=False))  # an alias has no call, and no places
        rows = places[len(variant.values) :]
        words: list[int | tuple[str, int]] = []
        if step.index in self.segments:
            words += self._segment(step, places)
        for number in variant.calls:
            call = step.calls[number]
            words += [CALL | self.abi.number(call.routine.name) << 8, ("params", self._params(step, number))]
            words += self._operands(call, located, rows)
            words += self._scratch(step)
        return [*words, DONE | step.index << 8]

    def _operands(
        self, call: Call, located: Mapping[Value, MovingLocation], rows: Sequence[MovingLocation]
    ) -> Iterable[int | tuple[str, int]]:
        for value in call.inputs:
            size = value.type.size_bytes
            yield from self._constant(value, size) if value.is_constant else self._place(located[value], size)
        for row in rows if call.counts_rows else ():
            yield from self._place(row, 0)
        yield from self._place(located[call.output], call.output.type.size_bytes)

    def _scratch(self, step: CStep) -> list[int | tuple[str, int]]:
        scratch = self.program.memory.scratch_location(step.choice.op)
        if scratch is None:
            return [NOWHERE << 29, 0]
        return self._place(MovingLocation(scratch), step.scratch_bytes)

    def _segment(self, step: CStep, places: Sequence[MovingLocation]) -> list[int | tuple[str, int]]:
        op = step.choice.op
        values = (*op.activations, *op.results)
        if len(values) > MOST_SEGMENT_OPERANDS:
            limit = f"keep it to {MOST_SEGMENT_OPERANDS} by cutting the model into fewer branches"
            _refuse(self.program, f"an NPU segment has {len(values)} operands and results", limit)
        words: list[int | tuple[str, int]] = [SEGMENT | self.segments[step.index] << 8]
        words.append(len(op.activations) | len(values) << 8)
        for value, place in zip(values, places, strict=True):
            words += self._place(place, value.type.size_bytes)
        return words + self._scratch(step)

    def _constant(self, value: Value, size: int) -> list[int | tuple[str, int]]:
        return self._array(self.program.operands[value], size)

    def _array(self, name: str, size: int) -> list[int | tuple[str, int]]:
        return [("data", self.constant_offsets[name]), size]

    def _place(self, place: MovingLocation, size: int) -> list[int | tuple[str, int]]:
        """Returns an operand: its first location with its strides, if it moves."""
        start = place.start
        assert isinstance(start, (MemoryLocation, RowIndex))
        area = NOWHERE if isinstance(start, RowIndex) else {ARENA: IN_ARENA, STATE: IN_STATE}[start.area]
        moving = MOVES if any(place.strides) else 0
        return [area << 29 | moving | start.offset, size, *(place.strides if moving else ())]

    def _reset_schedule(self) -> list[int | tuple[str, int]]:
        program, words = self.program, list[int | tuple[str, int]]()
        for state in program.graph.states:
            at = program.memory.state_offsets[state.before]
            if is_filled_on_reset(state):
                words += self._fill(
                    at, state.bytes, np.ascontiguousarray(state.initial).tobytes()[0] * 0x01010101
                )
            else:
                words += self._copy(at, program.initial_states[state.name], state.bytes)
        for sums in program.sums:
            at = program.memory.kept_scratch[sums.op]
            if sums.op in program.initial_sums:
                words += self._copy(at, program.initial_sums[sums.op], sums.stored.nbytes)
            else:
                words += self._fill(at, sums.stored.nbytes, int(sums.stored[0]))
        if program.stream is not None:
            words += self._fill(program.stream.counters, COUNTERS, 0)
        return [*words, STOP]

    def _fill(self, at: int, size: int, value: int) -> list[int | tuple[str, int]]:
        return [FILL, value, IN_STATE << 29 | at, size]

    def _copy(self, at: int, name: str, size: int) -> list[int | tuple[str, int]]:
        return [MOVE, size, IN_STATE << 29 | at, size, *self._array(name, size)]

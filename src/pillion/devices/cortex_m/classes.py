# SPDX-License-Identifier: Apache-2.0
"""Sorts Cortex-M instructions into classes of equal cost, from lines of a disassembly."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from pillion.chip_memory import LINE_BYTES as LINE_BYTES


class InstructionClass(Enum):
    """Instructions to which the core's manufacturer assigns the same cycles."""

    ALU = "arithmetic, moves, shifts"
    MULTIPLY = "multiplications, multiply-accumulates"
    MULTIPLY_LONG = "products of 64 bits"
    DIVIDE = "divisions"
    LOAD = "loads of one register"
    STORE = "stores of one register"
    MULTIPLE = "loads and stores of several registers"
    BRANCH = "branches, calls, returns"
    PREFIX = "condition prefixes (IT, VPT)"
    LOOP = "hardware loops"
    FLOAT = "float arithmetic and moves"
    FLOAT_DIVIDE = "float divisions and roots"
    VECTOR = "vector arithmetic"
    VECTOR_MEMORY = "vector loads and stores"
    VECTOR_GATHER = "vector loads and stores, scattered"


@dataclass(frozen=True)
class InstructionKind:
    """The class of an instruction, and the number of registers that it moves beyond its first."""

    name: InstructionClass
    more_registers: int = 0


_CONDITIONS = "eq|ne|cs|hs|cc|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le|al"
_ROWS: tuple[tuple[str, InstructionClass], ...] = (
    (r"(wls|dls|le)(tp)?(\.\d+)?|lctp", InstructionClass.LOOP),
    (r"i[te]{1,4}|vp(st|te?|nott?)[te]*|vps[te]+|vpt[te]*\..*", InstructionClass.PREFIX),
    (r"(cbn?z|tb[bh])|(b|bl|bx|blx|bxns|blxns)(COND)?(\.[nw])?", InstructionClass.BRANCH),
    (r"(ldm|stm)(ia|db|fd|ea)?(COND)?(\.w)?|push(.w)?|pop(.w)?|(ldr|str)d(COND)?|vpush|vpop|v(ldm|stm)(ia|db)?(\.\d+)?", InstructionClass.MULTIPLE),
    (r"(ldr|lda)\w*(\.[nw])?|ldrex\w*|pld\w*|vldr(\.\d+)?(COND)?", InstructionClass.LOAD),
    (r"(str|stl)\w*(\.[nw])?|strex\w*|vstr(\.\d+)?(COND)?", InstructionClass.STORE),
    (r"[su]divs?(COND)?", InstructionClass.DIVIDE),
    (r"[su](mull|mlal)s?(COND)?|umaal|smlald?x?|smlsldx?|smlal[btd]\w*", InstructionClass.MULTIPLY_LONG),
    (r"(mul|mla|mls)s?(COND)?(\.w)?|smu[lsa]\w*|sml[as]\w*|smm[lu]\w*|usad\w*", InstructionClass.MULTIPLY),
    (r"v(div|sqrt)(COND)?\.f\d+", InstructionClass.FLOAT_DIVIDE),
)  # fmt: skip
_TABLE = [(re.compile(pattern.replace("COND", _CONDITIONS)), name) for pattern, name in _ROWS]
_VECTOR_REGISTER = re.compile(r"\bq[0-7]\b")
_VECTOR_MEMORY = re.compile(r"v(ld|st)(r[bhwd]|[24]\d)\w*(\.\w+)?")
_REGISTERS = re.compile(r"\{([^}]*)\}")
_RANGE = re.compile(r"([rsdq])(\d+)-\1(\d+)")


def classify_instruction(instruction: str) -> InstructionKind:
    """Returns the class of one line of a disassembly, such as `ldmia.w r3!, {r4, r5}`."""
    mnemonic, _, operands = instruction.strip().partition(" ")
    if _VECTOR_MEMORY.fullmatch(mnemonic):
        scattered = re.search(r"\[[^\]]*q\d", operands)
        return InstructionKind(
            InstructionClass.VECTOR_GATHER if scattered else InstructionClass.VECTOR_MEMORY
        )
    for pattern, name in _TABLE:
        if pattern.fullmatch(mnemonic):
            return InstructionKind(
                name, _more_registers(mnemonic, operands) if name is InstructionClass.MULTIPLE else 0
            )
    if not mnemonic.startswith("v"):
        return InstructionKind(InstructionClass.ALU)
    is_vector = mnemonic.startswith("vctp") or _VECTOR_REGISTER.search(operands)
    return InstructionKind(InstructionClass.VECTOR if is_vector else InstructionClass.FLOAT)


def _more_registers(mnemonic: str, operands: str) -> int:
    """Counts the registers in braces beyond the first; ldrd and strd have no braces and move two."""
    match = _REGISTERS.search(operands)
    if match is None:
        return 1
    return max(0, sum(_register_range_length(part.strip()) for part in match[1].split(",")) - 1)


def _register_range_length(part: str) -> int:
    span = _RANGE.fullmatch(part)
    return int(span[3]) - int(span[2]) + 1 if span else 1


@dataclass(frozen=True)
class MemoryAccesses:
    """The accesses to a memory: total bytes, and distinct lines of LINE_BYTES."""

    bytes: int = 0
    lines: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.lines <= self.bytes:
            raise ValueError(f"{self.lines} lines for {self.bytes} bytes")


@dataclass(frozen=True)
class InstructionCounts:
    """The executed instructions: their count by class, and other sources of cycles."""

    counts: Mapping[InstructionClass, int]
    more_registers: int = 0
    """Registers that multiple loads and stores move beyond their first."""
    taken: int = 0
    """Taken jumps: the next executed instruction is not the following one. Hardware loops do not count."""
    constants: MemoryAccesses = MemoryAccesses()
    arena: MemoryAccesses = MemoryAccesses()
    memories: tuple[MemoryAccesses, ...] = ()
    """Accesses to the arena in each of several memories, then to the constants that are copied there at start."""

    @property
    def instructions(self) -> int:
        """The number of executed instructions."""
        return sum(self.counts.values())


@dataclass(frozen=True)
class ExecutedLine:
    """A line of a disassembly, its execution count, and how often a jump followed it."""

    instruction: str
    times: int
    left: int = 0


def executed(
    lines: Iterable[ExecutedLine], constants: MemoryAccesses, arena: MemoryAccesses, *memories: MemoryAccesses
) -> InstructionCounts:
    """Returns the executed instructions by class."""
    counts = {name: 0 for name in InstructionClass}
    more = taken = 0
    for line in lines:
        kind = classify_instruction(line.instruction)
        counts[kind.name] += line.times
        more += kind.more_registers * line.times
        taken += 0 if kind.name is InstructionClass.LOOP else line.left
    return InstructionCounts(
        {name: count for name, count in counts.items() if count}, more, taken, constants, arena, memories
    )

# SPDX-License-Identifier: Apache-2.0
"""The memories of a chip: sizes and wait cycles, as a user names them (`sram=512K`, `psram=8M,slow=20`, a TOML file)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pillion.errors import PillionError
from pillion.option_parsers import parse_bytes
from pillion.toml_parser import parse_toml

LINE_BYTES = 32
"""The unit of wait cycles: the cache line of a Cortex-M7, -M55 or -M85, or a burst of a serial memory."""
MOST_MEMORIES = 4
GUIDE = "docs/guide/memory.md"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,15}")
_RESERVED = frozenset({"state", "arena", "base", "kept", "chip"})
_NUMBER = re.compile(r"\d{1,6}(\.\d{1,3})?")
_RULE = (
    "NAME=SIZE, then any of slow=CYCLES, read=CYCLES, write=CYCLES, copy=CYCLES (for 32 bytes), cache=SIZE, "
    "npu=yes|no, constants"
)
_EXAMPLE = "--memory sram=512K --memory psram=8M,slow=20"


@dataclass(frozen=True)
class ChipMemory:
    """A memory of a chip. Wait cycles are the core's, per 32 bytes, beyond its own cycles per instruction."""

    name: str
    bytes: int
    read: float = 0.0
    write: float = 0.0
    copy: float | None = None
    """Cycles in which DMA reads 32 bytes while the core works on; None if there is none."""
    cache: int = 0
    """Size of a cache before this memory; data that fit are read once per op."""
    npu: bool = True
    """Whether the NPU reaches it."""
    is_constant: bool = False
    """Whether it holds constants only, as flash does."""
    reserved: int = 0
    """Bytes that the NPU needs of it besides the program's buffers."""

    @property
    def usable_bytes(self) -> int:
        """The bytes that a program may use, in whole lines: an arena that fits does so when it is padded, too."""
        return (self.bytes - self.reserved) // LINE_BYTES * LINE_BYTES


OF_THE_CHIP = ChipMemory("chip", 1)
"""Stands for the memories that a target knows: `--memory chip`."""


def parse_memories(given: str | Sequence[str | ChipMemory] | None) -> tuple[ChipMemory, ...]:
    """Parses the user's description of each memory, or the path of a TOML file with a table for each."""
    texts = [given] if isinstance(given, (str, ChipMemory)) else list(given or ())
    memories = tuple(memory for text in texts for memory in _memories_of(text))
    check_together(memories)
    return memories


def _memories_of(text: str | ChipMemory) -> Iterable[ChipMemory]:
    if isinstance(text, ChipMemory):
        return (text,)
    if text == OF_THE_CHIP.name:
        return (OF_THE_CHIP,)
    if text.endswith(".toml"):
        return _memories_in_file(Path(text))
    first, *settings = text.split(",")
    name, equals, size = first.partition("=")
    if not equals:
        raise _no_memory_error(f"--memory {text} has no size", text)
    pairs = [setting.partition("=") for setting in settings]
    return (_memory(text, name, size, {key.strip(): value.strip() or "yes" for key, _, value in pairs}),)


def _memories_in_file(path: Path) -> Iterable[ChipMemory]:
    try:
        text = path.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise _no_memory_error(f"{path} cannot be read", str(error)) from None
    tables = parse_toml(text, path, GUIDE).get("memory", {})
    if not isinstance(tables, Mapping) or not all(isinstance(table, Mapping) for table in tables.values()):
        raise _no_memory_error(f"{path} describes no memory", "no table [memory.NAME]")
    for name, table in tables.items():
        settings = {
            key: ("yes" if value else "no") if isinstance(value, bool) else str(value)
            for key, value in table.items()
        }
        yield _memory(f"{path}: [memory.{name}]", name, settings.pop("size", ""), settings)


def _memory(text: str, name: str, size: str, settings: Mapping[str, str]) -> ChipMemory:
    if not _NAME.fullmatch(name) or name in _RESERVED:
        raise _no_memory_error(
            f"`{name}` is no name of a memory",
            f"{text}; a name is a small letter and up to 15 letters, digits and _, and none of {', '.join(sorted(_RESERVED))}",
        )
    fields: dict[str, Any] = {}
    for key, value in settings.items():
        if key in ("npu", "constants") and value in ("yes", "no"):
            fields["npu" if key == "npu" else "is_constant"] = value == "yes"
        elif key in ("read", "write", "copy", "slow") and _NUMBER.fullmatch(value):
            fields |= dict.fromkeys(("read", "write") if key == "slow" else (key,), float(value))
        elif key == "cache":
            fields[key] = parse_bytes(value, "--memory NAME=SIZE,cache=")
        else:
            raise _no_memory_error(f"`{key}={value}` says nothing about a memory", text)
    return ChipMemory(name, parse_bytes(size, f"--memory {name}="), **fields)


def check_together(memories: Sequence[ChipMemory]) -> None:
    """Raises if one chip cannot have these memories."""
    names = [memory.name for memory in memories]
    twice = next((name for name in names if names.count(name) > 1), None)
    writable = [memory for memory in memories if not memory.is_constant]
    if twice is not None:
        raise _no_memory_error(f"two memories are called `{twice}`", " ".join(names))
    if len(memories) - len(writable) > 1:
        raise _no_memory_error("several memories are for constants", " ".join(names))
    if memories and not writable:
        raise _no_memory_error("there is no memory for data", " ".join(names))
    if len(writable) > MOST_MEMORIES:
        raise _no_memory_error(
            f"{len(writable)} memories for data, and {MOST_MEMORIES} are the most", " ".join(names)
        )


def _no_memory_error(what: str, here: str) -> PillionError:
    return PillionError(what, rule=_RULE, here=here, help=_EXAMPLE)


def by_speed(memories: Iterable[ChipMemory]) -> tuple[ChipMemory, ...]:
    """Returns the memories for data, the fastest first; among equals the user's order."""
    return tuple(
        sorted((m for m in memories if not m.is_constant), key=lambda memory: memory.read + memory.write)
    )


def constants_memory(memories: Iterable[ChipMemory]) -> ChipMemory:
    """Returns the memory in which constants lie by default."""
    found = next((memory for memory in memories if memory.is_constant), None)
    return found or ChipMemory("flash", 2**32 - 1, is_constant=True)


def with_cache(memory: ChipMemory, cache: int) -> ChipMemory:
    """Returns the memory with the core's cache before it, unless it says its own."""
    return memory if memory.cache else replace(memory, cache=cache)

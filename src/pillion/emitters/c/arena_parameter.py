# SPDX-License-Identifier: Apache-2.0
"""How C functions receive the memory of a model: the arena, or a struct with one pointer per memory of the chip."""

from __future__ import annotations

from collections.abc import Mapping

from pillion.emitters.c.lower import CProgram
from pillion.ir.types import Value
from pillion.memory import ARENA, STATE, Area, MemoryLocation

_BASES: Mapping[Area, str] = {ARENA: "base", STATE: "kept"}


def base_of(area: Area) -> str:
    """Returns the C variable that points to an area."""
    return _BASES.get(area, f"in_{area}")


def arena_parameter(program: CProgram) -> str:
    """Returns the declaration of the parameter."""
    return f"const {program.graph.name}_memories *memories" if program.memory.arenas else "void *arena"


def arena_argument(program: CProgram) -> str:
    """Returns the name of the parameter."""
    return "memories" if program.memory.arenas else "arena"


def arena_pointers(program: CProgram, record: str = "") -> dict[str, str]:
    """Returns each variable that points to an arena, with its value: from the parameter, or from a `record` that keeps it."""
    arenas = program.memory.arenas
    memories = f"((const {program.graph.name}_memories *)(void *){record}arena)" if record else "memories"
    return {base_of(one.area): f"{memories}->{one.memory.name}" for one in arenas} or {
        "base": f"{record}arena"
    }


def pointer_lines(program: CProgram, record: str = "") -> list[str]:
    """Returns the statements that define the pointers to all arenas."""
    pointers = arena_pointers(program, record)
    defined = [f"uint8_t *const {name} = {value};" for name, value in pointers.items()]
    return [*defined, *(f"(void){name};" for name in pointers)]


def address_in(program: CProgram, location: MemoryLocation) -> str:
    """Returns the address of a location as an expression of the pointers."""
    return f"{base_of(location.area)} + {location.offset}"


def public_address(program: CProgram, value: Value) -> str:
    """Returns the address of a value as an expression of the parameter `arena` of a macro."""
    spot = program.memory.location(value)
    name = next((one.memory.name for one in program.memory.arenas if one.area == spot.area), "")
    return f"(char *)(arena)->{name} + {spot.offset}" if name else f"(char *)(arena) + {spot.offset}"


def memory_number(program: CProgram, area: Area) -> int:
    """Returns the number of an area among the arenas, for the model's descriptor."""
    return next((number for number, one in enumerate(program.memory.arenas) if one.area == area), 0)

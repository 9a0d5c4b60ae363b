# SPDX-License-Identifier: Apache-2.0
"""A graph made ready for C: kernels chosen, constants packed, memory planned. Knows ops; knows nothing of C's text."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pillion.boards.board import Optimize
from pillion.devices.cortex_m import Isa
from pillion.emitters.c.choose import Choice, choose
from pillion.emitters.c.kernel import Call, Routine
from pillion.errors import PillionError
from pillion.ir.graph import Graph, Names, identifier, shortened, want_computed_outputs
from pillion.ir.sizes import LARGEST
from pillion.ir.types import Value
from pillion.memory import MemoryPlan, OpMemory, plan_memory

POINTER_BYTES = 4
"""Bytes of a pointer on all Cortex-M."""


@dataclass(frozen=True)
class Constant:
    """An array in flash, with its name in C."""

    name: str
    data: NDArray[np.generic]

    @property
    def elements(self) -> int:
        """The length that is declared in C, which has no empty arrays."""
        return max(self.data.size, 1)


@dataclass(frozen=True)
class Step:
    """The calls of one op, with the names of the constants that their params point to."""

    index: int
    choice: Choice
    calls: tuple[Call, ...]
    pointers: tuple[Mapping[str, str], ...]
    """The names of constants by field of the params, for each call."""


@dataclass(frozen=True)
class CProgram:
    """A program from which the text of a C project is made: steps, constants and the memory plan."""

    graph: Graph
    isa: Isa
    steps: tuple[Step, ...]
    constants: tuple[Constant, ...]
    operands: Mapping[Value, str]
    """Constant operands that are passed as arguments → name of their array."""
    memory: MemoryPlan
    optimize: Optimize = "speed"

    @property
    def routines(self) -> list[Routine]:
        """The kernels that the program calls, each once."""
        return list(dict.fromkeys(call.routine for step in self.steps for call in step.calls))

    @property
    def constant_bytes(self) -> int:
        """The bytes of all arrays in flash."""
        return sum(c.elements * c.data.itemsize for c in self.constants)

    @property
    def params_bytes(self) -> int:
        """The bytes of all params structs: every field of the kernels is a 32-bit number or a pointer, or a double."""
        return sum(_params_size(call) for step in self.steps for call in step.calls)


def _params_size(call: Call) -> int:
    return len(call.params) * POINTER_BYTES


LONGEST_IDENTIFIER = 58
"""C99 tells names apart by 63 characters, of which a number that tells equal ones apart takes some."""


class _Constants:
    """Arrays by content: equal ones are stored once, under a name that C can hold and that no other has."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.names = Names()
        self.by_content: dict[tuple[str, bytes], Constant] = {}

    def name(self, wish: str, data: NDArray[np.generic]) -> str:
        data = np.ascontiguousarray(data)
        # The hash is of the array's own bytes: no copy is made.
        key = (data.dtype.name, hashlib.sha256(data.reshape(-1).view(np.uint8).data).digest())
        if key not in self.by_content:
            clean = shortened(identifier(f"{self.prefix}_{wish}"), LONGEST_IDENTIFIER)
            self.by_content[key] = Constant(self.names.fresh(clean), data)
        return self.by_content[key].name


def lower(graph: Graph, isa: Isa = Isa.PORTABLE, optimize: Optimize = "speed") -> CProgram:
    """Gives the graph a kernel for each op, packed constants and a memory plan."""
    want_computed_outputs(graph)
    graph = graph.replace(name=identifier(graph.name))
    choices = choose(graph, isa, optimize)
    constants = _Constants(graph.name)
    steps = tuple(_step(i, choice, graph, constants) for i, choice in enumerate(choices))
    operands = {
        value: constants.name(f"value_{value.name}", value.constant)
        for step in steps
        for call in step.calls
        for value in call.inputs
        if value.is_constant
    }
    needs = {
        c.op: OpMemory(c.kernel.scratch_bytes(c.op), c.kernel.overread_bytes, c.kernel.in_place(c.op))
        for c in choices
    }
    memory = plan_memory(graph, needs)
    if memory.arena_bytes > LARGEST:
        raise _too_large(graph, memory)
    return CProgram(graph, isa, steps, tuple(constants.by_content.values()), operands, memory, optimize)


def _too_large(graph: Graph, memory: MemoryPlan) -> PillionError:
    return PillionError(
        f"`{graph.name}` needs more memory than a microcontroller can address",
        rule=f"the arena has at most {LARGEST} bytes",
        here=f"{memory.arena_bytes} bytes, the largest scratch {memory.scratch_bytes}",
        help="smaller images or batches",
    )


def _step(index: int, choice: Choice, graph: Graph, constants: _Constants) -> Step:
    calls = choice.kernel.calls(choice.op, graph.arithmetic)
    pointers = []
    for number, call in enumerate(calls):
        suffix = f"_{number}" if len(calls) > 1 else ""
        arrays = {key: value for key, value in call.params.items() if isinstance(value, np.ndarray)}
        pointers.append(
            {key: constants.name(f"op{index}{suffix}_{key}", data) for key, data in arrays.items()}
        )
    return Step(index, choice, calls, tuple(pointers))

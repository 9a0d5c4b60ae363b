# SPDX-License-Identifier: Apache-2.0
"""Reads the facts on a written program from its file."""

from __future__ import annotations

from dataclasses import dataclass

from pillion.schemas import pte
from pillion.schemas.flatbuffer import read_root_table


@dataclass(frozen=True)
class PteFacts:
    """The sizes and counts of a `.pte` file."""

    file_bytes: int
    arena_bytes: int
    """The planned memory that is valid only during a run; the runtime allocates it."""
    state_bytes: int
    """The planned memory of states."""
    kernel_calls: int
    delegate_calls: int
    operators: tuple[str, ...]
    """The kernels that the runtime must have registered, by name."""


def facts_of(file: bytes) -> PteFacts:
    """Returns size, memory, calls and operators of a file that `emit` wrote."""
    _, _, size, _, _ = pte.HEADER.unpack_from(file, 8)
    plan = read_root_table(pte.Program, file[:size], pte.IDENTIFIER).execution_plan[0]
    calls = [instruction.instr_args for chain in plan.chains for instruction in chain.instructions]
    return PteFacts(
        len(file),
        plan.non_const_buffer_sizes[pte.ARENA],
        sum(plan.non_const_buffer_sizes[pte.STATE :]),
        sum(isinstance(call, pte.KernelCall) for call in calls),
        sum(isinstance(call, pte.DelegateCall) for call in calls),
        tuple(sorted(f"{o.name}.{o.overload}" if o.overload else str(o.name) for o in plan.operators)),
    )

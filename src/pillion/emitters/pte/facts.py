# SPDX-License-Identifier: Apache-2.0
"""What there is to say about a program that was written, read from the file itself."""

from __future__ import annotations

from dataclasses import dataclass

from pillion.schemas import pte
from pillion.schemas.flatbuffer import unpack


@dataclass(frozen=True)
class PteFacts:
    """Counts of one `.pte` file."""

    file_bytes: int
    arena_bytes: int
    """Bytes of planned memory that means nothing between runs, which the runtime is given beside the file."""
    state_bytes: int
    """Bytes of planned memory in which states live on."""
    kernel_calls: int
    delegate_calls: int
    operators: tuple[str, ...]
    """Kernels that the runtime must have registered, by name."""


def facts_of(file: bytes) -> PteFacts:
    """Reads size, memory, calls and operators from a file that `emit` has made."""
    _, _, size, _, _ = pte.HEADER.unpack_from(file, 8)
    plan = unpack(pte.Program, file[:size], pte.IDENTIFIER).execution_plan[0]
    calls = [instruction.instr_args for chain in plan.chains for instruction in chain.instructions]
    return PteFacts(
        len(file),
        plan.non_const_buffer_sizes[pte.ARENA],
        sum(plan.non_const_buffer_sizes[pte.STATE :]),
        sum(isinstance(call, pte.KernelCall) for call in calls),
        sum(isinstance(call, pte.DelegateCall) for call in calls),
        tuple(sorted(f"{o.name}.{o.overload}" if o.overload else str(o.name) for o in plan.operators)),
    )

# SPDX-License-Identifier: Apache-2.0
"""Explains a processor exception of a firmware (Armv8-M Architecture Reference Manual, CFSR)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pillion.boards.elf import read_elf
from pillion.errors import PillionError

_OVERFLOW = "stack overflow"
_CAUSES: Mapping[int, str] = {
    0: "instruction fetch from protected memory",
    1: "data access to protected memory",
    3: "return from an exception met protected memory",
    4: "stacking for an exception met protected memory",
    5: "saving of FPU registers met protected memory",
    8: "instruction fetch from no memory",
    9: "data access to no memory",
    10: "data access to no memory, noticed late",
    11: "return from an exception met no memory",
    12: "stacking for an exception met no memory",
    13: "saving of FPU registers met no memory",
    16: "undefined instruction",
    17: "branch to an address that is not Thumb code",
    18: "return to a place that cannot be returned to",
    19: "FPU or MVE instruction on a core without it",
    20: _OVERFLOW,
    24: "unaligned access",
    25: "division by zero",
}
_STACK_BITS = (4, 12, 20)


def fault_error(facts: Mapping[str, object], image: Path, board: str) -> PillionError:
    """Returns the error for a fault that the firmware reported."""
    status = int(str(facts["cfsr"]), 16)
    causes = [cause for bit, cause in _CAUSES.items() if status >> bit & 1]
    where = [f"{name} {_source_location(str(facts[name]), image)}" for name in ("pc", "lr") if name in facts]
    address = [f"address {facts['address']}"] if "address" in facts else []
    overflow = "stack" in facts or any(status >> bit & 1 for bit in _STACK_BITS)
    if overflow and _OVERFLOW not in causes:
        causes.append(_OVERFLOW)
    return PillionError(
        f"{facts['fault']} on {board}",
        rule=", ".join(causes) or "no exception may happen while a model runs",
        here=", ".join([*where, *address, f"cfsr {facts['cfsr']}"]),
        help="make PILLION_STACK_BYTES in sections.ld larger"
        if overflow
        else "this is a defect: please report it",
    )


def _source_location(address: str, image: Path) -> str:
    at = int(address, 16) & ~1
    for symbol in read_elf(image).symbols.values():
        if symbol.is_function and symbol.address <= at < symbol.address + symbol.bytes:
            return f"{address} in {symbol.name}+{at - symbol.address}"
    return address

# SPDX-License-Identifier: Apache-2.0
"""Each bit of the fault status register (CFSR, Armv8-M Architecture Reference Manual D1.2.33) has its cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from pillion.boards.faults import fault_error

CAUSES = {
    0x0000_0001: "instruction fetch from protected memory",  # IACCVIOL
    0x0000_0082: "data access to protected memory",  # DACCVIOL with MMARVALID
    0x0000_0008: "return from an exception met protected memory",  # MUNSTKERR
    0x0000_0010: "stacking for an exception met protected memory, stack overflow",  # MSTKERR
    0x0000_0020: "saving of FPU registers met protected memory",  # MLSPERR
    0x0000_0100: "instruction fetch from no memory",  # IBUSERR
    0x0000_8200: "data access to no memory",  # PRECISERR with BFARVALID
    0x0000_0400: "data access to no memory, noticed late",  # IMPRECISERR
    0x0000_0800: "return from an exception met no memory",  # UNSTKERR
    0x0000_1000: "stacking for an exception met no memory, stack overflow",  # STKERR
    0x0000_2000: "saving of FPU registers met no memory",  # LSPERR
    0x0001_0000: "undefined instruction",  # UNDEFINSTR
    0x0002_0000: "branch to an address that is not Thumb code",  # INVSTATE
    0x0004_0000: "return to a place that cannot be returned to",  # INVPC
    0x0008_0000: "FPU or MVE instruction on a core without it",  # NOCP
    0x0010_0000: "stack overflow",  # STKOF
    0x0100_0000: "unaligned access",  # UNALIGNED
    0x0200_0000: "division by zero",  # DIVBYZERO
    0x0000_0000: "no exception may happen while a model runs",
}
OF_THE_STACK = (0x0000_0010, 0x0000_1000, 0x0010_0000)


@pytest.mark.parametrize("status", CAUSES, ids="{:#010x}".format)
def test_each_bit_has_its_cause(status: int) -> None:
    error = fault_error({"fault": "UsageFault", "cfsr": f"{status:#x}"}, Path("no.elf"), "mps2-an505")
    assert error.rule == CAUSES[status]
    assert ("PILLION_STACK_BYTES" in error.help) is (status in OF_THE_STACK)

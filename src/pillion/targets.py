# SPDX-License-Identifier: Apache-2.0
"""What hardware exists: a chip is a Cortex-M core, its memories and, on some, an NPU."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from pillion.devices.cortex_m import CORES, Core, Isa
from pillion.errors import PillionError

NUMBER_FORMAT = "+int8"
"""What may stand behind a target's name; int8 is the only number format there is."""


@dataclass(frozen=True)
class Target:
    """What a program is compiled for."""

    name: str
    summary: str
    core: Core

    @property
    def isa(self) -> Isa:
        return self.core.isa

    @property
    def board(self) -> str | None:
        return self.core.board


def _cpu(core: Core) -> Target:
    kernels = {Isa.MVE: "Helium", Isa.DSP: "DSP", Isa.PORTABLE: "portable C"}[core.isa]
    return Target(f"{core.name}+int8", f"Arm {core.name.title()}, {kernels} kernels", core)


TARGETS: dict[str, Target] = {target.name: target for target in map(_cpu, CORES.values())}


def find_target(name: str) -> Target:
    """The target of this name; `+int8` may be left out."""
    wanted = name.lower()
    for candidate in (wanted, wanted + NUMBER_FORMAT):
        if candidate in TARGETS:
            return TARGETS[candidate]
    close = difflib.get_close_matches(wanted, [*TARGETS, *CORES], n=1)
    raise PillionError(
        f"there is no target `{name}`",
        rule="known targets: " + ", ".join(TARGETS),
        help=f"did you mean `{close[0]}`?" if close else "`pillion targets` describes each",
    )

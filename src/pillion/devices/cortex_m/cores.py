# SPDX-License-Identifier: Apache-2.0
"""The Cortex-M cores: their instruction sets, and the emulated board that stands for each."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Isa(Enum):
    """The instruction sets that kernels are written for."""

    PORTABLE = "portable"
    DSP = "dsp"
    MVE = "mve"
    HOST = "host"
    """The vectors of the computer that Pillion runs on: for programs that are run here, and for no core."""


@dataclass(frozen=True)
class Core:
    """One Cortex-M core. `board` is a QEMU machine with that core (or None where QEMU has none)."""

    name: str
    isa: Isa
    cflags: tuple[str, ...]
    board: str | None = None

    def runs(self, isa: Isa) -> bool:
        """Whether it runs kernels that are written for an instruction set: portable ones always, others if it is its own."""
        return isa in (Isa.PORTABLE, self.isa)


def _core(short: str, isa: Isa, board: str | None = None) -> Core:
    name = f"cortex-{short}"
    return Core(name, isa, (f"-mcpu={name}", "-mthumb"), board)


CORES: dict[str, Core] = {
    core.name: core
    for core in (
        _core("m0plus", Isa.PORTABLE),
        _core("m3", Isa.PORTABLE, "mps2-an385"),
        _core("m4", Isa.DSP, "mps2-an386"),
        _core("m7", Isa.DSP, "mps2-an500"),
        _core("m23", Isa.PORTABLE),
        _core("m33", Isa.DSP, "mps2-an505"),
        _core("m35p", Isa.DSP),
        _core("m55", Isa.MVE, "mps3-an547"),
        _core("m85", Isa.MVE),
    )
}

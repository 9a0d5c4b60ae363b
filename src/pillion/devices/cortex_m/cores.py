# SPDX-License-Identifier: Apache-2.0
"""The Cortex-M cores, their instruction sets, and the emulated board for each."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Isa(Enum):
    """The instruction sets for which kernels exist."""

    PORTABLE = "portable"
    SCALAR = "scalar"
    """The baseline of every Cortex-M."""
    DSP = "dsp"
    MVE = "mve"
    HOST = "host"
    """Vector instructions of this computer, only for programs that run here."""


IMAGE_BITS = {Isa.MVE: 14, Isa.DSP: 15}
"""The bits of 16-bit images that leave room for the sums and differences of Winograd's convolutions of 3x3."""


@dataclass(frozen=True)
class Core:
    """A Cortex-M core. `board` is a QEMU machine with that core, or None."""

    name: str
    """The name after `-mcpu=`; omitted extensions follow a plus."""
    isa: Isa
    cflags: tuple[str, ...]
    board: str | None = None

    @property
    def plain(self) -> str:
        """The name without omitted extensions."""
        return self.name.split(LEFT_OUT)[0]

    @property
    def title(self) -> str:
        """The manufacturer's spelling of the name."""
        letters = self.plain.removeprefix("cortex-").upper().replace("PLUS", "+")
        return f"Cortex-{letters}" + "".join(f" without {EXTENSIONS[f]}" for f in self.left_out)

    @property
    def left_out(self) -> tuple[str, ...]:
        """The optional extensions that this variant omits."""
        return tuple(self.name.split(LEFT_OUT)[1:])

    @property
    def is_armv8m(self) -> bool:
        """Whether it has the architecture Armv8-M with the main extension."""
        return self.plain in ("cortex-m33", "cortex-m35p", "cortex-m52", "cortex-m55", "cortex-m85")

    @property
    def image_bits(self) -> int:
        """The bits of 16-bit images that suit the fastest kernels of 3x3 convolutions."""
        return IMAGE_BITS.get(self.isa, 16)

    def runs(self, isa: Isa) -> bool:
        """Whether the core runs kernels for an instruction set: the baseline always, others only if they are
        its own."""
        return isa in (Isa.PORTABLE, Isa.SCALAR, self.isa)


LEFT_OUT = "+"
EXTENSIONS = {"nodsp": "the DSP extension", "nomve": "Helium"}
"""The extensions that a chip may omit, by suffix."""


def _define_core(short: str, isa: Isa, board: str | None = None) -> Core:
    name = f"cortex-{short}"
    return Core(name, isa, (f"-mcpu={name}", "-mthumb"), board)


CORES: dict[str, Core] = {
    core.name: core
    for core in (
        _define_core("m0", Isa.SCALAR, "microbit"),
        _define_core("m0plus", Isa.SCALAR),
        _define_core("m1", Isa.SCALAR),
        _define_core("m3", Isa.SCALAR, "mps2-an385"),
        _define_core("m4", Isa.DSP, "mps2-an386"),
        _define_core("m7", Isa.DSP, "mps2-an500"),
        _define_core("m23", Isa.SCALAR),
        _define_core("m33", Isa.DSP, "mps2-an505"),
        _define_core("m33+nodsp", Isa.SCALAR),
        _define_core("m35p", Isa.DSP),
        _define_core("m35p+nodsp", Isa.SCALAR),
        _define_core("m52", Isa.MVE),
        _define_core("m52+nomve", Isa.DSP),
        _define_core("m55", Isa.MVE, "mps3-an547"),
        _define_core("m55+nomve", Isa.DSP),
        _define_core("m85", Isa.MVE),
        _define_core("m85+nomve", Isa.DSP),
    )
}


def missing_core_reason(core: str, extension: str) -> tuple[str, str]:
    """Returns the reason why no core has this name, and the name of the nearest core."""
    plain = CORES[core]
    if not extension and f"{core}plus" in CORES:
        return "the + of a core's name is written `plus`", f"{core}plus"
    if extension not in EXTENSIONS:
        known = ", ".join(LEFT_OUT + name for name in EXTENSIONS)
        if extension.endswith("fp") and plain.isa is Isa.MVE:
            return "Helium kernels use floating-point vectors", f"{core}{LEFT_OUT}nomve"
        if extension.endswith("fp"):
            return "programs are the same with and without floating point hardware", core
        return f"what silicon may lack is {known}", core
    if extension == "nodsp" and plain.isa is Isa.MVE:
        return f"every {plain.title} has the DSP extension, and may lack Helium", f"{core}{LEFT_OUT}nomve"
    if extension == "nodsp" and plain.isa is Isa.DSP:
        return f"every {plain.title} has the DSP extension", core
    return f"no {plain.title} has {EXTENSIONS[extension]}", core

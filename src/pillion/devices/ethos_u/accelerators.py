# SPDX-License-Identifier: Apache-2.0
"""The sizes of Ethos-U NPUs, with the properties that determine the meaning of a command stream."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Family(Enum):
    """The products of the family; the value is Vela's name."""

    U55 = "ethos-u55"
    U65 = "ethos-u65"
    U85 = "ethos-u85"


@dataclass(frozen=True)
class Accelerator:
    """One size of one product. A command stream runs only on the size that it was compiled for."""

    family: Family
    macs: int
    """Multiply-accumulates per cycle."""
    shram_kib: int = 0
    """The internal memory in KiB; 0 if the command stream does not specify it."""
    channels: int = 8
    """The result channels computed at once; weights are stored in groups of this size."""
    pixels: tuple[int, int] = (1, 1)
    """The rows and columns computed at once; block sizes are multiples of these."""
    cores: int = 1

    @property
    def name(self) -> str:
        """Vela's name of this size."""
        return f"{self.family.value}-{self.macs}"

    @property
    def banks(self) -> int:
        """The 1 KiB banks of internal memory for inputs, accumulators and results."""
        return self.shram_kib - (2 if self.shram_kib > 16 else 0)

    @property
    def table_address(self) -> int:
        """The address of the lookup tables, in the last 2 KiB of the internal memory."""
        return 1024 * (self.shram_kib - 2)


ACCELERATORS = {
    one.name: one
    for one in (
        Accelerator(Family.U55, 32, 16, channels=4),
        Accelerator(Family.U55, 64, 16),
        Accelerator(Family.U55, 128, 24, pixels=(1, 2)),
        Accelerator(Family.U55, 256, 48, pixels=(2, 2)),
        Accelerator(Family.U65, 256, 48, pixels=(2, 2)),
        Accelerator(Family.U65, 512, 48, pixels=(2, 2), cores=2),
        *(Accelerator(Family.U85, macs) for macs in (128, 256, 512, 1024, 2048)),
    )
}

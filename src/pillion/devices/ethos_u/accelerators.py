# SPDX-License-Identifier: Apache-2.0
"""The sizes in which Ethos-U NPUs are made, as far as they decide what a command stream means."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Family(Enum):
    """The products of the family; the value is the name that Arm's compiler has for it."""

    U55 = "ethos-u55"
    U65 = "ethos-u65"
    U85 = "ethos-u85"


@dataclass(frozen=True)
class Accelerator:
    """One size of one product. A stream that was made for it runs on no other."""

    family: Family
    macs: int
    """Multiply-accumulates in each cycle."""
    shram_kib: int = 0
    """Its internal memory; 0 where the stream does not say it."""
    channels: int = 8
    """The result channels that it makes at once: weights are stored in groups of so many."""
    pixels: tuple[int, int] = (1, 1)
    """The rows and columns that it makes at once: blocks of results are multiples of these."""
    cores: int = 1

    @property
    def name(self) -> str:
        """What Arm's compiler calls it."""
        return f"{self.family.value}-{self.macs}"

    @property
    def banks(self) -> int:
        """The banks of its internal memory, of 1 KiB each, that hold inputs, sums and results."""
        return self.shram_kib - (2 if self.shram_kib > 16 else 0)

    @property
    def table_address(self) -> int:
        """Where its tables lie in the internal memory: in the last 2 KiB."""
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

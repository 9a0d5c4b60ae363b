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


_PRODUCTS = {Family.U55: 0, Family.U65: 1, Family.U85: 2}
"""The numbers of the products in a payload."""


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
    """The rows and columns computed at once; block sizes are multiples of both."""
    cores: int = 1
    weight_streams: int = 1
    """The streams into which the weights of one operation are split."""
    ports: tuple[int, int] = (0, 0)
    """The ports to SRAM and to other memory, as logarithms of 2; (0, 0) if the command stream does not specify them."""

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
        """The address of the lookup tables: the last 2 KiB of the internal memory, or 0 in a memory of their own (U85)."""
        return 1024 * (self.shram_kib - 2) if self.shram_kib else 0

    @property
    def configuration(self) -> int:
        """The word by which a payload names this size."""
        word = (self.macs.bit_length() - 1) | _PRODUCTS[self.family] << 28
        if self.family is not Family.U85:
            return word | self.cores * self.shram_kib << 8
        sram, other = self.ports
        return word | 1 << 4 | sram << 8 | other << 10 | (self.weight_streams.bit_length() - 1) << 12


ACCELERATORS = {
    one.name: one
    for one in (
        Accelerator(Family.U55, 32, 16, channels=4),
        Accelerator(Family.U55, 64, 16),
        Accelerator(Family.U55, 128, 24, pixels=(1, 2)),
        Accelerator(Family.U55, 256, 48, pixels=(2, 2)),
        Accelerator(Family.U65, 256, 48, pixels=(2, 2)),
        Accelerator(Family.U65, 512, 48, pixels=(2, 2), cores=2),
        Accelerator(Family.U85, 128, ports=(1, 0)),
        Accelerator(Family.U85, 256, ports=(1, 0)),
        Accelerator(Family.U85, 512, ports=(1, 0), weight_streams=2),
        Accelerator(Family.U85, 1024, ports=(1, 1), weight_streams=4),
        Accelerator(Family.U85, 2048, ports=(2, 1), weight_streams=4),
    )
}

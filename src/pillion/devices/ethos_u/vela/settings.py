# SPDX-License-Identifier: Apache-2.0
"""What Vela is told of a chip: the NPU, the clocks and ports around it, and where weights and activations lie."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pillion.devices.ethos_u.accelerators import Accelerator, Family


class MemoryMode(Enum):
    """Where weights and activations lie; the value is Vela's name."""

    SRAM = "Sram_Only"
    """Both in SRAM: weights are copied there once."""
    SHARED = "Shared_Sram"
    """Weights in flash, from where the NPU reads them itself; activations in SRAM."""
    DEDICATED = "Dedicated_Sram"
    """Both in DRAM, with SRAM as a buffer of the NPU."""


SYSTEMS = {
    Family.U55: "Ethos_U55_High_End_Embedded",
    Family.U65: "Ethos_U65_Embedded",
    Family.U85: "Ethos_U85_SYS_Flash_High",
}
"""The system whose clocks Vela's estimates are for, where a chip names no other."""


@dataclass(frozen=True)
class Settings:
    """The options that Vela is always given, so that no default of another version decides."""

    accelerator: Accelerator
    memory: MemoryMode = MemoryMode.SHARED
    system: str = ""

    @property
    def system_name(self) -> str:
        """What Vela calls the system."""
        return self.system or SYSTEMS[self.accelerator.family]

    @property
    def arguments(self) -> list[str]:
        """The options as Vela's command line has them."""
        return [
            *("--accelerator-config", self.accelerator.name),
            *("--config", "Arm/vela.ini"),
            *("--system-config", self.system_name),
            *("--memory-mode", self.memory.value),
        ]

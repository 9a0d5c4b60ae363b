# SPDX-License-Identifier: Apache-2.0
"""Vela's settings for a chip: the NPU, the clocks and bandwidths around it, and the placement of weights and
activations."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pillion.devices.ethos_u.accelerators import Accelerator, Family


class MemoryMode(Enum):
    """The placement of weights and activations; the value is Vela's name."""

    SRAM = "Sram_Only"
    """Both in SRAM; weights are copied there once."""
    SHARED = "Shared_Sram"
    """Weights in flash, read by the NPU itself; activations in SRAM."""
    DEDICATED = "Dedicated_Sram"
    """Both in DRAM; SRAM is a buffer of the NPU."""


SYSTEMS = {
    Family.U55: "Ethos_U55_High_End_Embedded",
    Family.U65: "Ethos_U65_Embedded",
    Family.U85: "Ethos_U85_SYS_Flash_High",
}
"""The default system of Vela's estimates, by family."""


@dataclass(frozen=True)
class VelaSettings:
    """Vela's options, all of them explicit so that no default of another version applies."""

    accelerator: Accelerator
    memory: MemoryMode = MemoryMode.SHARED
    system: str = ""

    @property
    def system_name(self) -> str:
        """Vela's name for the system."""
        return self.system or SYSTEMS[self.accelerator.family]

    @property
    def arguments(self) -> list[str]:
        """The options for Vela's command line."""
        return [
            *("--accelerator-config", self.accelerator.name),
            *("--config", "Arm/vela.ini"),
            *("--system-config", self.system_name),
            *("--memory-mode", self.memory.value),
        ]

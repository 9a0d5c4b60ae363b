# SPDX-License-Identifier: Apache-2.0
"""The registers of the NPU, which keep their values until the next write."""

from __future__ import annotations

from pillion.devices.ethos_u.accelerators import Accelerator, Family
from pillion.devices.ethos_u.stream.command_words import CommandWord
from pillion.devices.ethos_u.stream.commands import NAMES
from pillion.devices.ethos_u.stream.stream_errors import require_modelled, require_valid


class Registers:
    """The values of all registers by name. Reading an unset register raises an error."""

    def __init__(self, accelerator: Accelerator) -> None:
        self.accelerator = accelerator
        self._held: dict[str, CommandWord] = {}

    def set(self, instruction: CommandWord) -> None:
        """Sets a register."""
        name, parameter = instruction.command.name, instruction.parameter
        is_one_core = name != "PARALLEL_MODE" or (not parameter and self.accelerator.family is not Family.U55)
        require_modelled(is_one_core, "several cores", f"PARALLEL_MODE {parameter}")
        self._held[name] = instruction

    def read(self, name: str) -> CommandWord:
        """Returns the command that set a register."""
        assert name in NAMES, name
        rule = "a register has a value before it is used"
        require_valid(name in self._held, f"{name} is read before it is set", rule)
        return self._held[name]

    def has(self, name: str) -> bool:
        """Whether a register was set."""
        return name in self._held

    def fields(self, name: str) -> dict[str, int]:
        """Returns the fields of a register's parameter."""
        return self.read(name).fields

    def value(self, name: str) -> int:
        """Returns the parameter of a narrow register."""
        return self.read(name).parameter

    def signed(self, name: str) -> int:
        """Returns the parameter of a narrow register as a signed number."""
        value = self.value(name)
        return value - 0x10000 if value & 0x8000 else value

    def address(self, name: str) -> int:
        """Returns a wide register: 40 bits, 32 on a U55."""
        word = self.read(name)
        fits = not word.parameter or self.accelerator.family is not Family.U55
        require_valid(fits, "an address has more than 32 bits", "a U55 has 32", name)
        return word.parameter << 32 | word.data

    def stride(self, name: str) -> int:
        """Returns a wide register as a signed 40-bit number, on both products."""
        word = self.read(name)
        value = word.parameter << 32 | word.data
        return value - (1 << 40) if value >> 39 else value

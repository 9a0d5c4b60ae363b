# SPDX-License-Identifier: Apache-2.0
"""The registers of the NPU: they keep their values until they are set again."""

from __future__ import annotations

from pillion.devices.ethos_u.accelerators import Accelerator, Family
from pillion.devices.ethos_u.stream.commands import BY_NAME
from pillion.devices.ethos_u.stream.errors import not_modelled, wrong
from pillion.devices.ethos_u.stream.words import Instruction


class Registers:
    """The values of all registers, by name. To read one that was never set is an error of the stream."""

    def __init__(self, accelerator: Accelerator) -> None:
        self.accelerator = accelerator
        self._held: dict[str, Instruction] = {}
        self.at = 0

    def set(self, instruction: Instruction) -> None:
        """Takes a new value."""
        if instruction.command.name == "PARALLEL_MODE" and (
            instruction.parameter or self.accelerator.family is Family.U55
        ):
            raise not_modelled(
                "several cores", f"PARALLEL_MODE {instruction.parameter} at word {instruction.at}"
            )
        self._held[instruction.command.name] = instruction

    def read(self, name: str) -> Instruction:
        """Gives the command that set a register."""
        assert name in BY_NAME, name
        held = self._held.get(name)
        if held is None:
            raise wrong(
                f"{name} is read and was never set",
                "a register has a value before it is used",
                f"word {self.at}",
            )
        return held

    def value(self, name: str) -> int:
        """Gives the parameter of a narrow register."""
        return self.read(name).parameter

    def signed(self, name: str) -> int:
        """Gives the parameter of a narrow register as a signed number."""
        value = self.value(name)
        return value - 0x10000 if value & 0x8000 else value

    def address(self, name: str) -> int:
        """Gives a wide register: 40 bits, of which a U55 has 32."""
        held = self.read(name)
        if held.parameter and self.accelerator.family is Family.U55:
            raise wrong("an address has more than 32 bits", "a U55 has 32", f"{name}, word {self.at}")
        return held.parameter << 32 | held.data

    def stride(self, name: str) -> int:
        """Gives a wide register as a signed number of 40 bits, on both products."""
        held = self.read(name)
        found = held.parameter << 32 | held.data
        return found - (1 << 40) if found >> 39 else found

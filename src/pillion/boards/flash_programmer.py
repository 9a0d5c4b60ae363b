# SPDX-License-Identifier: Apache-2.0
"""Writes a linked program to the flash of a chip, through a debug probe and pyOCD."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from pillion.boards.serial_transport import open_probe, require_board_extra
from pillion.errors import PillionError


def flash_program(image: Path, target: str, probe: str | None) -> None:
    """Programs a chip with an .elf, .hex or .bin file, and starts it. `target` is pyOCD's name of the chip, `probe` the id of
    one of several probes."""
    programmer = require_board_extra("pyocd.flash.file_programmer")
    session = open_probe(target, {"target_override": target}, probe)
    try:
        programmer.FileProgrammer(session, progress=lambda done: None).program(str(image))
        session.target.reset()
    except Exception as error:  # pyOCD raises many kinds, some of them without a common base
        raise PillionError(
            f"{image} was not written to the flash of {target}",
            rule="the probe programs the chip, and all of the file lies in its flash",
            here=f"{type(error).__name__}: {error}",
            help="is this the chip, and the file linked for it? pyocd list; pyocd list --targets",
        ) from None
    finally:
        with suppress(Exception):
            session.close()

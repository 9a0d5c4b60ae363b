# SPDX-License-Identifier: Apache-2.0
"""Splits the driver's payload into commands: first the driver's own words, then the command stream."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pillion.devices.ethos_u.accelerators import ACCELERATORS, Accelerator, Family
from pillion.devices.ethos_u.stream.commands import COMMANDS, Command
from pillion.devices.ethos_u.stream.stream_errors import (
    at_word,
    not_modelled_error,
    require_modelled,
    require_valid,
)

MAGIC = b"COP1"
_CONFIG, _STREAM, _NOP = 1, 2, 5
_CONFIG_TAG = _CONFIG | 1 << 20
"""The driver's word before configuration and version: index 0, patch 1."""
_ARCHITECTURE = {Family.U55: 0x10066001, Family.U65: 0x10066001, Family.U85: 0x20007000}
"""The architecture versions, as Vela encodes them: 1.0.6, and 2.0.0 of U85."""


@dataclass(frozen=True)
class CommandWord:
    """A command with its data and its position in the stream."""

    at: int
    """The index of its word in the stream, from 0."""
    command: Command
    parameter: int
    data: int = 0

    @property
    def fields(self) -> dict[str, int]:
        """The fields of the parameter."""
        return self.command.split(self.parameter)

    @property
    def value(self) -> int:
        """The parameter of a narrow command."""
        return self.parameter


@dataclass(frozen=True)
class CommandStream:
    """A command stream and the NPU size that it was compiled for."""

    accelerator: Accelerator
    instructions: tuple[CommandWord, ...]


def read_stream(payload: bytes) -> CommandStream:
    """Returns the command stream in the driver's payload; raises on anything unknown."""
    require_modelled(
        payload[:4] == MAGIC, "the form of the payload", f"it starts with {payload[:4]!r}, not {MAGIC!r}"
    )
    require_valid(
        len(payload) % 4 == 0,
        "the payload is cut off",
        "it is a multiple of 4 bytes",
        f"{len(payload)} bytes",
    )
    words = struct.unpack(f"<{len(payload) // 4}I", payload)
    accelerator, start = _driver_words(words)
    return CommandStream(
        accelerator, tuple(_decode_command_words(words[start:], COMMANDS[accelerator.family]))
    )


def _driver_words(words: tuple[int, ...]) -> tuple[Accelerator, int]:
    """Returns the accelerator and the word at which the stream starts."""
    require_modelled(
        len(words) >= 5 and words[1] == _CONFIG_TAG,
        "the driver's first word",
        f"{words[1]:#010x}" if len(words) > 1 else "there is none",
    )
    accelerator = _decode_accelerator(words[2], words[3])
    at = 4
    while at < len(words) and words[at] == _NOP:
        at += 1
    require_modelled(
        at < len(words) and words[at] & 0xFF == _STREAM,
        "a word of the driver",
        f"{words[at]:#010x}" if at < len(words) else "there is no stream",
    )
    length = (words[at] >> 8 & 0xFF) << 16 | words[at] >> 16
    at += 1
    require_valid(
        at % 4 == 0, "the stream is not aligned", "its start is a multiple of 16 bytes", f"{4 * at}"
    )
    require_valid(
        at + length == len(words),
        "the stream's length is wrong",
        f"{len(words) - at} words follow",
        f"{length} words",
    )
    return accelerator, at


def _decode_accelerator(config: int, version: int) -> Accelerator:
    for accelerator in ACCELERATORS.values():
        if accelerator.configuration == config:
            require_modelled(
                version == _ARCHITECTURE[accelerator.family],
                "the version of the architecture",
                f"{version:#010x}",
            )
            require_modelled(accelerator.cores <= 1, f"an NPU of {accelerator.cores} cores", accelerator.name)
            return accelerator
    raise not_modelled_error("the configuration of the NPU", f"{config:#010x}")


def _decode_command_words(
    words: tuple[int, ...], commands: Mapping[tuple[int, bool], Command]
) -> Iterator[CommandWord]:
    at = 0
    while at < len(words):
        word = words[at]
        wide, parameter = word >> 14 & 3, word >> 16
        with at_word(at):
            command = commands.get((word & 0x3FF, bool(wide)))
            if command is None or wide > 1 or word & 0x3C00:
                raise not_modelled_error("a command", f"{word:#010x}")
            reserved = f"reserved bits of {command.name}"
            require_modelled(not parameter & command.reserved, reserved, f"{parameter:#06x}")
            data = f"{command.name} has a word of data"
            require_valid(
                not wide or at + 1 < len(words), "the stream is cut off", data, "this is the last word"
            )
        yield CommandWord(at, command, parameter, words[at + 1] if wide else 0)
        at += 1 + wide

# SPDX-License-Identifier: Apache-2.0
"""What a device may have for this computer: C in the place of its driver, which asks this process to execute what it is handed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

CHANNEL = "PILLION_NPU"
"""The environment variable with the number of the file descriptor through which the C asks."""


@dataclass(frozen=True)
class Driver:
    """Headers and C files in the place of an NPU's driver. Questions and answers go through a channel, each behind its length as a
    number of 64 bits; an empty answer is a refusal."""

    files: Mapping[str, str]
    """Name → text."""
    answers: Callable[[Sequence[bytes]], Callable[[bytes], bytes]]
    """From the payloads of a program's segments to what answers the questions of its C; it raises where it refuses one."""

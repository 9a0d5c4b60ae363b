# SPDX-License-Identifier: Apache-2.0
"""The interface of a substitute driver: C code that replaces the NPU's driver on this computer and asks the
Python process to execute segments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

CHANNEL = "PILLION_NPU"
"""The environment variable that holds the file descriptor of the channel."""


@dataclass(frozen=True)
class Driver:
    """Headers and C files that replace an NPU's driver. Requests and answers pass through a channel, each
    preceded by its length as a 64-bit number; an empty answer is a refusal."""

    files: Mapping[str, str]
    """File name → text."""
    answers: Callable[[Sequence[bytes]], Callable[[bytes], bytes]]
    """Returns the function that answers a request, for the payloads of a program's segments. That function
    raises if it refuses a request."""

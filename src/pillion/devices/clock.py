# SPDX-License-Identifier: Apache-2.0
"""Parses clock frequencies such as `160MHz`, `1.2 GHz` and `32768 Hz`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from pillion.errors import PillionError

UNITS = {"hz": 1.0, "khz": 1e3, "mhz": 1e6, "ghz": 1e9}
SLOWEST, FASTEST = 1e3, 1e10
"""Plausible range in hertz. A value outside it is almost certainly a typing error."""
_FORM = re.compile(r"(\d{1,12}(?:\.\d{1,12})?) ?(hz|khz|mhz|ghz)", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True)
class Clock:
    """The clock frequency of a core or an NPU."""

    hertz: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.hertz) and SLOWEST <= self.hertz <= FASTEST):
            raise ValueError(f"{self.hertz:g} Hz is no clock of a processor")

    def __str__(self) -> str:
        return f"{self.hertz / 1e6:g} MHz"

    def milliseconds(self, cycles: float) -> float:
        """Returns the duration of a number of cycles in milliseconds."""
        return cycles / self.hertz * 1e3


def parse_clock(text: str | float | Clock, option: str = "--clock") -> Clock:
    """Returns the clock that a text or a number of hertz describes; raises if it is not a valid clock."""
    if isinstance(text, Clock):
        return text
    try:
        return Clock(_parse_hertz(text))
    except (ValueError, OverflowError, TypeError):
        pass
    raise PillionError(
        f"{option} {text} is no clock",
        rule=f"a number with its unit, Hz, kHz, MHz or GHz, from {SLOWEST / 1e3:g} kHz to {FASTEST / 1e9:g} GHz",
        here=f"{text!r}",
        help=f"{option} 160MHz",
    )


def _parse_hertz(text: str | float) -> float:
    if isinstance(text, bool):
        raise ValueError("truth is no number")
    if not isinstance(text, str):
        return float(text)
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise ValueError("no number with a unit")
    return float(match[1]) * UNITS[match[2].lower()]

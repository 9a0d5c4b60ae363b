# SPDX-License-Identifier: Apache-2.0
"""The options of a report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pillion.host_io.progress import Advance
from pillion.run.time_estimate import TimingConditions


@dataclass(frozen=True)
class ReportOptions:
    """The options of a report."""

    data: Any = None
    """Samples for quantization quality: an iterable, or a path."""
    samples: int = 16
    """Most samples used."""
    measure: bool = True
    """Whether instructions are counted, if the tools are installed."""
    command: str = ""
    """The command line that reproduces the report."""
    named_files: Mapping[str, Path] | None = None
    """Input files by purpose; their hashes are reported."""
    conditions: TimingConditions | None = None
    """The conditions of a time estimate; None for no estimate."""
    max_flash: int | None = None
    """The user's limit in bytes; None for the chip's flash, if it is known."""
    progress: Advance | None = None

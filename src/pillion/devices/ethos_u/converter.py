# SPDX-License-Identifier: Apache-2.0
"""From the TFLite files of a program's segments to what Ethos-U is given, where Vela is installed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial

from pillion.devices.ethos_u.accelerators import Accelerator
from pillion.devices.ethos_u.firmware import sources
from pillion.devices.ethos_u.payload import compose
from pillion.devices.ethos_u.vela import Compiled, MemoryMode, Settings, available, compile_segment
from pillion.devices.ethos_u.vela.compiler import VelaError, version
from pillion.devices.payloads import Payloads, SegmentCost, SegmentFile, SegmentPayload, marked

VELA = "Vela"


def settings_of(accelerator: Accelerator, chip: str) -> Settings:
    """Gives what Vela is told: a chip names its system and memory mode as `system/mode`, or nothing for the usual ones."""
    system, _, mode = chip.partition("/")
    return Settings(accelerator, MemoryMode(mode) if mode else MemoryMode.SHARED, system)


def payloads_for(accelerator: Accelerator) -> Callable[[Sequence[SegmentFile], str], Payloads]:
    """Makes the function that turns segments into payloads for one size of NPU."""
    return partial(_payloads, accelerator)


def cost_for(accelerator: Accelerator) -> Callable[[bytes, str], SegmentCost | None]:
    """Makes the function that says what a segment takes on one size of NPU."""
    return partial(_cost, accelerator)


def _cost(accelerator: Accelerator, tflite: bytes, chip: str) -> SegmentCost | None:
    """Vela's own estimate; None where there is no Vela, or where it fails, which is an error when the segment is made."""
    if not available():
        return None
    try:
        return SegmentCost(_compiled(tflite, settings_of(accelerator, chip)).cycles, _name())
    except VelaError:
        return None


@lru_cache(maxsize=32)
def _compiled(tflite: bytes, settings: Settings) -> Compiled:
    """A segment that was compiled to know what it takes is not compiled again."""
    return compile_segment(tflite, settings)


def _name() -> str:
    return f"{VELA} {version()}"


def _payloads(accelerator: Accelerator, files: Sequence[SegmentFile], chip: str) -> Payloads:
    if not files or not available():
        return marked(files, missing=f"{VELA} (pip install 'pillion[ethos-u]')")
    settings = settings_of(accelerator, chip)
    made = [_compiled(file.tflite, settings) for file in files]
    return Payloads(
        tuple(_segment(file, one) for file, one in zip(files, made, strict=True)),
        converter=f"{_name()} for {accelerator.name}, {settings.memory.value}, {settings.system_name}",
        sources=lambda model, copied: sources(model, made, copied),
        workspaces=tuple(one.workspace for one in made),
        scratch_bytes=max(one.scratch_bytes for one in made),
        cycles=tuple(one.cycles for one in made),
        cycles_by=_name(),
    )


def _segment(file: SegmentFile, made: Compiled) -> SegmentPayload:
    """A segment with what executes it, or the reason why nothing does."""
    reason = made.why_not_executed
    return SegmentPayload(file.name, file.tflite, compose(made), None if reason else made.run, reason)

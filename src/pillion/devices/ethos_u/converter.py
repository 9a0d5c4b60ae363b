# SPDX-License-Identifier: Apache-2.0
"""Converts the TFLite files of a program's segments to Ethos-U payloads, with Vela if it is installed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial

from pillion.devices.ethos_u.payload import compose_payload
from pillion.devices.ethos_u.segment_source import constant_bytes, flash_bytes, sources
from pillion.devices.ethos_u.vela import CompiledSegment, VelaSettings, compile_segment, is_vela_installed
from pillion.devices.ethos_u.vela.table_placeholders import compile_with_tables
from pillion.devices.ethos_u.vela.vela_process import vela_version
from pillion.devices.payloads import (
    Payloads,
    SegmentCost,
    SegmentFile,
    SegmentPayload,
    marked_tflite_payloads,
)

VELA = "Vela"


def payloads_for(settings: VelaSettings) -> Callable[[Sequence[SegmentFile], str], Payloads]:
    """Returns the function that converts segments to payloads with these settings."""
    return partial(_compile_payloads, settings)


def cost_for(settings: VelaSettings) -> Callable[[bytes, str], SegmentCost | None]:
    """Returns the function that estimates a segment's cost with these settings."""
    return partial(_estimate_segment_cost, settings)


def _estimate_segment_cost(settings: VelaSettings, tflite: bytes, chip: str) -> SegmentCost | None:
    """Returns Vela's estimate, or None if Vela is not installed."""
    if not is_vela_installed():
        return None
    return SegmentCost(_compile_cached(tflite, settings).cycles, _converter_name())


@lru_cache(maxsize=32)
def _compile_cached(tflite: bytes, settings: VelaSettings) -> CompiledSegment:
    """Compiles a segment. The cache serves both its cost and its payload."""
    return compile_with_tables(tflite, partial(compile_segment, settings=settings))


def _converter_name() -> str:
    return f"{VELA} {vela_version()}"


def _compile_payloads(settings: VelaSettings, files: Sequence[SegmentFile], chip: str) -> Payloads:
    if not files or not is_vela_installed():
        return marked_tflite_payloads(files, missing=f"{VELA} (pip install 'pillion[ethos-u]')")
    segments = [_compile_cached(file.tflite, settings) for file in files]
    in_sram = settings.constants_in_sram
    return Payloads(
        tuple(_segment_payload(file, segment) for file, segment in zip(files, segments, strict=True)),
        converter=f"{_converter_name()} for {settings.accelerator.name}, {settings.memory}, {settings.system_name}",
        sources=lambda model, copied, in_steps: sources(model, segments, copied, in_sram, in_steps),
        workspaces=tuple(segment.workspace for segment in segments),
        scratch_bytes=max(segment.scratch_bytes for segment in segments),
        fast_bytes=max(segment.fast_bytes for segment in segments),
        ram_constant_bytes=sum(constant_bytes(segment) for segment in segments) if in_sram else 0,
        cycles=tuple(segment.cycles for segment in segments),
        cycles_by=_converter_name(),
    )


def _segment_payload(file: SegmentFile, compiled: CompiledSegment) -> SegmentPayload:
    """Returns a segment with its executor, or with the reason why it has none."""
    reason = compiled.why_not_executed
    run = None if reason else compiled.run
    return SegmentPayload(
        file.name, file.tflite, compose_payload(compiled), run, reason, flash_bytes(compiled)
    )

# SPDX-License-Identifier: Apache-2.0
"""Converts the TFLite files of a program's segments to Neutron payloads, with NXP's SDK if it is
installed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from pillion.devices.neutron.converter.payload import compose_payload
from pillion.devices.neutron.converter.sdk_probe import SDK, sdk_available
from pillion.devices.payloads import (
    Payloads,
    SegmentCost,
    SegmentFile,
    SegmentPayload,
    marked_tflite_payloads,
)

if TYPE_CHECKING:
    from pillion.devices.neutron.converter.sdk import ConvertedSegment
    from pillion.devices.neutron.settings import NeutronSettings

KERNEL_SELECTION = "neutron_kernel_selection.c"
"""The C file for the firmware with the NPU kernels that a program needs."""


PROFILE_LISTING = "neutron_profile.log"
"""The converter's own listing of kernels, in the order of the events that the code records."""


def require_conversion(settings: NeutronSettings, tflite: bytes, chip: str) -> SegmentCost | None:
    """Raises if NXP's converter, where installed, fails on a segment or leaves operators to the CPU; the ops that
    it fails on then stay on the core. Returns None, because the converter estimates no cycles."""
    if sdk_available():
        _convert_cached(tflite, chip, settings)
    return None


@lru_cache(maxsize=32)
def _convert_cached(tflite: bytes, chip: str, settings: NeutronSettings) -> ConvertedSegment:
    """Converts a segment. The cache serves both the question whether that succeeds and the payload."""
    # The SDK's driver is imported only if the SDK exists, because the import is slow.
    from pillion.devices.neutron.converter.sdk import run_converter

    return run_converter(tflite, chip, prefetch=settings.prefetch, profile=settings.profile)


def convert_segments(settings: NeutronSettings, files: Sequence[SegmentFile], chip: str) -> Payloads:
    """Returns the payload of every segment, for the chip of this name in NXP's converter."""
    if not files or not sdk_available():
        return marked_tflite_payloads(files, missing=SDK)
    from pillion.devices.neutron.converter.sdk import merge_kernel_selections

    converted = [_convert_cached(file.tflite, chip, settings) for file in files]
    selections = [
        conversion.kernel_selection for conversion in converted if conversion.kernel_selection is not None
    ]
    more = {KERNEL_SELECTION: merge_kernel_selections(selections)} if selections else {}
    if settings.profile:
        listings = zip(files, converted, strict=True)
        more[PROFILE_LISTING] = "".join(f"{file.name}\n{made.listing}\n" for file, made in listings)
    composed = [compose_payload(conversion.payload) for conversion in converted]
    return Payloads(
        tuple(
            SegmentPayload(file.name, file.tflite, payload, flash_bytes=len(payload))
            for file, payload in zip(files, composed, strict=True)
        ),
        scratch_bytes=max(conversion.payload.ram_bytes for conversion in converted),
        converter=f"{SDK} {converted[0].sdk_version}",
        firmware_files=more,
    )

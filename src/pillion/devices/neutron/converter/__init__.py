# SPDX-License-Identifier: Apache-2.0
"""From the TFLite files of a program's segments to what Neutron is given: NXP's code where its SDK is installed."""

from __future__ import annotations

from collections.abc import Sequence

from pillion.devices.neutron.converter.installed import SDK, sdk_available
from pillion.devices.neutron.converter.payload import compose
from pillion.devices.payloads import Payloads, SegmentFile, SegmentPayload, marked

KERNEL_SELECTION = "neutron_kernel_selection.c"
"""C source for the firmware: the NPU kernels that a program needs."""


def payloads(files: Sequence[SegmentFile], chip: str) -> Payloads:
    """Makes the payload of every segment, for a chip by the name that NXP's converter has for it."""
    if not files or not sdk_available():
        return marked(files, missing=SDK)
    # What drives the SDK is imported where there is one: it takes as long as the rules of the NPU.
    from pillion.devices.neutron.converter.sdk import convert, merge_kernel_selections

    converted = [convert(file.tflite, chip) for file in files]
    selections = [one.kernel_selection for one in converted if one.kernel_selection is not None]
    return Payloads(
        tuple(
            SegmentPayload(file.name, file.tflite, compose(one.payload))
            for file, one in zip(files, converted, strict=True)
        ),
        converter=f"{SDK} {converted[0].sdk_version}",
        firmware_files={KERNEL_SELECTION: merge_kernel_selections(selections)} if selections else {},
    )

# SPDX-License-Identifier: Apache-2.0
"""The payloads of a program's NPU segments: NXP's code where the SDK is installed, marked TFLite elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

from pillion.devices.neutron.convert import convert, merge_kernel_selections, sdk_available
from pillion.devices.neutron.payload import compose
from pillion.emitters import tflite
from pillion.ir.graph import Graph
from pillion.ir.types import Value
from pillion.ops import Segment
from pillion.schemas.ir_payload import ir_payload


@dataclass(frozen=True)
class SegmentPayload:
    """A segment in both forms."""

    name: str
    tflite: bytes
    payload: bytes
    """What the delegate is given."""


@dataclass(frozen=True)
class Payloads:
    """All segments of a program, in running order."""

    segments: tuple[SegmentPayload, ...]
    sdk_version: str | None
    """Of NXP's SDK; None where the payloads are marked TFLite, which a device refuses."""
    kernel_selection: str | None = None
    """C source for the firmware: the NPU kernels that these segments need."""

    @property
    def summary(self) -> str:
        """Which of the two was written, in one line."""
        count = f"{len(self.segments)} segment{'' if len(self.segments) == 1 else 's'}"
        if self.sdk_version:
            return f"{count}, converted by eiq_neutron_sdk {self.sdk_version}"
        return f"{count}, as TFLite: eiq_neutron_sdk is not installed, and a device will refuse it"


def payloads(graph: Graph, converter_target: str) -> Payloads:
    """The payload of every segment of a placed graph."""
    segments = [op for op in graph.ops if isinstance(op, Segment)]
    flatbuffers = [tflite.emit(segment.body) for segment in segments]
    if segments and sdk_available():
        return _by_sdk(segments, flatbuffers, converter_target)
    return Payloads(
        tuple(
            SegmentPayload(s.body.name, raw, ir_payload(raw, _names(s.body.inputs), _names(s.body.outputs)))
            for s, raw in zip(segments, flatbuffers, strict=True)
        ),
        None,
    )


def _by_sdk(segments: list[Segment], flatbuffers: list[bytes], converter_target: str) -> Payloads:
    converted = [convert(raw, converter_target) for raw in flatbuffers]
    selections = [c.kernel_selection for c in converted if c.kernel_selection is not None]
    return Payloads(
        tuple(
            SegmentPayload(s.body.name, raw, compose(c.payload))
            for s, raw, c in zip(segments, flatbuffers, converted, strict=True)
        ),
        converted[0].sdk_version,
        merge_kernel_selections(selections) if selections else None,
    )


def _names(values: tuple[Value, ...]) -> tuple[str, ...]:
    return tuple(value.name for value in values)

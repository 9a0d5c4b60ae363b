# SPDX-License-Identifier: Apache-2.0
"""The segments of a placed graph as TFLite files: the form in which every device takes them."""

from __future__ import annotations

from pillion.devices.device import Device
from pillion.devices.payloads import SegmentCost, SegmentFile, marked_tflite_payloads
from pillion.emitters import tflite
from pillion.ir.graph import Graph
from pillion.ops import Segment


def segment_files(graph: Graph) -> list[SegmentFile]:
    """Returns the TFLite file of each segment, in running order."""
    return [_segment_file(op) for op in graph.ops if isinstance(op, Segment)]


def cost_of(body: Graph, device: Device, chip: str) -> SegmentCost | None:
    """Returns the cost of a segment according to the device's converter; None if the converter reports none. Raises
    if the segment has no TFLite file, or if the converter fails."""
    return device.cost(tflite.emit_segment(body), chip)


def host_delegate_payloads(graph: Graph) -> list[bytes]:
    """Returns the payloads of a program's delegates on this computer: TFLite files behind Pillion's mark."""
    return [segment.payload for segment in marked_tflite_payloads(segment_files(graph)).segments]


def _segment_file(op: Segment) -> SegmentFile:
    op.require_open()
    body = op.body
    inputs, outputs = (tuple(value.name for value in values) for values in (body.inputs, body.outputs))
    return SegmentFile(body.name, tflite.emit_segment(body), inputs, outputs, body.arithmetic)

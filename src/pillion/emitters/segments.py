# SPDX-License-Identifier: Apache-2.0
"""The segments of a placed graph as TFLite files: the form in which every device takes them."""

from __future__ import annotations

from pillion.devices.device import Device
from pillion.devices.payloads import SegmentCost, SegmentFile, marked
from pillion.emitters import tflite
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ops import Segment


def segment_files(graph: Graph) -> list[SegmentFile]:
    """Gives the TFLite file of each segment, in running order."""
    return [_file(op) for op in graph.ops if isinstance(op, Segment)]


def cost_of(body: Graph, device: Device, chip: str) -> SegmentCost | None:
    """Gives what the converter of a device says that a segment takes, where it says so."""
    try:
        return device.cost(tflite.emit(body), chip)
    except PillionError:  # what has no such file is refused where it is written
        return None


def marked_payloads(graph: Graph) -> list[bytes]:
    """Gives what the delegates of a program are handed where it runs on this computer: TFLite under Pillion's mark."""
    return [segment.payload for segment in marked(segment_files(graph)).segments]


def _file(op: Segment) -> SegmentFile:
    op.want_open()
    body = op.body
    inputs, outputs = (tuple(value.name for value in values) for values in (body.inputs, body.outputs))
    return SegmentFile(body.name, tflite.emit(body), inputs, outputs, body.arithmetic)

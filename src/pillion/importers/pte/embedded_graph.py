# SPDX-License-Identifier: Apache-2.0
"""Reads the graph that Pillion recorded at the end of an unchanged file."""

from __future__ import annotations

import numpy as np

from pillion.importers.pte.container import Container
from pillion.ir.graph import Graph
from pillion.ops import KINDS, graph_json
from pillion.schemas.flatbuffer import Bytes, MalformedError
from pillion.schemas.pte import DelegateCall


def recorded_graph(container: Container, packed: bytes) -> Graph:
    """Returns the recorded graph. Its constants are in the file, and segments' constants in the delegates'
    payloads."""
    bodies = [_payload_bytes_reader(payload) for payload in delegate_payloads(container)]
    return graph_json.unpack(packed, graph_json.GraphSource(container.constant, KINDS, bodies))


def delegate_payloads(container: Container) -> list[bytes]:
    """Returns the payloads of the delegate calls, in order."""
    calls = (instruction.instr_args for instruction in container.plan.chains[0].instructions)
    numbers = [call.delegate_index for call in calls if isinstance(call, DelegateCall)]
    return [container.payload(container.delegate(number)) for number in numbers]


def _payload_bytes_reader(payload: bytes) -> graph_json.BytesOf:
    contents = np.frombuffer(payload, np.uint8)

    def cut(begin: int, size: int) -> Bytes:
        if not 0 <= begin <= begin + size <= contents.size:
            raise MalformedError(f"a constant ends at byte {begin + size} of {contents.size} of a segment")
        return contents[begin : begin + size]

    return cut

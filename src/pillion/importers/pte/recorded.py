# SPDX-License-Identifier: Apache-2.0
"""A file of our own, unchanged: the graph that it was made from, by the record at its end."""

from __future__ import annotations

import numpy as np

from pillion.importers.pte.container import Container
from pillion.ir.graph import Graph
from pillion.ops import KINDS, graph_json
from pillion.schemas.flatbuffer import Bytes, MalformedError
from pillion.schemas.pte import DelegateCall


def recorded_graph(container: Container, packed: bytes) -> Graph:
    """Makes the graph that the file has recorded: its constants from the file, those of segments from what the delegates are
    handed."""
    bodies = [_bytes_in(payload) for payload in delegate_payloads(container)]
    return graph_json.unpack(packed, graph_json.Source(container.constant, KINDS, bodies))


def delegate_payloads(container: Container) -> list[bytes]:
    """Gives what the delegates are handed, in the order of their calls."""
    calls = (one.instr_args for one in container.plan.chains[0].instructions)
    numbers = [call.delegate_index for call in calls if isinstance(call, DelegateCall)]
    return [container.payload(container.delegate(number)) for number in numbers]


def _bytes_in(payload: bytes) -> graph_json.BytesOf:
    whole = np.frombuffer(payload, np.uint8)

    def cut(begin: int, size: int) -> Bytes:
        if not 0 <= begin <= begin + size <= whole.size:
            raise MalformedError(f"a constant ends at byte {begin + size} of {whole.size} of a segment")
        return whole[begin : begin + size]

    return cut

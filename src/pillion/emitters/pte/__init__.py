# SPDX-License-Identifier: Apache-2.0
"""Emits graphs as ExecuTorch programs: kernel calls of the `cortex_m` library, planned memory, deduplicated
constants."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pillion.devices.cortex_m import Core
from pillion.ir.graph import Graph
from pillion.ir.types import Array
from pillion.ops import Segment, graph_json, unroll_for_format
from pillion.option_values import NEWEST_RUNTIME, Runtime
from pillion.schemas import pte_record
from pillion.schemas.ir_payload import is_ir


def emit(
    graph: Graph,
    core: Core,
    runtime: Runtime = NEWEST_RUNTIME,
    payloads: Sequence[bytes] = (),
    delegate: str = "",
) -> bytes:
    """Returns the graph as a `.pte` file for a core.

    The core determines the sizes of scratch tensors and the form of linear's bias. `runtime` is the
    ExecuTorch version whose operators are called. `payloads` are for the NPU's segments, in execution order.
    `delegate` is the NPU's name in the chip's runtime."""
    from pillion.emitters.pte.lower import lower
    from pillion.emitters.pte.node import PteSettings
    from pillion.emitters.pte.writer import Writer

    graph = unroll_for_format(graph, ".pte")
    segments = [op.body for op in graph.ops if isinstance(op, Segment)]
    by_body = dict(zip(segments, payloads, strict=True))
    writer = Writer(lower(graph, PteSettings(graph.arithmetic, core.isa, runtime, by_body, delegate)))
    head = {"core": core.name, "runtime": runtime, "model": graph.name}

    def sealed() -> pte_record.ProgramRecord:
        bodies = [payload_constant_finder(payload) if is_ir(payload) else None for payload in payloads]
        return pte_record.compose_record(head, graph_json.pack(graph, writer.constants.find, bodies))

    return writer.program(sealed)


def payload_constant_finder(payload: bytes) -> graph_json.NumberOf:
    """Returns a function that finds constants in a segment's payload; their number is their offset."""

    def find(array: Array) -> int | None:
        at = payload.find(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes())
        return None if at < 0 else at

    return find


def bundle_with_samples(
    program: bytes, samples: Sequence[Sequence[Array]], expected: Sequence[Sequence[Array]]
) -> bytes:
    """Returns a program of `emit` in a bundle with inputs and expected outputs: a `.bpte` file."""
    from pillion.emitters.pte import bundle

    return bundle.write_bundle(program, samples, expected)


__all__ = ["Runtime", "emit", "in_bundle"]

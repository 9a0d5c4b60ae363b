# SPDX-License-Identifier: Apache-2.0
"""Graphs as ExecuTorch programs: kernel calls of the `cortex_m` library, planned memory, constants stored once."""

from __future__ import annotations

import json
from typing import Literal

from pillion.devices.cortex_m import Core
from pillion.ir.graph import Graph

Runtime = Literal["1.4", "main"]


def emit(graph: Graph, core: Core, runtime: Runtime = "1.4") -> bytes:
    """The graph as a `.pte` file for a core.

    What is special to the core: the sizes of scratch tensors, and the form of linear's bias. `runtime` names the
    ExecuTorch whose operators are called."""
    from pillion.emitters.pte.lower import lower
    from pillion.emitters.pte.node import Settings
    from pillion.emitters.pte.writer import Writer

    lowered = lower(graph, Settings(graph.arithmetic, core.isa, runtime))
    record = {"core": core.name, "runtime": runtime, "model": graph.name}
    return Writer(lowered).program(json.dumps(record).encode())


__all__ = ["Runtime", "emit"]

# SPDX-License-Identifier: Apache-2.0
"""Graphs as ExecuTorch programs: kernel calls of the `cortex_m` library, planned memory, constants stored once."""

from __future__ import annotations

from typing import Literal

from pillion.devices.cortex_m import Core
from pillion.ir.graph import Graph


def emit(graph: Graph, core: Core, runtime: Literal["1.4", "main"] = "1.4") -> bytes:
    """The graph as a `.pte` file for a core.

    What is special to the core: the sizes of scratch tensors, and the form of linear's bias. `runtime` names the
    ExecuTorch whose operators are called."""
    from pillion.emitters.pte.lower import lower
    from pillion.emitters.pte.node import Settings
    from pillion.emitters.pte.writer import Writer

    lowered = lower(graph, Settings(graph.arithmetic, core.isa, runtime))
    return Writer(lowered).program(b"{}")


__all__ = ["emit"]

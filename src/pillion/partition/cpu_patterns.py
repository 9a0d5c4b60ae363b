# SPDX-License-Identifier: Apache-2.0
"""The --keep-on-cpu patterns."""

from __future__ import annotations

import difflib
from shlex import quote

from pillion.compile_options import PlacementOptions
from pillion.errors import PillionError
from pillion.ir.graph import Graph


def refuse_unmatched_patterns(graph: Graph, placement: PlacementOptions) -> None:
    """Raises if a pattern matches no op: it is misspelt, or meant for another model."""
    patterns = placement.keep_on_cpu
    idle = [
        p for p in patterns if not any(PlacementOptions((p,)).keeps(op.name, op.kind) for op in graph.ops)
    ]
    if idle:
        known = list(dict.fromkeys(word for op in graph.ops for word in (op.kind, op.name)))
        close = difflib.get_close_matches(idle[0], known, n=1)
        raise PillionError(
            f"--keep-on-cpu {idle[0]} matches no op of `{graph.name}`",
            rule="each pattern matches the name or the kind of an op",
            here=f"{', '.join(idle)}; kinds: {', '.join(sorted({op.kind for op in graph.ops}))}",
            help=f"--keep-on-cpu {quote(close[0])}" if close else "`pillion explain` lists names and kinds",
        )

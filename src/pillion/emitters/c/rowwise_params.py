# SPDX-License-Identifier: Apache-2.0
"""Binary ops whose operands are walked in rows of contiguous elements, with one step from row to row."""

from __future__ import annotations

from pillion.emitters.c.walk import broadcast_walk
from pillion.ir.verdict import Verdict
from pillion.ops.elementwise import Binary


def rows_verdict(op: Binary) -> Verdict:
    """Checks whether both operands consist of rows of contiguous elements with one step from row to row."""
    rows = broadcast_walk(op)
    is_plain = rows.step == (1, 1) and len(rows.extent) <= 1
    got = f"{list(op.a.shape)} and {list(op.b.shape)}"
    return Verdict("broadcast", is_plain, "equal shapes, or whole rows again and again", got)

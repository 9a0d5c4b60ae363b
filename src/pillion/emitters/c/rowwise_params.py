# SPDX-License-Identifier: Apache-2.0
"""Binary ops whose operands are walked in rows of contiguous elements, with one step from row to row."""

from __future__ import annotations

from pillion.emitters.c.kernel import Params
from pillion.emitters.c.portable.elementwise import broadcast_walk
from pillion.ir.verdict import Verdict
from pillion.ops.elementwise import Binary


def rows_verdict(op: Binary) -> Verdict:
    """Checks whether both operands consist of rows of contiguous elements with one step from row to row."""
    rows = broadcast_walk(op)
    is_plain = rows.step == (1, 1) and len(rows.extent) <= 1
    got = f"{list(op.a.shape)} and {list(op.b.shape)}"
    return Verdict("broadcast", is_plain, "equal shapes, or whole rows again and again", got)


def rows_params(op: Binary) -> Params:
    """Returns the parameters of a walk over both operands in rows."""
    rows = broadcast_walk(op)
    a_step, b_step = (step[0] if step else 0 for step in rows.row_step)
    return {"rows": rows.rows, "count": rows.count, "a_row_step": a_step, "b_row_step": b_step}

# SPDX-License-Identifier: Apache-2.0
"""Ops that NXP's converter removes from a segment. It fails if no op is left."""

from __future__ import annotations

from pillion import ops
from pillion.devices.op_groups import EXTREMES, POOLS, RESIZES
from pillion.ir.op import Op

ADDRESSES = (ops.Reshape, ops.Transpose, ops.Slice)
"""Ops that the converter merges into the addressing of their neighbours."""
REMOVED_IF_IDENTITY = (
    *(ops.Concat, ops.Pad, ops.Mean, ops.ReduceSum, *EXTREMES, ops.Add, ops.Sub, ops.Mul),
    *(*POOLS, *RESIZES),
)


def is_removed(op: Op) -> bool:
    """Whether the converter removes an op."""
    return isinstance(op, ADDRESSES) or (isinstance(op, REMOVED_IF_IDENTITY) and op.is_identity)

# SPDX-License-Identifier: Apache-2.0
"""The portable kernel of matrix products of two tensors."""

from __future__ import annotations

from pillion.emitters.c.kernel import Call, Kernel, Params, scaling
from pillion.emitters.c.kernel_conditions import all_int8
from pillion.emitters.c.kernel_library import PORTABLE
from pillion.ir.numerics import Arithmetic
from pillion.ops.matmul import BatchMatmul


def calls_batch_matmul(op: BatchMatmul, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of a matrix product; transposed operands are read with other steps."""
    rows, depth, columns = op.rows, op.depth, op.columns
    params: Params = {
        "batch": op.a.shape[0],
        "rows": rows,
        "depth": depth,
        "columns": columns,
        "a_row_step": 1 if op.adj_x else depth,
        "a_depth_step": rows if op.adj_x else 1,
        "b_depth_step": 1 if op.adj_y else columns,
        "b_column_step": depth if op.adj_y else 1,
        "a_zp": op.a.zero_point,
        "b_zp": op.b.zero_point,
        "out_zp": op.y.zero_point,
        "low": op.low,
        "high": op.high,
        **scaling(op.multiplier(arithmetic)),
    }
    return (Call(PORTABLE.routine("batch_matmul_s8"), params, (op.a, op.b), op.y),)


KERNELS: tuple[Kernel, ...] = (PORTABLE.kernel(BatchMatmul, calls_batch_matmul, all_int8),)

# SPDX-License-Identifier: Apache-2.0
"""The portable kernel of matrix products of two tensors."""

from __future__ import annotations

from pillion.emitters.c.kernel import Kernel, Params
from pillion.emitters.c.kernel_conditions import check_all_int8
from pillion.emitters.c.kernel_library import PORTABLE
from pillion.ops.matmul import BatchMatmul


def params(op: BatchMatmul) -> Params:
    """Returns the parameters of a matrix product; transposed operands are read with other steps."""
    return {
        "batch": op.a.shape[0],
        "a_row_step": 1 if op.adj_x else op.depth,
        "a_depth_step": op.rows if op.adj_x else 1,
        "b_depth_step": 1 if op.adj_y else op.columns,
        "b_column_step": op.depth if op.adj_y else 1,
    }


KERNELS: tuple[Kernel, ...] = (
    PORTABLE.kernel(BatchMatmul, "batch_matmul_s8", params, requires=(check_all_int8,)),
)

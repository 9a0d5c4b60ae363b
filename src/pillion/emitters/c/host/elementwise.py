# SPDX-License-Identifier: Apache-2.0
"""The host kernels of elementwise ops."""

from __future__ import annotations

from pillion.emitters.c.dsp import elementwise as dsp
from pillion.emitters.c.host.conv import MOST_RIGHT
from pillion.emitters.c.kernel import Kernel
from pillion.emitters.c.kernel_conditions import INT8_X, all_of, shifted_right, short_circuit
from pillion.emitters.c.kernel_library import HOST
from pillion.emitters.c.table_lookup import TableLookup
from pillion.ir.verdict import Verdict
from pillion.ops.clamp import Clamp
from pillion.ops.elementwise import Add, Mul, Sub
from pillion.ops.formats import Requantize
from pillion.ops.movement import Transpose

TABLE = TableLookup(HOST)
MOST_ROWS = 4
"""The largest number of matrix rows whose columns fit a vector lane."""


def few_planes(op: Transpose) -> Verdict:
    """Checks whether a transpose interleaves a few planes, as from channels first to channels last."""
    _, rows, columns = dsp.transposed_matrices(op) or (0, 0, 0)
    fits = 2 <= rows <= MOST_ROWS <= columns
    return Verdict("rows", fits, f"2 to {MOST_ROWS}, and more columns", f"{rows} of {columns}")


KERNELS: tuple[Kernel, ...] = (
    *TABLE.kernels(),
    dsp.sum_kernel(HOST, Add),
    dsp.sum_kernel(HOST, Sub),
    HOST.kernel(
        Mul,
        "mul_s8",
        dsp.mul_params,
        requires=(short_circuit(dsp.SHAPES, shifted_right(1, MOST_RIGHT)),),
        operands=dsp.ordered,
        in_place=dsp.in_place_full,
    ),
    TABLE.byte_kernel(Requantize, "lut"),
    TABLE.byte_kernel(Clamp, "lut"),
    dsp.quantize_kernel(HOST, ""),
    HOST.kernel(
        Transpose,
        "interleave_s8",
        dsp.transpose_params,
        requires=(short_circuit(all_of(INT8_X, dsp.two_axes), few_planes),),
        name="interleave",
    ),
)

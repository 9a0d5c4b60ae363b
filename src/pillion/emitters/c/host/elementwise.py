# SPDX-License-Identifier: Apache-2.0
"""The host kernels of elementwise ops."""

from __future__ import annotations

from pillion.emitters.c.dsp import elementwise as dsp
from pillion.emitters.c.host.conv import MOST_RIGHT
from pillion.emitters.c.kernel import Call, Kernel, Params
from pillion.emitters.c.kernel_library import HOST
from pillion.emitters.c.portable.elementwise import calls_quantize
from pillion.emitters.c.table_lookup import TableLookup, check_clamp, check_requantize, in_place_unary
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import Verdict, all_ok
from pillion.ops.clamp import Clamp
from pillion.ops.elementwise import Add, Mul, Sub
from pillion.ops.formats import Quantize, Requantize
from pillion.ops.movement import Transpose

TABLE = TableLookup(HOST)
SUM = HOST.port(dsp.calls_sum)
MOST_ROWS = 4
"""The largest number of matrix rows whose columns fit a vector lane."""

# --- two operands -----------------------------------------------------------------------------------------------------


def check_mul(op: Mul, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether a product is rescaled by a right shift."""
    shapes = dsp.check_shapes(op)
    if not all_ok(shapes):
        return shapes
    right = -op.multiplier(arithmetic).shift
    return (*shapes, Verdict("right_shift", 1 <= right <= MOST_RIGHT, f"1 to {MOST_RIGHT}", str(right)))


def calls_mul(op: Mul, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of a product with the larger operand first."""
    operands, m = dsp.full_and_broadcast(op), op.multiplier(arithmetic)
    assert operands is not None
    params: Params = {
        **dsp.row_params(op),
        **{"zp1": operands[0].zero_point, "zp2": operands[1].zero_point, "out_zp": op.y.zero_point},
        **{"multiplier": m.mantissa, "right": -m.shift, "low": op.low, "high": op.high},
    }
    return (Call(HOST.routine("mul_s8"), params, operands, op.y),)


# --- one operand ------------------------------------------------------------------------------------------------------


# --- movement ---------------------------------------------------------------------------------------------------------


def check_interleave(op: Transpose, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether a transpose interleaves a few planes, as from channels first to channels last."""
    order = dsp.check_transpose(op, arithmetic)
    if not all_ok(order):
        return order
    _, rows, columns = dsp.matrices(op) or (0, 0, 0)
    fits = 2 <= rows <= MOST_ROWS <= columns
    return (*order, Verdict("rows", fits, f"2 to {MOST_ROWS}, and more columns", f"{rows} of {columns}"))


def calls_interleave(op: Transpose, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call that interleaves planes."""
    (call,) = dsp.calls_transpose(op, arithmetic)
    return (Call(HOST.routine("interleave_s8"), call.params, call.inputs, call.output),)


KERNELS: tuple[Kernel, ...] = (
    *TABLE.kernels(),
    HOST.kernel(Add, SUM, dsp.check_sum, name="sum", in_place=dsp.in_place_full),
    HOST.kernel(Sub, SUM, dsp.check_sum, name="sum", in_place=dsp.in_place_full),
    HOST.kernel(Mul, calls_mul, check_mul, in_place=dsp.in_place_full),
    HOST.kernel(Requantize, TABLE.requantize, check_requantize, name="lut", in_place=in_place_unary),
    HOST.kernel(Clamp, TABLE.clamp, check_clamp, name="lut", in_place=in_place_unary),
    HOST.kernel(Quantize, HOST.port(calls_quantize), dsp.check_quantize, in_place=in_place_unary),
    HOST.kernel(Transpose, calls_interleave, check_interleave, name="interleave"),
)

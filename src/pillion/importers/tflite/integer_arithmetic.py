# SPDX-License-Identifier: Apache-2.0
"""Reads operators on int32: indices, counts and sizes. Reductions and scans along an axis become log2(size)
calculations on halves."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from pillion.codecs.tflite.geometry import single_axis, sorted_axes
from pillion.codecs.tflite.read_operator import Reading, ReadOperator
from pillion.importers.tflite.file_diagnosis import OTHER_WAY
from pillion.importers.tflite.op_chain import OpChain, as_constant
from pillion.ir.numerics import INT16_MAX
from pillion.ir.op import Op
from pillion.ir.types import DType, PerTensor, Shape, Value, constant_value
from pillion.ops.formats import Requantize
from pillion.ops.indexing import Cast
from pillion.ops.integer_arithmetic import Calculation, IntegerArithmetic
from pillion.schemas import tflite

LONGEST = 2**16
"""The most elements of a range."""


class Calculations(OpChain):
    """The ops of one operator on int32, or on the numbers of 16-bit tensors, whose scales LiteRT ignores then."""

    def operand(self, number: int = 0) -> Value:
        """Returns an operand as int32; raises if it is neither that nor int16."""
        call, x = self.call, self.call.operand(number)
        if x.dtype is DType.INT16 and isinstance(x.type.quant, PerTensor):
            wide = x.like("wide", dtype=DType.INT32)
            return self.add(Requantize, "numbers", x.shape, wide, x=x, to=DType.INT32)
        if x.dtype is not DType.INT32:
            rule = f"{call.code} is computed of whole numbers (int32): of int8, LiteRT has none or rounds after each step"
            raise call.refuse(rule, repr(x), f"cut it off the model, or {OTHER_WAY}")
        return x

    def calculated(self, calculation: Calculation, a: Value | int, b: Value | int) -> Value:
        """Adds a calculation and returns its result."""
        a, b = (self.numbers(v, "number") if isinstance(v, int) else v for v in (a, b))
        shape = np.broadcast_shapes(a.shape, b.shape)
        number = a.like(a.name, quant=None)
        return self.add(
            IntegerArithmetic, calculation.value, shape, number, a=a, b=b, calculation=calculation
        )

    def clamped(self, x: Value, low: int, high: int) -> Value:
        """Adds a maximum and a minimum, and returns the result."""
        least = self.calculated(Calculation.MAXIMUM, x, low)
        return self.calculated(Calculation.MINIMUM, least, high)

    def moved(self, x: Value, axis: int, places: int) -> Value:
        """Adds a shift along an axis that fills with zeros, and returns its result."""
        size = x.shape[axis]
        if places >= size:
            return constant_value(self.call.fresh(f"{x.name}/zeros"), np.zeros(x.shape, np.int32))
        none = (0,) * x.type.rank
        before = tuple(places if i == axis else 0 for i in range(x.type.rank))
        return self.pad(self.cut(x, axis, 0, size - places), before, none, "moved")

    def finish(self, x: Value, shape: Shape | None = None) -> list[Op]:
        """Returns all ops; the last one writes the operator's result, in another shape if one is given."""
        y = self.call.result
        if y.dtype is DType.INT16:
            self.add(Cast, y, x.shape, y, x=x, to=y.dtype)
        else:
            self.reshape(x, x.shape if shape is None else shape, y)
        return self.ops


def by_type(of_int8: Reading, others: Mapping[DType, Reading]) -> Reading:
    """Returns a reader that selects by the operand's type."""
    return lambda call: others.get(call.operand(0).dtype, of_int8)(call)


def _expression_reader(compute: Callable[[Calculations], Value]) -> Reading:
    """Returns the reader of an operator that is an expression of its operands."""

    def row(call: ReadOperator) -> list[Op]:
        chain = Calculations(call)
        return chain.finish(compute(chain))

    return row


def _sum_operands(chain: Calculations) -> Value:
    """Adds the sum of several tensors of one shape."""
    x, *others = (chain.operand(number) for number in range(len(chain.call.inputs)))
    for other in others:
        if other.shape != x.shape:
            raise chain.call.refuse("operands have one shape", [x, other])
        x = chain.calculated(Calculation.ADD, x, other)
    return x


def _cumulative_sum(chain: Calculations) -> Value:
    """Adds a cumulative sum, in steps of 1, 2, 4, … positions."""
    x, call = chain.operand(), chain.call
    options, axis = call.options_as(tflite.CumsumOptions), single_axis(call, call.integers(1), x.type.rank)
    x = chain.flip(x, axis, "turned") if options.reverse else x
    x = chain.moved(x, axis, 1) if options.exclusive else x
    distance = 1
    while distance < x.shape[axis]:
        x = chain.calculated(Calculation.ADD, x, chain.moved(x, axis, distance))
        distance *= 2
    return chain.flip(x, axis, "turned") if options.reverse else x


def _negate_operand(chain: Calculations) -> Value:
    return chain.calculated(Calculation.SUB, 0, chain.operand())


def _quotient_of_16_bits(chain: Calculations) -> Value:
    """Adds a quotient, rounded down. -32768 / -1 is 32767, as in LiteRT's vector code; elsewhere LiteRT wraps around."""
    quotient = chain.calculated(Calculation.FLOOR_DIV, chain.operand(0), chain.operand(1))
    return chain.calculated(Calculation.MINIMUM, quotient, INT16_MAX)


def _squared_difference(chain: Calculations) -> Value:
    apart = chain.calculated(Calculation.SUB, chain.operand(0), chain.operand(1))
    return chain.calculated(Calculation.MUL, apart, apart)


def _right_shift(chain: Calculations) -> Value:
    """Adds a right shift, with the shift amount clamped to 0 to 31."""
    x, amount = chain.operand(0), chain.operand(1)
    if amount.is_constant:
        places = chain.numbers(np.clip(amount.constant, 0, 31), "places")
    else:
        places = chain.clamped(amount, 0, 31)
    return chain.calculated(Calculation.SHIFT_RIGHT, x, places)


def int32_reduction(calculation: Calculation) -> Reading:
    """Returns the reader of an int32 reduction."""

    def row(call: ReadOperator) -> list[Op]:
        chain, axes = Calculations(call), sorted_axes(call)
        x = chain.operand()
        keepdims = call.options_as(tflite.ReducerOptions).keep_dims
        shape = tuple(1 if i in axes else d for i, d in enumerate(x.shape) if keepdims or i not in axes)
        for axis in axes:
            x = _reduce_by_halves(chain, x, axis, calculation)
        return chain.finish(x, shape)

    return row


def _reduce_by_halves(chain: Calculations, x: Value, axis: int, calculation: Calculation) -> Value:
    """Returns the reduction along an axis: halves are combined until one element is left; odd elements follow
    at the end."""
    left: list[Value] = []
    while (size := x.shape[axis]) > 1:
        if size % 2:
            left.append(chain.cut(x, axis, size - 1, 1))
        halves = (chain.cut(x, axis, begin, size // 2) for begin in (0, size // 2))
        x = chain.calculated(calculation, *halves)
    for remainder in left:
        x = chain.calculated(calculation, x, remainder)
    return x


def range_constant(call: ReadOperator) -> list[Op]:
    """Reads a range of known numbers as a constant."""
    y, bounds = call.result, [call.integers(number) for number in range(3)]
    if any(len(bound) != 1 for bound in bounds) or y.dtype is not DType.INT32:
        raise call.refuse("begin, limit and step are whole numbers", bounds)
    (begin,), (limit,), (step,) = bounds
    numbers = range(begin, limit, step) if step else range(0)
    if y.shape != (len(numbers),) or len(numbers) > LONGEST:
        raise call.refuse(f"up to {LONGEST} numbers, as many as the result has", f"{bounds}, {y!r}")
    return as_constant(call, np.array(numbers, np.int32))


def broadcast_shape_constant(call: ReadOperator) -> list[Op]:
    """Reads the common broadcast shape of two known shapes as a constant."""
    shapes = (call.integers(0), call.integers(1))
    try:
        return as_constant(call, np.array(np.broadcast_shapes(*map(tuple, shapes)), np.int32))
    except ValueError:
        raise call.refuse("shapes fit each other", shapes) from None


ROWS: dict[str, Reading] = {
    "ADD_N": _expression_reader(_sum_operands),
    "CUMSUM": _expression_reader(_cumulative_sum),
    "SIGN": _expression_reader(lambda chain: chain.clamped(chain.operand(), -1, 1)),
    "REDUCE_PROD": int32_reduction(Calculation.MUL),
    "RANGE": range_constant,
    "BROADCAST_ARGS": broadcast_shape_constant,
    "RIGHT_SHIFT": _expression_reader(_right_shift),
}
"""The readers of int32-only operators, by operator name."""
OF_INT32: dict[str, Reading] = {
    "NEG": _expression_reader(_negate_operand),
    "ABS": _expression_reader(
        lambda chain: chain.calculated(Calculation.MAXIMUM, chain.operand(), _negate_operand(chain))
    ),
    "SQUARED_DIFFERENCE": _expression_reader(_squared_difference),
    "SUM": int32_reduction(Calculation.ADD),
    "REDUCE_MAX": int32_reduction(Calculation.MAXIMUM),
    "REDUCE_MIN": int32_reduction(Calculation.MINIMUM),
}
"""The int32 readers of operators that int8 tensors have, too."""
OF_INT16: dict[str, Reading] = {
    "NEG": _expression_reader(_negate_operand),
    "FLOOR_DIV": _expression_reader(_quotient_of_16_bits),
    "FLOOR_MOD": _expression_reader(
        lambda chain: chain.calculated(Calculation.FLOOR_MOD, chain.operand(0), chain.operand(1))
    ),
}
"""The int16 readers of operators on plain numbers."""
OF_OTHER_TYPES: dict[str, dict[DType, Reading]] = {
    code: {
        dtype: rows[code]
        for dtype, rows in ((DType.INT32, OF_INT32), (DType.INT16, OF_INT16))
        if code in rows
    }
    for code in (*OF_INT32, *OF_INT16)
}
"""The readers of operators on types other than int8, by element type."""

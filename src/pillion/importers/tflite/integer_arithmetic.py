# SPDX-License-Identifier: Apache-2.0
"""Reads operators on int32: indices, counts and sizes. Reductions and scans along an axis become log2(size)
calculations on halves."""

from __future__ import annotations

import numpy as np

from pillion.codecs.tflite.geometry import single_axis, sorted_axes
from pillion.codecs.tflite.read_operator import Reading, ReadOperator
from pillion.importers.tflite.file_diagnosis import OTHER_WAY
from pillion.importers.tflite.op_chain import OpChain
from pillion.ir.op import Op
from pillion.ir.types import DType, Shape, Value, constant
from pillion.ops.integer_arithmetic import Calculation, IntegerArithmetic
from pillion.schemas import tflite

LONGEST = 2**16
"""The most elements of a range."""


class _Calculations(OpChain):
    """The ops of one operator on int32."""

    def calculated(self, calculation: Calculation, a: Value, b: Value) -> Value:
        """Adds a calculation and returns its result."""
        shape = np.broadcast_shapes(a.shape, b.shape)
        return self.add(IntegerArithmetic, calculation.value, shape, a, a=a, b=b, calculation=calculation)

    def moved(self, x: Value, axis: int, places: int) -> Value:
        """Adds a shift along an axis that fills with zeros, and returns its result."""
        size = x.shape[axis]
        if places >= size:
            return constant(self.call.fresh(f"{x.name}/zeros"), np.zeros(x.shape, np.int32))
        none = (0,) * x.type.rank
        before = tuple(places if i == axis else 0 for i in range(x.type.rank))
        return self.pad(self.cut(x, axis, 0, size - places), before, none, "moved")

    def end(self, x: Value, shape: Shape | None = None) -> list[Op]:
        """Returns all ops; the last one writes the operator's result, in another shape if one is given."""
        self.reshape(x, x.shape if shape is None else shape, self.call.result)
        return self.ops


def _operand(call: ReadOperator, number: int = 0) -> Value:
    x = call.operand(number)
    if x.dtype is not DType.INT32:
        rule = f"{call.code} is computed of whole numbers (int32): of int8, LiteRT has none or rounds after each step"
        raise call.refuse(rule, repr(x), f"cut it off the model, or {OTHER_WAY}")
    return x


def by_type(of_int8: Reading, of_whole_numbers: Reading) -> Reading:
    """Returns a reader that selects by the operand's type: int32, or int8."""
    return lambda call: (of_whole_numbers if call.operand(0).dtype is DType.INT32 else of_int8)(call)


def sums(call: ReadOperator) -> list[Op]:
    """Reads a sum of several tensors."""
    chain, xs = _Calculations(call), [_operand(call, number) for number in range(len(call.inputs))]
    if len({x.shape for x in xs}) != 1:
        raise call.refuse("operands have one shape", xs)
    x = xs[0]
    for other in xs[1:]:
        x = chain.calculated(Calculation.ADD, x, other)
    return chain.end(x)


def cumulative_sum(call: ReadOperator) -> list[Op]:
    """Reads a cumulative sum, in steps of 1, 2, 4, … positions."""
    x, options, chain = _operand(call), call.options_as(tflite.CumsumOptions), _Calculations(call)
    axis = single_axis(call, call.integers(1), x.type.rank)
    x = chain.flip(x, axis, "turned") if options.reverse else x
    x = chain.moved(x, axis, 1) if options.exclusive else x
    distance = 1
    while distance < x.shape[axis]:
        x = chain.calculated(Calculation.ADD, x, chain.moved(x, axis, distance))
        distance *= 2
    return chain.end(chain.flip(x, axis, "turned") if options.reverse else x)


def sign(call: ReadOperator) -> list[Op]:
    """Reads a sign as a clamp to -1 and 1."""
    chain = _Calculations(call)
    least = chain.calculated(Calculation.MAXIMUM, _operand(call), chain.numbers(-1, "number"))
    return chain.end(chain.calculated(Calculation.MINIMUM, least, chain.numbers(1, "number")))


def negated(call: ReadOperator) -> list[Op]:
    """Reads a negation as 0 - x."""
    chain = _Calculations(call)
    return chain.end(chain.calculated(Calculation.SUB, chain.numbers(0, "number"), _operand(call)))


def absolute(call: ReadOperator) -> list[Op]:
    """Reads an absolute value as max(x, -x)."""
    chain, x = _Calculations(call), _operand(call)
    negative = chain.calculated(Calculation.SUB, chain.numbers(0, "number"), x)
    return chain.end(chain.calculated(Calculation.MAXIMUM, x, negative))


def squared(call: ReadOperator) -> list[Op]:
    """Reads squared differences."""
    chain = _Calculations(call)
    apart = chain.calculated(Calculation.SUB, _operand(call), _operand(call, 1))
    return chain.end(chain.calculated(Calculation.MUL, apart, apart))


def int32_reduction(calculation: Calculation) -> Reading:
    """Returns the reader of an int32 reduction."""

    def row(call: ReadOperator) -> list[Op]:
        x, chain = _operand(call), _Calculations(call)
        axes = sorted_axes(call)
        keepdims = call.options_as(tflite.ReducerOptions).keep_dims
        shape = tuple(1 if i in axes else d for i, d in enumerate(x.shape) if keepdims or i not in axes)
        for axis in axes:
            x = _reduce_by_halves(chain, x, axis, calculation)
        return chain.end(x, shape)

    return row


def _reduce_by_halves(chain: _Calculations, x: Value, axis: int, calculation: Calculation) -> Value:
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
    call.bind(y, constant(y.name, np.array(numbers, np.int32)))
    return []


def broadcast_shape_constant(call: ReadOperator) -> list[Op]:
    """Reads the common broadcast shape of two known shapes as a constant."""
    y, shapes = call.result, (call.integers(0), call.integers(1))
    try:
        shape = np.array(np.broadcast_shapes(*map(tuple, shapes)), np.int32)
    except ValueError:
        raise call.refuse("shapes fit each other", shapes) from None
    if shape.shape != y.shape:
        raise call.refuse(f"the result has {shape.size} numbers", repr(y))
    call.bind(y, constant(y.name, shape))
    return []


def right_shift(call: ReadOperator) -> list[Op]:
    """Reads a right shift, with the shift amount clamped to 0 to 31."""
    x, amount, chain = _operand(call), _operand(call, 1), _Calculations(call)
    if amount.is_constant:
        clipped = np.clip(amount.constant, 0, 31)
        amount = chain.numbers(clipped, "places")
    else:
        least = chain.calculated(Calculation.MAXIMUM, amount, chain.numbers(0, "number"))
        amount = chain.calculated(Calculation.MINIMUM, least, chain.numbers(31, "number"))
    return chain.end(chain.calculated(Calculation.SHIFT_RIGHT, x, amount))


ROWS: dict[str, Reading] = {
    "ADD_N": sums,
    "CUMSUM": cumulative_sum,
    "SIGN": sign,
    "REDUCE_PROD": int32_reduction(Calculation.MUL),
    "RANGE": range_constant,
    "BROADCAST_ARGS": broadcast_shape_constant,
    "RIGHT_SHIFT": right_shift,
}
"""The readers of int32-only operators, by operator name."""
WHOLE: dict[str, Reading] = {
    "NEG": negated,
    "ABS": absolute,
    "SQUARED_DIFFERENCE": squared,
    "SUM": int32_reduction(Calculation.ADD),
    "REDUCE_MAX": int32_reduction(Calculation.MAXIMUM),
    "REDUCE_MIN": int32_reduction(Calculation.MINIMUM),
}
"""The int32 readers of operators that int8 tensors have, too."""

# SPDX-License-Identifier: Apache-2.0
"""Reads operators on int32: indices, counts and sizes. Reductions and scans along an axis become log2(size)
calculations on halves."""

from __future__ import annotations

import numpy as np

from pillion.codecs.tflite.geometry import axis_of, sorted_axes
from pillion.codecs.tflite.read_operator import Reading, ReadOperator
from pillion.importers.tflite.file_diagnosis import OTHER_WAY
from pillion.ir.op import Op
from pillion.ir.types import DType, Shape, TensorType, Value, constant
from pillion.ops.integer_arithmetic import Calculation, Whole
from pillion.ops.movement import Flip, Pad, Reshape, Slice
from pillion.schemas import tflite

LONGEST = 2**16
"""The most elements of a range."""


class _Writing:
    """The ops of one int32 operator, under construction."""

    def __init__(self, call: ReadOperator) -> None:
        self.call, self.ops = call, list[Op]()

    def value(self, name: str, shape: Shape) -> Value:
        """Returns a new int32 tensor."""
        fresh = self.call.fresh(f"{self.call.outputs[0].name}/{name}")
        return Value(fresh, TensorType(shape, DType.INT32))

    def calculated(self, calculation: Calculation, a: Value, b: Value) -> Value:
        """Adds a calculation and returns its result."""
        y = self.value(calculation.value, np.broadcast_shapes(a.shape, b.shape))
        self.ops.append(Whole(a=a, b=b, y=y, calculation=calculation, source=self.call.source))
        return y

    def number(self, number: int) -> Value:
        """Returns a scalar constant."""
        name = self.call.fresh(f"{self.call.outputs[0].name}/number")
        return constant(name, np.array(number, np.int32))

    def cut(self, x: Value, axis: int, begin: int, size: int) -> Value:
        """Adds a slice along one axis and returns its result."""
        y = self.value("part", (*x.shape[:axis], size, *x.shape[axis + 1 :]))
        first = tuple(begin if i == axis else 0 for i in range(x.type.rank))
        self.ops.append(Slice(x=x, y=y, begin=first, step=(1,) * x.type.rank, source=self.call.source))
        return y

    def moved(self, x: Value, axis: int, places: int) -> Value:
        """Adds a shift along an axis that fills with zeros, and returns its result."""
        size = x.shape[axis]
        if places >= size:
            return constant(self.call.fresh(f"{x.name}/zeros"), np.zeros(x.shape, np.int32))
        y = self.value("moved", x.shape)
        before = tuple(places if i == axis else 0 for i in range(x.type.rank))
        none = (0,) * x.type.rank
        part = self.cut(x, axis, 0, size - places)
        self.ops.append(Pad(x=part, y=y, before=before, after=none, value=0, source=self.call.source))
        return y

    def turned(self, x: Value, axis: int) -> Value:
        """Adds a reversal of an axis and returns its result."""
        y = self.value("turned", x.shape)
        self.ops.append(Flip(x=x, y=y, axes=(axis,), source=self.call.source))
        return y

    def end(self, x: Value) -> list[Op]:
        """Returns all ops; the last one writes the operator's result."""
        return [*self.ops, Reshape(x=x, y=self.call.result, source=self.call.source)]


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
    made = _Writing(call)
    x = _operand(call)
    for number in range(1, len(call.inputs)):
        x = made.calculated(Calculation.ADD, x, _operand(call, number))
    return made.end(x)


def cumulative_sum(call: ReadOperator) -> list[Op]:
    """Reads a cumulative sum, in steps of 1, 2, 4, … positions."""
    x, axes, options = _operand(call), call.integers(1), call.options_as(tflite.CumsumOptions)
    if len(axes) != 1:
        raise call.refuse("there is one axis", axes)
    axis, made = axis_of(call, axes[0], x.type.rank), _Writing(call)
    x = made.turned(x, axis) if options.reverse else x
    x = made.moved(x, axis, 1) if options.exclusive else x
    places = 1
    while places < x.shape[axis]:
        x = made.calculated(Calculation.ADD, x, made.moved(x, axis, places))
        places *= 2
    return made.end(made.turned(x, axis) if options.reverse else x)


def sign(call: ReadOperator) -> list[Op]:
    """Reads a sign as a clamp to -1 and 1."""
    made = _Writing(call)
    least = made.calculated(Calculation.MAXIMUM, _operand(call), made.number(-1))
    return made.end(made.calculated(Calculation.MINIMUM, least, made.number(1)))


def negated(call: ReadOperator) -> list[Op]:
    """Reads a negation as 0 - x."""
    made = _Writing(call)
    return made.end(made.calculated(Calculation.SUB, made.number(0), _operand(call)))


def absolute(call: ReadOperator) -> list[Op]:
    """Reads an absolute value as max(x, -x)."""
    made, x = _Writing(call), _operand(call)
    other = made.calculated(Calculation.SUB, made.number(0), x)
    return made.end(made.calculated(Calculation.MAXIMUM, x, other))


def squared(call: ReadOperator) -> list[Op]:
    """Reads squared differences."""
    made = _Writing(call)
    apart = made.calculated(Calculation.SUB, _operand(call), _operand(call, 1))
    return made.end(made.calculated(Calculation.MUL, apart, apart))


def along_axes(calculation: Calculation) -> Reading:
    """Returns the reader of an int32 reduction."""

    def row(call: ReadOperator) -> list[Op]:
        x, made = _operand(call), _Writing(call)
        axes = sorted_axes(call)
        keepdims = call.options_as(tflite.ReducerOptions).keep_dims
        kept = [1 if i in axes else d for i, d in enumerate(x.shape) if keepdims or i not in axes]
        if tuple(kept) != call.result.shape:
            raise call.refuse(f"the result has the shape {kept}", repr(call.result))
        for axis in axes:
            x = _reduced(made, x, axis, calculation)
        return made.end(x)

    return row


def _reduced(made: _Writing, x: Value, axis: int, calculation: Calculation) -> Value:
    """Returns the reduction along an axis: halves are combined until one element is left; odd elements follow
    at the end."""
    left: list[Value] = []
    while (size := x.shape[axis]) > 1:
        if size % 2:
            left.append(made.cut(x, axis, size - 1, 1))
        halves = (made.cut(x, axis, begin, size // 2) for begin in (0, size // 2))
        x = made.calculated(calculation, *halves)
    for one in left:
        x = made.calculated(calculation, x, one)
    return x


def numbers_in_steps(call: ReadOperator) -> list[Op]:
    """Reads a range of known numbers as a constant."""
    y, held = call.result, [call.integers(number) for number in range(3)]
    if any(len(one) != 1 for one in held) or y.dtype is not DType.INT32:
        raise call.refuse("begin, limit and step are whole numbers", held)
    (begin,), (limit,), (step,) = held
    numbers = range(begin, limit, step) if step else range(0)
    if y.shape != (len(numbers),) or len(numbers) > LONGEST:
        raise call.refuse(f"up to {LONGEST} numbers, as many as the result has", f"{held}, {y!r}")
    call.bind(y, constant(y.name, np.array(numbers, np.int32)))
    return []


def common_shape(call: ReadOperator) -> list[Op]:
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


def exclusive_or(call: ReadOperator) -> list[Op]:
    """Reads a bitwise exclusive or."""
    made = _Writing(call)
    return made.end(made.calculated(Calculation.XOR, _operand(call), _operand(call, 1)))


def right_shift(call: ReadOperator) -> list[Op]:
    """Reads a right shift, with the shift amount clamped to 0 to 31."""
    x, places, made = _operand(call), _operand(call, 1), _Writing(call)
    if places.is_constant:
        held = np.clip(places.constant, 0, 31)
        places = constant(call.fresh(f"{call.result.name}/places"), np.asarray(held, np.int32))
    else:
        least = made.calculated(Calculation.MAXIMUM, places, made.number(0))
        places = made.calculated(Calculation.MINIMUM, least, made.number(31))
    return made.end(made.calculated(Calculation.SHIFT_RIGHT, x, places))


ROWS: dict[str, Reading] = {
    "ADD_N": sums,
    "CUMSUM": cumulative_sum,
    "SIGN": sign,
    "REDUCE_PROD": along_axes(Calculation.MUL),
    "RANGE": numbers_in_steps,
    "BROADCAST_ARGS": common_shape,
    "BITWISE_XOR": exclusive_or,
    "RIGHT_SHIFT": right_shift,
}
"""The readers of int32-only operators, by operator name."""
WHOLE: dict[str, Reading] = {
    "NEG": negated,
    "ABS": absolute,
    "SQUARED_DIFFERENCE": squared,
    "SUM": along_axes(Calculation.ADD),
    "REDUCE_MAX": along_axes(Calculation.MAXIMUM),
    "REDUCE_MIN": along_axes(Calculation.MINIMUM),
}
"""The int32 readers of operators that int8 tensors have, too."""

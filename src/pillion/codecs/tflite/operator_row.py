# SPDX-License-Identifier: Apache-2.0
"""A row states once how an operator of the format and an op correspond; reading and writing follow from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Any

from pillion.codecs.tflite.exact import int8_only, int8_or_16_only, with_fused_activation
from pillion.codecs.tflite.geometry import levels, sorted_axes
from pillion.codecs.tflite.node import Node, Writing, int32_constant
from pillion.codecs.tflite.operands import INT8_OR_16, require_int8, require_one_of
from pillion.codecs.tflite.read_operator import Reading, ReadOperator
from pillion.ir.op import Op
from pillion.ir.types import DType, Value
from pillion.schemas.flatbuffer import Table

INT8 = (DType.INT8,)
"""Quantized arithmetic: operands and results are int8 with one scale."""
ANY: tuple[DType, ...] = ()


def accept_all(*_: Any) -> None:
    """Accepts every op."""


@dataclass(frozen=True)
class Row:
    """An operator whose operands and options are the fields of one op."""

    code: str
    op: type[Any]
    operands: tuple[str, ...] = ("x",)
    """The fields that are operands, in the operator's order."""
    options: type[Table] | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    """Attributes of the op, and the options with the same values."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Attributes for which the operator stands."""
    fixed_options: Mapping[str, Any] = field(default_factory=dict)
    """Options with a known value."""
    numbers: str = ""
    """The attribute in a constant behind the operands."""
    read_numbers: Callable[[ReadOperator], tuple[int, ...]] = sorted_axes
    is_bounded: bool = False
    """Whether the bounds of the result are a fused activation."""
    types: tuple[DType, ...] = INT8
    """The element types of the operands, or `ANY`."""
    check_read: Callable[[ReadOperator, Any], None] = accept_all
    """Raises on an operator whose op is wrong."""
    check_written: Callable[[Any], None] = accept_all
    """Raises on an op that LiteRT computes in another way."""

    def matches(self, call: ReadOperator) -> bool:
        """Whether an operator has the row's element type and options."""
        if self.types and call.operand(0).dtype not in self.types:
            return False
        options = call.options_as(self.options) if self.options and self.fixed_options else None
        return all(getattr(options, name) == value for name, value in self.fixed_options.items())

    def stands_for(self, op: Op) -> bool:
        """Whether the operator stands for an op."""
        return all(getattr(op, name) == value for name, value in self.fixed.items())

    def read(self, call: ReadOperator) -> list[Op]:
        """Returns the op of an operator."""
        operands = {name: call.operand(number) for number, name in enumerate(self.operands)}
        if self.types in (INT8, INT8_OR_16):
            require_int8(call, len(operands), self.types)
        for value in operands.values() if self.types not in (INT8, INT8_OR_16, ANY) else ():
            require_one_of(call, value, *self.types)
        attributes: dict[str, Any] = {**self.fixed}
        if self.numbers:
            attributes[self.numbers] = self.read_numbers(call)
        if self.options and (self.fields or self.is_bounded):
            options: Any = call.options_as(self.options)
            attributes |= {name: getattr(options, option) for name, option in self.fields.items()}
            attributes |= levels(call, call.result, options.fused_activation) if self.is_bounded else {}
        op: Op = self.op(**operands, y=call.result, source=call.source, **attributes)
        self.check_read(call, op)
        return [op]

    def write(self, op: Any) -> list[Node]:
        """Returns the operator of an op, and the operators of its bounds."""
        if self.types == INT8:
            int8_only(op, *op.operands, *op.results)
        elif self.types == INT8_OR_16:
            int8_or_16_only(op, *op.operands, *op.results)
        self.check_written(op)
        inputs: list[Value] = [getattr(op, name) for name in self.operands]
        if self.numbers:
            inputs.append(int32_constant(f"{op.name}/{self.numbers}", getattr(op, self.numbers)))
        option_values = {option: getattr(op, name) for name, option in self.fields.items()}
        options = self.options(**option_values, **self.fixed_options) if self.options else None
        node = Node(self.code, tuple(inputs), (op.y,), options)
        return with_fused_activation(op, node) if self.is_bounded else [node]


def readers_by_operator(rows: Sequence[Row]) -> dict[str, Reading]:
    """Returns the reader of each operator: the first row that takes it; otherwise the first one refuses it."""

    def reader(same: Sequence[Row]) -> Reading:
        return lambda call: next((row for row in same if row.matches(call)), same[0]).read(call)

    ordered = sorted(rows, key=lambda row: row.code)
    return {code: reader(list(same)) for code, same in groupby(ordered, lambda row: row.code)}


def writers_by_op(rows: Sequence[Row]) -> dict[type[Op], Writing]:
    """Returns the writer of each op: by the row of its attributes and element type."""

    def writer(same: Sequence[Row], op: Op) -> list[Node]:
        fitting, dtype = [row for row in same if row.stands_for(op)], op.operands[0].dtype
        return next((row for row in fitting if dtype in row.types), fitting[0]).write(op)

    kinds = {row.op for row in rows}
    return {kind: partial(writer, [row for row in rows if row.op is kind]) for kind in kinds}

# SPDX-License-Identifier: Apache-2.0
"""An operator of a file: checked access to its tensors and options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pillion.errors import PillionError
from pillion.ir.op import Op
from pillion.ir.types import Array, DType, PerTensor, Shape, TensorType, Value
from pillion.schemas import tflite
from pillion.schemas.flatbuffer import Table

MAX_RANK = 8
Options = TypeVar("Options", bound=Table)
Keeping = Callable[[str, Value, Value, Array], None]
"""Records a state: its name, the values before and after a run, and its initial value."""


@dataclass(frozen=True)
class ReadOperator:
    """One operator of the file with its tensors; an omitted operand is None."""

    code: str
    inputs: tuple[Value | None, ...]
    outputs: tuple[Value, ...]
    options: Table | None
    source: str
    fresh: Callable[[str], str]
    bind: Callable[[Value, Value], None]
    rename: Callable[[Value, Value], None]
    """Replaces a tensor by an existing value."""
    keep: Keeping
    is_unsigned: bool = False
    """Whether some of its tensors are uint8 in the file."""
    is_mixed: bool = False
    """Whether others are int8."""
    intermediates: tuple[PerTensor | None, ...] = ()
    """The quantization of intermediate tensors, if the file has it."""
    custom: bytes = b""
    """The options of a custom operator."""
    quantization: Callable[[Value], tflite.Quantization | None] = lambda _: None
    """Returns the file's quantization of a tensor, also of a bias."""
    element_type: Callable[[Value], int] = lambda _: -1
    """Returns the file's element type of a tensor: int64 constants are read as int32."""
    open: frozenset[Value] = frozenset()
    """The results with sizes that the file leaves open."""
    is_float: bool = False
    """Whether the file computes in float: tensors have no scale, and nothing is bounded by int8."""
    part: Callable[[tflite.SubGraph, str], Any] | None = None
    """Returns the reader of another subgraph; the text describes its place."""

    def refuse(self, rule: str, here: object, help: str = "") -> PillionError:
        """Returns the error that this operator cannot be read."""
        what = f"{self.code} `{self.outputs[0].name}` cannot be read"
        return PillionError(what, rule=rule, here=f"{here}  ({self.source})", help=help)

    @property
    def result(self) -> Value:
        """The only result; raises if there are several."""
        if len(self.outputs) != 1:
            raise self.refuse("there is one result", len(self.outputs))
        return self.outputs[0]

    def with_shape(self, y: Value, shape: Shape) -> Value:
        """Returns a result with its computed shape. Raises if the declared shape differs, unless the file leaves a size
        open (-1 in the signature)."""
        if y.shape == shape:
            return y
        if y not in self.open:
            raise self.refuse(f"the result has the shape {list(shape)}", f"the file declares {y!r}")
        result = Value(y.name, replace(y.type, shape=shape))
        self.bind(y, result)
        return result

    def result_of_shape(self, shape: Shape) -> Value:
        """Returns the only result with its computed shape."""
        return self.with_shape(self.result, shape)

    def optional(self, number: int) -> Value | None:
        """Returns an operand, or None if it is omitted."""
        return self.inputs[number] if number < len(self.inputs) else None

    def operand(self, number: int) -> Value:
        """Returns an operand; raises if it is omitted."""
        value = self.optional(number)
        if value is None:
            raise self.refuse(f"operand {number} is there", f"{len(self.inputs)} operands")
        return value

    def constant(self, number: int) -> Value:
        """Returns a constant operand; raises if it is not constant."""
        value = self.operand(number)
        if not value.is_constant:
            raise self.refuse(f"operand {number} is a constant", repr(value), "convert with fixed shapes")
        return value

    def integers(self, number: int) -> list[int]:
        """Returns a short constant list of integers, such as axes, sizes or paddings."""
        value = self.constant(number)
        if value.dtype is not DType.INT32 or value.type.elements > 4 * MAX_RANK:
            raise self.refuse(f"operand {number} is a short list of int32", repr(value))
        return [int(i) for i in value.constant.ravel()]

    def require_shape(self, number: int, shape: Shape) -> None:
        """Raises if a constant operand gives another shape than the result's; -1 matches any size."""
        value = self.optional(number)
        if value is not None and value.is_constant:
            declared = self.integers(number)
            if len(declared) != len(shape) or any(
                n not in (-1, size) for n, size in zip(declared, shape, strict=True)
            ):
                raise self.refuse(f"operand {number} is the shape {list(shape)}", declared)

    def options_as(self, cls: type[Options]) -> Options:
        """Returns the options, or their defaults if the file has none."""
        if self.options is None:
            return cls()
        if not isinstance(self.options, cls):
            raise self.refuse(f"the options are {cls.__name__}", type(self.options).__name__)
        return self.options

    def intermediate(self, name: str, shape: Shape, like: Value) -> Value:
        """Returns a new intermediate value."""
        tensor_type = TensorType(shape, like.dtype, like.type.quant)
        return Value(self.fresh(f"{self.outputs[0].name}/{name}"), tensor_type)


Reading = Callable[[ReadOperator], list[Op]]
"""Returns the ops of an operator of one kind."""

# SPDX-License-Identifier: Apache-2.0
"""Tensors become values and operators become calls: everything about the file that is not about one operator."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from pillion.errors import PillionError
from pillion.importers.tflite.variables import CODES, Variables
from pillion.ir.graph import Names, clean_name
from pillion.ir.op import Op
from pillion.ir.types import Array, DType, PerChannel, PerTensor, Quant, Shape, TensorType, Value
from pillion.schemas import tflite
from pillion.schemas.flatbuffer import MalformedError, Table
from pillion.schemas.tflite import ElementType

MAX_RANK = 8
MAX_ELEMENTS = 2**31 - 1
UNSIGNED_BY = 128
"""What uint8 numbers are more than the int8 ones that they are read as."""
DTYPES = {int(ElementType[dtype.name]): dtype for dtype in DType}
STATEFUL = ("UNIDIRECTIONAL_SEQUENCE_LSTM", "SVDF")
"""Operators that remember something in tensors of their own."""
Options = TypeVar("Options", bound=Table)
Keeping = Callable[[str, Value, Value, Array], None]
"""What notes a state: its name, the value before a run and the one after it, and what it is at first."""


@dataclass(frozen=True)
class ReadOperator:
    """One operator of the file with its tensors; None is an operand that was left out."""

    code: str
    inputs: tuple[Value | None, ...]
    outputs: tuple[Value, ...]
    options: Table | None
    source: str
    fresh: Callable[[str], str]
    bind: Callable[[Value, Value], None]
    rename: Callable[[Value, Value], None]
    """Lets a tensor be a value that there is already under another name."""
    keep: Keeping
    is_unsigned: bool = False
    """Whether tensors that it reads or makes are uint8 in the file."""
    is_mixed: bool = False
    """Whether others are int8."""
    intermediates: tuple[PerTensor | None, ...] = ()
    """The quantization of what it makes on the way, where the file says so."""
    custom: bytes = b""
    """What a custom operator says of itself."""
    part: Callable[[tflite.SubGraph, str], Reader] | None = None
    """What gives out the tensors of another subgraph of the file, said to be where."""

    def refuse(self, rule: str, here: object, help: str = "") -> PillionError:
        """Makes the error that says why this operator cannot be read."""
        what = f"{self.code} `{self.outputs[0].name}` cannot be read"
        return PillionError(what, rule=rule, here=f"{here}  ({self.source})", help=help)

    @property
    def result(self) -> Value:
        """The only result; an operator with several is refused."""
        if len(self.outputs) != 1:
            raise self.refuse("there is one result", len(self.outputs))
        return self.outputs[0]

    def optional(self, number: int) -> Value | None:
        """Gives an operand, or nothing where it was left out."""
        return self.inputs[number] if number < len(self.inputs) else None

    def operand(self, number: int) -> Value:
        """Gives an operand, which must be there."""
        value = self.optional(number)
        if value is None:
            raise self.refuse(f"operand {number} is there", f"{len(self.inputs)} operands")
        return value

    def constant(self, number: int) -> Value:
        """Gives an operand, which must be a constant."""
        value = self.operand(number)
        if not value.is_constant:
            raise self.refuse(f"operand {number} is a constant", repr(value), "convert with fixed shapes")
        return value

    def integers(self, number: int) -> list[int]:
        """Gives a constant of a few integers: axes, sizes, paddings."""
        value = self.constant(number)
        if value.dtype is not DType.INT32 or value.type.elements > 4 * MAX_RANK:
            raise self.refuse(f"operand {number} is a short list of int32", repr(value))
        return [int(i) for i in value.constant.ravel()]

    def want_shape(self, number: int, shape: Shape) -> None:
        """Refuses a constant operand that says another shape than the result has, with -1 for what follows from the rest."""
        value = self.optional(number)
        if value is not None and value.is_constant:
            said = self.integers(number)
            if len(said) != len(shape) or any(
                n not in (-1, size) for n, size in zip(said, shape, strict=True)
            ):
                raise self.refuse(f"operand {number} is the shape {list(shape)}", said)

    def options_as(self, cls: type[Options]) -> Options:
        """Gives the options, or their defaults where the file has none."""
        if self.options is None:
            return cls()
        if not isinstance(self.options, cls):
            raise self.refuse(f"the options are {cls.__name__}", type(self.options).__name__)
        return self.options

    def intermediate(self, name: str, shape: Shape, like: Value) -> Value:
        """Makes a further value on the way to the result."""
        made = TensorType(shape, like.dtype, like.type.quant)
        return Value(self.fresh(f"{self.outputs[0].name}/{name}"), made)


class Reader:
    """Gives out each tensor as one value, with a name that no other has."""

    def __init__(self, model: tflite.Model, subgraph: tflite.SubGraph) -> None:
        self.model, self.subgraph = model, subgraph
        self.names = Names()
        self.where = ""
        """What is said of the place of an operator, beside its number."""
        self.depth = 0
        """How many operators run the subgraph inside of one another."""
        self.values: dict[int, Value] = {}
        self.numbers: dict[Value, int] = {}
        self.unsigned: set[Value] = set()
        """The values whose tensors are uint8 in the file."""
        self.variables = Variables(self, len(model.subgraphs))

    def calls(self) -> Iterator[ReadOperator]:
        """Gives the operators in running order; each is made when those before it are through."""
        for number, operator in enumerate(self.subgraph.operators):
            code = self.code(operator.opcode_index)
            if code in CODES:
                self.variables.take(number, code, operator)
                continue
            inputs = tuple(None if n == -1 else self.value(n) for n in operator.inputs)
            outputs = self.outputs(operator)
            in_bytes = {v in self.unsigned for v in (*inputs, *outputs) if _is_bytes(v)}
            self.want_no_variable(code, operator)
            yield ReadOperator(
                code=code,
                inputs=inputs,
                outputs=outputs,
                options=operator.options,
                source=f"operator {number}{self.where}, {code}",
                part=self.part,
                fresh=self.names.fresh,
                bind=self.bind,
                rename=lambda old, new: self.rename(self.numbers[old], new),
                is_unsigned=any(v in self.unsigned for v in (*inputs, *outputs)),
                is_mixed=len(in_bytes) > 1,
                keep=self.variables.keep,
                intermediates=tuple(map(self.intermediate, operator.intermediates or ())),
                custom=b"" if operator.custom_options is None else operator.custom_options.tobytes(),
            )

    def part(self, subgraph: tflite.SubGraph, where: str) -> Reader:
        """Gives out the tensors of another subgraph, whose names are none of this one."""
        made = type(self)(self.model, subgraph)
        made.names, made.where, made.depth = self.names, f" {where}{self.where}", self.depth + 1
        return made

    def want_no_variable(self, code: str, operator: tflite.Operator) -> None:
        """Refuses tensors that live between runs where the operator is none that has such."""
        for number in operator.inputs if code not in STATEFUL else ():
            if number != -1 and self.subgraph.tensors[number].is_variable:
                rule = f"tensors that live between runs are those of {' and '.join(STATEFUL)}"
                raise unreadable(self.subgraph.tensors[number], rule)

    def intermediate(self, number: int) -> PerTensor | None:
        """Gives the quantization of a tensor that an operator makes on its way."""
        if not 0 <= number < len(self.subgraph.tensors):
            raise MalformedError(f"tensor {number} of {len(self.subgraph.tensors)}")
        quant = self.subgraph.tensors[number].quantization
        try:
            return PerTensor(quant.scale[0], (quant.zero_point or [0])[0]) if quant and quant.scale else None
        except ValueError as error:
            raise MalformedError(f"tensor {number}: {error}") from None

    def outputs(self, operator: tflite.Operator) -> tuple[Value, ...]:
        """Gives the results of an operator, none of which may be a constant."""
        made = tuple(self.value(n) for n in operator.outputs)
        if not made or any(value.is_constant for value in made):
            raise MalformedError("an operator has results, and none of them is a constant")
        return made

    def bind(self, old: Value, new: Value) -> None:
        """Lets a tensor be another value from now on."""
        number = self.numbers.pop(old)
        self.values[number], self.numbers[new] = new, number
        if old in self.unsigned:
            self.unsigned.add(new)

    def rename(self, number: int, value: Value) -> None:
        """Lets a tensor be a value that there is already under another name."""
        self.values[number] = value

    def code(self, index: int) -> str:
        """Gives the name of an operator by its number; a custom one has its own name behind `CUSTOM`."""
        if index >= len(self.model.operator_codes):
            raise MalformedError(f"operator code {index} of {len(self.model.operator_codes)}")
        code = self.model.operator_codes[index]
        number = max(code.builtin_code, code.deprecated_builtin_code)
        if not 0 <= number < len(tflite.OPERATORS):
            raise MalformedError(f"there is no operator number {number}")
        name = tflite.OPERATORS[number]
        return f"CUSTOM {clean_name(code.custom_code)}" if name == "CUSTOM" else name

    def value(self, number: int) -> Value:
        """Gives the value of a tensor, which is made when it is first asked for."""
        if number not in self.values:
            if not 0 <= number < len(self.subgraph.tensors):
                raise MalformedError(f"tensor {number} of {len(self.subgraph.tensors)}")
            tensor = self.subgraph.tensors[number]
            try:
                value = self.values[number] = self.make_value(tensor)
            except ValueError as error:
                raise MalformedError(f"tensor `{clean_name(tensor.name)}`: {error}") from None
            if is_unsigned(tensor):
                self.unsigned.add(value)
            self.numbers[value] = number
        return self.values[number]

    def make_value(self, tensor: tflite.Tensor) -> Value:
        """Makes the value of a tensor, whose shape, type and scales are checked."""
        shape, data = tuple(tensor.shape), self.data(tensor)
        dtype = dtype_of(tensor, tensor.is_variable or data is not None)
        if len(shape) > MAX_RANK or any(size < 1 for size in shape):
            raise MalformedError(f"tensors have at most {MAX_RANK} axes of fixed sizes, found {shape[:9]}")
        if math.prod(shape) > MAX_ELEMENTS:
            raise MalformedError(f"tensors have at most {MAX_ELEMENTS} elements, found {shape}")
        if tensor.is_sparse:
            raise unreadable(tensor, "tensors are not sparse")
        if tensor.type == ElementType.INT64 and data is not None:
            wide = data.view("<i8")
            if np.abs(wide).max(initial=0) >= 2**31:
                raise unreadable(tensor, "int64 constants fit 32 bits")
            data = wide.astype("<i4").view(np.uint8)
        type_ = TensorType(shape, dtype, quant_of(tensor, dtype, shape))
        name = self.names.fresh(clean_name(tensor.name))
        return Value(name, type_, None if data is None else typed(data, type_))

    def data(self, tensor: tflite.Tensor) -> Array | None:
        """Gives the bytes of a constant."""
        if tensor.buffer >= len(self.model.buffers):
            raise MalformedError(f"buffer {tensor.buffer} of {len(self.model.buffers)}")
        buffer = self.model.buffers[tensor.buffer]
        if tensor.external_buffer:
            raise unreadable(tensor, "data lie inside the file", "convert without external weights")
        if buffer.data is None or not buffer.data.size:
            return None
        return buffer.data ^ np.uint8(UNSIGNED_BY) if is_unsigned(tensor) else buffer.data


def _is_bytes(value: Value | None) -> bool:
    """Whether a tensor has 8 bits that stand for real numbers."""
    return value is not None and value.dtype is DType.INT8 and value.is_quantized


def unreadable(tensor: tflite.Tensor, rule: str, help: str = "") -> PillionError:
    """Makes the error for a tensor that cannot be read."""
    here = f"{type_name(tensor)}{tensor.shape[:MAX_RANK]}"
    return PillionError(f"tensor `{clean_name(tensor.name)}` cannot be read", rule=rule, here=here, help=help)


def type_name(tensor: tflite.Tensor) -> str:
    """Gives the name of a tensor's element type; a number where the format has no name for it."""
    known = tensor.type in ElementType._value2member_map_
    return ElementType(tensor.type).name.lower() if known else f"type number {tensor.type}"


def is_unsigned(tensor: tflite.Tensor) -> bool:
    """Whether a tensor's numbers are uint8 and stand for real ones: it is read as int8, all numbers smaller by 128."""
    return (
        tensor.type == ElementType.UINT8
        and tensor.quantization is not None
        and bool(tensor.quantization.scale)
    )


def dtype_of(tensor: tflite.Tensor, is_held: bool) -> DType:
    """Gives the element type of a tensor; int64 becomes int32, and quantized uint8 int8. States and constants of layers that
    remember may have 16 bits."""
    if tensor.type == ElementType.INT64:
        return DType.INT32
    if is_unsigned(tensor):
        return DType.INT8
    dtype = DTYPES.get(tensor.type)
    is_wide = dtype is DType.INT16 and not is_held
    if dtype is None or (is_wide and tensor.quantization is not None):
        raise unreadable(
            tensor,
            "activations and weights are int8 or uint8, biases int32, borders int8, uint8 or float32",
            "convert with int8 for inputs, outputs and all operators",
        )
    return dtype


def quant_of(tensor: tflite.Tensor, dtype: DType, shape: Shape) -> Quant | None:
    """Gives scales and zero points of int8 and int16 tensors only: what else a file says of scales (those of biases among them) follows from
    the others."""
    quant = tensor.quantization
    if quant is None or not quant.scale or dtype not in (DType.INT8, DType.INT16):
        return None
    if quant.details_type:
        raise unreadable(
            tensor,
            "quantization is by scales and zero points",
            "quantize with a scale for each tensor or channel",
        )
    if len(quant.scale) == 1:
        zero_point = quant.zero_point[0] if quant.zero_point else 0
        return PerTensor(quant.scale[0], zero_point - UNSIGNED_BY * is_unsigned(tensor))
    if is_unsigned(tensor):
        raise unreadable(
            tensor, "uint8 tensors have one scale", "convert with int8 weights, or with one scale"
        )
    if any(quant.zero_point):
        raise unreadable(tensor, "tensors with several scales have zero points 0")
    return PerChannel(tuple(quant.scale), 0 if len(shape) == 1 else quant.quantized_dimension)


def typed(data: Array, type_: TensorType) -> Array:
    """Gives the bytes of a constant as its elements, not copied."""
    if data.size != type_.size_bytes:
        raise MalformedError(f"{type_.size_bytes} bytes of data are wanted, found {data.size}")
    array: Array = data.view(type_.dtype.numpy.newbyteorder("<")).reshape(type_.shape)
    return array.astype(type_.dtype.numpy, copy=False)


Reading = Callable[[ReadOperator], list[Op]]
"""What makes the ops of an operator of one kind."""

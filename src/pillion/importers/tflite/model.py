# SPDX-License-Identifier: Apache-2.0
"""Reads tensors as values and operators as calls: all parts of the file that do not depend on the
operator."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np

from pillion.codecs.tflite.exact import UNSIGNED_BY
from pillion.codecs.tflite.node import LAYERS
from pillion.codecs.tflite.read_operator import MAX_RANK, ReadOperator
from pillion.errors import PillionError
from pillion.importers.tflite.variables import CODES, Variables
from pillion.ir.graph import UniqueNames, clean_name
from pillion.ir.nibbles import unpack_nibbles
from pillion.ir.types import Array, DType, PerChannel, PerTensor, Quant, Shape, TensorType, Value
from pillion.schemas import tflite
from pillion.schemas.flatbuffer import MalformedError
from pillion.schemas.tflite import ElementType

MAX_ELEMENTS = 2**31 - 1
DTYPES = {int(ElementType[dtype.name]): dtype for dtype in DType}
STATEFUL = ("UNIDIRECTIONAL_SEQUENCE_LSTM", "SVDF")
"""Operators with internal states."""


class TfliteReader:
    """Reads each tensor as one value with a unique name."""

    is_float = False

    def __init__(self, model: tflite.Model, subgraph: tflite.SubGraph) -> None:
        self.model, self.subgraph = model, subgraph
        self.names = UniqueNames()
        self.where = ""
        """The place of the subgraph, for messages."""
        self.first = 0
        """The number of the first operator in the file."""
        self.depth = 0
        """The nesting depth of the subgraph."""
        self.values: dict[int, Value] = {}
        self.numbers: dict[Value, int] = {}
        self.unsigned: set[Value] = set()
        """The values whose tensors are uint8 in the file."""
        self.variables = Variables(self.value, self.rename, len(model.subgraphs))

    def calls(self) -> Iterator[ReadOperator]:
        """Yields the operators in execution order; each is read after the previous ones are converted."""
        for number, operator in enumerate(self.subgraph.operators, self.first):
            code = self.code(operator.opcode_index)
            if code in CODES:
                self.variables.take(number, code, operator)
                continue
            inputs = tuple(None if n == -1 else self.value(n) for n in operator.inputs)
            outputs = self.outputs(operator)
            bytes_ = (v for v in (*inputs, *outputs) if v and v.dtype is DType.INT8 and v.is_quantized)
            in_bytes = {v in self.unsigned for v in bytes_}
            self.require_no_variable(code, operator)
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
                quantization=lambda v: self.subgraph.tensors[self.numbers[v]].quantization,
                element_type=self.element_type,
                is_float=self.is_float,
                open=frozenset(y for y in outputs if has_open_size(self.subgraph.tensors[self.numbers[y]])),
            )

    def element_type(self, value: Value) -> int:
        """Returns the file's element type of a tensor; -1 for tensors that quantization of float parts creates."""
        return self.subgraph.tensors[self.numbers[value]].type if value in self.numbers else -1

    def part(self, subgraph: tflite.SubGraph, where: str) -> TfliteReader:
        """Returns the reader of another subgraph, which shares the names."""
        reader = type(self)(self.model, subgraph)
        reader.names, reader.where, reader.depth = self.names, f" {where}{self.where}", self.depth + 1
        return reader

    def require_no_variable(self, code: str, operator: tflite.Operator) -> None:
        """Raises if a stateless operator reads a state, or another one a 16-bit tensor that is none."""
        for tensor in tensors_of(self.subgraph, operator.inputs) if code in STATEFUL else ():
            is_held = tensor.is_variable or is_constant(self.model, tensor)
            if tensor.type == ElementType.INT16 and not is_held:
                raise unreadable_tensor_error(
                    tensor, f"{code}: 16-bit operands live between runs; others are int8"
                )
        for number in operator.inputs if code not in STATEFUL else ():
            if number != -1 and self.subgraph.tensors[number].is_variable:
                rule = f"tensors that live between runs are those of {' and '.join(STATEFUL)}"
                raise unreadable_tensor_error(self.subgraph.tensors[number], rule)

    def intermediate(self, number: int) -> PerTensor | None:
        """Returns the quantization of an intermediate tensor."""
        quant = tensor_of(self.subgraph, number).quantization
        try:
            return PerTensor(quant.scale[0], (quant.zero_point or [0])[0]) if quant and quant.scale else None
        except ValueError as error:
            raise MalformedError(f"tensor {number}: {error}") from None

    def outputs(self, operator: tflite.Operator) -> tuple[Value, ...]:
        """Returns the results of an operator; raises if one is constant."""
        results = tuple(self.value(n) for n in operator.outputs)
        if not results or any(value.is_constant for value in results):
            raise MalformedError("an operator has results, and none of them is a constant")
        return results

    def bind(self, old: Value, new: Value) -> None:
        """Replaces a tensor by another value."""
        number = self.numbers.pop(old)
        self.values[number], self.numbers[new] = new, number
        if old in self.unsigned:
            self.unsigned.add(new)

    def rename(self, number: int, value: Value) -> None:
        """Replaces a tensor by an existing value."""
        self.values[number] = value

    def code(self, index: int) -> str:
        """Returns the name of an operator code; raises if the format has none."""
        if index >= len(self.model.operator_codes):
            raise MalformedError(f"operator code {index} of {len(self.model.operator_codes)}")
        name = operator_name(self.model, index)
        if not name:
            raise MalformedError(f"there is no operator number {self.model.operator_codes[index].number}")
        return name

    def value(self, number: int) -> Value:
        """Returns the value of a tensor, created at the first use."""
        if number not in self.values:
            tensor = tensor_of(self.subgraph, number)
            try:
                value = self.values[number] = self.make_value(tensor)
            except ValueError as error:
                raise MalformedError(f"tensor `{clean_name(tensor.name)}`: {error}") from None
            if is_unsigned(tensor):
                self.unsigned.add(value)
            self.numbers[value] = number
        return self.values[number]

    def make_value(self, tensor: tflite.Tensor) -> Value:
        """Returns the value of a tensor, with checked shape, type and scales."""
        shape, data = tuple(tensor.shape), self.data(tensor)
        shape += (2,) * (tensor.type == ElementType.UINT64)
        dtype = dtype_of(tensor, tensor.is_variable or data is not None)
        if len(shape) > MAX_RANK or any(size < 1 for size in shape):
            raise MalformedError(f"tensors have at most {MAX_RANK} axes of fixed sizes, found {shape[:9]}")
        if math.prod(shape) > MAX_ELEMENTS:
            raise MalformedError(f"tensors have at most {MAX_ELEMENTS} elements, found {shape}")
        if tensor.is_sparse:
            raise unreadable_tensor_error(tensor, "tensors are not sparse")
        if tensor.type == ElementType.INT64 and data is not None:
            wide = data.view("<i8")
            if wide.min(initial=0) > -(2**31) and wide.max(initial=0) < 2**31:
                data = wide.astype("<i4").view(np.uint8)
            elif self.is_bias(tensor):
                dtype = DType.INT64
            else:
                rule = "int64 constants fit 32 bits, but for biases of 16-bit layers"
                raise unreadable_tensor_error(tensor, rule)
        type_ = TensorType(shape, dtype, quant_of(tensor, dtype, shape))
        name = self.names.fresh(clean_name(tensor.name))
        return Value(name, type_, None if data is None else typed_elements(data, type_))

    def is_bias(self, tensor: tflite.Tensor) -> bool:
        """Whether a tensor is the bias of layers and nothing else."""
        number = next(n for n, other in enumerate(self.subgraph.tensors) if other is tensor)
        readers = [operator for operator in self.subgraph.operators if number in operator.inputs]
        places = ((self.code(o.opcode_index) in LAYERS, list(o.inputs).index(number)) for o in readers)
        is_last = all(
            is_layer and place == len(o.inputs) - 1
            for (is_layer, place), o in zip(places, readers, strict=True)
        )
        return is_last and number not in self.subgraph.outputs

    def data(self, tensor: tflite.Tensor) -> Array | None:
        """Returns the bytes of a constant, or None."""
        if tensor.buffer >= len(self.model.buffers):
            raise MalformedError(f"buffer {tensor.buffer} of {len(self.model.buffers)}")
        buffer = self.model.buffers[tensor.buffer]
        if tensor.external_buffer:
            raise unreadable_tensor_error(
                tensor, "data lie inside the file", "convert without external weights"
            )
        if buffer.data is None or not buffer.data.size:
            return None
        return buffer.data ^ np.uint8(UNSIGNED_BY) if is_unsigned(tensor) else buffer.data


def operator_name(model: tflite.Model, index: int) -> str:
    """Returns the name of an operator code, a custom operator's own behind `CUSTOM`; empty if the format has
    none."""
    code = model.operator_codes[index] if index < len(model.operator_codes) else None
    if code is None or not 0 <= code.number < len(tflite.OPERATORS):
        return ""
    name = tflite.OPERATORS[code.number]
    return f"CUSTOM {clean_name(code.custom_code)}" if name == "CUSTOM" else name


def tensor_of(subgraph: tflite.SubGraph, number: int) -> tflite.Tensor:
    """Returns a tensor by its index."""
    if not 0 <= number < len(subgraph.tensors):
        raise MalformedError(f"tensor {number} of {len(subgraph.tensors)}")
    return subgraph.tensors[number]


def has_open_size(tensor: tflite.Tensor) -> bool:
    """Whether the file leaves a size of a tensor open, with 1 in its place."""
    return -1 in (tensor.shape_signature or ())


def unreadable_tensor_error(tensor: tflite.Tensor, rule: str, help: str = "") -> PillionError:
    """Returns the error that a tensor cannot be read."""
    here = f"{type_name(tensor)}{tensor.shape[:MAX_RANK]}"
    return PillionError(f"tensor `{clean_name(tensor.name)}` cannot be read", rule=rule, here=here, help=help)


def type_name(tensor: tflite.Tensor) -> str:
    """Returns the name of a tensor's element type, or its number if the format has none."""
    known = tensor.type in ElementType._value2member_map_
    return ElementType(tensor.type).name.lower() if known else f"type number {tensor.type}"


def has_scale(tensor: tflite.Tensor) -> bool:
    """Whether a tensor is quantized."""
    return tensor.quantization is not None and bool(tensor.quantization.scale)


def is_unsigned(tensor: tflite.Tensor) -> bool:
    """Whether a tensor is quantized uint8; it is read as int8, with all numbers reduced by 128."""
    return tensor.type == ElementType.UINT8 and has_scale(tensor)


def is_constant(model: tflite.Model, tensor: tflite.Tensor) -> bool:
    """Whether the file contains a tensor's data."""
    data = model.buffers[tensor.buffer].data if tensor.buffer < len(model.buffers) else None
    return data is not None and data.size > 0


def tensors_of(graph: tflite.SubGraph, numbers: Iterable[int]) -> list[tflite.Tensor]:
    """Returns the tensors with these indices, ignoring invalid ones."""
    return [graph.tensors[n] for n in numbers if 0 <= n < len(graph.tensors)]


def dtype_of(tensor: tflite.Tensor, is_held: bool) -> DType:
    """Returns the element type of a tensor. int64 and uint32 become int32, uint64 becomes two int32, and quantized
    uint8 becomes int8."""
    if tensor.type in (ElementType.INT64, ElementType.UINT32, ElementType.UINT64):
        return DType.INT32
    if is_unsigned(tensor):
        return DType.INT8
    dtype = DTYPES.get(tensor.type)
    is_computed_4_bits = dtype is DType.INT4 and not is_held
    if dtype is None or is_computed_4_bits:
        raise unreadable_tensor_error(
            tensor,
            "activations are int8, uint8 or int16, with scales; weights int8 or int4, biases int32 or int64, borders also float32",
            "convert with int8 for inputs, outputs and all operators",
        )
    return dtype


def quant_of(tensor: tflite.Tensor, dtype: DType, shape: Shape) -> Quant | None:
    """Returns scales and zero points of int8 and int16 tensors. Other scales, such as those of biases, follow from
    these."""
    quant = tensor.quantization
    if quant is None or not quant.scale or dtype not in (DType.INT4, DType.INT8, DType.INT16):
        return None
    if quant.details_type:
        raise unreadable_tensor_error(
            tensor,
            "quantization is by scales and zero points",
            "quantize with a scale for each tensor or channel",
        )
    if len(quant.scale) == 1:
        zero_point = quant.zero_point[0] if quant.zero_point else 0
        return PerTensor(quant.scale[0], zero_point - UNSIGNED_BY * is_unsigned(tensor))
    if is_unsigned(tensor):
        raise unreadable_tensor_error(
            tensor, "uint8 tensors have one scale", "convert with int8 weights, or with one scale"
        )
    if any(quant.zero_point):
        raise unreadable_tensor_error(tensor, "tensors with several scales have zero points 0")
    return PerChannel(tuple(quant.scale), 0 if len(shape) == 1 else quant.quantized_dimension)


def typed_elements(data: Array, type_: TensorType) -> Array:
    """Returns the bytes of a constant as its elements, without a copy."""
    if data.size != type_.size_bytes:
        raise MalformedError(f"{type_.size_bytes} bytes of data are wanted, found {data.size}")
    if type_.dtype is DType.INT4:
        return unpack_nibbles(data, type_.elements).reshape(type_.shape)
    array: Array = data.view(type_.dtype.numpy.newbyteorder("<")).reshape(type_.shape)
    return array.astype(type_.dtype.numpy, copy=False)

# SPDX-License-Identifier: Apache-2.0
"""The instructions of a program: checked access to arguments, and a model of the planned memory."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from pillion.errors import PillionError
from pillion.importers.pte.argument_ranges import FIELDS
from pillion.importers.pte.steps import AnyStep, OpStep, Seen
from pillion.importers.pte.tensor import ReadTensor, SharedQuantParams, TensorView
from pillion.ir.numerics import Multiplier, Multipliers
from pillion.ir.types import Array, DType, Pair, Shape
from pillion.schemas import pte
from pillion.schemas.flatbuffer import MalformedError, Table
from pillion.schemas.pte import ScalarType

MAX_RANK = 8
MAX_ELEMENTS = 2**31 - 1
DTYPES = {int(ScalarType[dtype.name]): dtype for dtype in DType}
LONGEST_LIST = 64
T = TypeVar("T")

Place = tuple[int, int]
"""Memory id and offset; memory -1 has the unplanned tensors, by their index."""


class ArenaMemory:
    """The tensors in memory. A write removes the tensors that it overlaps."""

    def __init__(self) -> None:
        self.held: dict[Place, ReadTensor] = {}
        self.begins: list[Place] = []

    def write(self, place: Place, tensor: ReadTensor) -> None:
        """Places a tensor at an address and removes the tensors that it overlaps."""
        memory, begin = place
        at = bisect_left(self.begins, place)
        if at and self.end(self.begins[at - 1]) > begin and self.begins[at - 1][0] == memory:
            at -= 1
        end = (memory, begin + tensor.nbytes)
        last = bisect_left(self.begins, end)
        for gone in self.begins[at:last]:
            del self.held[gone]
        del self.begins[at:last]
        insort(self.begins, place)
        self.held[place] = tensor

    def end(self, place: Place) -> int:
        """Returns the offset behind the tensor at an address."""
        return place[1] + self.held[place].nbytes


@dataclass(frozen=True)
class Argument:
    """The description of a tensor in the program's table."""

    number: int
    sizes: Shape
    order: tuple[int, ...]
    dtype: DType
    held: pte.Tensor

    @property
    def nbytes(self) -> int:
        """The size of the tensor in bytes."""
        return math.prod(self.sizes) * self.dtype.size_bytes

    @property
    def memory_shape(self) -> Shape:
        """The sizes in the order of the axes in memory."""
        return tuple(self.sizes[axis] for axis in self.order)

    @property
    def place(self) -> Place:
        """The address of the tensor; an unplanned input has its own."""
        planned = self.held.allocation_info
        return (-1, self.number) if planned is None else (planned.memory_id, planned.offset)


def argument_of_tensor(number: int, held: pte.Tensor) -> Argument:
    """Returns the checked description of a tensor."""
    sizes, order = tuple(held.sizes), tuple(held.dim_order)
    if len(sizes) > MAX_RANK or any(size < 1 for size in sizes) or math.prod(sizes) > MAX_ELEMENTS:
        raise MalformedError(
            f"value {number}: sizes {sizes[:MAX_RANK]}; axes are at most {MAX_RANK}, none empty"
        )
    if held.storage_offset:
        raise MalformedError(f"value {number} begins {held.storage_offset} elements behind its place")
    if sorted(order) != list(range(len(sizes))):
        raise MalformedError(f"value {number}: {order[:MAX_RANK]} is no order of {len(sizes)} axes")
    if held.scalar_type not in DTYPES:
        kind = held.scalar_type
        name = ScalarType(kind).name.lower() if kind in ScalarType._value2member_map_ else f"number {kind}"
        raise PillionError(
            f"value {number} of the program is of type {name}",
            rule="tensors are int8, int32, uint8, int16, bool or float32",
            here=f"sizes {list(sizes)}",
            help="compile the model with Pillion, from PyTorch or .tflite",
        )
    return Argument(number, sizes, order, DTYPES[held.scalar_type], held)


class ReaderState(Protocol):
    """The state that calls act on: values, memory and recorded steps."""

    def entry(self, number: int) -> Table:
        """Returns a value by its index."""

    def read(self, argument: Argument, source: str) -> ReadTensor:
        """Returns the tensor at the address of an argument, in its shape in memory."""

    def write(self, argument: Argument, tensor: ReadTensor) -> None:
        """Places a tensor at the address of an argument."""

    def shaped(self, tensor: ReadTensor, shape: Shape, source: str) -> ReadTensor:
        """Returns the same bytes in another shape."""

    def copy(self, x: ReadTensor, y: ReadTensor, source: str) -> None:
        """Records a copy of a tensor."""

    def add(self, step: AnyStep) -> None:
        """Records the step of a call, after all previous steps."""


class ReadCall:
    """One kernel call. Its last two arguments are both the result."""

    def __init__(self, reader: ReaderState, operator: str, source: str, numbers: Sequence[int]) -> None:
        self.reader, self.operator, self.source = reader, operator, source
        self.numbers = numbers[:-2]
        if len(numbers) < 2 or numbers[-1] != numbers[-2]:
            raise MalformedError(f"{source}: the last two arguments are the result")
        self.out = self.argument(numbers[-1])
        self.check_fields()

    def check_fields(self) -> None:
        """Raises if an integer argument is out of its range, even if no reader uses it."""
        for index, number in enumerate(self.numbers):
            value = self.reader.entry(number)
            fields = FIELDS[self.operator]
            field = fields.get(index, fields.get(index - len(self.numbers)))
            if field is None and isinstance(value, (pte.Int, pte.IntList)):
                raise self.refuse(f"argument {index} is no integer", type(value).__name__)
            integers: tuple[int, ...] = (value.int_val,) if isinstance(value, pte.Int) else ()
            integers = self.integers(index) if isinstance(value, pte.IntList) else integers
            wrong = [n for n in integers if field is not None and not field.takes(n)]
            if wrong and field is not None:
                rule = f"argument {index} is {field.means}, from {field.low} to {field.high}"
                raise self.refuse(rule, wrong[0])

    def refuse(self, rule: str, here: object) -> PillionError:
        """Returns the error that this call cannot be read."""
        return PillionError(
            f"{self.operator} cannot be read",
            rule=rule,
            here=f"{here}  ({self.source})"[:400],
            help="compile the model with Pillion, from PyTorch or .tflite",
        )

    # Arguments by their place in the operator's schema

    def held(self, place: int, kind: type[T]) -> T:
        """Returns an argument of one kind; raises for another kind."""
        if not 0 <= place < len(self.numbers):
            raise self.refuse(f"there is an argument {place}", f"{len(self.numbers)} arguments")
        held = self.reader.entry(self.numbers[place])
        if not isinstance(held, kind):
            raise self.refuse(f"argument {place} is of kind {kind.__name__}", type(held).__name__)
        return held

    def is_null(self, place: int) -> bool:
        """Whether an argument is omitted."""
        return isinstance(self.held(place, object), pte.Null)

    def number(self, place: int) -> int:
        """Returns an integer argument."""
        return self.held(place, pte.Int).int_val

    def level(self, place: int, sign: int = 1) -> int:
        """Returns an int8 argument, or its negation with `sign` -1."""
        number = sign * self.number(place)
        if not -128 <= number <= 127:
            raise self.refuse(f"argument {place} stands for an int8 number", number)
        return number

    def bounds(self, low: int, high: int) -> dict[str, int]:
        """Returns the bounds of the result from two arguments."""
        least, most = self.level(low), self.level(high)
        if least > most:
            raise self.refuse("the lower bound of the result is at most the upper one", (least, most))
        return {"low": least, "high": most}

    def real(self, place: int) -> float:
        """Returns a floating-point argument."""
        return self.held(place, pte.Double).double_val

    def flag(self, place: int) -> bool:
        """Returns a boolean argument."""
        return self.held(place, pte.Bool).bool_val

    def integers(self, place: int, count: int | None = None) -> tuple[int, ...]:
        """Returns a list of integers."""
        items = self.held(place, pte.IntList).items
        if len(items) > LONGEST_LIST or (count is not None and len(items) != count):
            raise self.refuse(
                f"argument {place} has {count or f'at most {LONGEST_LIST}'} numbers", len(items)
            )
        values = [self.reader.entry(item) for item in items]
        if not all(isinstance(value, pte.Int) for value in values):
            raise self.refuse(f"argument {place} is a list of integers", values[:4])
        return tuple(value.int_val for value in values if isinstance(value, pte.Int))

    def pair(self, place: int) -> Pair:
        """Returns an argument of two integers, such as a stride."""
        first, second = self.integers(place, 2)
        return first, second

    def multiplier(self, mantissa: int, shift: int) -> Multiplier:
        """Returns the multiplier of two arguments, mantissa and shift."""
        return Multiplier(self.number(mantissa), self.number(shift))

    def multipliers(self, mantissas: int, shifts: int, count: int) -> Multipliers:
        """Returns the multipliers of all channels from two constants."""
        both = (self.vector(number, count).tolist() for number in (mantissas, shifts))
        return tuple(map(Multiplier, *both))

    # Tensors

    def argument(self, number: int) -> Argument:
        """Returns the description of a tensor by its value index."""
        value = self.reader.entry(number)
        if not isinstance(value, pte.Tensor):
            raise self.refuse("operands and results are tensors", type(value).__name__)
        return argument_of_tensor(number, value)

    def view(self, place: int) -> TensorView:
        """Returns a tensor argument with its logical sizes and dim order."""
        self.held(place, pte.Tensor)
        return self.seen(self.numbers[place])

    def seen(self, number: int) -> TensorView:
        """Returns a tensor by its value index, with its logical sizes and dim order."""
        argument = self.argument(number)
        return TensorView(self.reader.read(argument, self.source), argument.sizes, argument.order)

    def views(self, place: int) -> list[TensorView]:
        """Returns an argument that is a list of tensors."""
        items = self.held(place, pte.TensorList).items
        if not 0 < len(items) <= 1024:
            raise self.refuse("a list of tensors has 1 to 1024", len(items))
        return [self.seen(number) for number in items]

    def shaped(self, tensor: ReadTensor, shape: Shape) -> ReadTensor:
        """Returns a tensor in another shape."""
        return self.reader.shaped(tensor, shape, self.source)

    def image(self, place: int) -> ReadTensor:
        """Returns an operand as an NHWC image."""
        view = self.view(place)
        if not view.is_image:
            raise self.refuse(
                f"argument {place} is an image whose channels lie last", (view.sizes, view.order)
            )
        return self.int8(self.shaped(view.tensor, view.image_shape))

    def plain(self, place: int) -> ReadTensor:
        """Returns a contiguous operand."""
        view = self.view(place)
        if not view.is_contiguous:
            raise self.refuse(
                f"argument {place} is contiguous: the kernel takes it for that", (view.sizes, view.order)
            )
        return self.shaped(view.tensor, view.sizes)

    def require_same_dim_order(self, *views: TensorView) -> None:
        """Raises if operands and result have different dim orders: the kernel traverses memory linearly."""
        out = self.out_view
        for view in views:
            if not view.has_same_memory_order(out):
                here = f"{view.sizes} in order {view.order}, {out.sizes} in order {out.order}"
                raise self.refuse("operands and result lie alike in memory", here)

    def int8(self, tensor: ReadTensor) -> ReadTensor:
        """Returns the tensor; raises if it is not int8."""
        if tensor.dtype is not DType.INT8:
            raise self.refuse("operands are int8", tensor.dtype.value)
        return tensor

    def constant(self, place: int, dtype: DType) -> Array:
        """Returns the data of a constant operand."""
        tensor = self.plain(place)
        if tensor.data is None or tensor.dtype is not dtype:
            raise self.refuse(
                f"argument {place} is a constant of {dtype.value}", (tensor.dtype.value, tensor.shape)
            )
        return tensor.data

    def vector(self, place: int, count: int) -> Array:
        """Returns a constant int32 vector; zeros if it is omitted."""
        if self.is_null(place):
            return np.zeros(count, np.int32)
        data = self.constant(place, DType.INT32)
        if data.size != count:
            raise self.refuse(f"argument {place} has {count} elements", data.shape)
        return data.reshape(count)

    # Results

    @property
    def out_view(self) -> TensorView:
        """The result's sizes and dim order."""
        return TensorView(
            ReadTensor("", (), self.out.dtype, SharedQuantParams()), self.out.sizes, self.out.order
        )

    @property
    def out_image(self) -> Shape:
        """The shape of the result as an NHWC image."""
        out = self.out_view
        if not out.is_image:
            raise self.refuse("the result is an image whose channels lie last", (out.sizes, out.order))
        return out.image_shape

    @property
    def contiguous_out_shape(self) -> Shape:
        """The shape of the contiguous result."""
        out = self.out_view
        if not out.is_contiguous:
            raise self.refuse("the result is contiguous", (out.sizes, out.order))
        return out.sizes

    def make(self, shape: Shape, dtype: DType, label: SharedQuantParams | None = None) -> ReadTensor:
        """Returns the result, placed in memory; without `label` it has quantization parameters of its own."""
        if math.prod(shape) * dtype.size_bytes != self.out.nbytes or dtype is not self.out.dtype:
            raise self.refuse(
                f"the result is {dtype.value}{list(shape)}", f"{self.out.dtype.value}{list(self.out.sizes)}"
            )
        tensor = ReadTensor(f"t{self.out.number}", shape, dtype, label or SharedQuantParams())
        self.reader.write(self.out, tensor)
        return tensor

    def make_int8(self, shape: Shape, zero_point: int) -> ReadTensor:
        """Returns an int8 result with a known zero point."""
        return self.make(shape, DType.INT8, SharedQuantParams(zero_point=zero_point))

    def record_op(
        self, make: type[Any], y: ReadTensor, xs: Mapping[str, tuple[ReadTensor, Seen]], **fields: Any
    ) -> None:
        """Records the op of the call, and the zero points that it gives to operands."""
        for x, seen in xs.values():
            if isinstance(seen, int):
                x.label.add_known_params(seen)
        self.reader.add(OpStep(self.source, make, xs, y, fields))

# SPDX-License-Identifier: Apache-2.0
"""The instructions of a program: arguments checked as they are read, and which tensor lies where in memory by then."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from pillion.errors import PillionError
from pillion.importers.pte.fields import FIELDS
from pillion.importers.pte.steps import AnyStep, Seen, Step
from pillion.importers.pte.tensor import Label, Tensor, View
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
"""Memory and offset; memory -1 is that of tensors which are not planned, by their numbers."""


class Memory:
    """The tensors that lie in memory. What is written over is gone."""

    def __init__(self) -> None:
        self.held: dict[Place, Tensor] = {}
        self.begins: list[Place] = []

    def write(self, place: Place, tensor: Tensor) -> None:
        """Lets a tensor lie at a place; tensors that it overlaps are gone."""
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
        """Gives the first byte behind the tensor at a place."""
        return place[1] + self.held[place].nbytes


@dataclass(frozen=True)
class Argument:
    """A tensor of the program, as its table describes it."""

    number: int
    sizes: Shape
    order: tuple[int, ...]
    dtype: DType
    held: pte.Tensor

    @property
    def nbytes(self) -> int:
        """The bytes of the tensor."""
        return math.prod(self.sizes) * self.dtype.size_bytes

    @property
    def memory_shape(self) -> Shape:
        """The sizes in the order of the axes in memory."""
        return tuple(self.sizes[axis] for axis in self.order)

    @property
    def place(self) -> Place:
        """Where the tensor lies: a memory and an offset; an input without a plan has a place of its own."""
        planned = self.held.allocation_info
        return (-1, self.number) if planned is None else (planned.memory_id, planned.offset)


def described(number: int, held: pte.Tensor) -> Argument:
    """Gives the table's entry for a tensor, if it makes sense."""
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


class Machine(Protocol):
    """What the calls of a program act on: its values, its memory, and the steps that have been taken."""

    def entry(self, number: int) -> Table:
        """Gives the value with this number."""

    def read(self, argument: Argument, source: str) -> Tensor:
        """Gives the tensor that lies where an argument says, in the shape that it has in memory."""

    def write(self, argument: Argument, tensor: Tensor) -> None:
        """Lets a tensor lie where an argument of the program says, from now on."""

    def shaped(self, tensor: Tensor, shape: Shape, source: str) -> Tensor:
        """Gives the same bytes under another shape."""

    def copy(self, x: Tensor, y: Tensor, source: str) -> None:
        """Makes a tensor that has the bytes of another one."""

    def add(self, step: AnyStep) -> None:
        """Notes what a call does; it comes after all that the calls before it do."""


class ReadCall:
    """One kernel call. The last two arguments are both the result."""

    def __init__(self, reader: Machine, operator: str, source: str, numbers: Sequence[int]) -> None:
        self.reader, self.operator, self.source = reader, operator, source
        self.numbers = numbers[:-2]
        if len(numbers) < 2 or numbers[-1] != numbers[-2]:
            raise MalformedError(f"{source}: the last two arguments are the result")
        self.out = self.argument(numbers[-1])
        self.check_fields()

    def check_fields(self) -> None:
        """Refuses integers that are not what the kernel may be given, whether a row reads them or not."""
        for place, number in enumerate(self.numbers):
            held = self.reader.entry(number)
            fields = FIELDS[self.operator]
            field = fields.get(place, fields.get(place - len(self.numbers)))
            if field is None and isinstance(held, (pte.Int, pte.IntList)):
                raise self.refuse(f"argument {place} is no integer", type(held).__name__)
            found: tuple[int, ...] = (held.int_val,) if isinstance(held, pte.Int) else ()
            found = self.integers(place) if isinstance(held, pte.IntList) else found
            wrong = [n for n in found if field is not None and not field.takes(n)]
            if wrong and field is not None:
                rule = f"argument {place} is {field.means}, from {field.low} to {field.high}"
                raise self.refuse(rule, wrong[0])

    def refuse(self, rule: str, here: object) -> PillionError:
        """Makes the error that says why this call cannot be read."""
        return PillionError(
            f"{self.operator} cannot be read",
            rule=rule,
            here=f"{here}  ({self.source})"[:400],
            help="compile the model with Pillion, from PyTorch or .tflite",
        )

    # Arguments by their place in the operator's schema

    def held(self, place: int, kind: type[T]) -> T:
        """Gives an argument, which must be of one kind."""
        if not 0 <= place < len(self.numbers):
            raise self.refuse(f"there is an argument {place}", f"{len(self.numbers)} arguments")
        held = self.reader.entry(self.numbers[place])
        if not isinstance(held, kind):
            raise self.refuse(f"argument {place} is of kind {kind.__name__}", type(held).__name__)
        return held

    def is_null(self, place: int) -> bool:
        """Whether an argument was left out."""
        return isinstance(self.held(place, object), pte.Null)

    def number(self, place: int) -> int:
        """Gives an integer argument."""
        return self.held(place, pte.Int).int_val

    def level(self, place: int, sign: int = 1) -> int:
        """Gives a zero point or another int8 number, or the one that it is the opposite of."""
        number = sign * self.number(place)
        if not -128 <= number <= 127:
            raise self.refuse(f"argument {place} stands for an int8 number", number)
        return number

    def bounds(self, low: int, high: int) -> dict[str, int]:
        """Gives the bounds of the result, which are two arguments."""
        least, most = self.level(low), self.level(high)
        if least > most:
            raise self.refuse("the lower bound of the result is at most the upper one", (least, most))
        return {"low": least, "high": most}

    def real(self, place: int) -> float:
        """Gives a floating-point argument."""
        return self.held(place, pte.Double).double_val

    def flag(self, place: int) -> bool:
        """Gives an argument that is true or false."""
        return self.held(place, pte.Bool).bool_val

    def integers(self, place: int, count: int | None = None) -> tuple[int, ...]:
        """Gives a list of numbers, which the program keeps as a list of values."""
        items = self.held(place, pte.IntList).items
        if len(items) > LONGEST_LIST or (count is not None and len(items) != count):
            raise self.refuse(
                f"argument {place} has {count or f'at most {LONGEST_LIST}'} numbers", len(items)
            )
        found = [self.reader.entry(item) for item in items]
        if not all(isinstance(one, pte.Int) for one in found):
            raise self.refuse(f"argument {place} is a list of integers", found[:4])
        return tuple(one.int_val for one in found if isinstance(one, pte.Int))

    def pair(self, place: int) -> Pair:
        """Gives an argument of two integers, such as a stride."""
        first, second = self.integers(place, 2)
        return first, second

    def multiplier(self, mantissa: int, shift: int) -> Multiplier:
        """Gives a multiplier, whose mantissa and shift are two arguments."""
        return Multiplier(self.number(mantissa), self.number(shift))

    def multipliers(self, mantissas: int, shifts: int, count: int) -> Multipliers:
        """Gives the multipliers of all channels, which are two constants."""
        both = (self.vector(place, count).tolist() for place in (mantissas, shifts))
        return tuple(map(Multiplier, *both))

    # Tensors

    def argument(self, number: int) -> Argument:
        """Gives the description of a tensor by its number in the table of values."""
        held = self.reader.entry(number)
        if not isinstance(held, pte.Tensor):
            raise self.refuse("operands and results are tensors", type(held).__name__)
        return described(number, held)

    def view(self, place: int) -> View:
        """Gives a tensor argument as the call sees it."""
        self.held(place, pte.Tensor)
        return self.seen(self.numbers[place])

    def seen(self, number: int) -> View:
        """Gives a tensor as the call sees it, by its number in the table of values."""
        argument = self.argument(number)
        return View(self.reader.read(argument, self.source), argument.sizes, argument.order)

    def views(self, place: int) -> list[View]:
        """Gives an argument that is a list of tensors."""
        items = self.held(place, pte.TensorList).items
        if not 0 < len(items) <= 1024:
            raise self.refuse("a list of tensors has 1 to 1024", len(items))
        return [self.seen(number) for number in items]

    def shaped(self, tensor: Tensor, shape: Shape) -> Tensor:
        """Gives a tensor in another shape; the elements stay where they are."""
        return self.reader.shaped(tensor, shape, self.source)

    def image(self, place: int) -> Tensor:
        """Gives an operand as an NHWC image."""
        view = self.view(place)
        if not view.is_image:
            raise self.refuse(
                f"argument {place} is an image whose channels lie last", (view.sizes, view.order)
            )
        return self.int8(self.shaped(view.tensor, view.image_shape))

    def plain(self, place: int) -> Tensor:
        """Gives an operand that lies in memory as its sizes say."""
        view = self.view(place)
        if not view.is_contiguous:
            raise self.refuse(
                f"argument {place} is contiguous: the kernel takes it for that", (view.sizes, view.order)
            )
        return self.shaped(view.tensor, view.sizes)

    def want_alike(self, *views: View) -> None:
        """Refuses operand and result of different layouts: the kernel goes through memory from end to end, whatever the layouts."""
        out = self.out_view
        for view in views:
            if not view.lies_as(out):
                here = f"{view.sizes} in order {view.order}, {out.sizes} in order {out.order}"
                raise self.refuse("operands and result lie alike in memory", here)

    def int8(self, tensor: Tensor) -> Tensor:
        """Gives the tensor back if it is int8, and refuses it otherwise."""
        if tensor.dtype is not DType.INT8:
            raise self.refuse("operands are int8", tensor.dtype.value)
        return tensor

    def constant(self, place: int, dtype: DType) -> Array:
        """Gives the data of a constant operand, shaped by its sizes."""
        tensor = self.plain(place)
        if tensor.data is None or tensor.dtype is not dtype:
            raise self.refuse(
                f"argument {place} is a constant of {dtype.value}", (tensor.dtype.value, tensor.shape)
            )
        return tensor.data

    def vector(self, place: int, count: int) -> Array:
        """Gives a constant vector of int32; zeros where the argument is left out."""
        if self.is_null(place):
            return np.zeros(count, np.int32)
        data = self.constant(place, DType.INT32)
        if data.size != count:
            raise self.refuse(f"argument {place} has {count} elements", data.shape)
        return data.reshape(count)

    # Results

    @property
    def out_view(self) -> View:
        """The result's sizes and order."""
        return View(Tensor("", (), self.out.dtype, Label()), self.out.sizes, self.out.order)

    @property
    def out_image(self) -> Shape:
        """The shape of the result, which must be an image with its channels last in memory."""
        out = self.out_view
        if not out.is_image:
            raise self.refuse("the result is an image whose channels lie last", (out.sizes, out.order))
        return out.image_shape

    @property
    def out_plain(self) -> Shape:
        """The shape of the result, which must be contiguous."""
        out = self.out_view
        if not out.is_contiguous:
            raise self.refuse("the result is contiguous", (out.sizes, out.order))
        return out.sizes

    def make(self, shape: Shape, dtype: DType, label: Label | None = None) -> Tensor:
        """Makes the result, which lies in its place from now on; without `label` it has parameters of its own."""
        if math.prod(shape) * dtype.size_bytes != self.out.nbytes or dtype is not self.out.dtype:
            raise self.refuse(
                f"the result is {dtype.value}{list(shape)}", f"{self.out.dtype.value}{list(self.out.sizes)}"
            )
        made = Tensor(f"t{self.out.number}", shape, dtype, label or Label())
        self.reader.write(self.out, made)
        return made

    def make_int8(self, shape: Shape, zero_point: int) -> Tensor:
        """Makes an int8 result of which the call says the zero point."""
        return self.make(shape, DType.INT8, Label(zero_point=zero_point))

    def becomes(
        self, make: type[Any], y: Tensor, xs: Mapping[str, tuple[Tensor, Seen]], **fields: Any
    ) -> None:
        """Notes the op that the call is. Zero points that it gives to operands are known of them from now on."""
        for x, seen in xs.values():
            if isinstance(seen, int):
                x.label.learn(seen)
        self.reader.add(Step(self.source, make, xs, y, fields))

# SPDX-License-Identifier: Apache-2.0
"""The instructions of a program: checked access to arguments, and a model of the planned memory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from pillion.codecs.pte.signatures import EXPLICIT_LAYOUT, RANGES, argument_names
from pillion.errors import PillionError
from pillion.importers.pte.program_state import Argument, ProgramState, argument_of_tensor
from pillion.importers.pte.steps import OpStep, Seen
from pillion.importers.pte.tensor import Layout, ReadTensor, SharedQuantParams, TensorView
from pillion.ir.numerics import Multiplier, Multipliers
from pillion.ir.types import Array, DType, Pair, Shape
from pillion.schemas import pte
from pillion.schemas.flatbuffer import MalformedError

LONGEST_LIST = 64
T = TypeVar("T")


class ReadCall:
    """One kernel call. Its last two arguments are both the result."""

    def __init__(self, reader: ProgramState, operator: str, source: str, numbers: Sequence[int]) -> None:
        self.reader, self.operator, self.source = reader, operator, source
        if len(numbers) < 2 or numbers[-1] != numbers[-2]:
            raise MalformedError(f"{source}: the last two arguments are the result")
        *given, _, out = numbers
        names = argument_names(operator, len(given))
        names += map(str, range(len(names), len(given)))
        self.numbers = dict(zip(names, given, strict=False))
        """The value of each argument, by its name in the operator's signature."""
        self.out = self.argument(out)
        self.check_ranges()

    def check_ranges(self) -> None:
        """Raises if an integer argument is out of its range, even if no reader uses it."""
        for name, number in self.numbers.items():
            value, range_ = self.reader.entry(number), RANGES.get(name)
            if not isinstance(value, (pte.Int, pte.IntList)):
                continue
            if range_ is None:
                raise self.refuse(f"argument `{name}` is no integer", type(value).__name__)
            integers = self.integers(name) if isinstance(value, pte.IntList) else (value.int_val,)
            wrong = [n for n in integers if not range_.takes(n)]
            if wrong:
                rule = f"argument `{name}` is {range_.means}, from {range_.low} to {range_.high}"
                raise self.refuse(rule, wrong[0])

    def refuse(self, rule: str, here: object) -> PillionError:
        """Returns the error that this call cannot be read."""
        return PillionError(
            f"{self.operator} cannot be read",
            rule=rule,
            here=f"{here}  ({self.source})"[:400],
            help="compile the model with Pillion, from PyTorch or .tflite",
        )

    # Arguments by their name in the operator's signature

    def typed_argument(self, name: str, kind: type[T]) -> T:
        """Returns an argument of one kind; raises for another kind."""
        if name not in self.numbers:
            raise self.refuse(f"there is an argument `{name}`", f"{len(self.numbers)} arguments")
        value = self.reader.entry(self.numbers[name])
        if not isinstance(value, kind):
            raise self.refuse(f"argument `{name}` is of kind {kind.__name__}", type(value).__name__)
        return value

    def is_null(self, name: str) -> bool:
        """Whether an argument is omitted."""
        return isinstance(self.typed_argument(name, object), pte.Null)

    def number(self, name: str) -> int:
        """Returns an integer argument."""
        return self.typed_argument(name, pte.Int).int_val

    def bounds(self) -> dict[str, int]:
        """Returns the bounds of the result."""
        least, most = self.number("low"), self.number("high")
        if least > most:
            raise self.refuse("the lower bound of the result is at most the upper one", (least, most))
        return {"low": least, "high": most}

    def real(self, name: str) -> float:
        """Returns a floating-point argument."""
        return self.typed_argument(name, pte.Double).double_val

    def flag(self, name: str) -> bool:
        """Returns a boolean argument."""
        return self.typed_argument(name, pte.Bool).bool_val

    def integers(self, name: str, count: int | None = None) -> tuple[int, ...]:
        """Returns a list of integers."""
        items = self.typed_argument(name, pte.IntList).items
        if len(items) > LONGEST_LIST or (count is not None and len(items) != count):
            raise self.refuse(
                f"argument `{name}` has {count or f'at most {LONGEST_LIST}'} numbers", len(items)
            )
        values = [self.reader.entry(item) for item in items]
        if not all(isinstance(value, pte.Int) for value in values):
            raise self.refuse(f"argument `{name}` is a list of integers", values[:4])
        return tuple(value.int_val for value in values if isinstance(value, pte.Int))

    def pair(self, name: str) -> Pair:
        """Returns an argument of two integers, such as a stride."""
        first, second = self.integers(name, 2)
        return first, second

    def multiplier(self, mantissa: str = "multiplier", shift: str = "shift") -> Multiplier:
        """Returns the multiplier of two arguments, mantissa and shift."""
        return Multiplier(self.number(mantissa), self.number(shift))

    def multipliers(self, count: int) -> Multipliers:
        """Returns the multipliers of all channels from two constants."""
        both = (self.vector(name, count).tolist() for name in ("multipliers", "shifts"))
        return tuple(map(Multiplier, *both))

    # Tensors

    def argument(self, number: int) -> Argument:
        """Returns the description of a tensor by its value index."""
        value = self.reader.entry(number)
        if not isinstance(value, pte.Tensor):
            raise self.refuse("operands and results are tensors", type(value).__name__)
        return argument_of_tensor(number, value)

    def view(self, name: str) -> TensorView:
        """Returns a tensor argument with its logical sizes and dim order."""
        self.typed_argument(name, pte.Tensor)
        return self.tensor_at(self.numbers[name])

    def tensor_at(self, number: int) -> TensorView:
        """Returns a tensor by its value index, with its logical sizes and dim order."""
        argument = self.argument(number)
        return TensorView(argument.sizes, argument.order, self.reader.read(argument, self.source))

    def views(self, name: str) -> list[TensorView]:
        """Returns an argument that is a list of tensors."""
        items = self.typed_argument(name, pte.TensorList).items
        if not 0 < len(items) <= 1024:
            raise self.refuse("a list of tensors has 1 to 1024", len(items))
        return [self.tensor_at(number) for number in items]

    def shaped(self, tensor: ReadTensor, shape: Shape) -> ReadTensor:
        """Returns a tensor in another shape."""
        return self.reader.shaped(tensor, shape, self.source)

    def image(self, name: str) -> ReadTensor:
        """Returns an operand as an NHWC image."""
        view = self.view(name)
        return self.int8(self.shaped(view.tensor, self.image_shape(view, f"argument `{name}`")))

    def image_shape(self, layout: Layout, what: str) -> Shape:
        """Returns the NHWC shape of an image; its sizes or its dim order say it, depending on the operator."""
        is_explicit = self.operator in EXPLICIT_LAYOUT
        if not (layout.is_contiguous and len(layout.sizes) == 4 if is_explicit else layout.is_image):
            rule = (
                f"{what} is an image {'of sizes [n, h, w, c]' if is_explicit else 'whose channels lie last'}"
            )
            raise self.refuse(rule, (layout.sizes, layout.order))
        return layout.sizes if is_explicit else layout.image_shape

    def plain(self, name: str) -> ReadTensor:
        """Returns a contiguous operand."""
        view = self.view(name)
        if not view.is_contiguous:
            raise self.refuse(
                f"argument `{name}` is contiguous: the kernel takes it for that", (view.sizes, view.order)
            )
        return self.shaped(view.tensor, view.sizes)

    def require_same_dim_order(self, *views: TensorView) -> None:
        """Raises if operands and result have different dim orders: the kernel traverses memory linearly."""
        for view in views:
            if not view.has_same_memory_order(self.out):
                here = f"{view.sizes} in order {view.order}, {self.out.sizes} in order {self.out.order}"
                raise self.refuse("operands and result lie alike in memory", here)

    def int8(self, tensor: ReadTensor) -> ReadTensor:
        """Returns the tensor; raises if it is not int8."""
        if tensor.dtype is not DType.INT8:
            raise self.refuse("operands are int8", tensor.dtype.value)
        return tensor

    def constant(self, name: str, dtype: DType) -> Array:
        """Returns the data of a constant operand."""
        tensor = self.plain(name)
        if tensor.data is None or tensor.dtype is not dtype:
            raise self.refuse(
                f"argument `{name}` is a constant of {dtype.value}", (tensor.dtype.value, tensor.shape)
            )
        return tensor.data

    def vector(self, name: str, count: int) -> Array:
        """Returns a constant int32 vector; zeros if it is omitted."""
        if self.is_null(name):
            return np.zeros(count, np.int32)
        data = self.constant(name, DType.INT32)
        if data.size != count:
            raise self.refuse(f"argument `{name}` has {count} elements", data.shape)
        return data.reshape(count)

    # Results

    @property
    def out_image(self) -> Shape:
        """The shape of the result as an NHWC image."""
        return self.image_shape(self.out, "the result")

    @property
    def contiguous_out_shape(self) -> Shape:
        """The shape of the contiguous result."""
        if not self.out.is_contiguous:
            raise self.refuse("the result is contiguous", (self.out.sizes, self.out.order))
        return self.out.sizes

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
        """Makes the int8 result of a call whose arguments state its zero point."""
        return self.make(shape, DType.INT8, SharedQuantParams(zero_point=zero_point))

    def record_op(
        self, make: type[Any], y: ReadTensor, xs: Mapping[str, tuple[ReadTensor, Seen]], **fields: Any
    ) -> None:
        """Records the op of the call, and the zero points that it gives to operands."""
        for x, seen in xs.values():
            if isinstance(seen, int):
                x.label.add_known_params(seen)
        self.reader.add(OpStep(self.source, make, xs, y, fields))

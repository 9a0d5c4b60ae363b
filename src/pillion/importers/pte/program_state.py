# SPDX-License-Identifier: Apache-2.0
"""The tensors of a program in memory, and the steps that its instructions have recorded."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from dataclasses import dataclass

from pillion.errors import PillionError
from pillion.importers.pte.container import Container
from pillion.importers.pte.steps import AnyStep, SameScaleStep
from pillion.importers.pte.tensor import Layout, ReadTensor, SharedQuantParams
from pillion.ir.types import DType, Shape
from pillion.ops import Reshape
from pillion.schemas import pte
from pillion.schemas.flatbuffer import MalformedError, Table
from pillion.schemas.pte import ScalarType

MOST_STEPS = 20_000
"""Far more than any model for these chips has."""
MAX_RANK = 8
MAX_ELEMENTS = 2**31 - 1
UNREAD = (DType.INT4, DType.INT64)
DTYPES = {int(ScalarType[dtype.name]): dtype for dtype in DType if dtype not in UNREAD}

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
class Argument(Layout):
    """The description of a tensor in the program's table."""

    number: int
    dtype: DType
    held: pte.Tensor

    @property
    def nbytes(self) -> int:
        """The size of the tensor in bytes."""
        return math.prod(self.sizes) * self.dtype.size_bytes

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
    return Argument(sizes, order, number, DTYPES[held.scalar_type], held)


class ProgramState:
    """The values and the memory of a program while its instructions are read, and the steps so far."""

    def __init__(self, container: Container) -> None:
        self.container = container
        self.values = container.plan.values
        self.memory = ArenaMemory()
        self.constants: dict[int, ReadTensor] = {}
        self.reshaped: dict[tuple[ReadTensor, Shape], ReadTensor] = {}
        self.steps: list[AnyStep] = []

    # Values

    def entry(self, number: int) -> Table:
        """Returns a value by its index; raises if it is missing or of an unknown kind."""
        if not 0 <= number < len(self.values):
            raise MalformedError(f"value {number} of {len(self.values)}")
        value = self.values[number].val
        if value is None:
            raise MalformedError(f"value {number} is of no known kind")
        return value

    def boundary_tensor(self, number: int) -> Argument:
        """Returns the description of an input or output, which must be a tensor."""
        value = self.entry(number)
        if not isinstance(value, pte.Tensor):
            raise MalformedError("inputs and outputs are tensors")
        return argument_of_tensor(number, value)

    def input(self, number: int, index: int) -> ReadTensor:
        """Places an input of the program in memory and returns it."""
        argument = self.boundary_tensor(number)
        if argument.held.data_buffer_idx or argument.dtype not in (DType.FLOAT32, DType.INT8):
            raise MalformedError(
                f"input {index} is a {argument.dtype.value} constant, or neither float32 nor int8"
            )
        tensor = ReadTensor(f"input{index}", argument.memory_shape, argument.dtype, SharedQuantParams())
        self.write(argument, tensor)
        return tensor

    def output(self, number: int, index: int) -> ReadTensor:
        """Returns the tensor at the place of an output after all calls."""
        argument = self.boundary_tensor(number)
        tensor = self.read(argument, "an output")
        if tensor.is_constant:
            raise MalformedError("an output is a constant")
        if not tensor.name.startswith("input"):
            tensor.name = f"output{index}"
        return tensor

    # Memory

    def write(self, argument: Argument, tensor: ReadTensor) -> None:
        """Places a result at the address of an argument."""
        if argument.held.data_buffer_idx:
            raise MalformedError(f"value {argument.number} is written, and a constant")
        self.memory.write(argument.place, tensor)

    def read(self, argument: Argument, source: str) -> ReadTensor:
        """Returns the tensor at the address of an argument, in its shape in memory."""
        if argument.held.data_buffer_idx:
            return self.constant(argument)
        tensor = self.memory.held.get(argument.place)
        if tensor is None or tensor.nbytes != argument.nbytes or tensor.dtype is not argument.dtype:
            raise PillionError(
                f"value {argument.number} of `{self.container.name}` is read before it is made",
                rule="what a call reads is a whole tensor that an earlier call has written",
                here=f"{source}: {argument.dtype.value}{list(argument.sizes)}, memory {argument.place[0]}, "
                f"offset {argument.place[1]}",
                help="export the model again; programs that keep state between runs cannot be read",
            )
        return self.shaped(tensor, argument.memory_shape, source)

    def constant(self, argument: Argument) -> ReadTensor:
        """Returns the constant of an argument."""
        if argument.number not in self.constants:
            if argument.held.allocation_info is not None:
                raise MalformedError(f"value {argument.number} is a constant, and planned")
            raw = self.container.constant(argument.held.data_buffer_idx, argument.nbytes)
            dtype = argument.dtype.numpy
            data = raw.view(dtype.newbyteorder("<")).astype(dtype, copy=False).reshape(argument.memory_shape)
            name = f"c{argument.held.data_buffer_idx}"
            self.constants[argument.number] = ReadTensor(
                name, data.shape, argument.dtype, SharedQuantParams(), data
            )
        return self.constants[argument.number]

    def shaped(self, tensor: ReadTensor, shape: Shape, source: str) -> ReadTensor:
        """Returns the same bytes in another shape."""
        if tensor.shape == shape:
            return tensor
        key = (tensor, shape)
        if key not in self.reshaped:
            data = None if tensor.data is None else tensor.data.reshape(shape)
            reshaped = ReadTensor(tensor.name, shape, tensor.dtype, tensor.label, data)
            if data is None:
                self.add(SameScaleStep(source, Reshape, ("x",), (tensor,), reshaped))
            self.reshaped[key] = reshaped
        return self.reshaped[key]

    def copy(self, x: ReadTensor, y: ReadTensor, source: str) -> None:
        """Records a copy as a reshape, which costs nothing."""
        self.add(SameScaleStep(source, Reshape, ("x",), (x,), y))

    def add(self, step: AnyStep) -> None:
        """Records the step of a call."""
        if len(self.steps) >= MOST_STEPS:
            raise MalformedError(f"it has more than {MOST_STEPS} steps")
        if isinstance(step, SameScaleStep) and all(x.is_constant for x in step.xs):
            raise MalformedError(f"{step.source} has only constant operands")
        self.steps.append(step)

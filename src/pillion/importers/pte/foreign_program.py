# SPDX-License-Identifier: Apache-2.0
"""Reads any program of known kernel calls: the graph computes what each call does to the bytes in memory.
Programs have memory offsets, multipliers and zero points, but no names and few scales: names are generated,
multipliers kept, and tensors have a scale only if a call gives it."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence

from pillion.errors import PillionError
from pillion.importers.pte.container import Container
from pillion.importers.pte.delegate import read_payload
from pillion.importers.pte.instructions import ArenaMemory, Argument, ReadCall, argument_of_tensor
from pillion.importers.pte.steps import AnyStep, Delegated, GraphCollector, SameScaleStep
from pillion.importers.pte.table import TABLE
from pillion.importers.pte.tensor import ReadTensor, SharedQuantParams
from pillion.ir.graph import Graph, model_name
from pillion.ir.types import DType, Shape
from pillion.ir.verify import verify
from pillion.ops import Reshape
from pillion.schemas import pte
from pillion.schemas.flatbuffer import MalformedError, Table
from pillion.schemas.ir_payload import is_ir

MOST_STEPS = 20_000
"""Far more than any model for these chips has."""


def graph_of(container: Container) -> Graph:
    """Returns the graph of a program's kernel calls."""
    refuse_unknown(container)
    try:
        return _read(container)
    except MalformedError:
        raise
    except (ValueError, LookupError, ArithmeticError) as error:
        raise MalformedError(f"its calls make no sense together: {error}") from None


def _read(container: Container) -> Graph:
    reader = PteReader(container)
    inputs = [reader.input(number, i) for i, number in enumerate(container.plan.inputs)]
    for number, instruction in enumerate(container.plan.chains[0].instructions):
        reader.run(number, instruction.instr_args)
    outputs = [reader.output(number, i) for i, number in enumerate(container.plan.outputs)]
    return reader.graph(inputs, outputs)


def refuse_unknown(container: Container) -> None:
    """Raises one error with all unsupported calls of a program."""
    plan = container.plan
    unknown: Counter[str] = Counter()
    for instruction in plan.chains[0].instructions:
        match instruction.instr_args:
            case pte.KernelCall(op_index=index):
                name = operator_name(container, index)
                unknown[name] += name not in TABLE
            case pte.DelegateCall(delegate_index=index):
                delegate = container.delegate(index)
                found_code = not is_ir(container.payload(delegate))
                unknown[f"delegate {delegate.id}, with code for the NPU itself"] += found_code
            case other:
                unknown[type(other).__name__ if other else "an instruction of no known kind"] += 1
    kinds = [f"{name[:100]}, {count} times" for name, count in unknown.items() if count]
    if kinds:
        more = f"\nand {len(kinds) - 40} more" if len(kinds) > 40 else ""
        raise PillionError(
            f"`{container.name}` has {len(kinds)} kind{'s' * (len(kinds) > 1)} of instruction that cannot be read",
            rule="int8 kernels of the cortex_m library, copies of ATen's and segments under Pillion's mark, one after the other",
            here="\n".join(kinds[:40]) + more,
            help="compile the model with Pillion, from PyTorch or .tflite; it says what keeps an op in float",
        )


def operator_name(container: Container, index: int) -> str:
    """Returns the full name of an operator by its index, such as `cortex_m::quantized_add.out`."""
    operators = container.plan.operators
    if not 0 <= index < len(operators):
        raise MalformedError(f"operator {index} of {len(operators)}")
    return f"{operators[index].name}.{operators[index].overload}"


class PteReader:
    """Interprets the instructions and records their steps."""

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

    def border(self, number: int) -> Argument:
        """Returns the description of an input or output, which must be a tensor."""
        value = self.entry(number)
        if not isinstance(value, pte.Tensor):
            raise MalformedError("inputs and outputs are tensors")
        return argument_of_tensor(number, value)

    def input(self, number: int, index: int) -> ReadTensor:
        """Places an input of the program in memory and returns it."""
        argument = self.border(number)
        if argument.held.data_buffer_idx or argument.dtype not in (DType.FLOAT32, DType.INT8):
            raise MalformedError(
                f"input {index} is a {argument.dtype.value} constant, or neither float32 nor int8"
            )
        tensor = ReadTensor(f"input{index}", argument.memory_shape, argument.dtype, SharedQuantParams())
        self.write(argument, tensor)
        return tensor

    def output(self, number: int, index: int) -> ReadTensor:
        """Returns the tensor at the place of an output after all calls."""
        argument = self.border(number)
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

    # Instructions

    def run(self, number: int, instruction: Table | None) -> None:
        """Reads one instruction, a kernel call or a delegate call."""
        if isinstance(instruction, pte.DelegateCall):
            self.delegate(f"instruction {number}, delegate", instruction)
        elif isinstance(instruction, pte.KernelCall):
            name = operator_name(self.container, instruction.op_index)
            call = ReadCall(self, name, f"instruction {number}, {name}", instruction.args)
            TABLE[name](call)

    def delegate(self, source: str, call: pte.DelegateCall) -> None:
        """Reads the call of an NPU segment: inputs, then outputs, all contiguous."""
        delegate = self.container.delegate(call.delegate_index)
        body = with_unique_names(read_payload(self.container.payload(delegate)), source)
        declared = (*body.inputs, *body.outputs)
        arguments = [self.border(number) for number in call.args]
        if [(a.nbytes, a.dtype) for a in arguments] != [(v.type.size_bytes, v.dtype) for v in declared]:
            raise MalformedError(f"{source}: it is handed {len(arguments)} tensors, not those of the segment")
        count = len(body.inputs)
        xs = [
            self.shaped(self.read(argument, source), value.shape, source)
            for argument, value in zip(arguments[:count], body.inputs, strict=True)
        ]
        ys = [
            ReadTensor(f"t{a.number}", v.shape, v.dtype, SharedQuantParams())
            for a, v in zip(arguments[count:], body.outputs, strict=True)
        ]
        for tensor, value in zip((*xs, *ys), declared, strict=True):
            if value.is_quantized:
                tensor.label.add_known_params(value.zero_point, value.scale)
        for argument, tensor in zip(arguments[count:], ys, strict=True):
            self.write(argument, tensor)
        self.add(Delegated(source, tuple(xs), tuple(ys), body, delegate.id))

    # The graph

    def graph(self, inputs: Sequence[ReadTensor], outputs: Sequence[ReadTensor]) -> Graph:
        """Returns the graph of all steps."""
        out = GraphCollector()
        taken = tuple(map(out.result, inputs))
        for step in self.steps:
            step.emit(out)
        collected = Graph(
            model_name(self.container.name), taken, tuple(out.ops), tuple(out.values[y] for y in outputs)
        )
        return verify(collected.without_dead_ops())


def with_unique_names(body: Graph, source: str) -> Graph:
    """Returns a segment's graph with unique names."""
    prefix = source.split(",")[0].replace(" ", "")
    values = {v: dataclasses.replace(v, name=f"{prefix}/{v.name}") for v in body.values.values()}
    return body.substitute(values).replace(name=f"{body.name}_{prefix}")


__all__ = ["graph_of"]

# SPDX-License-Identifier: Apache-2.0
"""A float file as a PyTorch module; images stay channels-last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode

from pillion.codecs.tflite.read_operator import ReadOperator
from pillion.errors import PillionError, error_reason
from pillion.importers.tflite import while_loops
from pillion.importers.tflite.model import TfliteReader
from pillion.importers.tflite_float import elementwise, layers, op_functions, recurrent
from pillion.importers.tflite_float.elementwise import TORCH
from pillion.importers.tflite_float.reader import FloatReader
from pillion.importers.tflite_float.readings import FloatCall, Reading, as_tensor
from pillion.importers.torch.file_operators import named_inputs, operator_module_name
from pillion.ir.size_limits import LARGEST
from pillion.ir.types import DType, Value, constant_value
from pillion.schemas import tflite
from pillion.schemas.flatbuffer import MalformedError


class FloatOperator(nn.Module):
    """One operator of the file with its parameters and states."""

    def __init__(self, made: FloatCall) -> None:
        super().__init__()
        self.compute = made.forward
        for name, part in made.parts.items():
            if isinstance(part, nn.Module):
                self.add_module(name, part)
            else:
                self.register_parameter(name, part)
        self.states = tuple(made.states)
        for name, state in made.states.items():
            self.register_buffer(name, state)

    def forward(self, *operands: Tensor) -> tuple[Tensor, ...]:
        """Returns the results as a tuple, and updates the states."""
        output = self.compute(*operands, *map(self.get_buffer, self.states))
        results = tuple(output) if isinstance(output, (tuple, list)) else (output,)
        count = len(results) - len(self.states)
        for name, state in zip(self.states, results[count:], strict=True):
            self.get_buffer(name).copy_(state)
        return results[:count]


@dataclass(frozen=True)
class FloatStep:
    """One operator of the module: its submodule's name, operands, results and call."""

    name: str
    operands: tuple[Value, ...]
    results: tuple[Value, ...]
    call: ReadOperator


class FloatModule(nn.Module):
    """The main subgraph of a file, or the step of a loop."""

    def __init__(self, reader: FloatReader, borders: tflite.SubGraph | None = None) -> None:
        super().__init__()
        graph = borders or reader.subgraph
        self.steps: list[FloatStep] = []
        self.inputs = tuple(reader.value(number) for number in graph.inputs)
        for number, call in enumerate(reader.calls(), reader.first):
            self._add_operator(number, call)
        self.outputs = tuple(reader.value(number) for number in graph.outputs)
        self._require_made(self.outputs)
        if not self.outputs or any(v.is_constant for v in (*self.inputs, *self.outputs)):
            raise MalformedError("inputs and outputs of a model are no constants, and there is an output")
        self._drop_unread()
        self.forward = named_inputs(self._compute, (v.name for v in self.inputs))

    def _add_operator(self, number: int, call: ReadOperator) -> None:
        made = read_operator(call)
        if not made.results:
            return
        operands = tuple(call.operand(n) for n in made.operands)
        self._require_made(operands)
        if all(v.is_constant for v in operands):
            fold_constant_operands(call, made, operands)
            return
        name, module = operator_module_name(number, call.code), FloatOperator(made)
        for index, value in enumerate(operands):
            if value.is_constant:
                module.register_buffer(f"constant_{index}", as_tensor(value.constant))
        self.add_module(name, module)
        self.steps.append(FloatStep(name, operands, made.results, call))

    def _drop_unread(self) -> None:
        """Removes operators without a reader."""
        needed = set(self.outputs)
        live = []
        for step in reversed(self.steps):
            if any(r in needed for r in step.results):
                needed.update(step.operands)
                live.append(step)
            else:
                delattr(self, step.name)
        self.steps = live[::-1]

    def _require_made(self, values: Sequence[Value]) -> None:
        """Raises if a value was not computed yet."""
        known = {*self.inputs, *(r for step in self.steps for r in step.results)}
        missing = next((v for v in values if not v.is_constant and v not in known), None)
        if missing is not None:
            raise MalformedError(f"`{missing.name}` is read before anything makes it")

    def _compute(self, *given: Tensor) -> Any:
        known: dict[Value, Tensor] = dict(zip(self.inputs, given, strict=True))
        for step in self.steps:
            known.update(zip(step.results, self.run(step, known), strict=True))
        outputs = tuple(known[v] for v in self.outputs)
        return outputs[0] if len(outputs) == 1 else outputs

    def run(self, step: FloatStep, known: Mapping[Value, Tensor]) -> tuple[Tensor, ...]:
        """Returns the results of one operator."""
        module = self.get_submodule(step.name)
        operands = (
            module.get_buffer(f"constant_{index}") if value.is_constant else known[value]
            for index, value in enumerate(step.operands)
        )
        results: tuple[Tensor, ...] = module(*operands)
        return results


def check_shapes(module: FloatModule) -> None:
    """Raises on operators that cannot be computed or whose shapes differ from the file's, without computing
    them."""
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        known = {v: torch.empty(v.shape, dtype=TORCH[v.dtype]) for v in module.inputs}
        for step in module.steps:
            try:
                results = module.run(step, known)
            except (RuntimeError, ValueError, TypeError, IndexError) as error:
                reason = error_reason(error)
                raise step.call.refuse("its operands fit together", reason) from None
            for value, tensor in zip(step.results, results, strict=True):
                if tuple(tensor.shape) != value.shape:
                    raise step.call.refuse(f"the result is {list(tensor.shape)}", repr(value))
                if value.type.elements * 4 > LARGEST:
                    raise step.call.refuse(f"a tensor has at most {LARGEST} bytes", repr(value))
                known[value] = tensor


def fold_constant_operands(call: ReadOperator, made: FloatCall, operands: Sequence[Value]) -> None:
    """Binds the results of constant operands to constants."""
    with torch.no_grad():
        computed = made.forward(*(as_tensor(v.constant) for v in operands))
    results = computed if isinstance(computed, (tuple, list)) else (computed,)
    for old, result in zip(made.results, results, strict=True):
        call.bind(old, constant_value(old.name, result.contiguous().numpy()))


def _loop_step_module(call: ReadOperator, reader: TfliteReader, step: tflite.SubGraph) -> FloatModule:
    """Returns the step of a loop as a module."""
    assert isinstance(reader, FloatReader)
    module = FloatModule(reader, step)
    check_shapes(module)
    return module


ROWS: dict[str, Reading] = {
    **layers.ROWS,
    **elementwise.ROWS,
    **op_functions.ROWS,
    **recurrent.ROWS,
    "WHILE": op_functions.in_torch(while_loops.loop(_loop_step_module)),
}
"""The reader of each operator, by its name in the format."""


def read_operator(call: ReadOperator) -> FloatCall:
    """Returns the PyTorch function of an operator."""
    row = ROWS.get(call.code)
    if row is None:
        raise call.refuse(
            f"operators of files in float are among {', '.join(sorted(ROWS))}",
            call.code,
            "leave this part of the model out of the file",
        )
    for value in (*call.inputs, *call.outputs):
        if value is not None and not value.is_constant and value.is_quantized:
            raise call.refuse(
                "a model computes in float, or in int8",
                repr(value),
                "convert with full integer quantization, or without any",
            )
    return row(call)


def random_inputs(inputs: Sequence[Value]) -> tuple[Tensor, ...]:
    """Returns random inputs; only their shapes and types matter."""
    source = torch.Generator().manual_seed(0)
    return tuple(_example_input(value, source) for value in inputs)


def _example_input(value: Value, source: torch.Generator) -> Tensor:
    if value.type.elements * 4 > LARGEST or value.dtype is DType.INT8:
        rule = f"inputs of files in float are float32, int32, uint8 without a scale, or bool, of at most {LARGEST} bytes"
        what, help = f"input `{value.name}` cannot be quantized", "convert with float inputs"
        raise PillionError(what, rule=rule, here=repr(value), help=help)
    if value.dtype is DType.FLOAT32:
        return torch.randn(value.shape, generator=source)
    return torch.zeros(value.shape, dtype=TORCH[value.dtype])

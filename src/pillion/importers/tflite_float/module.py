# SPDX-License-Identifier: Apache-2.0
"""A file that computes in float, as a module of PyTorch: its images stay channels last."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode

from pillion.errors import PillionError
from pillion.importers.tflite.loops import loop_of
from pillion.importers.tflite.model import ReadOperator
from pillion.importers.tflite_float import elementwise, layers, loops, movement
from pillion.importers.tflite_float.elementwise import TORCH
from pillion.importers.tflite_float.forms import Made, Reading
from pillion.importers.tflite_float.reader import FloatReader
from pillion.ir.graph import Names, identifier
from pillion.ir.sizes import LARGEST
from pillion.ir.types import Array, DType, Value, constant
from pillion.schemas import tflite
from pillion.schemas.flatbuffer import MalformedError

ROWS: dict[str, Reading] = {**layers.ROWS, **elementwise.ROWS, **movement.ROWS}
"""The reading of each operator, by its name in the format."""


PREFIX = "operator_"
"""What the names of the operators' modules begin with, before their number and their kind."""


class Operator(nn.Module):
    """One operator of the file, with its parameters."""

    def __init__(self, made: Made) -> None:
        super().__init__()
        self.compute = made.forward
        for name, part in made.parts.items():
            self.register_parameter(name, part)

    def forward(self, *operands: Tensor) -> tuple[Tensor, ...]:
        """Gives the results as a tuple."""
        made = self.compute(*operands)
        return tuple(made) if isinstance(made, (tuple, list)) else (made,)


@dataclass(frozen=True)
class Step:
    """One operator that is left: the name of its module, what it reads and makes, and what the file says of it."""

    name: str
    operands: tuple[Value, ...]
    results: tuple[Value, ...]
    call: ReadOperator


class FloatModule(nn.Module):
    """The main subgraph of a file, or what a loop does in a step."""

    def __init__(self, reader: FloatReader, borders: tflite.SubGraph | None = None) -> None:
        super().__init__()
        graph = borders or reader.subgraph
        self.steps: list[Step] = []
        self.inputs = tuple(reader.value(number) for number in graph.inputs)
        for number, call in enumerate(reader.calls()):
            self._take(reader, number, call)
        self.outputs = tuple(reader.value(number) for number in graph.outputs)
        self._want_made(self.outputs)
        if not self.outputs or any(v.is_constant for v in (*self.inputs, *self.outputs)):
            raise MalformedError("inputs and outputs of a model are no constants, and there is an output")
        self._drop_unread()
        self.forward = self._with_names()

    def _take(self, reader: FloatReader, number: int, call: ReadOperator) -> None:
        if call.code == "SHAPE":
            shape = np.array(call.operand(0).shape, np.int32)
            call.bind(call.result, constant(call.result.name, shape))
            return
        if call.code == "WHILE":
            self._loop(number, call)
            return
        made = read_operator(call)
        operands = tuple(call.operand(n) for n in made.operands)
        self._want_made(operands)
        if all(v.is_constant for v in operands):
            fold(call, made, operands)
            return
        self._append(number, call, Operator(made), operands, call.outputs)

    def _append(
        self,
        number: int,
        call: ReadOperator,
        module: nn.Module,
        operands: tuple[Value, ...],
        results: tuple[Value, ...],
    ) -> None:
        name = f"{PREFIX}{number}_{identifier(call.code)}"
        for place, value in enumerate(operands):
            if value.is_constant:
                module.register_buffer(f"constant_{place}", as_tensor(value.constant))
        self.add_module(name, module)
        self.steps.append(Step(name, operands, results, call))

    def _loop(self, number: int, call: ReadOperator) -> None:
        """A loop, whose step is a module of its own."""
        loop, reader = loop_of(call)
        assert isinstance(reader, FloatReader)
        step = FloatModule(reader, loop.step)
        check_shapes(step)
        carried = step.inputs[len(loop.elements) :][: len(loop.carried)]
        module = loops.Looped(call, loop, step, [value.shape for value in carried])
        operands = tuple(call.operand(n) for n in module.operands)
        self._want_made(operands)
        self._append(number, call, module, operands, tuple(call.outputs[n] for n in module.results))
        loops.bound(call, loop)

    def _drop_unread(self) -> None:
        """Operators whose results nobody reads are left out."""
        needed = set(self.outputs)
        kept = []
        for step in reversed(self.steps):
            if any(r in needed for r in step.results):
                needed.update(step.operands)
                kept.append(step)
            else:
                delattr(self, step.name)
        self.steps = kept[::-1]

    def _want_made(self, values: Sequence[Value]) -> None:
        """Refuses what nothing has made so far."""
        known = {*self.inputs, *(r for step in self.steps for r in step.results)}
        missing = next((v for v in values if not v.is_constant and v not in known), None)
        if missing is not None:
            raise MalformedError(f"`{missing.name}` is read before anything makes it")

    def _with_names(self) -> Any:
        """The function that is captured: its inputs have the names that the file gives them."""
        fresh = Names()
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters = [inspect.Parameter(fresh.fresh(identifier(v.name)), kind) for v in self.inputs]

        def forward(*given: Tensor) -> Any:
            known: dict[Value, Tensor] = dict(zip(self.inputs, given, strict=True))
            for step in self.steps:
                known.update(zip(step.results, self.run(step, known), strict=True))
            made = tuple(known[v] for v in self.outputs)
            return made[0] if len(made) == 1 else made

        forward.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # inspect looks for it
        return forward

    def run(self, step: Step, known: Mapping[Value, Tensor]) -> tuple[Tensor, ...]:
        """Computes one operator."""
        module = self.get_submodule(step.name)
        held = (
            module.get_buffer(f"constant_{place}") if value.is_constant else known[value]
            for place, value in enumerate(step.operands)
        )
        made: tuple[Tensor, ...] = module(*held)
        return made


def check_shapes(module: FloatModule) -> None:
    """Refuses operators that cannot be computed, or that make other shapes than the file says. Nothing is computed for that."""
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        known = {v: torch.empty(v.shape, dtype=TORCH[v.dtype]) for v in module.inputs}
        for step in module.steps:
            try:
                made = module.run(step, known)
            except (RuntimeError, ValueError, TypeError, IndexError) as error:
                reason = (str(error).splitlines() or [type(error).__name__])[0]
                raise step.call.refuse("its operands fit together", reason) from None
            for value, tensor in zip(step.results, made, strict=True):
                if tuple(tensor.shape) != value.shape:
                    raise step.call.refuse(f"the result is {list(tensor.shape)}", repr(value))
                if value.type.elements * 4 > LARGEST:
                    raise step.call.refuse(f"a tensor has at most {LARGEST} bytes", repr(value))
                known[value] = tensor


def fold(call: ReadOperator, made: Made, operands: Sequence[Value]) -> None:
    """Makes constants of what follows from constants alone."""
    with torch.no_grad():
        made_of_them = made.forward(*(as_tensor(v.constant) for v in operands))
    results = made_of_them if isinstance(made_of_them, (tuple, list)) else (made_of_them,)
    for old, result in zip(call.outputs, results, strict=True):
        call.bind(old, constant(old.name, result.contiguous().numpy()))


def read_operator(call: ReadOperator) -> Made:
    """Gives what an operator computes."""
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


def as_tensor(array: Array) -> Tensor:
    """Gives a constant as a tensor."""
    return torch.from_numpy(np.array(array))


def examples(inputs: Sequence[Value]) -> tuple[Tensor, ...]:
    """Gives random tensors that look like inputs: only their shapes and types count."""
    source = torch.Generator().manual_seed(0)
    return tuple(_example(value, source) for value in inputs)


def _example(value: Value, source: torch.Generator) -> Tensor:
    if value.type.elements * 4 > LARGEST:
        raise _no_input(value, f"inputs have at most {LARGEST} bytes")
    if value.dtype is DType.FLOAT32:
        return torch.randn(value.shape, generator=source)
    if value.dtype is DType.INT8:
        raise _no_input(value, "inputs of files in float are float32, int32, uint8 without a scale, or bool")
    return torch.zeros(value.shape, dtype=TORCH[value.dtype])


def _no_input(value: Value, rule: str) -> PillionError:
    return PillionError(
        f"input `{value.name}` cannot be quantized",
        rule=rule,
        here=repr(value),
        help="convert with float inputs",
    )

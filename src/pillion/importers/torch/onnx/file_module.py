# SPDX-License-Identifier: Apache-2.0
"""An ONNX file as a PyTorch module: operators on shapes and constants are computed when it is made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from pillion.errors import PillionError, error_reason
from pillion.importers.torch.file_operators import named_inputs, operator_module_name
from pillion.importers.torch.onnx.operators import OPERATORS, PREPARED
from pillion.importers.torch.onnx.reading import (
    MOST_ELEMENTS,
    Operator,
    UnreadableOperator,
    bounded,
    small_lists,
)

OWN_TYPES = ("Constant", "ConstantOfShape")
"""Operators whose results have a type that an attribute names."""
KNOWN = frozenset((*OPERATORS, *OWN_TYPES, "If"))
"""All operators that are read."""
INPUT_TYPES = {1: torch.float32, 6: torch.int32, 7: torch.int64}
"""Element types of inputs, by ONNX's number."""
MOST_DEPTH = 8
"""Limit of branches inside branches."""
_CONSTANT_TYPES = {
    "value_float": torch.float32,
    "value_floats": torch.float32,
    "value_int": torch.int64,
    "value_ints": torch.int64,
}


class FileOperator(nn.Module):
    """Computes one operator of the file."""

    def __init__(self, op: Operator, results: tuple[str, ...]) -> None:
        super().__init__()
        self.op, self.results = op, results

    def forward(self, *operands: Tensor | None) -> tuple[Tensor, ...]:
        """Returns the results as a tuple."""
        return as_tuple(OPERATORS[self.op.kind](self.op, *operands))


class OnnxModule(nn.Module):
    """Computes a file's graph."""

    def __init__(self, model: Any, onnx: Any, opset: int, free_sizes: tuple[int, ...]) -> None:
        super().__init__()
        graph = model.graph
        is_converted = any(node.op_type == "QuantizeLinear" for node in graph.node)
        reader = _Reader(onnx, opset, is_converted)
        reader.add_constants(graph)
        reader.add_inputs([v for v in graph.input if v.name not in reader.constants], free_sizes)
        self.inputs = dict(reader.inputs)
        self.output_names = [value.name for value in graph.output]
        self.names: list[str] = []
        for number, node in enumerate(reader.nodes(graph)):
            if (made := reader.read(node)) is not None:
                self.names.append(operator_module_name(number, node.name.strip("/") or node.op_type))
                self.add_module(self.names[-1], made)
        if missing := set(self.output_names) - set(reader.values) - set(reader.constants):
            raise UnreadableOperator(f"output `{min(missing)[:80]}` is computed by no operator that is read")
        needed = {n for step in self._steps() for n in step.op.names} | set(self.output_names)
        self.buffer_names = {n: f"constant_{i}" for i, n in enumerate(sorted(needed & set(reader.constants)))}
        for name, own in self.buffer_names.items():
            self.register_buffer(own, reader.constants[name])
        self.forward = named_inputs(self._compute, self.inputs)

    def _steps(self) -> list[FileOperator]:
        return [self.get_submodule(name) for name in self.names]  # type: ignore[misc]  # added above

    def _compute(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Computes the outputs in the file's order."""
        values: dict[str, Any] = {name: getattr(self, own) for name, own in self.buffer_names.items()}
        values.update(zip(self.inputs, inputs, strict=True))
        for step in self._steps():
            results = step(*(values[n] if n else None for n in step.op.names))
            values.update(zip(step.results, results, strict=False))
        return tuple(values[n] for n in self.output_names)


class _Reader:
    """Reads the operators one after the other."""

    def __init__(self, onnx: Any, opset: int, is_converted: bool) -> None:
        self.onnx, self.opset, self.is_converted = onnx, opset, is_converted
        self.constants: dict[str, Tensor] = {}
        self.values: dict[str, Tensor] = {}
        """Computed tensors: shapes and types without data."""
        self.inputs: dict[str, Tensor] = {}
        self.dequantized: dict[str, list[float]] = {}
        """Constants of one element behind a dequantize node."""
        self.mode = FakeTensorMode(allow_non_fake_inputs=True)
        self._left = MOST_ELEMENTS

    def tensor(self, tensor: Any) -> Tensor:
        """Returns a tensor of the file."""
        if tensor.data_location == 1:
            raise UnreadableOperator(f"`{tensor.name[:80]}` lies in another file, which is never opened")
        bounded(tensor.dims)
        return torch.from_numpy(self.onnx.numpy_helper.to_array(tensor).copy())

    def add_constant(self, name: str, tensor: Tensor) -> None:
        """Keeps a constant, within the limit for all constants together."""
        self.define(name)
        self._left -= tensor.numel()
        if self._left < 0:
            raise UnreadableOperator(f"constants of more than {MOST_ELEMENTS:,} elements")
        self.constants[name] = tensor

    def define(self, name: str) -> None:
        """Raises if a name stands for two tensors, as in two branches."""
        if name and (name in self.constants or name in self.values):
            raise UnreadableOperator(f"`{name[:80]}` is made twice")

    def add_constants(self, graph: Any) -> None:
        """Adds the constants of a graph."""
        for tensor in graph.initializer:
            self.add_constant(tensor.name, self.tensor(tensor))

    def nodes(self, graph: Any, depth: int = 0) -> Iterator[Any]:
        """Yields the nodes of a graph, and the nodes of the branch that a known condition takes."""
        for node in graph.node:
            known = self.constants.get(node.input[0]) if node.op_type == "If" and node.input else None
            if known is None or known.numel() != 1 or depth == MOST_DEPTH:
                yield node
                continue
            name = "then_branch" if known.item() else "else_branch"
            branch = next((a.g for a in node.attribute if a.name == name), None)
            if branch is None:
                raise UnreadableOperator(f"an If has no {name}")
            self.add_constants(branch)
            yield from self.nodes(branch, depth + 1)
            for own, result in zip(branch.output, node.output, strict=True):
                yield self.onnx.helper.make_node("Identity", [own.name], [result])

    def add_inputs(self, values: Sequence[Any], free_sizes: tuple[int, ...]) -> None:
        """Adds the inputs, whose examples have random numbers."""
        has_free = False
        for value in values:
            kind = value.type.tensor_type
            if kind.elem_type not in INPUT_TYPES:
                raise PillionError(
                    f"input `{value.name[:80]}` has another type",
                    rule="inputs are float32, int32 or int64",
                    here=f"element type {kind.elem_type} of ONNX",
                    help="export the model with such an input, or compile the PyTorch module: net.py:Net",
                )
            sizes = [d.dim_value if d.dim_value > 0 else None for d in kind.shape.dim]
            has_free = has_free or None in sizes[1:]
            shape = bounded(_fixed(value, sizes, free_sizes))
            source, dtype = torch.Generator().manual_seed(len(self.inputs)), INPUT_TYPES[kind.elem_type]
            is_real = dtype.is_floating_point
            self.inputs[value.name] = (
                torch.randn(shape, generator=source) if is_real else torch.zeros(shape, dtype=dtype)
            )
            with self.mode:
                self.values[value.name] = torch.empty(shape, dtype=dtype)
        if free_sizes and not has_free:
            raise PillionError(
                "its inputs have their sizes inside",
                rule="--input-size is for dimensions that are free in the file",
                here=f"--input-size {'x'.join(map(str, free_sizes))}, and no free dimension",
                help="leave --input-size out",
            )

    def read(self, node: Any) -> FileOperator | None:
        """Returns an operator, or computes it if its operands are known."""
        try:
            op = self._operator(node)
            if op.kind == "If":
                raise UnreadableOperator("its condition depends on the inputs")
            if not is_known(node):
                raise UnreadableOperator(f"operator of `{node.domain[:80] or 'ai.onnx'}`")
            operands = [self._operand(name) for name in op.names]
            if self._is_bias(op):
                results: Any = op.constants[0].to(torch.float32) * op.constants[1]  # type: ignore[union-attr,operator]
                return self._keep(node, op, (results,))
            if prepare := PREPARED.get(op.kind):
                op = self._prepared(op, prepare(op, operands[0]))  # type: ignore[arg-type]  # each has a first operand
                operands = [self._operand(name) for name in op.names]
            depends = any(isinstance(x, FakeTensor) for x in operands)
            with self.mode, torch.no_grad():
                results = as_tuple(self._computed(op, operands))
            for result in results:
                bounded(result.shape)
            stays = depends and op.kind not in ("Shape", "Size")
            if not stays:
                with torch.no_grad():
                    results = as_tuple(self._computed(op, operands))
            op.refuse_unread_attributes()
            return self._keep(
                node, op, results, stays=stays or (self.is_converted and op.kind == "DequantizeLinear")
            )
        except FAULTS as error:
            reason = error_reason(error)[:200]
            raise PillionError(
                f"a {node.op_type[:80]} is not read",
                rule="the operators and forms that docs/guide/onnx.md lists",
                here=f"`{(node.name or next(iter(node.output), ''))[:80]}`: {reason}",
                help="compile the PyTorch module that it was exported from: net.py:Net",
            ) from error

    def _keep(
        self, node: Any, op: Operator, results: tuple[Tensor, ...], *, stays: bool = False
    ) -> FileOperator | None:
        """Adds the results to the constants or to the computed tensors."""
        names = tuple(node.output)
        if not stays:
            for name, result in zip(names, results, strict=False):
                self.add_constant(name, result)
            return None
        if op.kind == "DequantizeLinear" and results[0].numel() == 1 and op.constants[0] is not None:
            self.dequantized[names[0]] = OPERATORS[op.kind](op, *op.constants).reshape(-1).tolist()
        for name in names:
            self.define(name)
        with self.mode:
            self.values.update((n, torch.empty_like(y)) for n, y in zip(names, results, strict=False))
        return FileOperator(op, names)

    def _operand(self, name: str) -> Tensor | None:
        if not name:
            return None
        found = self.constants.get(name)
        if found is None and (found := self.values.get(name)) is None:
            raise UnreadableOperator(f"operand `{name[:80]}` is computed by no operator before it")
        return found

    def _operator(self, node: Any) -> Operator:
        attributes = {a.name: _plain(self.onnx.helper.get_attribute_value(a)) for a in node.attribute}
        names = list(node.input)
        while names and not names[-1]:
            names.pop()
        constants = tuple(self.constants.get(n) for n in names)
        outputs = [name for name in node.output if name]
        known = zip(names, small_lists(constants), strict=True)
        lists = tuple(self.dequantized.get(name) if found is None else found for name, found in known)
        return Operator(node.op_type, attributes, tuple(names), constants, lists, self.opset, len(outputs))

    def _prepared(self, op: Operator, operands: list[str | Tensor]) -> Operator:
        """Returns an operator with other operands; new ones become constants."""
        names = []
        for operand in operands:
            if isinstance(operand, Tensor):
                names.append(f"/constant/{len(self.constants)}")
                self.add_constant(names[-1], operand)
            else:
                names.append(operand)
        constants = tuple(self.constants.get(n) for n in names)
        return replace(op, names=tuple(names), constants=constants, lists=small_lists(constants))

    @staticmethod
    def _is_bias(op: Operator) -> bool:
        """Whether a constant of int32 is dequantized: layers round it at the same scale again."""
        x = op.constants[0] if op.kind == "DequantizeLinear" else None
        return x is not None and x.dtype == torch.int32 and op.constants[1] is not None

    def _computed(self, op: Operator, operands: list[Tensor | None]) -> Any:
        """Computes an operator."""
        if op.kind == "ConstantOfShape":
            value = (
                self.tensor(op.get("value")).reshape(-1)[:1]
                if op.get("value") is not None
                else torch.zeros(1)
            )
            return value.expand(bounded(op.required_numbers(0, "shape"))).clone()
        if op.kind == "Constant":
            for name, dtype in _CONSTANT_TYPES.items():
                if name in op.attributes:
                    return torch.tensor(op.get(name), dtype=dtype)
            return self.tensor(op.get("value"))
        return OPERATORS[op.kind](op, *operands)


FAULTS = (
    UnreadableOperator,
    RuntimeError,
    ValueError,
    TypeError,
    IndexError,
    KeyError,
    AttributeError,
    AssertionError,
    ZeroDivisionError,
)
"""The exceptions of operators that a file describes incorrectly, or in a form that is not supported."""


def is_known(node: Any) -> bool:
    """Whether the operator is supported."""
    return node.domain in ("", "ai.onnx") and node.op_type in KNOWN


def _fixed(value: Any, sizes: list[int | None], free_sizes: tuple[int, ...]) -> list[int]:
    """Returns the shape of an input. A free first axis is a batch of one. Other free axes have sizes from outside:
    one for all, or one each."""
    free = [axis for axis, size in enumerate(sizes) if size is None and axis > 0]
    given = free_sizes[:1] * len(free) if len(set(free_sizes)) == 1 else free_sizes
    if len(given) != len(free) and free:
        axes = value.type.tensor_type.shape.dim
        named = [axes[axis].dim_param[:40] or f"axis {axis}" for axis in free]
        example = "96" if len(free) == 1 else "96x96"
        raise PillionError(
            f"input `{value.name[:80]}` has the free dimension{'s' * (len(free) > 1)} {', '.join(named)}",
            rule="shapes are fixed, because memory is planned before the program runs; a free first axis is 1",
            here=f"`{value.name[:80]}`: {['?' if size is None else size for size in sizes]}",
            help=f"--input-size {example}, with your sizes in this order (input_size=… in Python)"
            if len(free) <= 2
            else "--input-size 96 gives all of them one size; else save the file with fixed shapes",
        )
    found = dict(zip(free, given, strict=False))
    return [size or found.get(axis, 1) for axis, size in enumerate(sizes)]


def as_tuple(results: Any) -> tuple[Tensor, ...]:
    """Returns the results of an operator as a tuple."""
    return tuple(results) if isinstance(results, (tuple, list)) else (results,)


def _plain(value: Any) -> Any:
    """Returns the value of an attribute as text, number, list or tensor."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, (int, float)) or hasattr(value, "dims") or not hasattr(value, "__iter__"):
        return value
    return [_plain(item) for item in value]

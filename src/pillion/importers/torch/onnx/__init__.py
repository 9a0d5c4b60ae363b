# SPDX-License-Identifier: Apache-2.0
"""Reads ONNX files as PyTorch modules. Quantize and dequantize nodes keep their scales and zero points; nothing but
the file itself is opened."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from pillion.errors import PillionError
from pillion.importers.torch.file_module import FileOperator, named_inputs
from pillion.importers.torch.onnx.operators import (
    MOST_ELEMENTS,
    OPERATORS,
    Operator,
    UnreadableOperator,
    bounded,
    int8_operands,
)
from pillion.ir.graph import UniqueNames, c_identifier, clean_name

OPSETS = range(7, 27)
"""Versions of the operator set that are read."""
MOST_BYTES = 1 << 30
MOST_NUMBERS = 4096
"""Limit of constants that are read as numbers: shapes, axes, paddings."""
CONVERSIONS = ("QuantizeLinear", "DequantizeLinear")
_TYPES = {1: torch.float32}
"""Element types of inputs, by ONNX's number."""


def load_onnx(path: Path) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Returns the module of an ONNX file, and random example inputs."""
    try:
        import onnx
    except ImportError as error:
        raise PillionError(
            f"{path} cannot be read",
            rule="ONNX files are read with the package onnx",
            here="it is not installed",
            help="pip install 'pillion[onnx]'",
        ) from error
    if not path.is_file() or path.stat().st_size > MOST_BYTES:
        raise _refusal(
            path,
            "cannot be read",
            f"a file of at most {MOST_BYTES:,} bytes",
            "no such file, or a larger one",
            "name an .onnx file",
        )
    try:
        model = onnx.load_model(str(path), load_external_data=False)
    except Exception as error:
        raise _refusal(
            path,
            "is no ONNX file",
            "a serialized ModelProto",
            type(error).__name__,
            "write it again: torch.onnx.export(…, dynamo=True)",
        ) from error
    try:
        _require_plain(model, path)
        module = OnnxModule(model, path, onnx)
    except (UnreadableOperator, ValueError, TypeError) as error:
        raise _refusal(
            path,
            "has tensors that cannot be read",
            f"tensors have as many bytes as their shapes say, and at most {MOST_ELEMENTS:,} elements",
            str(error).splitlines()[0] if str(error) else type(error).__name__,
            "write the file again; onnx.checker.check_model(path) says more",
        ) from error
    source = torch.Generator().manual_seed(0)
    return module, tuple(torch.randn(shape, generator=source) for shape in module.input_shapes.values())


def _refusal(path: Path, what: str, rule: str, here: str, help: str) -> PillionError:
    return PillionError(f"{path} {what}", rule=rule, here=here, help=help)


def _require_plain(model: Any, path: Path) -> None:
    """Raises for opsets out of range, operators without a reading, and data in other files."""
    graph = model.graph
    opset = _opset(model)
    if opset not in OPSETS:
        raise _refusal(
            path,
            f"uses opset {opset}",
            f"opsets {OPSETS[0]} to {OPSETS[-1]}",
            f"opset {opset}",
            "onnx.version_converter.convert_version(onnx.load(path), 18)",
        )
    if outside := [t.name for t in graph.initializer if t.data_location == 1]:
        raise _refusal(
            path,
            "has its weights in another file",
            "all data lies in the .onnx file",
            f"{len(outside)} tensors, `{outside[0][:80]}` first",
            f"python -c \"import onnx; onnx.save(onnx.load('{path}'), '{path.stem}_whole.onnx')\"  (for a file that you trust)",
        )
    known = {*OPERATORS, "Constant", "ConstantOfShape", "Cast"}
    if unknown := sorted(
        {
            f"{n.domain or 'ai.onnx'}::{n.op_type}"
            for n in graph.node
            if n.op_type not in known or n.domain not in ("", "ai.onnx")
        }
    ):
        raise _refusal(
            path,
            f"has {len(unknown)} kinds of operators that are not read",
            "the operators that docs/guide/onnx.md lists",
            ", ".join(unknown)[:400],
            "compile the PyTorch module that it was exported from: net.py:Net",
        )


def _opset(model: Any) -> int:
    return max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=0)


class OnnxModule(nn.Module):
    """Computes a file's graph. Operators on shapes and constants are computed when it is made."""

    def __init__(self, model: Any, path: Path, onnx: Any) -> None:
        super().__init__()
        self.onnx, self.path, self.opset = onnx, path, _opset(model)
        graph = model.graph
        self.constants: dict[str, Tensor] = {t.name: self._tensor(t) for t in graph.initializer}
        self.input_shapes = {
            v.name: self._input_shape(v) for v in graph.input if v.name not in self.constants
        }
        self.output_names = [v.name for v in graph.output]
        self.steps: list[tuple[str, list[str], list[str]]] = []
        self.names = UniqueNames()
        mode = FakeTensorMode(allow_non_fake_inputs=True)
        with mode:
            values: dict[str, Any] = {n: torch.empty(s) for n, s in self.input_shapes.items()}
        for node in graph.node:
            self._add(node, values, mode)
        needed = {n for _, operands, _ in self.steps for n in operands} | set(self.output_names)
        for number, name in enumerate(sorted(needed & set(self.constants))):
            self.register_buffer(f"constant_{number}", self.constants[name])
        self.buffer_names = {
            name: f"constant_{i}" for i, name in enumerate(sorted(needed & set(self.constants)))
        }
        self.onnx = None
        self.forward = named_inputs(self._compute, self.input_shapes)

    def _tensor(self, tensor: Any) -> Tensor:
        bounded(tensor.dims)
        return torch.from_numpy(self.onnx.numpy_helper.to_array(tensor).copy())

    def _input_shape(self, value: Any) -> list[int]:
        kind = value.type.tensor_type
        if kind.elem_type not in _TYPES:
            number = kind.elem_type
            raise _refusal(
                self.path,
                f"takes no float32 at `{value.name}`",
                "inputs are float32",
                f"element type {number} of ONNX",
                "export the model with a float32 input, or compile the PyTorch module: net.py:Net",
            )
        free = [d.dim_param or "?" for d in kind.shape.dim if not d.HasField("dim_value")]
        if free:
            raise _refusal(
                self.path,
                f"has the free dimension {free[0][:80]} at `{value.name}`",
                "all shapes are fixed: memory is planned before the program runs",
                f"`{value.name}`: {[d.dim_value or d.dim_param or '?' for d in kind.shape.dim]}",
                f"python -m onnxruntime.tools.make_dynamic_shape_fixed --dim_param {free[0][:80]} --dim_value 1 {self.path} {self.path.stem}_fixed.onnx"
                if free[0] != "?"
                else f"python -m onnxruntime.tools.make_dynamic_shape_fixed --input_name {value.name} --input_shape 1,… {self.path} {self.path.stem}_fixed.onnx",
            )
        return bounded([d.dim_value for d in kind.shape.dim])

    def _add(self, node: Any, values: dict[str, Any], mode: FakeTensorMode) -> None:
        """Appends an operator, or computes it if its operands are known."""
        attributes = {a.name: _text(self.onnx.helper.get_attribute_value(a)) for a in node.attribute}
        operands = list(node.input)
        while operands and not operands[-1]:
            operands.pop()
        op = self._operator(node, attributes, operands)
        try:
            is_bias = self._is_bias(op)
            if node.op_type in CONVERSIONS and not is_bias:
                op, operands = self._as_int8(node, op, operands)
            if is_bias:
                results: Any = op.constants[0].to(torch.float32) * op.constants[1]  # type: ignore[union-attr,operator]
            elif node.op_type in ("Constant", "ConstantOfShape", "Cast"):
                results = self._made(op, values | self.constants, operands)
            else:
                read = [self.constants.get(n, values.get(n)) if n else None for n in operands]
                fake = any(isinstance(x, FakeTensor) for x in read) and node.op_type != "Shape"
                with mode if fake else nullcontext(), torch.no_grad():
                    results = OPERATORS[node.op_type](op, *read)
        except (
            UnreadableOperator,
            RuntimeError,
            IndexError,
            KeyError,
            AttributeError,
            AssertionError,
        ) as error:
            reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
            raise _refusal(
                self.path,
                f"has a {node.op_type} that is not read",
                "the operators and forms that docs/guide/onnx.md lists",
                f"`{(node.name or node.output[0])[:80]}`: {reason}",
                "compile the PyTorch module that it was exported from: net.py:Net",
            ) from error
        results = results if isinstance(results, tuple) else (results,)
        if not any(isinstance(y, FakeTensor) for y in results) and (
            node.op_type != "DequantizeLinear" or is_bias
        ):
            self.constants.update(zip(node.output, results, strict=False))
            return
        with mode:
            values.update((n, torch.empty_like(y)) for n, y in zip(node.output, results, strict=False))
        own = clean_name((node.name or node.op_type).strip("/").removeprefix("node_"))
        name = self.names.fresh(c_identifier(f"node_{own}"))
        self.add_module(name, FileOperator(partial(OPERATORS[op.kind], op)))
        self.steps.append((name, operands, list(node.output)))

    def _operator(self, node: Any, attributes: dict[str, Any], operands: list[str]) -> Operator:
        constants = tuple(self.constants.get(n) for n in operands)
        lists = tuple(
            x.reshape(-1).tolist() if x is not None and x.numel() <= MOST_NUMBERS else None for x in constants
        )
        return Operator(node.op_type, attributes, constants, lists, self.opset, len(node.output))

    def _as_int8(self, node: Any, op: Operator, operands: list[str]) -> tuple[Operator, list[str]]:
        """Returns a conversion whose constants are those of int8."""
        scale, zero, x = int8_operands(op)
        own = [operands[0], f"{node.output[0]}/scale", f"{node.output[0]}/zero_point"]
        self.constants.update(zip(own[1:], (scale, zero), strict=True))
        if x is not None:
            own[0] = f"{node.output[0]}/int8"
            self.constants[own[0]] = x
        return self._operator(node, dict(op.attributes), own), own

    def _is_bias(self, op: Operator) -> bool:
        """Whether a constant of int32 is dequantized: layers round it at the same scale again."""
        x = op.constants[0] if op.kind == "DequantizeLinear" else None
        return x is not None and x.dtype == torch.int32 and op.constants[1] is not None

    def _made(self, op: Operator, values: dict[str, Any], operands: list[str]) -> Tensor:
        """Computes the operators whose results have a type of their own."""
        if op.kind == "Cast":
            x = values[operands[0]]
            kind = self.onnx.helper.tensor_dtype_to_np_dtype(op.get("to"))
            if isinstance(x, FakeTensor):
                raise UnreadableOperator("it changes the type of a computed tensor")
            return torch.from_numpy(x.numpy().astype(kind))
        if op.kind == "ConstantOfShape":
            value = (
                self._tensor(op.get("value")).reshape(-1)[0]
                if op.get("value") is not None
                else torch.tensor(0.0)
            )
            return torch.full(bounded(op.require(0, "shape")), value.item(), dtype=value.dtype)
        for name, dtype in (
            ("value_float", torch.float32),
            ("value_floats", torch.float32),
            ("value_int", torch.int64),
            ("value_ints", torch.int64),
        ):
            if name in op.attributes:
                return torch.tensor(op.get(name), dtype=dtype)
        return self._tensor(op.get("value"))

    def _compute(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Computes the outputs in the file's order."""
        values: dict[str, Any] = {"": None}
        values.update((name, getattr(self, own)) for name, own in self.buffer_names.items())
        values.update(zip(self.input_shapes, inputs, strict=True))
        for name, operands, outputs in self.steps:
            results = self.get_submodule(name)(*(values[n] for n in operands))
            values.update(zip(outputs, results if isinstance(results, tuple) else (results,), strict=False))
        return tuple(values[n] for n in self.output_names)


def _text(value: Any) -> Any:
    return (
        value.decode("utf-8", "replace")
        if isinstance(value, bytes)
        else list(value)
        if not isinstance(value, (int, float)) and hasattr(value, "__iter__") and not hasattr(value, "dims")
        else value
    )


__all__ = ["OnnxModule", "load_onnx"]

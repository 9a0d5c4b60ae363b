# SPDX-License-Identifier: Apache-2.0
"""Prints a command stream as text: every command with its fields, or a summary of each operation."""

from __future__ import annotations

from collections.abc import Iterator

from pillion.devices.ethos_u.stream import operations as npu
from pillion.devices.ethos_u.stream.command_words import CommandStream, CommandWord

_NAMES = {0: "constants", 1: "scratch", 2: "fast", npu.INTERNAL: "tables"}


def command_lines(stream: CommandStream) -> Iterator[str]:
    """Yields a line per command: its word, its name, its fields."""
    for instruction in stream.instructions:
        yield f"{instruction.at:6}  {instruction.command.name:<18} {_parameters_text(instruction)}".rstrip()


def _parameters_text(word: CommandWord) -> str:
    fields = word.fields
    if word.command.wide:
        high = fields.pop("high", 0)
        words = [f"{high << 32 | word.data:#x}"]
    else:
        words = []
    return " ".join(words + [str(v) if k == "value" else f"{k}={v}" for k, v in fields.items()])


def operation_lines(operations: tuple[npu.Operation, ...]) -> Iterator[str]:
    """Yields a line per operation: its operands and its result."""
    for op in operations:
        yield f"{op.at:6}  {_operation_text(op)}"


def _operation_text(op: npu.Operation) -> str:
    match op:
        case npu.DmaCopy(_, source, destination):
            return f"copy         {_range_text(source)} to {_range_text(destination)}"
        case npu.Wait(_, copies, most):
            return f"wait         until at most {most} {'copies' if copies else 'operations'} are under way"
        case npu.TensorOperation():
            name, operands = _name_and_operands(op)
            table = f", table {op.activation.table}" if op.activation.table is not None else ""
            return f"{name:<12} {', '.join(operands)} to {_tensor_text(op.y)}{table}"
    return str(op)


def _name_and_operands(op: npu.TensorOperation) -> tuple[str, list[str]]:
    match op:
        case npu.Convolve():
            window = f"{op.kernel.height}x{op.kernel.width}"
            return f"{op.product.value} {window}", [
                _tensor_text(op.x),
                f"weights {', '.join(map(_range_text, op.weights))}",
            ]
        case npu.PoolOperation():
            return f"{op.kind.name.lower()} {op.kernel.height}x{op.kernel.width}", [_tensor_text(op.x)]
        case npu.MatrixProduct():
            return "matmul", [_tensor_text(op.x), _tensor_text(op.second)]
        case npu.Elementwise(second=npu.FeatureMap() as second):
            return op.kind.name.lower(), [_tensor_text(op.x), _tensor_text(second)]
        case npu.Elementwise(second=int(number)):
            return op.kind.name.lower(), [_tensor_text(op.x), str(number)]
        case npu.Elementwise():
            return op.kind.name.lower(), [_tensor_text(op.x)]
    return type(op).__name__, [_tensor_text(op.x)]


def _tensor_text(tensor: npu.FeatureMap) -> str:
    shape = "x".join(map(str, tensor.shape))
    bricks = " in bricks" if tensor.layout is npu.TensorLayout.BRICKS else ""
    if tensor.region <= npu.CHAIN:
        return f"{tensor.dtype.value}[{shape}] in chain {npu.CHAIN - tensor.region}"
    return f"{tensor.dtype.value}[{shape}]{bricks} at {_NAMES.get(tensor.region, tensor.region)} {tensor.bases[0]}"


def _range_text(where: npu.Range) -> str:
    return f"{_NAMES.get(where.region, where.region)} {where.start}..{where.end}"

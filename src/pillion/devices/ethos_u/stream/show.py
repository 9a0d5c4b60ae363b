# SPDX-License-Identifier: Apache-2.0
"""A command stream as text: every command with the names of its fields, and what each operation does."""

from __future__ import annotations

from collections.abc import Iterator

from pillion.devices.ethos_u.stream.operations import (
    INTERNAL,
    Compute,
    Convolve,
    Copy,
    Elementwise,
    FeatureMap,
    Layout,
    Operation,
    Pool,
    Range,
    Wait,
)
from pillion.devices.ethos_u.stream.words import Instruction, Stream

_NAMES = {0: "constants", 1: "scratch", 2: "fast", INTERNAL: "tables"}


def commands(stream: Stream) -> Iterator[str]:
    """Gives a line for each command: its word, its name, its fields."""
    for one in stream.instructions:
        yield f"{one.at:6}  {one.command.name:<18} {_parameters(one)}".rstrip()


def _parameters(one: Instruction) -> str:
    fields = one.fields
    if one.command.wide:
        high = fields.pop("high", 0)
        words = [f"{high << 32 | one.data:#x}"]
    else:
        words = []
    return " ".join(words + [str(v) if k == "value" else f"{k}={v}" for k, v in fields.items()])


def summary(operations: tuple[Operation, ...]) -> Iterator[str]:
    """Gives a line for each operation: what it reads, what it writes."""
    for op in operations:
        yield f"{op.at:6}  {_line(op)}"


def _line(op: Operation) -> str:
    match op:
        case Copy(_, source, destination):
            return f"copy         {_bytes(source)} to {_bytes(destination)}"
        case Wait(_, copies, most):
            return f"wait         until at most {most} {'copies' if copies else 'operations'} are under way"
        case Compute():
            name, operands = _name(op)
            table = f", table {op.activation.table}" if op.activation.table is not None else ""
            return f"{name:<12} {', '.join(operands)} to {_tensor(op.y)}{table}"
    return str(op)


def _name(op: Compute) -> tuple[str, list[str]]:
    match op:
        case Convolve():
            window = f"{op.kernel.height}x{op.kernel.width}"
            return f"{op.product.value} {window}", [_tensor(op.x), f"weights {_bytes(op.weights)}"]
        case Pool():
            return f"{op.kind.name.lower()} {op.kernel.height}x{op.kernel.width}", [_tensor(op.x)]
        case Elementwise(second=FeatureMap() as second):
            return op.kind.name.lower(), [_tensor(op.x), _tensor(second)]
        case Elementwise(second=int(number)):
            return op.kind.name.lower(), [_tensor(op.x), str(number)]
        case Elementwise():
            return op.kind.name.lower(), [_tensor(op.x)]
    return type(op).__name__, [_tensor(op.x)]


def _tensor(tensor: FeatureMap) -> str:
    shape = "x".join(map(str, tensor.shape))
    bricks = " in bricks" if tensor.layout is Layout.BRICKS else ""
    return f"{tensor.dtype.value}[{shape}]{bricks} at {_NAMES.get(tensor.region, tensor.region)} {tensor.bases[0]}"


def _bytes(where: Range) -> str:
    return f"{_NAMES.get(where.region, where.region)} {where.start}..{where.end}"

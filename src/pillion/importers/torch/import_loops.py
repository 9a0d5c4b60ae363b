# SPDX-License-Identifier: Apache-2.0
"""Imports loops of a torch graph as `scan` ops. Values cross the loop's boundary as integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from torch.fx import Node

from pillion.errors import PillionError
from pillion.importers.torch.fx_nodes import shape_of, source_line
from pillion.importers.torch.layout import Builder, LayoutValue, from_logical_order
from pillion.importers.torch.loop_nodes import ELEMENT, STACKED, LoopNodes
from pillion.ir.graph import Graph
from pillion.ir.types import TensorType, Value, constant_value
from pillion.ops import Dequantize, Scan


class Importer(Protocol):
    """Imports the nodes of a graph one by one."""

    builder: Builder
    known: dict[Node, object]

    def visit(self, node: Node) -> None:
        """Imports one node."""


@dataclass(frozen=True)
class _LoopInput:
    """A tensor that enters the loop: its node, its value outside, and its value inside."""

    node: Node
    outer: Value
    inner: Value


def import_loop(importer: Importer, loop: LoopNodes) -> None:
    """Imports one step of a loop as the body of a `scan` op."""
    builder = importer.builder
    carried, lasts, stacks = loop.carried, loop.lasts, loop.calls_of(STACKED)
    sequences = [_sequence_input(importer, node) for node in loop.calls_of(ELEMENT)]
    initial = [_initial_state_input(importer, carried[index]) for index in sorted(carried)]
    invariants = [
        _invariant_input(importer, node) for node in loop.invariants if _is_computed(importer, node)
    ]
    borders = (*sequences, *initial, *invariants)
    known = {border.node: importer.known.get(border.node) for border in invariants}
    outside, builder.ops = builder.ops, []
    for border in borders:
        importer.known[border.node] = from_logical_order(
            builder.emit(Dequantize, x=border.inner, name=f"{border.inner.name}_f")
        )
    for node in loop.body:
        importer.visit(node)
    nexts = [_quantized_source(importer, lasts[index].args[1], loop) for index in sorted(carried)]
    rows = [_quantized_source(importer, node.args[0], loop) for node in stacks]
    inputs = tuple(border.inner for border in borders)
    body = Graph(
        f"step_{loop.begins[0].name}", inputs, tuple(builder.ops), (*rows, *nexts)
    ).without_dead_ops()
    builder.ops = outside
    importer.known.update(known)
    results = [*stacks, *(lasts[index] for index in sorted(lasts))]
    stacked = (TensorType((loop.count, *v.shape), v.dtype, v.type.quant) for v in rows)
    types = [*stacked, *(v.type for v in nexts)]
    ys = tuple(Value(builder.names.fresh(node.name), type) for node, type in zip(results, types, strict=True))
    builder.ops.append(
        Scan(
            sequences=tuple(border.outer for border in sequences),
            initial=tuple(border.outer for border in initial),
            invariants=tuple(border.outer for border in invariants),
            ys=ys,
            body=body,
            count=loop.count,
            reverse=loop.reverse,
            source=source_line(loop.begins[0]),
        )
    )
    for node, y in zip(results, ys, strict=True):
        importer.known[node] = from_logical_order(builder.emit(Dequantize, x=y, name=f"{node.name}_f"))


def _is_computed(importer: Importer, node: Node) -> bool:
    """Whether a node's value depends on inputs; constants are part of the body."""
    value = importer.known.get(node)
    return isinstance(value, LayoutValue) and not value.value.is_constant


def _sequence_input(importer: Importer, node: Node) -> _LoopInput:
    outer = _quantized_source(importer, node.args[0])
    type = TensorType(outer.shape[1:], outer.dtype, outer.type.quant)
    return _LoopInput(node, outer, Value(importer.builder.names.fresh(node.name), type))


def _initial_state_input(importer: Importer, node: Node) -> _LoopInput:
    outer, shape = _quantized_source(importer, node.args[0]), shape_of(node)
    if outer.is_constant:
        name, quant = importer.builder.names.fresh(f"{node.name}_first"), outer.type.quant
        outer = constant_value(name, np.ascontiguousarray(np.broadcast_to(outer.constant, shape)), quant)
    return _LoopInput(node, outer, Value(importer.builder.names.fresh(node.name), outer.type))


def _invariant_input(importer: Importer, node: Node) -> _LoopInput:
    outer = _quantized_source(importer, node)
    return _LoopInput(node, outer, Value(importer.builder.names.fresh(f"{node.name}_same"), outer.type))


def _quantized_source(importer: Importer, node: Any, loop: LoopNodes | None = None) -> Value:
    """Integers in logical order that a node's float result was dequantized from."""
    placed = importer.known[node]
    if not isinstance(placed, LayoutValue):
        raise _unquantized_error(node)
    maker = next((op for op in reversed(importer.builder.ops) if placed.value in op.results), None)
    if placed.value.is_constant and loop is None:
        return importer.builder.plain(placed)
    if not isinstance(maker, Dequantize):
        raise _unquantized_error(node)
    return importer.builder.plain(placed.with_value(maker.x))


def _unquantized_error(node: Node) -> PillionError:
    return PillionError(
        "a step of a recurrent layer is not quantized",
        rule="what goes into a step and what it makes are integers",
        here=f"{node.name}  ({source_line(node)})",
        help="this is a defect of Pillion: please open an issue with the model's source line",
    )

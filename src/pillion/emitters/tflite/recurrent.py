# SPDX-License-Identifier: Apache-2.0
"""Writes recurrent layers: one operator for both halves of a step and all steps of a sequence, with states in
variable tensors."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TypeGuard

import numpy as np

from pillion.codecs.tflite.exact import inexact_op_error
from pillion.codecs.tflite.node import Node
from pillion.ir.graph import Graph
from pillion.ir.op import Op, Quantization, op, operand, result
from pillion.ir.state import State
from pillion.ir.types import DType, PerTensor, TensorType, Value, constant_value
from pillion.ops.lstm import GATE_SCALE, LstmCell, LstmGates, LstmOutput
from pillion.ops.movement import Reshape
from pillion.ops.scan import Scan
from pillion.ops.svdf import SvdfMemory, SvdfOutput
from pillion.schemas import tflite
from pillion.schemas.tflite import Activation


@op("layer_that_remembers", quantization=Quantization.NONE)
class RecurrentLayer(Op):
    """A recurrent layer with its states, only used while a file is written."""

    x: Value = operand()
    y: Value = result()
    halves: tuple[Op, Op]
    states: tuple[State, ...]

    def infer(self) -> TensorType:
        return self.y.type


def with_layers(graph: Graph) -> Graph:
    """Returns the graph with recurrent layers instead of their ops and states."""
    layers = list(_recurrent_layers(graph))
    if not layers:
        return graph
    gone = {old for layer, ops in layers for old in ops}
    states = {state.name for layer, _ in layers for state in layer.states}
    last = {ops[-1]: layer for layer, ops in layers}
    new_ops: list[Op] = []
    for old in graph.ops:
        if old in last:
            new_ops += _layer_with_reshapes(last[old], old)
        elif old not in gone:
            new_ops.append(old)
    left = tuple(state for state in graph.states if state.name not in states)
    return dataclasses.replace(graph, ops=tuple(new_ops), states=left)


def _layer_with_reshapes(layer: RecurrentLayer, old: Op) -> list[Op]:
    """Returns the layer; an LSTM of one step gets reshapes to and from a sequence of one element."""
    if isinstance(old, Scan) or not isinstance(layer.halves[0], LstmCell):
        return [layer]
    x, y = (
        Value(f"{layer.y.name}/{name}", TensorType((1, *v.shape), v.dtype, v.type.quant))
        for name, v in (("sequence", layer.x), ("steps", layer.y))
    )
    inner = dataclasses.replace(layer, x=x, y=y)
    return [Reshape(x=layer.x, y=x), inner, Reshape(x=y, y=layer.y)]


def _recurrent_layers(graph: Graph) -> Iterator[tuple[RecurrentLayer, tuple[Op, ...]]]:
    """Yields every layer with its ops."""
    for graph_op in graph.ops:
        if isinstance(graph_op, Scan):
            layer = _sequence_lstm_layer(graph, graph_op)
            if layer is not None:
                yield layer, (graph_op,)
        elif isinstance(graph_op, LstmCell | SvdfMemory):
            layer = _single_step_layer(graph, graph_op)
            if layer is not None:
                yield layer, (graph_op, *graph.users[graph_op.y])


def _single_step_layer(graph: Graph, first: LstmCell | SvdfMemory) -> RecurrentLayer | None:
    """Returns the layer of one step, if only its second half reads the first half's result."""
    users = graph.users.get(first.y, [])
    second = users[0] if len(users) == 1 and first.y not in graph.outputs else None
    pairs: tuple[tuple[Value, Value], ...]
    if isinstance(first, SvdfMemory) and isinstance(second, SvdfOutput):
        pairs = ((first.memory, first.y),)
    elif isinstance(first, LstmCell) and _is_output_half(second, first):
        pairs = ((first.h, second.y), (first.c, first.y))
    else:
        return None
    states = _layer_states(graph, {first, second}, pairs)
    return RecurrentLayer(x=first.x, y=second.y, halves=(first, second), states=states) if states else None


def _sequence_lstm_layer(graph: Graph, scan: Scan) -> RecurrentLayer | None:
    """Returns the layer of a forward scan over an LSTM step whose states are the model's."""
    ops = scan.body.ops
    cell = ops[0] if len(ops) == 2 and not scan.reverse else None
    output = ops[1] if cell is not None else None
    if not isinstance(cell, LstmCell) or not _is_output_half(output, cell):
        return None
    expected = (cell.x, cell.h, cell.c), (output.y, output.y, cell.y)
    if (scan.body.inputs, scan.body.outputs) != expected or len(scan.ys) != 3:
        return None
    stacked, last_h, last_c = scan.ys
    if any(graph.users.get(v) or v in graph.outputs for v in (last_h, last_c)):
        return None
    (h, c), (x,) = scan.initial, scan.sequences
    states = _layer_states(graph, {scan}, ((h, last_h), (c, last_c)))
    return RecurrentLayer(x=x, y=stacked, halves=(cell, output), states=states) if states else None


def _is_output_half(output: Op | None, cell: LstmCell) -> TypeGuard[LstmOutput]:
    """Whether an op is the output half of a cell."""
    return isinstance(output, LstmOutput) and (output.x, output.h, output.c) == (cell.x, cell.h, cell.y)


def _layer_states(graph: Graph, own: set[Op], pairs: tuple[tuple[Value, Value], ...]) -> tuple[State, ...]:
    """Returns the states between these value pairs; empty unless nothing else reads them and they start at
    zero, as in LiteRT."""
    states: list[State] = []
    for before, after in pairs:
        named = [s for s in graph.states if s.before is before and s.after is after]
        shared = [s for s in graph.states if before in (s.before, s.after) or after in (s.before, s.after)]
        is_alone = (
            own.issuperset(graph.users.get(before, [])) and before not in graph.outputs and len(shared) == 1
        )
        if len(named) != 1 or not is_alone or (named[0].initial != before.zero_point).any():
            return ()
        states.append(named[0])
    return tuple(states)


def layer_nodes(layer: RecurrentLayer) -> list[Node]:
    """Returns the operator of a layer."""
    first, second = layer.halves
    if isinstance(first, SvdfMemory) and isinstance(second, SvdfOutput):
        return [_svdf_node(layer, first, second)]
    assert isinstance(first, LstmCell)
    assert isinstance(second, LstmOutput)
    return [_lstm_node(layer, first, second)]


def _svdf_node(layer: RecurrentLayer, first: SvdfMemory, second: SvdfOutput) -> Node:
    memory = layer.states[0].before
    options = tflite.SvdfOptions(rank=second.filters // second.units, fused_activation=Activation.RELU)
    inputs = layer.x, first.weights, second.weights, second.bias, memory
    return Node("SVDF", inputs, (layer.y,), options, variables=(memory,))


def _lstm_node(layer: RecurrentLayer, cell: LstmCell, output: LstmOutput) -> Node:
    h, c = (state.before for state in layer.states)
    gates = [*_gate_tensors(cell), *_gate_tensors(output)]
    weights = [gate[number] for number in (0, 1) for gate in gates]
    biases = [gate[2] for gate in gates]
    inputs = (layer.x, *weights, None, None, None, *biases, None, None, h, c, *(None,) * 4)
    options = tflite.SequenceLstmOptions(
        fused_activation=Activation.TANH, cell_clip=cell.clip * c.scale, time_major=True
    )
    sums = TensorType((0,), DType.INT16, PerTensor(GATE_SCALE))
    intermediates = [Value(f"{layer.y.name}/sums_{gate}", sums) for gate in range(4)]
    intermediates.append(Value(f"{layer.y.name}/hidden", TensorType((0,), DType.INT8, h.type.quant)))
    code = "UNIDIRECTIONAL_SEQUENCE_LSTM"
    return Node(code, inputs, (layer.y,), options, variables=(h, c), intermediates=tuple(intermediates))


def _gate_tensors(half: LstmGates) -> Iterator[tuple[Value, Value, Value]]:
    """Yields weights and bias of each gate, in order; each matrix has one scale."""
    for gate in range(half.gates):
        rows = slice(gate * half.cells, (gate + 1) * half.cells)
        weights = [
            constant_value(f"{v.name}/{gate}", v.constant[rows], PerTensor(v.channel_scales[rows.start]))
            for v in (half.input_weights, half.recurrent_weights)
        ]
        bias = constant_value(f"{half.bias.name}/{gate}", np.ascontiguousarray(half.bias.constant[rows]))
        yield weights[0], weights[1], bias


def half(op: Op) -> list[Node]:
    """Raises: a half of a layer has no operator, only the layer with its states."""
    rule = "LiteRT's operator is a whole layer, which keeps its state to itself and lets it begin at zero"
    here = f"{op.kind}, whose state is an input or output, or is read by others"
    raise inexact_op_error(op, rule, here, "without --state io, or write C: -o folder/")

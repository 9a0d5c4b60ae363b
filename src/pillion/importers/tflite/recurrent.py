# SPDX-License-Identifier: Apache-2.0
"""Reads recurrent layers; their internal states become states of the graph."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from pillion.codecs.tflite.operands import require_int8
from pillion.codecs.tflite.read_operator import Reading, ReadOperator
from pillion.ir.graph import Graph
from pillion.ir.numerics import INT16_MAX, Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import DType, PerChannel, PerTensor, TensorType, Value, constant_value
from pillion.ops.lstm import LstmCell, LstmOutput
from pillion.ops.movement import Reshape, Transpose
from pillion.ops.scan import Scan
from pillion.ops.svdf import SvdfMemory, SvdfOutput
from pillion.schemas import tflite
from pillion.schemas.tflite import Activation

PARTS = {"peephole": (9, 10, 11), "projection": (16, 17), "layer norm": (20, 21, 22, 23)}
"""Optional parts of an LSTM, by the operands that belong to them."""
WITHOUT = {
    "peephole": "train it without peepholes: tf.keras.layers.LSTM has none, LSTMCell of TensorFlow 1 has use_peepholes=False",
    "projection": "train it without a projection (num_proj=None), with a Dense layer behind the LSTM in its place",
    "layer norm": "train it with a layer normalization behind the LSTM: inside of its gates they are not read",
    "coupled gates": "train it with an input gate of its own: tf.keras.layers.LSTM has one",
}
"""The advice for each unsupported part."""
INPUT, FORGET, CANDIDATE, OUTPUT = range(4)
"""Gates in operand order."""
INPUT_WEIGHTS, RECURRENT_WEIGHTS, BIASES = 1, 5, 12
OUTPUT_STATE, CELL_STATE = 18, 19
HIDDEN = 4
"""The index of the intermediate tensor with the quantization of a step's output."""


def lstm(call: ReadOperator) -> list[Op]:
    """Returns a scan over the LSTM's step. The last output and cell are states."""
    layer = _lstm_layer(call)
    before: list[Op] = []
    x = sequence = call.operand(0)
    if not layer.is_time_major:
        sequence = call.intermediate("in_time", (x.shape[1], x.shape[0], x.shape[2]), x)
        before = [_in_order(layer, x, sequence)]
    steps, batch = sequence.shape[:2]
    h, c = layer.h, layer.c
    last_h, last_c = (Value(call.fresh(f"{v.name}/next"), v.type) for v in (h, c))
    y = call.result_of_shape((*call.operand(0).shape[:2], h.shape[1]))
    sequence_type = TensorType((steps, batch, h.shape[1]), DType.INT8, h.type.quant)
    stacked = Value(call.fresh(f"{y.name}/steps"), sequence_type)
    if steps == 1:
        x = call.intermediate("step", sequence.shape[1:], sequence)
        first = Reshape(x=sequence, y=x, source=call.source)
        last = Reshape(x=last_h, y=stacked, source=call.source)
        run = [first, *layer.step(x, h, c, last_c, last_h), last]
    else:
        run = [_lstm_scan(call, layer, sequence, stacked, last_h, last_c)]
    call.keep(h.name, h, last_h, np.full(h.shape, h.zero_point, np.int8))
    call.keep(c.name, c, last_c, np.zeros(c.shape, np.int16))
    return [*before, *run, _in_order(layer, stacked, y)]


@dataclass(frozen=True)
class _LstmLayer:
    """An LSTM of the file."""

    call: ReadOperator
    h: Value
    c: Value
    is_time_major: bool
    clip: int
    first: dict[str, Any]
    """Weights and biases of the cell's gates."""
    second: dict[str, Any]
    """Weights and bias of the output gate."""

    def step(self, x: Value, h: Value, c: Value, next_c: Value, next_h: Value) -> list[Op]:
        """Returns the ops of one step."""
        step: dict[str, Any] = {"x": x, "h": h, "source": self.call.source}
        ops: list[Op] = [
            LstmCell(**step, c=c, y=next_c, clip=self.clip, **self.first),
            LstmOutput(**step, c=next_c, y=next_h, **self.second),
        ]
        for op in ops:
            op.check()
            op.check_scales(Arithmetic.TFLITE)
        return ops


def require_plain(call: ReadOperator) -> tflite.SequenceLstmOptions:
    """Returns the options of an LSTM. Raises if it has more than four gates with tanh."""
    options = call.options_as(tflite.SequenceLstmOptions)
    parts = [name for name, numbers in PARTS.items() if any(call.optional(n) is not None for n in numbers)]
    parts += ["coupled gates"] if call.optional(INPUT_WEIGHTS) is None else []
    if parts:
        rule = (
            "an LSTM has four gates and nothing else: no peephole, projection, layer norm, or coupled gates"
        )
        raise call.refuse(rule, ", ".join(parts), "\n".join(WITHOUT[name] for name in parts))
    if options.fused_activation != Activation.TANH or options.diagonal_recurrent_tensors:
        raise call.refuse("an LSTM has tanh as its activation, and whole recurrent weights", options)
    return options


def _lstm_layer(call: ReadOperator) -> _LstmLayer:
    require_int8(call)
    options = require_plain(call)
    h, c = call.operand(OUTPUT_STATE), call.operand(CELL_STATE)
    x, y = call.operand(0), call.result
    types, ranks = (h.dtype, c.dtype), (x.type.rank, h.type.rank)
    if h.is_constant or c.is_constant or types != (DType.INT8, DType.INT16) or ranks != (3, 2):
        raise call.refuse(
            "the input has three axes; the state of an int8 LSTM is int8 and int16, and no constant",
            f"{x!r}, {h!r}, {c!r}",
        )
    hidden = call.intermediates[HIDDEN] if len(call.intermediates) > HIDDEN else None
    quants = {h.type.quant, y.type.quant, hidden}
    if len(quants) > 1:
        raise call.refuse("output, output state and hidden state have one scale", ", ".join(map(str, quants)))
    if not isinstance(c.type.quant, PerTensor):
        raise call.refuse("the cell has a scale", repr(c))
    return _LstmLayer(
        call,
        h,
        c,
        options.time_major,
        _cell_clip(call, options.cell_clip, c.type.quant.scale),
        _concat_gates(call, (INPUT, FORGET, CANDIDATE), "cell"),
        _concat_gates(call, (OUTPUT,), "output"),
    )


def _cell_clip(call: ReadOperator, bound: float, scale: float) -> int:
    """Returns the clipping bound in steps of the cell; 0 for none."""
    if not (math.isfinite(bound) and bound >= 0):
        raise call.refuse("a cell is clipped at a positive number", bound)
    return int(min(max(np.float32(bound) / np.float32(scale), -INT16_MAX), INT16_MAX)) if bound else 0


def _concat_gates(call: ReadOperator, gates: tuple[int, ...], name: str) -> dict[str, Any]:
    """Returns the weights and biases of some gates, concatenated, each gate with its own scale."""
    both = {
        field: _concat_weights(call, [call.constant(first + n) for n in gates], f"{name}/{what}")
        for field, first, what in (
            ("input_weights", INPUT_WEIGHTS, "weights"),
            ("recurrent_weights", RECURRENT_WEIGHTS, "recurrent"),
        )
    }
    biases = [call.constant(BIASES + gate) for gate in gates]
    for bias in biases:
        if bias.type.rank != 1 or bias.dtype is not DType.INT32:
            raise call.refuse("biases are int32 vectors", repr(bias))
    data = np.concatenate([bias.constant for bias in biases])
    return {**both, "bias": constant_value(call.fresh(f"{call.result.name}/{name}/bias"), data)}


def _concat_weights(call: ReadOperator, weights: list[Value], name: str) -> Value:
    for w in weights:
        fits = isinstance(w.type.quant, PerTensor) and w.type.quant.zero_point == 0
        if w.dtype is not DType.INT8 or w.type.rank != 2 or not fits or w.shape != weights[0].shape:
            raise call.refuse("weights of gates are int8 matrices of one size, each with one scale", repr(w))
    scales = tuple(w.scale for w in weights for _ in range(w.shape[0]))
    data = np.concatenate([w.constant for w in weights])
    return constant_value(call.fresh(f"{call.result.name}/{name}"), data, PerChannel(scales, 0))


def _lstm_scan(
    call: ReadOperator, layer: _LstmLayer, sequence: Value, stacked: Value, last_h: Value, last_c: Value
) -> Op:
    h, c = layer.h, layer.c
    x, inner_h, inner_c, next_c, next_h = (
        Value(call.fresh(f"{stacked.name}/{name}"), TensorType(shape, like.dtype, like.type.quant))
        for name, shape, like in (
            ("x", sequence.shape[1:], sequence),
            ("h", h.shape, h),
            ("c", c.shape, c),
            ("next_c", c.shape, c),
            ("next_h", h.shape, h),
        )
    )
    ops = tuple(layer.step(x, inner_h, inner_c, next_c, next_h))
    body = Graph("step", (x, inner_h, inner_c), ops, (next_h, next_h, next_c), Arithmetic.TFLITE)
    return Scan(
        sequences=(sequence,),
        initial=(h, c),
        invariants=(),
        ys=(stacked, last_h, last_c),
        body=body,
        count=sequence.shape[0],
        source=call.source,
    )


def _in_order(layer: _LstmLayer, x: Value, y: Value) -> Op:
    """Returns an op that exchanges batch and time if time comes second in the file; a reshape if either is 1."""
    if layer.is_time_major or 1 in x.shape[:2]:
        return Reshape(x=x, y=y, source=layer.call.source)
    return Transpose(x=x, y=y, order=(1, 0, 2), source=layer.call.source)


def svdf(call: ReadOperator) -> list[Op]:
    """Returns the filters' memory, which is a state, and their output."""
    require_int8(call)
    options, y = call.options_as(tflite.SvdfOptions), call.result
    feature, time, memory = call.constant(1), call.constant(2), call.operand(4)
    if options.fused_activation != Activation.RELU or options.rank < 1:
        raise call.refuse("a rank from 1, and relu as the activation, as LiteRT wants it", options)
    types = feature.dtype, time.dtype, memory.dtype
    if (
        types != (DType.INT8, DType.INT16, DType.INT16)
        or memory.is_constant
        or feature.shape[0] % options.rank
    ):
        raise call.refuse(
            f"weights of int8 and of int16, a state of int16, and whole units of {options.rank} filters",
            [feature, time, memory],
            "convert with full integer quantization",
        )
    operand = call.optional(3)
    units = feature.shape[0] // options.rank
    bias = (
        constant_value(call.fresh(f"{y.name}/bias"), np.zeros(units, np.int32))
        if operand is None
        else call.constant(3)
    )
    after = Value(call.fresh(f"{memory.name}/next"), memory.type)
    call.keep(memory.name, memory, after, np.zeros(memory.shape, np.int16))
    return [
        SvdfMemory(x=call.operand(0), memory=memory, weights=feature, y=after, source=call.source),
        SvdfOutput(memory=after, weights=time, bias=bias, y=y, source=call.source),
    ]


ROWS: dict[str, Reading] = {"UNIDIRECTIONAL_SEQUENCE_LSTM": lstm, "SVDF": svdf}
"""The readers of this file, by operator name."""

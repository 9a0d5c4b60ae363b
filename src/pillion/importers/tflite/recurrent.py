# SPDX-License-Identifier: Apache-2.0
"""The reading of layers that go along time and remember: what they hold between runs becomes states."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np

from pillion.importers.tflite.model import Reading, ReadOperator
from pillion.importers.tflite.operands import int8_only
from pillion.ir.graph import Graph
from pillion.ir.numerics import INT16_MAX, Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import LEAST_SCALE, DType, PerChannel, PerTensor, TensorType, Value, constant
from pillion.ops.conv import Conv2d
from pillion.ops.lstm import LstmCell, LstmOutput
from pillion.ops.movement import Reshape, Transpose
from pillion.ops.repeat import Repeat
from pillion.ops.svdf import SvdfMemory, SvdfOutput
from pillion.schemas import tflite
from pillion.schemas.tflite import Activation

PARTS = {"peephole": (9, 10, 11), "layer norm": (20, 21, 22, 23)}
"""What an LSTM may have beyond its gates, by the operands that stand for it."""
WITHOUT = {
    "peephole": "train it without peepholes: tf.keras.layers.LSTM has none, LSTMCell of TensorFlow 1 has use_peepholes=False",
    "layer norm": "train it with a layer normalization behind the LSTM: inside of its gates they are not read",
    "coupled gates": "train it with an input gate of its own: tf.keras.layers.LSTM has one",
}
"""What to do about each of these."""
INPUT, FORGET, CANDIDATE, OUTPUT = range(4)
"""Gates in the order of the operands."""
INPUT_WEIGHTS, RECURRENT_WEIGHTS, BIASES = 1, 5, 12
PROJECTION_WEIGHTS, PROJECTION_BIAS = 16, 17
OUTPUT_STATE, CELL_STATE = 18, 19
HIDDEN = 4
"""The intermediate tensor that says what the output of a step is in."""


def lstm(call: ReadOperator) -> list[Op]:
    """Gives the two halves of a step, repeated along time. The output and the cell of the last step are states."""
    layer = _layer(call)
    before: list[Op] = []
    sequence = _time_first(call, call.operand(0), layer, before)
    steps, h, c, y = sequence.shape[0], layer.h, layer.c, call.result
    last_h, last_c = (Value(call.fresh(f"{v.name}/next"), v.type) for v in (h, c))
    held, last = layer.held(h, "held"), layer.held(last_h, "last")
    before += layer.as_held(h, held)
    wanted = TensorType((steps, *held.shape), DType.INT8, h.type.quant)
    stacked = Value(call.fresh(f"{y.name}/steps"), wanted)
    if steps == 1:
        x = call.intermediate("step", sequence.shape[1:], sequence)
        body = [Reshape(x=sequence, y=x, source=call.source), *layer.step(x, held, c, last_c, last)]
        run = [*body, Reshape(x=last, y=stacked, source=call.source)]
    else:
        run = [_repeated(call, layer, sequence, stacked, (held, last), last_c)]
    run += layer.as_held(last, last_h)
    flat = Value(call.fresh(f"{y.name}/rows"), TensorType((steps, *h.shape), DType.INT8, h.type.quant))
    run += layer.as_held(stacked, flat)
    stacked = flat if layer.projection else stacked
    call.keep(h.name, h, last_h, np.full(h.shape, h.zero_point, np.int8))
    call.keep(c.name, c, last_c, np.zeros(c.shape, np.int16))
    return [*before, *run, _back(call, stacked, y, layer)]


@dataclass(frozen=True)
class _Layer:
    """An LSTM of the file."""

    call: ReadOperator
    h: Value
    c: Value
    is_time_major: bool
    clip: int
    first: tuple[Value, Value, Value]
    """Weights and biases of the gates of the cell."""
    second: tuple[Value, Value, Value]
    """Those of the output gate."""
    projection: Conv2d | None
    """What makes the output of what the output gate makes, if that is not the output itself: as a convolution of one pixel."""

    def held(self, value: Value, name: str) -> Value:
        """Gives what goes from step to step in the place of an output: an image of one pixel where a projection makes it."""
        if self.projection is None:
            return value
        batch, outputs = value.shape
        made = TensorType((batch, 1, 1, outputs), value.dtype, value.type.quant)
        return Value(self.call.fresh(f"{value.name}/{name}"), made)

    def as_held(self, x: Value, y: Value) -> list[Op]:
        """Gives what brings an output to the shape of such an image, or back."""
        return [] if self.projection is None else [Reshape(x=x, y=y, source=self.call.source)]

    def step(self, x: Value, held: Value, c: Value, next_c: Value, next_h: Value) -> list[Op]:
        """Gives what one step does."""
        source, h = self.call.source, held
        if self.projection is not None:
            h = Value(self.call.fresh(f"{held.name}/row"), self.h.type)
        w, r, b = self.first
        cell = LstmCell(
            x=x,
            h=h,
            c=c,
            input_weights=w,
            recurrent_weights=r,
            bias=b,
            y=next_c,
            clip=self.clip,
            source=source,
        )
        w, r, b = self.second
        made, behind = self._behind(next_h)
        output = LstmOutput(
            x=x, h=h, c=next_c, input_weights=w, recurrent_weights=r, bias=b, y=made, source=source
        )
        for op in (cell, output, *behind):
            op.check()
            op.check_scales(Arithmetic.TFLITE)
        return [*self.as_held(held, h), cell, output, *behind]

    def _behind(self, y: Value) -> tuple[Value, list[Op]]:
        """What the output gate makes, and what projects it."""
        if self.projection is None:
            return y, []
        image = self.projection.x.type
        wide = Value(self.call.fresh(f"{y.name}/image"), image)
        row = TensorType((image.shape[0], image.shape[3]), DType.INT8, image.quant)
        hidden = Value(self.call.fresh(f"{y.name}/hidden"), row)
        moved = Reshape(x=hidden, y=wide, source=self.call.source)
        return hidden, [moved, dataclasses.replace(self.projection, x=wide, y=y)]


def _layer(call: ReadOperator) -> _Layer:
    int8_only(call)
    options = call.options_as(tflite.SequenceLstmOptions)
    held = [name for name, numbers in PARTS.items() if any(call.optional(n) is not None for n in numbers)]
    held += ["coupled gates"] if call.optional(INPUT_WEIGHTS) is None else []
    if held:
        rule = "an LSTM has four gates and maybe a projection: no peephole, layer norm, or coupled gates"
        raise call.refuse(rule, ", ".join(held), "\n".join(WITHOUT[name] for name in held))
    if options.fused_activation != Activation.TANH or options.diagonal_recurrent_tensors:
        raise call.refuse("an LSTM has tanh as its activation, and whole recurrent weights", options)
    h, c = call.operand(OUTPUT_STATE), call.operand(CELL_STATE)
    x, y = call.operand(0), call.result
    if h.is_constant or c.is_constant or (h.dtype, c.dtype) != (DType.INT8, DType.INT16) or x.type.rank != 3:
        raise call.refuse(
            "the input has three axes; the state of an int8 LSTM is int8 and int16, and no constant",
            f"{x!r}, {h!r}, {c!r}",
        )
    hidden = call.intermediates[HIDDEN] if len(call.intermediates) > HIDDEN else None
    projected = call.optional(PROJECTION_WEIGHTS) is not None
    quants = {h.type.quant, y.type.quant, *(() if projected else (hidden,))}
    if len(quants) > 1 or hidden is None:
        raise call.refuse("output, output state and hidden state have one scale", ", ".join(map(str, quants)))
    if not isinstance(c.type.quant, PerTensor):
        raise call.refuse("the cell has a scale", repr(c))
    return _Layer(
        call,
        h,
        c,
        options.time_major,
        _clip(call, options.cell_clip, c.type.quant.scale),
        _gates(call, (INPUT, FORGET, CANDIDATE), "cell"),
        _gates(call, (OUTPUT,), "output"),
        _projection(call, hidden, h, options.projection_clip) if projected else None,
    )


def _clip(call: ReadOperator, bound: float, scale: float) -> int:
    """The bound in steps of the cell; 0 for none."""
    if not (math.isfinite(bound) and bound >= 0):
        raise call.refuse("a cell is clipped at a positive number", bound)
    return int(min(max(np.float32(bound) / np.float32(scale), -INT16_MAX), INT16_MAX)) if bound else 0


def _gates(call: ReadOperator, gates: tuple[int, ...], name: str) -> tuple[Value, Value, Value]:
    """Gives weights and biases of some gates, one gate after another, each with its own scale."""
    both = [
        _stacked(call, [call.constant(first + gate) for gate in gates], f"{name}/{what}")
        for first, what in ((INPUT_WEIGHTS, "weights"), (RECURRENT_WEIGHTS, "recurrent"))
    ]
    biases = [call.constant(BIASES + gate) for gate in gates]
    for bias in biases:
        if bias.type.rank != 1 or bias.dtype is not DType.INT32:
            raise call.refuse("biases are int32 vectors", repr(bias))
    data = np.concatenate([bias.constant for bias in biases])
    return both[0], both[1], constant(call.fresh(f"{call.result.name}/{name}/bias"), data)


def _projection(call: ReadOperator, hidden: PerTensor, h: Value, clip: float) -> Conv2d:
    """Gives the products with the weights of the projection. LiteRT forms their multiplier in float32, bounds bytes, whatever their zero point,
    and takes the zero point of what is projected with the other sign, both where it is made and where it is read."""
    weights = call.constant(PROJECTION_WEIGHTS)
    quant, bias = weights.type.quant, call.optional(PROJECTION_BIAS)
    if weights.dtype is not DType.INT8 or weights.type.rank != 2 or not isinstance(quant, PerTensor):
        raise call.refuse("weights of a projection are an int8 matrix with one scale", repr(weights))
    if hidden.zero_point == -128:
        raise call.refuse("the hidden state has a zero point from -127", hidden, "quantize it around 0")
    hidden = PerTensor(hidden.scale, -hidden.zero_point)
    outputs, cells = weights.shape
    if quant.zero_point or outputs != h.shape[1] or not (math.isfinite(clip) and clip >= 0):
        raise call.refuse("a row of weights for each output, around 0", f"{weights!r}, clipped at {clip}")
    name, batch = f"{call.result.name}/projection", h.shape[0]
    sums = PerTensor(max(hidden.scale * quant.scale, LEAST_SCALE))
    data = np.zeros(outputs, np.int32) if bias is None else call.constant(PROJECTION_BIAS).constant
    bound = int(min(np.float32(clip) / np.float32(h.scale), 127))
    op = Conv2d(
        x=Value(call.fresh(f"{name}/x"), TensorType((batch, 1, 1, cells), DType.INT8, hidden)),
        weights=constant(call.fresh(name), weights.constant.reshape(outputs, 1, 1, cells), quant),
        bias=constant(call.fresh(f"{name}/bias"), data, sums),
        y=Value(call.fresh(f"{name}/y"), TensorType((batch, 1, 1, outputs), DType.INT8, h.type.quant)),
        low=-bound if bound else -128,
        high=bound or 127,
        source=call.source,
    )
    given = op.from_scales_in_float32()
    is_usual = set(op.from_scales(Arithmetic.TFLITE)) == set(given)
    return op if is_usual else dataclasses.replace(op, given=given)


def _stacked(call: ReadOperator, weights: list[Value], name: str) -> Value:
    for w in weights:
        fits = isinstance(w.type.quant, PerTensor) and w.type.quant.zero_point == 0
        if w.dtype is not DType.INT8 or w.type.rank != 2 or not fits or w.shape != weights[0].shape:
            raise call.refuse("weights of gates are int8 matrices of one size, each with one scale", repr(w))
    scales = tuple(w.scale for w in weights for _ in range(w.shape[0]))
    data = np.concatenate([w.constant for w in weights])
    return constant(call.fresh(f"{call.result.name}/{name}"), data, PerChannel(scales, 0))


def _repeated(
    call: ReadOperator,
    layer: _Layer,
    sequence: Value,
    stacked: Value,
    outputs: tuple[Value, Value],
    last_c: Value,
) -> Op:
    (h, last_h), c = outputs, layer.c
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
    return Repeat(
        sequences=(sequence,),
        initial=(h, c),
        invariants=(),
        ys=(stacked, last_h, last_c),
        body=body,
        count=sequence.shape[0],
        source=call.source,
    )


def _time_first(call: ReadOperator, x: Value, layer: _Layer, ops: list[Op]) -> Value:
    if layer.is_time_major:
        return x
    batch, steps, features = x.shape
    y = call.intermediate("in_time", (steps, batch, features), x)
    ops.append(_exchanged(x, y, call.source))
    return y


def _back(call: ReadOperator, stacked: Value, y: Value, layer: _Layer) -> Op:
    if layer.is_time_major:
        return Reshape(x=stacked, y=y, source=call.source)
    return _exchanged(stacked, y, call.source)


def _exchanged(x: Value, y: Value, source: str) -> Op:
    """Batch and time exchanged: where one of them is 1, the elements stay where they are."""
    if 1 in x.shape[:2]:
        return Reshape(x=x, y=y, source=source)
    return Transpose(x=x, y=y, order=(1, 0, 2), source=source)


def svdf(call: ReadOperator) -> list[Op]:
    """Gives what filters remember of an input, and what they make of it. What they remember is a state."""
    int8_only(call)
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
    given = call.optional(3)
    units = feature.shape[0] // options.rank
    bias = (
        constant(call.fresh(f"{y.name}/bias"), np.zeros(units, np.int32))
        if given is None
        else call.constant(3)
    )
    after = Value(call.fresh(f"{memory.name}/next"), memory.type)
    call.keep(memory.name, memory, after, np.zeros(memory.shape, np.int16))
    return [
        SvdfMemory(x=call.operand(0), memory=memory, weights=feature, y=after, source=call.source),
        SvdfOutput(memory=after, weights=time, bias=bias, y=y, source=call.source),
    ]


ROWS: dict[str, Reading] = {"UNIDIRECTIONAL_SEQUENCE_LSTM": lstm, "SVDF": svdf}
"""The readings of this file, by the operators' names."""

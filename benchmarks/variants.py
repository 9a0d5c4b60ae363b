# SPDX-License-Identifier: Apache-2.0
"""What some ops take of the instructions of networks that have them, by the kernels for the core and by the portable ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np

from pillion.devices.cortex_m import Isa
from pillion.emitters.c import kernel_choice
from pillion.emitters.c.kernel import Kernel
from pillion.emitters.c.kernel_lists import KERNELS_OF
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import DType, PerChannel, PerTensor, TensorType, Value, constant_value
from pillion.ops import Add, AvgPool2dUp, BatchMatmul, Conv2d, Linear, Lut, Normalize, Softmax
from pillion.ops.compare_select import ArgMax, Compare, TopPlaces, TopValues, Where
from pillion.ops.detections import Detections
from pillion.ops.example_values import float_value, make_op, random_like, value
from pillion.ops.lstm import LstmCell, LstmOutput
from pillion.ops.resize import ResizeBilinearFloat
from pillion.ops.softmax import OUTPUT
from pillion.ops.svdf import SvdfMemory, SvdfOutput
from pillion.program import Program
from pillion.targets import find_target

Figures = dict[str, Any]
RNG = np.random.default_rng(0)
WHOLE = TensorType((), DType.INT32)


def wide(name: str, shape: tuple[int, ...], scale: float) -> Value:
    return Value(name, TensorType(shape, DType.INT16, PerTensor(scale)))


def weights(rows: int, inputs: int, *more: int) -> Value:
    data = RNG.integers(-127, 127, (rows, *more, inputs), endpoint=True).astype(np.int8)
    return constant_value("weights", data, PerChannel((0.004,) * rows, 0))


def bias(rows: int) -> Value:
    return constant_value("bias", RNG.integers(-3000, 3000, rows).astype(np.int32))


def lstm(inputs: int, cells: int) -> Iterator[Op]:
    x, h, c = value("x", (1, inputs), 0.05), value("h", (1, cells), 2.0**-7), wide("c", (1, cells), 2.0**-11)
    for cls, y in ((LstmCell, replace(c, name="y")), (LstmOutput, value("y", (1, cells), 2.0**-7))):
        rows = cls.gates * cells
        held = {"input_weights": weights(rows, inputs), "recurrent_weights": weights(rows, cells)}
        yield make_op(cls, y, x=x, h=h, c=c, **held, bias=bias(rows))


def svdf(inputs: int, filters: int, length: int) -> Iterator[Op]:
    memory = wide("memory", (1, filters * length), 0.0008)
    held = constant_value("weights", weights(filters, inputs).constant, PerTensor(0.0113))
    times = constant_value(
        "weights", RNG.integers(-900, 900, (filters, length)).astype(np.int16), PerTensor(0.0011)
    )
    x, y = value("x", (1, inputs), 0.05, 3), replace(memory, name="y")
    yield make_op(SvdfMemory, y, x=x, memory=memory, weights=held)
    yield make_op(SvdfOutput, value("y", (), 0.37), memory=memory, weights=times, bias=bias(filters))


def linear(rows: int, inputs: int, out: int) -> Op:
    x, y = value("x", (rows, inputs), 0.05, 3), value("y", (), 1.0)
    return make_op(Linear, y, x=x, weights=weights(out, inputs), bias=bias(out))


def conv(side: int, inputs: int, out: int, kernel: int) -> Op:
    x, y = value("x", (1, side, side, inputs), 0.05, 3), value("y", (), 1.0)
    ends, held = (kernel // 2,) * 4, weights(out, inputs, kernel, kernel)
    return make_op(Conv2d, y, x=x, weights=held, bias=bias(out), padding=ends)


def softmax(*shape: int) -> Op:
    return make_op(Softmax, Value("y", TensorType((), DType.INT8, OUTPUT)), x=value("x", shape, 0.1))


def product(heads: int, rows: int, depth: int, columns: int) -> Op:
    a, b = value("a", (heads, rows, depth), 0.05), value("b", (heads, depth, columns), 0.05)
    return make_op(BatchMatmul, value("y", (), 0.5), a=a, b=b)


def block(tokens: int, size: int, heads: int) -> Iterator[Op]:
    """A block of a transformer, whose sums have 16 bits."""
    stream, branch = wide("x", (tokens, size), 0.001), value("b", (tokens, size), 0.05)
    gain = constant_value("weights", RNG.uniform(0.5, 1.5, size).astype(np.float32))
    norm = make_op(Normalize, value("y", (), 0.03), x=stream, weights=gain)
    total = make_op(Add, wide("y", (), 0.0011), a=stream, b=branch, low=-(2**15), high=2**15 - 1)
    each = size // heads
    yield from (norm, linear(tokens, size, 3 * size), product(heads, tokens, each, tokens))
    yield from (softmax(heads, tokens, tokens), product(heads, tokens, tokens, each))
    yield from (linear(tokens, size, size), total, norm, linear(tokens, size, 4 * size))
    table = constant_value("table", np.arange(-128, 128).astype(np.int8))
    hidden = value("x", (tokens, 4 * size), 0.05)
    yield make_op(Lut, value("y", (), 0.05), x=hidden, table=table)
    yield from (linear(tokens, 4 * size, size), total)


def inception() -> Iterator[Op]:
    """A block of a uint8 Inception: convolutions of 1x1, 3x3 and 5x5 beside a mean of 3x3."""
    yield from (conv(17, 192, 32, 1), conv(17, 192, 48, 1), conv(17, 48, 64, 3), conv(17, 192, 16, 1))
    yield from (conv(17, 16, 32, 5), conv(17, 192, 32, 1))
    x = value("x", (1, 17, 17, 192), 0.05, 3)
    yield make_op(AvgPool2dUp, value("y", (), 0.05, 3), x=x, kernel=(3, 3), padding=(1, 1, 1, 1))


def segments() -> Iterator[Op]:
    """The head of a uint8 segmentation: two convolutions of 1x1, and the classes of each pixel of the picture."""
    yield from (conv(17, 160, 256, 1), conv(17, 256, 21, 1))
    x = value("x", (1, 17, 17, 21), 0.05, 3)
    yield make_op(ResizeBilinearFloat, value("y", (), 0.05, 3), x=x, size=(129, 129), align_corners=True)


def pixels() -> Iterator[Op]:
    """The end of a segmentation: convolutions over 32x32, and of each of 64x64 pixels the class with the highest score."""
    yield from (conv(32, 96, 64, 1), conv(32, 64, 64, 3), conv(32, 64, 21, 1))
    yield make_op(ArgMax, Value("y", WHOLE), x=value("x", (1, 64, 64, 21), 0.05, 3), axis=3)


def detector() -> Iterator[Op]:
    """The end of a detector of three classes: convolutions over 16x16 and 8x8, and 960 boxes, of which ten are kept."""
    yield from (conv(16, 64, 64, 3), conv(16, 64, 21, 3), conv(8, 128, 128, 3), conv(8, 128, 21, 3))
    corners = np.concatenate([RNG.random((960, 2)), 0.1 + RNG.random((960, 2))], axis=1).astype(np.float32)
    held = {"boxes": float_value("boxes", (1, 960, 4)), "scores": float_value("scores", (1, 960, 4))}
    numbers = {"most": 10, "classes": 3, "score_threshold": 6.9, "iou_threshold": 0.5}
    yield make_op(
        Detections, float_value("y", ()), **held, anchors=constant_value("anchors", corners), **numbers
    )


def first_five() -> Iterator[Op]:
    """The end of a classifier of 1,000 classes, which gives the five best and their scores."""
    x = value("x", (1, 1000), 0.1)
    yield from (conv(7, 320, 1280, 1), linear(1, 1280, 1000))
    yield make_op(TopPlaces, Value("y", WHOLE), x=x, k=5)
    yield make_op(TopValues, value("y", (), 0.1), x=x, k=5)


def masked(tokens: int, size: int, heads: int) -> Iterator[Op]:
    """Attention in which what is left out is chosen by a comparison of each pair of tokens."""
    each, shape = size // heads, (heads, tokens, tokens)
    low, scores = (
        constant_value("low", np.full((1, 1, 1), -128, np.int8), PerTensor(0.1)),
        value("x", shape, 0.1),
    )
    mask = Value("mask", TensorType((1, tokens, tokens), DType.BOOL))
    before = {"a": value("a", (1, tokens, 1), 0.1), "b": value("b", (1, 1, tokens), 0.1)}
    yield from (linear(tokens, size, 3 * size), product(heads, tokens, each, tokens))
    yield make_op(Compare, Value("y", TensorType((), DType.BOOL)), **before)
    yield make_op(Where, value("y", (), 0.1), condition=mask, a=scores, b=low)
    yield from (softmax(*shape), product(heads, tokens, tokens, each), linear(tokens, size, size))


NETS: dict[str, tuple[tuple[Op, ...], tuple[type[Op], ...]]] = {
    "keywords: an LSTM of 64 cells over 10 bands": (
        (*lstm(10, 64), linear(1, 64, 12), softmax(1, 12)),
        (LstmCell, LstmOutput),
    ),
    "denoiser: two LSTMs of 128 cells, 257 bins": (
        (*lstm(257, 128), *lstm(128, 128), linear(1, 128, 257)),
        (LstmCell, LstmOutput),
    ),
    "wake word: two SVDFs of 64 filters": (
        (*svdf(40, 64, 10), *svdf(64, 64, 10), linear(1, 64, 4)),
        (SvdfMemory,),
    ),
    "transformer block, 37 tokens of 192": (tuple(block(37, 192, 3)), (Add, Normalize)),
    "uint8 Inception block, 17x17x192": (tuple(inception()), (AvgPool2dUp,)),
    "uint8 segmentation head, 17x17 to 129x129x21": (tuple(segments()), (ResizeBilinearFloat,)),
    "segmentation, the class of each of 64x64 pixels": (tuple(pixels()), (ArgMax,)),
    "detector of 960 boxes, three classes": (tuple(detector()), (Detections,)),
    "classifier, the first five of 1,000": (tuple(first_five()), (TopPlaces, TopValues)),
    "masked attention, 37 tokens of 192": (tuple(masked(37, 192, 3)), (Compare, Where)),
}
"""The ops of a network, side by side, and the kinds of which the portable kernels are measured, too."""


def graph_of(ops: tuple[Op, ...]) -> Graph:
    apart = []
    for number, op in enumerate(ops):
        names = {v: replace(v, name=f"e{number}_{v.name}") for v in (*op.operands, *op.results)}
        apart.append(op.substitute(names))
    inputs = tuple(v for op in apart for v in op.activations)
    return Graph("net", inputs, tuple(apart), tuple(r for op in apart for r in op.results), Arithmetic.TFLITE)


def counted(graph: Graph, core: str, board: str) -> list[tuple[Op, int]]:
    program = Program(graph, find_target(core))
    profile = program.measure(*(random_like(v, 1) for v in graph.inputs), on=board, timeout=300).profile
    assert profile is not None
    return [
        (step.choice.op, n) for step, n in zip(program.lowered.steps, profile.op_instructions, strict=True)
    ]


def measured(label: str, core: str, board: str) -> Figures:
    """Instructions of all ops and of the kinds, with the kernels of the core, and with the portable ones for the kinds."""
    ops, kinds = NETS[label]
    graph, usual = graph_of(ops), kernel_choice.kernels

    def plain(isa: Isa) -> tuple[Kernel, ...]:
        return tuple(k for k in usual(isa) if k in KERNELS_OF[Isa.PORTABLE] or not issubclass(k.op, kinds))

    def sums(each: list[tuple[Op, int]]) -> Figures:
        these = sum(n for op, n in each if isinstance(op, kinds))
        return {"instructions": sum(n for _, n in each), "of_these": these}

    with mock.patch.object(kernel_choice, "kernels", plain):
        before = counted(graph, core, board)
    return {**sums(counted(graph, core, board)), "portable": sums(before)}

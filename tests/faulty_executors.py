# SPDX-License-Identifier: Apache-2.0
"""A small net, and executors of it with one fault that the search has to find."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Array, DType, TensorType, Value
from pillion.ir.verdict import Verdict
from pillion.ops import Add, Clamp, Conv2d, DepthwiseConv2d, Linear, Quantize, Reshape, Segment
from pillion.ops.example_values import conv_bias, conv_weights, make_op, value
from pillion.program import Program
from pillion.run.executor import DEFAULTS, Runnable, RunOptions, RunResult, Samples
from pillion.targets import find_target


def _renamed(v: Value, name: str) -> Value:
    return dataclasses.replace(v, name=name)


def convolution(cls: type[Op], x: Value, name: str, out: int, kernel: int) -> Op:
    shape = (1, kernel, kernel, out) if cls is DepthwiseConv2d else (out, kernel, kernel, x.shape[3])
    weights = conv_weights(shape, 3 if cls is DepthwiseConv2d else 0, out)
    bias = _renamed(conv_bias(x, weights, out, out), f"{name}_bias")
    pad = kernel // 2
    return make_op(
        cls,
        value(name, (), 0.9, -5),
        x=x,
        weights=_renamed(weights, f"{name}_weights"),
        bias=bias,
        padding=(pad, pad, pad, pad),
    )


def linear(x: Value, name: str, out: int) -> Op:
    weights = conv_weights((out, x.shape[-1]), 0, out)
    bias = _renamed(conv_bias(x, weights, out, out), f"{name}_bias")
    return make_op(
        Linear, value(name, (), 1.1, 3), x=x, weights=_renamed(weights, f"{name}_weights"), bias=bias
    )


def net() -> Graph:
    """quantize, conv, depthwise, a shortcut over it, linear."""
    real = Value("image", TensorType((1, 5, 4, 3), DType.FLOAT32))
    x = value("x", real.shape, 0.05, 4)
    first = convolution(Conv2d, x, "first", 6, 3)
    second = convolution(DepthwiseConv2d, first.results[0], "second", 6, 3)
    total = value("total", second.results[0].shape, 1.5, 1)
    row = value("row", (1, total.type.elements), 1.5, 1)
    last = linear(row, "last", 7)
    ops = (
        Quantize(x=real, y=x),
        first,
        second,
        Add(a=first.results[0], b=second.results[0], y=total),
        Reshape(x=total, y=row),
        last,
    )
    return Graph("net", (real,), ops, (ops[-1].results[0],))


def with_segment() -> Graph:
    """The same convolutions as an NPU segment between two ops of the core."""
    x, clamped = value("x", (1, 5, 4, 3), 0.05, 4), value("clamped", (1, 5, 4, 3), 0.05, 4)
    inner = value("inner", x.shape, 0.05, 4)
    first = convolution(Conv2d, inner, "first", 6, 3)
    second = convolution(DepthwiseConv2d, first.results[0], "second", 6, 3)
    body = Graph("npu0", (inner,), (first, second), second.results, Arithmetic.TFLITE)
    made = _renamed(second.results[0], "made")
    ops = (
        Clamp(x=x, y=clamped, low=-100, high=90),
        Segment(xs=(clamped,), ys=(made,), body=body, device="npu"),
        Clamp(x=made, y=_renamed(made, "last"), high=127),
    )
    return Graph("mixed", (x,), ops, (ops[-1].results[0],))


def program(graph: Graph, target: str = "cortex-m0plus") -> Program:
    return Program(graph, find_target(target))


def tampered(graph: Graph, name: str, change: int) -> Graph:
    """The graph with the first number of a constant changed, inside segments too."""
    ops = tuple(
        dataclasses.replace(op, body=tampered(op.body, name, change)) if isinstance(op, Segment) else op
        for op in graph.ops
    )
    graph = graph.replace(ops=ops)
    swaps = {
        v: dataclasses.replace(v, data=_changed(v.constant, change))
        for v in graph.constants
        if v.name == name
    }
    return graph.substitute(swaps)


def _changed(array: Array, change: int) -> Array:
    copy = np.array(array)
    copy.flat[0] += copy.dtype.type(change)
    return copy


@dataclass(frozen=True)
class Faulty:
    """The reference of a graph that is not quite the program's."""

    change: Callable[[Graph], Graph]
    name: str = "faulty"

    def judge(self, program: Runnable) -> Verdict:
        return Verdict("faulty", True, "", "")

    def run(self, program: Runnable, samples: Samples, options: RunOptions = DEFAULTS) -> list[RunResult]:
        return [RunResult(self.change(program.graph).reference(*sample)) for sample in samples]

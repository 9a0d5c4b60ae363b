# SPDX-License-Identifier: Apache-2.0
"""Sizes, scales and borders that a file can claim in a few bytes: right or refused, and nothing large is allocated."""

from __future__ import annotations

import math
import resource
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from pte_seeds import small_file
from test_pte_structure import tables
from tflite_file import File, per_channel, weights
from torch import Tensor, nn

import pillion
from pillion.compiler import compile_graph
from pillion.errors import PillionError
from pillion.importers.pte.container import Container
from pillion.importers.pte.foreign_program import graph_of
from pillion.importers.tflite import read
from pillion.ir.graph import Graph
from pillion.ir.size_limits import LARGEST
from pillion.ops import Conv2d, MaxPool2d, Quantize
from pillion.schemas import pte, tflite
from pillion.schemas.flatbuffer import MalformedError, write_flatbuffer
from pillion.schemas.tflite import ElementType
from pillion.targets import find_target

BYTES = 50_000_000
SECONDS = 20.0
BIG = (2**10, 2**15, 2**16, 2**20, 2**30, 2**31 - 1)


@contextmanager
def watched() -> Iterator[None]:
    """Time and memory of what is refused, or of what is small."""
    tracemalloc.start()
    begin = time.process_time()
    yield
    assert time.process_time() - begin < SECONDS
    assert tracemalloc.get_traced_memory()[1] < BYTES
    tracemalloc.stop()


def is_compiled(make: Callable[[], Graph]) -> bool:
    """Whether it becomes a program, all of whose numbers C can hold; else it ends in an error that users see as one."""
    try:
        program = compile_graph(make(), find_target("cortex-m33"))
        assert program.memory.arena_bytes <= LARGEST
        assert all(v.type.size_bytes <= LARGEST for v in program.graph.values.values())
        return True
    except (PillionError, MalformedError):
        return False


def window(code: str, shape: tuple[int, ...], **fields: Any) -> File:
    """A window over an image of 4 channels; SAME gives images of the size that the stride leaves."""
    options = tflite.Conv2DOptions(**fields) if code == "CONV_2D" else tflite.Pool2DOptions(**fields)
    file = File(code, options).input(1, *shape, 4)
    if code == "CONV_2D":
        file.constant(weights(4, 3, 3, 4), ElementType.INT8, quantization=per_channel(4, 0))
        file.constant(np.zeros(4))
    stride = (options.stride_h, options.stride_w)
    return file.output(1, *(-(-size // s) for size, s in zip(shape, stride, strict=True)), 4)


@pytest.mark.parametrize("field", ["dilation_h", "dilation_w", "stride_h", "stride_w"])
@pytest.mark.parametrize("number", BIG)
def test_geometry_of_tflite_convolutions(field: str, number: int) -> None:
    fields = {"stride_h": 1, "stride_w": 1, "dilation_h": 1, "dilation_w": 1, field: number}
    with watched():
        made = is_compiled(lambda: read(window("CONV_2D", (8, 8), **fields).bytes()))
    assert made or "dilation" in field or number > LARGEST
    assert not made or "stride" in field or number < 2**24


@pytest.mark.parametrize("field", ["filter_h", "filter_w", "stride_h", "stride_w"])
@pytest.mark.parametrize("number", BIG)
def test_geometry_of_tflite_pools(field: str, number: int) -> None:
    fields = {"stride_h": 1, "stride_w": 1, "filter_h": 2, "filter_w": 2, field: number}
    with watched():
        made = is_compiled(lambda: read(window("MAX_POOL_2D", (8, 8), **fields).bytes()))
    assert not made or number <= LARGEST


@pytest.mark.parametrize("size", BIG)
def test_tensors_larger_than_any_memory(size: int) -> None:
    """Reshapes, resizes, paddings and sums of large images."""
    resize = File("RESIZE_NEAREST_NEIGHBOR", tflite.ResizeNearestNeighborOptions())
    side = min(size, 2**31 - 1)
    files = (
        resize.input(1, 2, 2, 1, scale=0.1).constant([side, side]).output(1, side, side, 1),
        File("PAD", tflite.PadOptions()).input(1, 2).constant([[0, 0], [0, side - 2]]).output(1, side),
        File("LOGISTIC").input(1, side).output(1, side, scale=1 / 256, zero=-128),
        File("LOGISTIC").input(side, side).output(side, side, scale=1 / 256, zero=-128),
    )
    with watched():
        made = [is_compiled(lambda file=file: read(file.bytes())) for file in files]
    assert made == [size < 2**15, size < 2**30, size <= 2**30, size <= 2**15]


def test_constants_that_double() -> None:
    """A constant concatenated with itself, thirty times."""
    file = File("CONCATENATION", tflite.ConcatenationOptions(axis=0)).constant(
        np.zeros((1024, 4)), ElementType.INT8, quantization=tflite.Quantization(scale=[0.1], zero_point=[3])
    )
    model = file.output(2048, 4).model()
    graph, operator = model.subgraphs[0], model.subgraphs[0].operators[0]
    graph.operators = []
    at = 0
    for number in range(30):
        shape = [min(1024 * 2 ** (number + 1), 2**31 - 1), 4]
        graph.tensors.append(
            tflite.Tensor(
                shape=shape,
                name=f"c{number}",
                type=ElementType.INT8,
                quantization=file.tensors[0].quantization,
            )
        )
        last = len(graph.tensors) - 1
        graph.operators.append(
            tflite.Operator(inputs=[at, at], outputs=[last], options=operator.options, options_type=10)
        )
        at = last
    graph.outputs = [at]
    with watched():
        assert not is_compiled(lambda: read(write_flatbuffer(model, tflite.IDENTIFIER)))


@pytest.mark.parametrize("size", BIG)
def test_sizes_of_programs(size: int) -> None:
    """Every tensor of a program's tables."""
    made: list[bool] = []
    for op in (list(Conv2d.examples())[2], next(iter(MaxPool2d.examples()))):
        raw = small_file(op)
        count = len([t for t in tables(Container(raw, "x").plan) if isinstance(t, pte.Tensor)])
        for number in range(count):
            container = Container(raw, "x")
            tensor = [t for t in tables(container.plan) if isinstance(t, pte.Tensor)][number]
            for axis in range(len(tensor.sizes)):
                tensor.sizes[axis] = size
            with watched():
                made.append(is_compiled(lambda held=container: graph_of(held)))
    assert sum(made) <= len(made) / 4  # the sizes of scratch, which no kernel call means


class Around(nn.Module):
    def __init__(self, make: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.make = make

    def forward(self, x: Tensor) -> Tensor:
        return self.make(x)


F = nn.functional
W = torch.zeros(4, 3, 3, 3)
LARGE: dict[str, Callable[[Tensor], Tensor]] = {
    "dilation": lambda x: F.conv2d(x, W, dilation=2**24, padding=2**24),
    "padding": lambda x: F.conv2d(x, W, padding=2**20, stride=2**15),
    "pool": lambda x: F.max_pool2d(x, 2**18, padding=2**17, stride=2**16),
    "pad": lambda x: F.pad(x, (2**28, 2**28)),
    "resize": lambda x: F.interpolate(x, scale_factor=2**14),
    "repeat": lambda x: x.repeat(2**12, 2**12, 1, 1),
    "expand": lambda x: x[:, :1].expand(2**24, 1, 8, 8) + 1,
    "zeros": lambda x: x + torch.zeros(2**26, 3, 8, 8),
    "product": lambda x: x.reshape(-1, 1).repeat(1, 2**24) @ torch.zeros(2**24, 3),
}


@pytest.mark.parametrize("name", LARGE)
def test_large_tensors_of_modules(name: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(PillionError, match=r"larger than any memory|cannot export"):
        pillion.compile(Around(LARGE[name]), torch.zeros(1, 3, 8, 8), target="cortex-m33")
    assert (
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000
    )  # kilobytes, most of them torch


SCALES = (
    0.0,
    -0.1,
    math.nan,
    math.inf,
    -math.inf,
    1e-45,
    9.99e-39,
    1e-38,
    1.2e-38,
    1e-20,
    1e20,
    8.4e37,
    8.6e37,
    3e38,
)


@pytest.mark.parametrize("scale", SCALES)
def test_scales_of_files(scale: float) -> None:
    """Scales that are no normal numbers never reach C."""
    files = (
        File("QUANTIZE", tflite.QuantizeOptions())
        .input(1, 4, type=ElementType.FLOAT32, quantization=None)
        .output(1, 4, scale=scale),
        File("DEQUANTIZE", tflite.DequantizeOptions())
        .input(1, 4, scale=scale)
        .output(1, 4, type=ElementType.FLOAT32, quantization=None),
    )
    is_normal = 2.0**-126 <= scale <= 2.0**126
    for file in files:
        assert is_compiled(lambda file=file: read(file.bytes())) is is_normal
    raw = small_file(next(iter(Quantize.examples())))
    container = Container(raw, "x")
    for held in tables(container.plan):
        if isinstance(held, pte.Double):
            held.double_val = scale
    assert not is_compiled(lambda: graph_of(container)) or is_normal


@pytest.mark.parametrize("zero", [-129, 128, -(2**31), 2**31, 2**40, -(2**63)])
def test_zero_points_outside_of_the_type(zero: int) -> None:
    for file in (
        File("LOGISTIC").input(1, 4, zero=zero).output(1, 4, scale=1 / 256, zero=-128),
        File("ABS").input(1, 4).output(1, 4, zero=zero),
    ):
        with pytest.raises(PillionError, match="zero point"):
            read(file.bytes())


def bordered(inputs: list[int], outputs: list[int], with_operator: bool = True) -> bytes:
    """Tensor 0 is an input, 1 the result, 2 a constant."""
    quant = tflite.Quantization(scale=[0.1], zero_point=[3])
    file = File("ABS").input(1, 4).output(1, 4)
    model = file.constant([[1, 2, 3, 4]], ElementType.INT8, quantization=quant).model()
    graph = model.subgraphs[0]
    graph.operators[0].inputs = [0]
    graph.inputs, graph.outputs = inputs, outputs
    graph.operators = graph.operators if with_operator else []
    return write_flatbuffer(model, tflite.IDENTIFIER)


BORDERS = {
    "as it should be": (([0], [1]), True),
    "no outputs": (([0], []), False),
    "no inputs": (([], [1]), False),
    "nothing": (([], []), False),
    "no operators, output made by none": (([0], [1], False), False),
    "output is a constant": (([0], [2]), False),
    "output is a constant, too": (([0], [1, 2]), True),
    "input is a constant": (([2], [1]), False),
    "input twice": (([0, 0], [1]), False),
    "input is a result": (([1], [1]), False),
    "no such tensor": (([0], [7]), False),
    "none": (([0], [-1]), False),
}


@pytest.mark.parametrize("name", BORDERS)
def test_borders_of_files(name: str) -> None:
    arguments, is_model = BORDERS[name]
    assert is_compiled(lambda: read(bordered(*arguments))) is is_model


@pytest.mark.parametrize(
    ("inputs", "outputs", "operator"),
    [([0], [0], True), ([0], [0], False), ([0], [1, 1], True), ([0], [0, 1], True), ([0], [1, 0, 1], True)],
)
def test_results_that_are_inputs_or_come_twice(inputs: list[int], outputs: list[int], operator: bool) -> None:
    """Right on all executors, or refused."""
    try:
        program = compile_graph(read(bordered(inputs, outputs, operator)), find_target("cortex-m33"))
    except PillionError as error:
        assert "output" in str(error)  # noqa: PT017  # either is right
        return
    x = np.array([[-7, 3, 90, -128]], np.int8)
    wanted = [{0: x}.get(n, program.run(x)[i]).tobytes() for i, n in enumerate(outputs)]
    assert [y.tobytes() for y in program.run(x)] == wanted
    assert [y.tobytes() for y in program.run(x, on="host")] == wanted
    assert len(wanted) == len(outputs)
    for write in (program.pte, program.tflite):
        try:
            assert write()
        except PillionError:
            continue

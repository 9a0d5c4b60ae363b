# SPDX-License-Identifier: Apache-2.0
"""Weights that are beyond int8 when their zero point is taken off, and concatenations of several scales: LiteRT's bytes, whatever the
window, the strides and the zero points are; on an emulated core, too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from byte_net import ByteNet
from net_file import answers, litert

import pillion
from nightly import part_of
from pillion.compiler import compile_graph
from pillion.importers.tflite import read
from pillion.ops import Concat, DepthwiseConv2d, Lut, Requantize
from pillion.schemas import tflite
from pillion.schemas.tflite import Padding
from pillion.targets import find_target

ENDS = (0, 255, 128, 77)


def depthwise(seed: int) -> bytes:
    """A depthwise convolution of any window, stride, dilation, multiplier and batch."""
    net = ByteNet(seed)
    rng = net.rng
    channels, multiplier, stride = (int(rng.integers(1, most)) for most in (10, 4, 4))
    kernel = (int(rng.integers(1, 5)), int(rng.integers(1, 5)))
    dilation = int(rng.integers(1, 4)) if stride == 1 else 1
    size = (int(rng.integers(12, 20)), int(rng.integers(12, 20)))
    padding = Padding(int(rng.integers(0, 2)))
    x = net.input(int(rng.integers(1, 3)), *size, channels, zero=int(rng.choice(ENDS)))
    held = net.levels((1, *kernel, channels * multiplier), int(rng.choice([0, 255, 100, 150])), False)
    reach = [dilation * (k - 1) if padding == Padding.VALID else 0 for k in kernel]
    image = [-(-(side - more) // stride) for side, more in zip(size, reach, strict=True)]
    y = net.tensor(net.shape(x)[0], *image, channels * multiplier, scale=0.09, zero=int(rng.integers(256)))
    options = tflite.DepthwiseConv2DOptions(
        padding=padding,
        stride_h=stride,
        stride_w=stride,
        dilation_h=dilation,
        dilation_w=dilation,
        depth_multiplier=multiplier,
    )
    return net.bytes(net.add("DEPTHWISE_CONV_2D", [x, held, net.bias(channels * multiplier)], y, options))


def grouped(seed: int) -> bytes:
    """A convolution of groups, which sums some of the channels only."""
    net = ByteNet(seed)
    rng = net.rng
    groups, each, out = (int(rng.integers(2, 4)) for _ in range(3))
    x = net.input(1, 7, 9, groups * each, zero=int(rng.choice(ENDS)))
    held = net.levels((groups * out, 3, 2, each), int(rng.choice([0, 255, 100])), False)
    y = net.tensor(1, 7, 9, groups * out, scale=0.09, zero=int(rng.integers(256)))
    options = tflite.Conv2DOptions(padding=Padding.SAME, stride_h=1, stride_w=1)
    return net.bytes(net.add("CONV_2D", [x, held, net.bias(groups * out)], y, options))


def transposed(seed: int) -> bytes:
    """A transposed convolution of any window and stride."""
    net = ByteNet(seed)
    rng = net.rng
    channels, out, stride, high, wide = (int(rng.integers(1, most)) for most in (9, 9, 4, 5, 5))
    size = (int(rng.integers(2, 9)), int(rng.integers(2, 9)))
    x = net.input(1, *size, channels, zero=int(rng.choice(ENDS)))
    held = net.levels((out, high, wide, channels), int(rng.choice([0, 255, 100])), False)
    shape = (1, size[0] * stride, size[1] * stride, out)
    y = net.tensor(*shape, scale=0.12, zero=int(rng.integers(256)))
    options = tflite.TransposeConvOptions(padding=Padding.SAME, stride_h=stride, stride_w=stride)
    asked = net.constant(np.array(shape, np.int32))
    return net.bytes(net.add("TRANSPOSE_CONV", [asked, held, x, net.bias(out)], y, options))


def joined(seed: int) -> bytes:
    """A concatenation of operands with scales of their own, all 256 levels of each."""
    net = ByteNet(seed)
    rng = net.rng
    count = int(rng.integers(2, 5))
    scales = [float(np.float32(rng.choice([0.05, 0.1, rng.uniform(0.01, 0.3)]))) for _ in range(count + 1)]
    zeros = [int(rng.choice(ENDS)) for _ in scales]
    xs = [net.input(1, 3, n + 1, 256, scale=scales[n], zero=zeros[n]) for n in range(count)]
    y = net.tensor(1, 3, sum(net.shape(x)[2] for x in xs), 256, scale=scales[-1], zero=zeros[-1])
    return net.bytes(net.add("CONCATENATION", xs, y, tflite.ConcatenationOptions(axis=2)))


def linear(seed: int, dtype: str = "uint8") -> bytes:
    """A layer of rows, which lie in an image or are there as they are; in int8 it may have a zero point, too."""
    net = ByteNet(seed)
    net.dtype = dtype
    rng = net.rng
    lower = 128 if dtype == "int8" else 0
    features, out, keeps = 2 * int(rng.integers(2, 20)), int(rng.integers(1, 20)), bool(seed % 2)
    zero = int(rng.integers(256)) - lower
    x = net.input(2, 3, features, zero=zero) if keeps else net.input(2, 3, 2, features // 2, zero=zero)
    data = rng.integers(0, 256, (out, features)) - lower
    quant = tflite.Quantization(scale=[0.0071], zero_point=[int(rng.choice([0, 255, 100, 150])) - lower])
    held = net.constant(data.astype(dtype), quantization=quant)
    y = net.tensor(*((2, 3) if keeps else (6,)), out, scale=0.1, zero=int(rng.integers(256)) - lower)
    options = tflite.FullyConnectedOptions(keep_num_dims=keeps)
    return net.bytes(net.add("FULLY_CONNECTED", [x, held, net.bias(out)], y, options))


def linear_int8(seed: int) -> bytes:
    return linear(seed, "int8")


FILES: dict[str, Callable[[int], bytes]] = {
    made.__name__: made for made in (depthwise, grouped, transposed, joined, linear, linear_int8)
}


@pytest.mark.parametrize("name", FILES)
def test_the_graph_is_litert(name: str) -> None:
    for seed in range(25):
        raw = FILES[name](seed)
        graph, interpreter = read(raw), litert(raw)
        rng = np.random.default_rng(seed)
        for _ in range(2):
            xs = [
                rng.integers(0, 256, d["shape"]).astype(np.uint8).view(d["dtype"])
                for d in interpreter.get_input_details()
            ]
            found, wanted = graph.reference(*xs), answers(interpreter, xs)
            assert [a.tolist() for a in found] == [a.tolist() for a in wanted], seed


def wide_net() -> bytes:
    """Depthwise convolutions with weights beyond int8, a shortcut by concatenation, a decoder's transposed convolution."""
    net = ByteNet(11)
    x = net.conv(net.input(1, 17, 13, 3, scale=0.0078125, zero=127), 8, 3, 2, (101, False))
    low = net.depthwise(x, 1, 140, fits=False, scale=0.031)
    y = net.tensor(1, 9, 7, 16, scale=0.0271828, zero=2)
    both = net.add("CONCATENATION", [x, low], y, tflite.ConcatenationOptions(axis=3))
    down = net.depthwise(both, 2, 120, fits=False)
    shape = net.constant(np.array([1, 10, 8, 5], np.int32))
    options = tflite.TransposeConvOptions(padding=Padding.SAME, stride_h=2, stride_w=2)
    up = net.tensor(1, 10, 8, 5, scale=0.2, zero=120)
    return net.bytes(
        net.add(
            "TRANSPOSE_CONV", [shape, net.levels((5, 3, 3, 16), 99, False), down, net.bias(5)], up, options
        )
    )


def images(count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(4)
    return [rng.integers(0, 256, (1, 17, 13, 3)).astype(np.uint8) for _ in range(count)]


@pytest.mark.parametrize("target", ["cortex-m33", "cortex-m55", "alif-e7", "imxrt700"])
def test_every_form_answers_the_same(target: str, tmp_path: Path) -> None:
    """Where no NPU forms its own multipliers."""
    graph = read(wide_net())
    program = compile_graph(graph, find_target(target))
    on_npu = any(entry.unit.value == "npu" for entry in program.ledger)
    assert on_npu == (target in ("alif-e7", "imxrt700"))
    before, after = litert(wide_net()), litert(program.tflite())
    loaded = None if on_npu else pillion.load(program.save(tmp_path / "wide.pte"))
    stream = program.stream(on="reference" if on_npu else "host")
    for image in images(5):
        wanted = [a.tolist() for a in answers(before, [image])]
        assert [a.tolist() for a in graph.reference(image)] == wanted
        if not on_npu:
            assert [a.tolist() for a in stream.step(image)] == wanted
            assert [a.tolist() for a in answers(after, [image])] == wanted
            assert loaded is not None
            assert [a.tolist() for a in loaded.run(image)] == wanted


@pytest.mark.qemu
@pytest.mark.parametrize(
    ("target", "board"),
    part_of([("cortex-m3", "mps2-an385"), ("cortex-m33", "mps2-an505"), ("cortex-m55", "mps3-an547")], 3),
)
def test_the_emulated_core_answers_the_same(target: str, board: str) -> None:
    program = compile_graph(read(wide_net()), find_target(target))
    image = images(1)[0]
    wanted = [a.tolist() for a in answers(litert(wide_net()), [image])]
    assert [a.tolist() for a in program.run(image, on=board)] == wanted


def test_fitting_weights_are_not_split() -> None:
    net = ByteNet(1)
    raw = net.bytes(net.depthwise(net.input(1, 9, 9, 4), 1, 97))
    graph = read(raw)
    assert not any(isinstance(op, Concat) for op in graph)
    assert [op.kernel for op in graph if isinstance(op, DepthwiseConv2d)] == [(3, 3)]


def test_equal_scales_are_joined_as_they_are() -> None:
    net = ByteNet(1)
    xs = [net.input(1, 2, 3, scale=0.1, zero=7), net.input(1, 2, 3, scale=0.2, zero=7)]
    y = net.tensor(1, 2, 6, scale=0.1, zero=7)
    graph = read(net.bytes(net.add("CONCATENATION", xs, y, tflite.ConcatenationOptions(axis=2))))
    assert [type(op) for op in graph].count(Requantize) == 3 + 1


def test_a_table_only_where_numbers_differ() -> None:
    """In float32, 0.15 is 1.5 times as much as 0.1: halves go to the other side than in fixed point."""
    found = {type(op) for seed in range(25) for op in read(joined(seed))}
    assert {Lut, Requantize} <= found

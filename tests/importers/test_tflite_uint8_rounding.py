# SPDX-License-Identifier: Apache-2.0
"""What LiteRT's kernels for uint8 round otherwise than those for int8: means whose halves go up, and images that are mixed in float32."""

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
from pillion.errors import PillionError
from pillion.importers.tflite import read
from pillion.ops import AvgPool2d, AvgPool2dUp, ResizeBilinearFloat
from pillion.schemas import tflite
from pillion.schemas.tflite import Padding
from pillion.targets import find_target


def pool(
    net: ByteNet, x: int, kernel: tuple[int, int], stride: int, padding: Padding, activation: int = 0
) -> int:
    """An average pool."""
    n, h, w, c = net.shape(x)
    cut = [0, 0] if padding == Padding.SAME else [k - 1 for k in kernel]
    size = [-(-(side - less) // stride) for side, less in zip((h, w), cut, strict=True)]
    options = tflite.Pool2DOptions(padding=padding, stride_h=stride, stride_w=stride)
    options.filter_h, options.filter_w, options.fused_activation = *kernel, activation
    return net.add("AVERAGE_POOL_2D", [x], net.tensor(n, *size, c, scale=0.05, zero=131), options)


def resized(net: ByteNet, x: int, size: tuple[int, int], align: bool = False, half: bool = False) -> int:
    """An image of another size."""
    n, _, _, c = net.shape(x)
    options = tflite.ResizeBilinearOptions(align_corners=align, half_pixel_centers=half)
    asked = net.constant(np.array(size, np.int32))
    return net.add("RESIZE_BILINEAR", [x, asked], net.tensor(n, *size, c, scale=0.05, zero=131), options)


def pooled(seed: int) -> bytes:
    net = ByteNet(seed)
    rng = net.rng
    x = net.input(
        int(rng.integers(1, 3)), *rng.integers(5, 12, 2).tolist(), int(rng.integers(1, 40)), zero=131
    )
    kernel = (int(rng.integers(1, 6)), int(rng.integers(1, 6)))
    stride, padding = int(rng.integers(1, 4)), Padding(int(rng.integers(0, 2)))
    return net.bytes(pool(net, x, kernel, stride, padding, activation=int(rng.integers(0, 4))))


def mixed(seed: int) -> bytes:
    net = ByteNet(seed)
    rng = net.rng
    x = net.input(
        int(rng.integers(1, 3)), *rng.integers(1, 14, 2).tolist(), int(rng.integers(1, 6)), zero=131
    )
    mode = ((False, False), (True, False), (False, True))[seed % 3]
    return net.bytes(resized(net, x, (int(rng.integers(1, 31)), int(rng.integers(1, 31))), *mode))


@pytest.mark.parametrize("made", [pooled, mixed], ids=lambda made: made.__name__)
def test_the_graph_is_litert(made: Callable[[int], bytes]) -> None:
    for seed in range(60):
        raw = made(seed)
        graph, interpreter = read(raw), litert(raw)
        x = np.random.default_rng(seed).integers(0, 256, graph.inputs[0].shape).astype(np.uint8)
        # pools of few levels have many halves
        for image in (x, x // 128, 127 + x // 64):
            found, wanted = graph.reference(image), answers(interpreter, [image])
            assert found[0].tolist() == wanted[0].tolist(), seed


def segmenter() -> bytes:
    """Two branches that are pooled with borders, joined, and enlarged to the image: aligned corners, then outer edges."""
    net = ByteNet(3)
    x = net.conv(
        net.input(1, 17, 13, 3, scale=0.0078125, zero=127), 8, 3, 2, (101, False), scale=0.05, zero=131
    )
    y = net.tensor(1, 9, 7, 16, scale=0.05, zero=131)
    branches = [pool(net, x, (3, 3), 1, Padding.SAME), pool(net, x, (2, 2), 1, Padding.SAME)]
    both = net.add("CONCATENATION", branches, y, tflite.ConcatenationOptions(axis=3))
    large = resized(net, both, (17, 13), align=True)
    return net.bytes(large, resized(net, large, (25, 29), half=True))


@pytest.mark.turns(3)
@pytest.mark.parametrize("target", ["cortex-m0", "cortex-m33", "cortex-m55"])
def test_c_and_tflite_answer_the_same(target: str) -> None:
    graph = read(segmenter())
    assert sum(isinstance(op, (AvgPool2dUp, ResizeBilinearFloat)) for op in graph) == 4
    program = compile_graph(graph, find_target(target))
    before, after, again = litert(segmenter()), litert(program.tflite()), read(program.tflite())
    stream = program.stream(on="host")
    rng = np.random.default_rng(4)
    for _ in range(3):
        image = rng.integers(0, 256, (1, 17, 13, 3)).astype(np.uint8)
        wanted = [a.tolist() for a in answers(before, [image])]
        for found in (stream.step(image), answers(after, [image]), again.reference(image)):
            assert [a.tolist() for a in found] == wanted


@pytest.mark.qemu
@pytest.mark.parametrize(
    ("target", "board"),
    part_of([("cortex-m3", "mps2-an385"), ("cortex-m33", "mps2-an505"), ("cortex-m55", "mps3-an547")], 3),
)
def test_the_emulated_core_answers_the_same(target: str, board: str) -> None:
    program = compile_graph(read(segmenter()), find_target(target))
    image = np.random.default_rng(4).integers(0, 256, (1, 17, 13, 3)).astype(np.uint8)
    wanted = [a.tolist() for a in answers(litert(segmenter()), [image])]
    assert [a.tolist() for a in program.run(image, on=board)] == wanted


def test_uint8_means_of_odd_counts_equal_int8_means() -> None:
    net = ByteNet()
    (op,) = [
        op
        for op in read(net.bytes(pool(net, net.input(1, 9, 9, 4, zero=131), (3, 3), 2, Padding.VALID)))
        if "pool" in op.kind
    ]
    assert isinstance(op, AvgPool2d)


def test_npus_leave_them_to_the_core() -> None:
    for target in ("imxrt700", "alif-e7", "alif-e8"):
        program = compile_graph(read(segmenter()), find_target(target))
        on_core = [entry.op.kind for entry in program.ledger if entry.unit.value == "cpu"]
        assert on_core.count("resize_bilinear_float") == on_core.count("avg_pool2d_up") == 2


def test_executorch_rounds_pools_as_cmsis_nn_does(tmp_path: Path) -> None:
    net = ByteNet(2)
    x = net.input(1, 9, 9, 4, zero=131)
    file = tmp_path / "pooled.tflite"
    file.write_bytes(net.bytes(pool(net, x, (2, 2), 2, Padding.VALID), pool(net, x, (3, 3), 1, Padding.SAME)))
    with pytest.raises(PillionError, match="avg_pool2d_up") as caught:
        pillion.compile(file, target="cortex-m33").pte()
    assert "--arithmetic cmsis-nn" in caught.value.help
    program = pillion.compile(file, target="cortex-m33", arithmetic="cmsis-nn")
    change = program.change_of_arithmetic(4)
    assert change is not None
    assert change.different
    assert change.largest == 1
    loaded = pillion.load(program.save(tmp_path / "pooled.pte"))
    stream = program.stream(on="host")
    for image in np.random.default_rng(4).integers(126, 132, (3, 1, 9, 9, 4)).astype(np.uint8):
        wanted = [a.tolist() for a in program.run(image)]
        assert [a.tolist() for a in loaded.run(image)] == wanted
        assert [a.tolist() for a in stream.step(image)] == wanted

# SPDX-License-Identifier: Apache-2.0
"""Nets that are uint8 throughout, as TensorFlow 1 trained them: weights with a zero point, means and softmaxes of bytes. The graph, its C
and what is written of it answer LiteRT's bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from byte_net import ByteNet
from net_file import answers, litert

import pillion
from pillion.compiler import compile_graph
from pillion.errors import PillionError
from pillion.importers.tflite import read
from pillion.ir.numerics import Arithmetic, requantize
from pillion.ops import Concat, Conv2d, DepthwiseConv2d
from pillion.schemas import tflite
from pillion.schemas.tflite import ElementType, Padding
from pillion.targets import find_target


def old_mobilenet(seed: int, zeros: tuple[int, int, int] = (151, 110, 122), fits: bool = False) -> bytes:
    """Convolutions that separate space and channels, a shortcut, a mean of 5 x 5 pixels, a classifier, a softmax."""
    net = ByteNet(seed)
    x = net.conv(net.input(1, 19, 17, 3, scale=0.0078125, zero=127), 8, 3, 2, (zeros[0], fits))
    x = net.depthwise(x, 2, zeros[1])
    x = net.conv(x, 12, 1, 1, (zeros[2], fits), scale=0.05, zero=119, activation=0)
    more = net.conv(x, 12, 1, 1, (128, True), scale=0.04, zero=131, activation=0)
    options = tflite.AddOptions(fused_activation=0)
    x = net.add("ADD", [x, more], net.tensor(1, 5, 5, 12, scale=0.07, zero=125), options)
    window = tflite.Pool2DOptions(padding=Padding.VALID, stride_h=1, stride_w=1, filter_h=5, filter_w=5)
    x = net.add("AVERAGE_POOL_2D", [x], net.tensor(1, 1, 1, 12, scale=0.07, zero=125), window)
    operands = [x, net.levels((7, 12), zeros[2], fits), net.bias(7)]
    x = net.add(
        "FULLY_CONNECTED", operands, net.tensor(1, 7, scale=0.06, zero=90), tflite.FullyConnectedOptions()
    )
    return net.bytes(
        net.add("SOFTMAX", [x], net.tensor(1, 7, scale=1 / 256, zero=0), tflite.SoftmaxOptions(beta=1)), x
    )


@pytest.mark.turns(3)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("zeros", [(151, 110, 122), (0, 97, 255), (128, 128, 128)])
@pytest.mark.parametrize("fits", [False, True])
def test_the_graph_is_litert(seed: int, zeros: tuple[int, int, int], fits: bool) -> None:
    raw = old_mobilenet(seed, zeros, fits)
    graph, interpreter = read(raw), litert(raw)
    rng = np.random.default_rng(seed)
    for _ in range(20):
        image = rng.integers(0, 256, (1, 19, 17, 3)).astype(np.uint8)
        found, wanted = graph.reference(image), answers(interpreter, [image])
        assert [a.tolist() for a in found] == [a.tolist() for a in wanted]


def test_every_form_answers_the_same(tmp_path: Path) -> None:
    file = tmp_path / "old.tflite"
    file.write_bytes(old_mobilenet(9))
    program = pillion.compile(file, target="cortex-m33")
    before, after = litert(file.read_bytes()), litert(program.tflite())
    stream = program.stream(on="host")
    again = read(program.tflite())
    rng = np.random.default_rng(5)
    for _ in range(20):
        image = rng.integers(0, 256, (1, 19, 17, 3)).astype(np.uint8)
        wanted = [a.tolist() for a in answers(before, [image])]
        for found in (stream.step(image), answers(after, [image]), again.reference(image)):
            assert [a.tolist() for a in found] == wanted


def test_multipliers_are_float32_products() -> None:
    """The sums at which the two ways to form it differ are rare: here there is nothing else."""
    rng, found = np.random.default_rng(3), 0
    sums = np.arange(-200_000, 200_000)
    image = np.full((1, 1, 1, 1), 7, np.uint8)
    for _ in range(20):
        sx, sw, so = (float(np.float32(s)) for s in rng.uniform((0.004, 0.004, 5), (0.2, 0.2, 40)))
        conv = next(
            op for op in read(_one_by_one(sx, sw, so, np.zeros(1, np.int32))) if isinstance(op, Conv2d)
        )
        ours, usual = (m[0] for m in (conv.from_scales_in_uint8(), conv.from_scales(Arithmetic.TFLITE)))
        by_ours, by_usual = (requantize(sums, m.mantissa, m.shift) for m in (ours, usual))
        differing = sums[(by_ours != by_usual) & (np.abs(by_ours) < 120)]
        if differing.size:
            found += differing.size
            raw = _one_by_one(sx, sw, so, differing.astype(np.int32))
            assert read(raw).reference(image)[0].tolist() == answers(litert(raw), [image])[0].tolist()
    assert found >= 5


def _one_by_one(sx: float, sw: float, so: float, bias: np.ndarray) -> bytes:
    net = ByteNet()
    x = net.input(1, 1, 1, 1, scale=sx, zero=7)
    quant = tflite.Quantization(scale=[sw], zero_point=[128])
    weights = net.constant(
        np.full((len(bias), 1, 1, 1), 128, np.uint8), type=ElementType.UINT8, quantization=quant
    )
    options = tflite.Conv2DOptions(padding=Padding.SAME, stride_h=1, stride_w=1)
    y = net.tensor(1, 1, 1, len(bias), scale=so, zero=128)
    return net.bytes(net.add("CONV_2D", [x, weights, net.constant(bias)], y, options))


def test_weights_that_do_not_fit_read_their_channels_twice() -> None:
    for fits, copies in ((True, 0), (False, 3)):
        graph = read(old_mobilenet(1, (100, 128, 140), fits))
        assert sum(isinstance(op, Concat) for op in graph) == copies


def test_npus_form_their_own_multipliers() -> None:
    program = compile_graph(read(old_mobilenet(2)), find_target("imxrt700"))
    assert any(entry.unit.value == "npu" for entry in program.ledger)
    image = np.zeros((1, 19, 17, 3), np.uint8)
    assert program.run(image, on="host")[0].dtype == np.uint8


def refused() -> dict[str, tuple[bytes, str]]:
    """Valid files whose uint8 operators round otherwise than int8 ones, and what is said."""
    cubes = ByteNet()
    power = cubes.bytes(cubes.add("EXP", [cubes.input(4)], cubes.tensor(4), tflite.ExpOptions()))
    return {"exp": (power, "does not have this operator for uint8")}


@pytest.mark.parametrize("name", refused())
def test_uint8_ops_with_other_rounding_are_refused(name: str) -> None:
    raw, words = refused()[name]
    with pytest.raises(PillionError) as caught:
        read(raw)
    assert words in caught.value.rule
    assert "int8" in caught.value.help


def test_a_depthwise_layer_stays_one() -> None:
    assert sum(isinstance(op, DepthwiseConv2d) for op in read(old_mobilenet(1))) == 1

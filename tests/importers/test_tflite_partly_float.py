# SPDX-License-Identifier: Apache-2.0
"""Int8 files with operators in float: their int8 part stays as it is, and the others are quantized with data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from net_file import NetFile, answers, litert, same_padding_conv

import pillion
from pillion.errors import PillionError
from pillion.ir.types import Array
from pillion.run.litert import LiteRtExecutor
from pillion.schemas import tflite as schema
from plain_int8 import decibels

SHAPE = (1, 13, 11, 3)


def dequantized(net: NetFile, x: int) -> int:
    y = net.tensor(*net.shape(x), dtype="float32")
    return net.add("DEQUANTIZE", [x], y, schema.DequantizeOptions())


def real(net: NetFile, code: str, *operands: int, options: object = None) -> int:
    """An operator in float."""
    return net.add(code, [*operands], net.tensor(*net.shape(operands[0]), dtype="float32"), options)  # type: ignore[arg-type]  # a table


def pooled(net: NetFile, x: int) -> int:
    """The mean of all pixels."""
    axes = net.constant(np.array([1, 2], np.int32))
    y = net.tensor(1, net.shape(x)[3], scale=0.04)
    return net.add("MEAN", [x, axes], y, schema.ReducerOptions())


def classifier() -> bytes:
    """LeNet-300's end: a logarithm of probabilities, in float."""
    net = NetFile(3)
    x = pooled(net, same_padding_conv(net, net.input(*SHAPE, scale=1 / 64, name="image"), 7, 0))
    return net.bytes(real(net, "LOG_SOFTMAX", dequantized(net, x)))


def pose() -> bytes:
    """MoveNet's middle: square roots and quotients in float between int8 layers; bytes as input, both as outputs."""
    net = NetFile(5)
    image = net.input(*SHAPE, dtype="uint8", scale=1 / 64, zero=128, name="image")
    x = same_padding_conv(net, net.quantized(image, "int8", 1 / 64, 0), 6)
    whole = dequantized(net, x)
    root = real(net, "SQRT", whole)
    more = real(net, "ADD", root, net.constant(np.float32(1.8)), options=schema.AddOptions())
    share = real(net, "DIV", whole, more, options=schema.DivOptions())
    again = net.quantized(share, "int8", 0.02, -128)
    y = same_padding_conv(net, again, 5, 0, scale=0.03)
    return net.bytes(dequantized(net, y), y)


NETS: dict[str, tuple[Callable[[], bytes], type]] = {
    "classifier": (classifier, np.int8),
    "pose": (pose, np.uint8),
}


def images(dtype: type, count: int, seed: int) -> list[Array]:
    rng = np.random.default_rng(seed)
    low = np.iinfo(dtype).min
    return [rng.integers(low, low + 256, SHAPE).astype(dtype) for _ in range(count)]


@pytest.mark.parametrize("name", NETS)
def test_quantized_with_data_it_is_near_to_litert(tmp_path: Path, name: str) -> None:
    make, dtype = NETS[name]
    raw = make()
    (tmp_path / "net.tflite").write_bytes(raw)
    seen = images(dtype, 12, 2)
    program = pillion.compile(tmp_path / "net.tflite", target="cortex-m55", calibrate=images(dtype, 24, 1))
    assert (program.graph.name, program.graph.inputs[0].name) == ("net", "image")
    assert program.graph.arithmetic.is_tflite
    interpreter = litert(raw)
    wanted = [answers(interpreter, [x]) for x in seen]
    found = [program.run(x) for x in seen]
    for place in range(len(wanted[0])):
        ours, theirs = (np.stack([np.float32(ys[place]) for ys in all_]) for all_ in (found, wanted))
        assert decibels(theirs, ours) >= 30
    assert program.run(seen[0], on="host")[0].tobytes() == found[0][0].tobytes()
    assert LiteRtExecutor().judge(program).ok == (name == "classifier"), (
        "tables of expressions have no operator there"
    )


@pytest.mark.parametrize("name", NETS)
def test_missing_calibration_data_is_explained(tmp_path: Path, name: str) -> None:
    (tmp_path / "net.tflite").write_bytes(NETS[name][0]())
    with pytest.raises(PillionError) as caught:
        pillion.compile(tmp_path / "net.tflite", target="cortex-m55")
    assert "computes in float in some places" in caught.value.what
    assert "--quantize --calibrate" in caught.value.help
    with pytest.raises(PillionError, match="no calibration data"):
        pillion.compile(tmp_path / "net.tflite", target="cortex-m55", calibrate=[])

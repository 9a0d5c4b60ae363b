# SPDX-License-Identifier: Apache-2.0
"""Files whose inputs and outputs are uint8: every executor answers LiteRT's bytes, in every form that they are compiled to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from net_file import NetFile, answers, litert, same_padding_conv

import pillion
from pillion.compiler import compile_graph
from pillion.errors import PillionError
from pillion.importers.tflite import read
from pillion.ir.types import DType, PerTensor
from pillion.ops import Requantize
from pillion.schemas import tflite
from pillion.targets import find_target


def between_bytes(scale: float = 0.02, zero: int = 131, inner_zero: int = -5, out_zero: int = 0) -> bytes:
    """QUANTIZE from uint8, two convolutions of int8, QUANTIZE to uint8; a second output is the first one's int8 operand."""
    net = NetFile(7)
    x = net.input(1, 13, 11, 3, dtype="uint8", scale=scale, zero=zero, name="image")
    inside = net.quantized(x, "int8", 0.021, inner_zero)
    hidden = same_padding_conv(net, inside, 9, scale=0.11, zero=-128)
    last = same_padding_conv(net, hidden, 5, activation=0, scale=0.3, zero=4)
    return net.bytes(net.quantized(last, "uint8", 0.27, out_zero), last)


def images(count: int, shape: tuple[int, ...] = (1, 13, 11, 3)) -> list[np.ndarray]:
    made = np.random.default_rng(3).integers(0, 256, (count, *shape)).astype(np.uint8)
    return [np.zeros(shape, np.uint8), np.full(shape, 255, np.uint8), *made]


@pytest.mark.parametrize(
    ("scale", "zero", "inner_zero", "out_zero"),
    [(0.02, 131, -5, 0), (0.021, 123, -5, 255), (0.021, 0, -128, 132), (0.0105, 255, 127, 17)],
)
def test_bytes_equal_litert(tmp_path: Path, scale: float, zero: int, inner_zero: int, out_zero: int) -> None:
    raw = between_bytes(scale, zero, inner_zero, out_zero)
    interpreter = litert(raw)
    file = tmp_path / "borders.tflite"
    file.write_bytes(raw)
    program = pillion.compile(file, target="cortex-m33")
    stream = program.stream(on="host")
    for image in images(20):
        wanted = answers(interpreter, [image])
        for found in (program.run(image), stream.step(image)):
            assert [a.dtype for a in found] == [np.uint8, np.int8]
            assert [a.tolist() for a in found] == [a.tolist() for a in wanted]


def test_one_table_at_each_border() -> None:
    """What a file converts with a QUANTIZE is converted once: by its table, or not at all where the numbers stay."""
    for zero, tables in ((131, 2), (123, 2)):
        graph = read(between_bytes(0.021 if zero == 123 else 0.02, zero))
        program = compile_graph(graph, find_target("cortex-m33"))
        assert sum(isinstance(op, Requantize) for op in program.graph) == tables
    assert [v.dtype for v in program.graph.inputs] == [DType.UINT8]
    assert program.graph.inputs[0].type.quant == PerTensor(0.021, 123)


def test_the_c_takes_uint8_t(tmp_path: Path) -> None:
    program = compile_graph(read(between_bytes()), find_target("cortex-m33"))
    header = next(str(text) for path, text in program.files.items() if path.endswith("model.h"))
    assert "uint8_t" in header.replace("uint8_t arena", "").replace("uint8_t *arena", "")
    tflite_again = read(program.tflite())
    assert [v.type for v in tflite_again.inputs] == [v.type for v in program.graph.inputs]
    assert [v.type for v in tflite_again.outputs] == [v.type for v in program.graph.outputs]


def test_other_forms_answer_the_same(tmp_path: Path) -> None:
    """The .tflite that is written in LiteRT, the .pte read back; whoever is installed."""
    raw = between_bytes()
    program = compile_graph(read(raw), find_target("cortex-m33"))
    before, after = litert(raw), litert(program.tflite())
    file = program.save(tmp_path / "again.pte")
    loaded = pillion.load(file)
    for image in images(3):
        wanted = [a.tolist() for a in answers(before, [image])]
        assert [a.tolist() for a in answers(after, [image])] == wanted
        assert [a.tolist() for a in loaded.run(image)] == wanted


def test_an_input_that_is_an_output_too() -> None:
    net = NetFile(1, "uint8")
    x = net.input(2, 5, zero=9)
    graph = read(net.bytes(x, net.quantized(x, "int8")))
    assert len({v.name for v in (*graph.inputs, *graph.outputs)}) == 3
    levels = np.arange(246, 256, dtype=np.uint8).reshape(2, 5)
    assert graph.reference(levels)[0].tolist() == levels.tolist()


def test_plain_bytes_stay_bytes() -> None:
    """uint8 without a scale is a whole number: nothing is added to it."""
    net = NetFile(1)
    x = net.input(4, dtype="uint8", quantization=None)
    y = net.tensor(4, dtype="float32")
    graph = read(net.bytes(net.add("CAST", [x], y, tflite.CastOptions())))
    assert graph.inputs[0].dtype is DType.UINT8
    assert graph.reference(np.array([0, 1, 128, 255], np.uint8))[0].tolist() == [0, 1, 128, 255]


def test_a_cast_of_quantized_bytes_is_refused() -> None:
    net = NetFile(1, "uint8")
    raw = net.bytes(net.add("CAST", [net.input(4)], net.tensor(4, dtype="float32"), tflite.CastOptions()))
    with pytest.raises(PillionError, match="CAST") as caught:
        read(raw)
    assert "uint8" in caught.value.rule


def test_several_scales_in_uint8_are_refused() -> None:
    net = NetFile(1, "uint8")
    quant = tflite.Quantization(scale=[0.1, 0.2], zero_point=[0, 0])
    with pytest.raises(PillionError) as caught:
        read(net.bytes(net.quantized(net.input(1, 2, quantization=quant), "int8")))
    assert "one scale" in caught.value.rule

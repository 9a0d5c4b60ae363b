# SPDX-License-Identifier: Apache-2.0
"""Files with 16-bit activations and int8 weights: the bytes of LiteRT's reference kernels, on all executors, or a refusal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion
from emitters.test_tflite_writer import codes_in, graph_of, run_litert
from importers.tflite_file import File, per_channel, same_as_litert
from pillion.emitters.tflite import emit
from pillion.importers.tflite import read
from pillion.ir.graph import Graph
from pillion.ir.nibbles import pack_nibbles
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Array, DType, PerTensor, TensorType, Value
from pillion.ops import (
    Add,
    Clamp,
    Conv2d,
    Flip,
    Linear,
    Lut,
    Mul,
    ReduceMax,
    ReduceMin,
    Requantize,
    ResizeBilinear,
    Softmax,
    Sub,
    Where,
)
from pillion.ops.example_values import in_16_bits, make_op, random_like
from pillion.ops.softmax16 import OUTPUT_16
from pillion.ops.unary_functions import Function
from pillion.schemas import tflite
from pillion.schemas.flatbuffer import Table, read_root_table, write_flatbuffer
from pillion.schemas.tflite import ElementType


class Wide(nn.Module):
    """Layers whose 16-bit forms LiteRT has: strides, groups, sums, products, moves, pools and a leaky relu."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1, stride=2)
        self.depth = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.pool = nn.AvgPool2d(2)
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        """Runs the net."""
        x = torch.relu(self.stem(x))
        x = nn.functional.leaky_relu(self.depth(x) - x * x, 0.1)
        x = self.pool(nn.functional.pad(torch.cat([x, torch.relu(x)], 1), (1, 1, 1, 1)))[:, :8]
        return torch.softmax(self.head(x.mean((2, 3))), -1)


def own_net(folder: Path) -> Path:
    """A file that Pillion writes from a module in 16 bits."""
    torch.manual_seed(0)
    samples = [torch.randn(1, 3, 12, 10) for _ in range(4)]
    program = pillion.compile(
        Wide().eval(),
        samples[0],
        calibrate=samples,
        target="cortex-m33",
        precision="int16",
        arithmetic="tflite",
        io_dtype="int16",
    )
    path = folder / "net.tflite"
    program.save(path)
    return path


def zoo_net(name: str) -> Callable[[Path], Path]:
    """A file that Pillion writes from a net of the zoo."""

    def made(folder: Path) -> Path:
        options = {"precision": "int16", "arithmetic": "tflite", "io_dtype": "int16"}
        path = folder / f"{name}.tflite"
        pillion.compile(name, target="cortex-m33", **options).save(path)  # type: ignore[arg-type]  # options by name
        return path

    return made


@pytest.mark.parametrize(
    "made", [own_net, zoo_net("resnet8"), zoo_net("ds_cnn")], ids=["own", "resnet8", "ds_cnn"]
)
def test_whole_nets_have_the_bytes_of_litert_on_all_executors(
    made: Callable[[Path], Path], tmp_path: Path
) -> None:
    path = made(tmp_path)
    program = pillion.compile(str(path), target="cortex-m33", io_dtype="int16")
    for seed in range(3):
        inputs = [random_like(v, seed) for v in program.graph.inputs]
        (wanted,) = run_litert(path.read_bytes(), *inputs)
        assert wanted.dtype == np.int16
        for executor in ("reference", "host", "litert", *(["mps2-an505"] if seed == 0 else [])):
            found = np.asarray(program.run(*inputs, on=executor))
            np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)


def wide(name: str, shape: tuple[int, ...], scale: float) -> Value:
    return Value(name, TensorType(shape, DType.INT16, PerTensor(scale)))


BOUNDS = {"low": -(2**15), "high": 2**15 - 1}


def random_chain(seed: int) -> Graph:
    """Elementwise ops with random scales and slopes, one after the other, and a softmax."""
    rng = np.random.default_rng(seed)
    first = x = wide("x", (4, 97), float(2.0 ** rng.uniform(-14, -6)))
    ops: list[Op] = []
    for number in range(6):
        y, other = (wide(f"{n}{number}", (), x.scale * float(rng.uniform(0.3, 2))) for n in "yo")
        kind = rng.integers(0, 6)
        if kind < 3:
            other = Value(other.name, TensorType((1, 97), DType.INT16, other.type.quant))
            data = random_like(other, seed)
            other = Value(other.name, other.type, data)
            ops.append(make_op((Add, Sub, Mul)[kind], y, a=x, b=other, **BOUNDS))
        elif kind == 3:
            alpha = float(np.float32(rng.uniform(-1, 2)))
            ops.append(make_op(Lut, y, x=x, function=Function.LEAKY_RELU, alpha=alpha))
        elif kind == 4:
            ops.append(make_op(Requantize, y, x=x, to=DType.INT16))
        else:
            function = (Function.SIGMOID, Function.TANH)[seed % 2]
            y = Value(y.name, TensorType((), DType.INT16, OUTPUT_16))
            ops.append(make_op(Lut, y, x=x, function=function))
        (x,) = ops[-1].results
    ops.append(make_op(Softmax, Value("shares", TensorType((), DType.INT16, OUTPUT_16)), x=x))
    return Graph("chain", (first,), tuple(ops), (*(op.results[0] for op in ops),), Arithmetic.TFLITE)


@pytest.mark.parametrize("seed", range(40))
def test_random_chains_have_the_bytes_of_litert_and_are_read_back(seed: int) -> None:
    graph = random_chain(seed)
    raw, inputs = emit(graph), [random_like(graph.inputs[0], seed)]
    answers = run_litert(raw, *inputs)
    for other in (graph, read(raw)):
        for wanted, found in zip(answers, other.reference(*inputs), strict=True):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("kind", [Flip, ReduceMax, ReduceMin, ResizeBilinear, Where])
def test_extrema_moves_and_resizes_have_the_bytes_of_litert_and_are_read_back(kind: type[Op]) -> None:
    made = list(kind.examples())
    if kind is Flip:
        made = [op.substitute({v: in_16_bits(v) for v in (*op.operands, *op.results)}) for op in made]
    for seed, op in enumerate(op for op in made if op.results[0].dtype is DType.INT16):
        raw, inputs = emit(graph_of(op)), [random_like(v, seed) for v in op.operands]
        (wanted,) = run_litert(raw, *inputs)
        np.testing.assert_array_equal(op.reference(Arithmetic.TFLITE, *inputs), wanted)
        np.testing.assert_array_equal(read(raw).reference(*inputs)[0], wanted)


@pytest.mark.parametrize("code", ["RELU", "RELU6"])
def test_relus_change_the_scale_as_litert_does(code: str) -> None:
    x, y = wide("x", (1, 4001), 0.0007), wide("y", (1, 4001), 0.0004)
    raw = changed(emit(graph_of(Lut(x=x, y=y, function=Function.LEAKY_RELU, alpha=0.5))), renamed(code))
    inputs = [random_like(x)]
    assert [op.kind for op in read(raw).ops] == ["lut", "clamp"]
    np.testing.assert_array_equal(read(raw).reference(*inputs)[0], run_litert(raw, *inputs)[0])


def changed(raw: bytes, change: Callable[[tflite.Model], None]) -> bytes:
    model = read_root_table(tflite.Model, raw, tflite.IDENTIFIER)
    change(model)
    return write_flatbuffer(model, tflite.IDENTIFIER)


def renamed(code: str) -> Callable[[tflite.Model], None]:
    def change(model: tflite.Model) -> None:
        (known,) = model.operator_codes
        known.deprecated_builtin_code = known.builtin_code = tflite.OPERATOR_NUMBERS[code]
        model.subgraphs[0].operators[0].options = None
        model.subgraphs[0].operators[0].options_type = 0

    return change


def int32_bias(model: tflite.Model) -> None:
    """The bias in int32, as it is without the option that says so."""
    bias = model.subgraphs[0].tensors[model.subgraphs[0].operators[0].inputs[2]]
    data = model.buffers[bias.buffer].data
    assert data is not None
    bias.type = ElementType.INT32
    model.buffers[bias.buffer].data = data.view("<i8").astype("<i4").view(np.uint8)


def named_int32_bias(model: tflite.Model) -> None:
    int32_bias(model)
    model.subgraphs[0].operators[0].options.quantized_bias_type = ElementType.INT32


def another_zero_point(model: tflite.Model) -> None:
    model.subgraphs[0].tensors[0].quantization.zero_point = [3]


def powers_of_two(model: tflite.Model) -> None:
    model.subgraphs[0].operators[0].options.pot_scale_int16 = True


def first_of_16_bits(cls: type[Op]) -> Op:
    return next(op for op in cls.examples() if op.operands[0].dtype is DType.INT16)


SUM = make_op(Add, wide("y", (), 2.0**-9), a=wide("a", (3,), 2.0**-10), b=wide("b", (3,), 2.0**-9), **BOUNDS)


@pytest.mark.parametrize(
    ("op", "change", "words"),
    [
        (first_of_16_bits(Conv2d), int32_bias, "reads other bytes"),
        (first_of_16_bits(Conv2d), named_int32_bias, "rounds twice"),
        (first_of_16_bits(Linear), int32_bias, "reads other bytes"),
        (first_of_16_bits(Clamp), another_zero_point, "zero point 0"),
        (SUM, powers_of_two, "pot_scale_int16"),
    ],
    ids=["bias", "named bias", "linear bias", "zero point", "shifted sum"],
)
def test_int16_ops_that_differ_from_litert_are_refused(
    op: Op, change: Callable[[tflite.Model], None], words: str
) -> None:
    with pytest.raises(pillion.PillionError, match=words):
        read(changed(emit(graph_of(op)), change))


def test_a_layer_takes_the_int32_bias_that_its_option_names() -> None:
    op = first_of_16_bits(Linear)
    raw, inputs = changed(emit(graph_of(op)), named_int32_bias), [random_like(op.activations[0])]
    np.testing.assert_array_equal(read(raw).reference(*inputs)[0], run_litert(raw, *inputs)[0])


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (2, 3, 5), (1, 1001), (1, 8191)])
def test_shares_of_16_bits_of_8_bit_numbers(shape: tuple[int, ...], tmp_path: Path) -> None:
    def raw_of(scale: float) -> bytes:
        file = File("SOFTMAX", tflite.SoftmaxOptions(beta=1.0)).input(*shape, scale=scale, zero=-7)
        return file.output(*shape, scale=2.0**-16, zero=-(2**15), type=ElementType.INT16).bytes()

    for scale in (0.0003, 0.04, 2.0**-3, 1.7, 40.0):
        graph = same_as_litert(raw_of(scale))
        assert read(emit(graph)).outputs[0].type == graph.outputs[0].type
    path, x = tmp_path / "net.tflite", random_like(graph.inputs[0])
    path.write_bytes(raw_of(0.04))
    for target, board in (("cortex-m33", "mps2-an505"), ("cortex-m55", "mps3-an547")):
        program = pillion.compile(str(path), target=target)
        wanted = program.run(x)
        for executor in ("host", "litert", board):
            np.testing.assert_array_equal(program.run(x, on=executor), wanted)


@pytest.mark.parametrize(
    ("scale", "zero", "words"),
    [(2.0**-16, 0, "zero point -32768"), (2.0**-15, -(2**15), "zero point 0"), (2.0**-15, 0, "2\\^-16")],
)
def test_shares_of_16_bits_have_one_quantization(scale: float, zero: int, words: str) -> None:
    file = File("SOFTMAX", tflite.SoftmaxOptions(beta=1.0)).input(2, 5)
    with pytest.raises(pillion.PillionError, match=words):
        read(file.output(2, 5, scale=scale, zero=zero, type=ElementType.INT16).bytes())


EVERY: Array = np.arange(-(2**15), 2**15).astype(np.int16).reshape(16, 4096)


@pytest.mark.parametrize(
    ("source", "to"),
    [
        ((0.031, 0), (0.0001, 0, ElementType.INT32)),
        ((0.031, 0), (0.0310001, 0, ElementType.INT32)),
        ((2.0**-9, 0), (2.0**-24, 0, ElementType.INT32)),
        ((0.031, 0), (4.9, 0, ElementType.INT32)),
        ((0.05, 0), (2.0**-22, 0, ElementType.INT32)),  # beyond 32 bits, where both wrap around
        ((0.0003, 0), (0.07, -3, ElementType.INT8)),
        ((2.0**-16, -(2**15)), (2.0**-8, -128, ElementType.INT8)),
        ((2.0**-16, -(2**15)), (0.0021, 5, ElementType.INT8)),
        ((2.0**-16, -(2**15)), (2.0**-30, 0, ElementType.INT32)),
    ],
)
def test_conversions_of_every_16_bit_number(
    source: tuple[float, int], to: tuple[float, int, ElementType], tmp_path: Path
) -> None:
    scale, zero, type = to
    file = File("QUANTIZE").input(*EVERY.shape, scale=source[0], zero=source[1], type=ElementType.INT16)
    raw = file.output(*EVERY.shape, scale=scale, zero=zero, type=type).bytes()
    path, (wanted,) = tmp_path / "net.tflite", run_litert(raw, EVERY)
    path.write_bytes(raw)
    np.testing.assert_array_equal(read(emit(read(raw))).reference(EVERY)[0], wanted)
    program = pillion.compile(str(path), target="cortex-m33")
    for executor in ("reference", "host", "litert", "mps2-an505"):
        found = np.asarray(program.run(EVERY, on=executor))
        np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)


@pytest.mark.parametrize(
    ("zero", "scale", "words"), [(3, 0.01, "zero point 0"), (0, 2.0**-36, "left shift"), (0, 0.0, "scale")]
)
def test_int32_results_are_symmetric_and_fit(zero: int, scale: float, words: str, tmp_path: Path) -> None:
    file, path = (
        File("QUANTIZE").input(2, 5, scale=0.05, zero=0, type=ElementType.INT16),
        tmp_path / "n.tflite",
    )
    path.write_bytes(file.output(2, 5, scale=scale, zero=zero, type=ElementType.INT32).bytes())
    with pytest.raises(pillion.PillionError, match=words):
        pillion.compile(str(path), target="cortex-m33")


WIDE: dict[str, Any] = {"type": ElementType.INT16, "scale": 0.01, "zero": 0}
WORDS: dict[str, Any] = {"type": ElementType.INT32, "quantization": None}
STORED = {"quantization": tflite.Quantization(scale=[0.01], zero_point=[0])}


def wide_file(code: str, *shape: int, options: Table | None = None) -> File:
    return File(code, options).input(*shape, **WIDE)


REARRANGING = {
    "gather": wide_file("GATHER", 5, 9, options=tflite.GatherOptions(axis=1))
    .constant([1, 8, 1])
    .output(5, 3, **WIDE),
    "gather nd": wide_file("GATHER_ND", 5, 9).constant([[1], [3]]).output(2, 9, **WIDE),
    "tile": wide_file("TILE", 3, 7).constant([2, 3]).output(6, 21, **WIDE),
    "mirror pad": wide_file("MIRROR_PAD", 3, 5, options=tflite.MirrorPadOptions(mode=0))
    .constant([[1, 2], [3, 2]])
    .output(6, 10, **WIDE),
    "batches": wide_file("BATCH_TO_SPACE_ND", 4, 3, 5, 3)
    .constant([2, 2])
    .constant([[0, 1], [1, 0]])
    .output(1, 5, 9, 3, **WIDE),
    "space": wide_file("SPACE_TO_BATCH_ND", 3, 3, 5, 2)
    .constant([2, 3])
    .constant([[0, 1], [1, 0]])
    .output(18, 2, 2, 2, **WIDE),
    "reverse": wide_file(
        "REVERSE_SEQUENCE", 2, 9, 3, options=tflite.ReverseSequenceOptions(seq_dim=1, batch_dim=0)
    )
    .constant([4, 9])
    .output(2, 9, 3, **WIDE),
    "update": wide_file("DYNAMIC_UPDATE_SLICE", 5, 9)
    .input(2, 7, **WIDE)
    .constant([2, 1])
    .output(5, 9, **WIDE),
    "rows": File("EMBEDDING_LOOKUP")
    .input(7, **WORDS)
    .constant(np.arange(-9, 11).reshape(5, 4) * 3001, ElementType.INT16, **STORED)
    .output(7, 4, **WIDE),
    "top": wide_file("TOPK_V2", 3, 701).constant(np.array(5)).output(3, 5, **WIDE).output(3, 5, **WORDS),
    **{
        code: wide_file(code, 3, 1, 7).input(1, 5, 7, **WIDE).output(3, 5, 7, type=ElementType.BOOL)
        for code in ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")
    },
}


@pytest.mark.parametrize("file", REARRANGING.values(), ids=REARRANGING)
def test_movement_and_comparison_in_16_bits(file: File, tmp_path: Path) -> None:
    graph = same_as_litert(file.bytes(), below=5)
    path, inputs = tmp_path / "net.tflite", [random_like(v) for v in graph.inputs]
    inputs = [x % np.int32(5) if x.dtype == np.int32 else x for x in inputs]
    path.write_bytes(emit(graph))
    program = pillion.compile(str(path), target="cortex-m33")
    found = program.run(*inputs, on="host")
    results = found if len(program.graph.outputs) > 1 else [found]
    for wanted, result in zip(graph.reference(*inputs), results, strict=True):
        np.testing.assert_array_equal(np.asarray(result).reshape(wanted.shape), wanted)


def test_a_comparison_of_two_scales_is_refused() -> None:
    file = wide_file("LESS", 3).input(3, **(WIDE | {"scale": 0.02})).output(3, type=ElementType.BOOL)
    with pytest.raises(pillion.PillionError, match="numbers as they are"):
        read(file.bytes())


LAYERS_OF_4_BITS: dict[str, tuple[tuple[int, ...], int, tuple[int, ...], Table]] = {
    "CONV_2D": ((5, 3, 2, 7), 0, (1, 5, 4, 5), tflite.Conv2DOptions(stride_w=1, stride_h=1)),
    "FULLY_CONNECTED": ((5, 7), 0, (20, 5), tflite.FullyConnectedOptions()),
    "DEPTHWISE_CONV_2D": (
        (1, 3, 2, 7),
        3,
        (1, 5, 4, 7),
        tflite.DepthwiseConv2DOptions(stride_w=1, stride_h=1, depth_multiplier=1),
    ),
}


def layer_of_4_bits(code: str, type: ElementType) -> bytes:
    shape, axis, result, options = LAYERS_OF_4_BITS[code]
    fields: dict[str, Any] = {"type": type, "zero": 0}
    file, count = File(code, options), shape[axis]
    x = file.tensor((20, 7) if len(shape) == 2 else (1, 5, 4, 7), scale=0.01, **fields)
    numbers = np.resize(np.arange(-8, 8), shape)
    numbers.reshape(-1)[::3] = 5
    file.operands.append(x)
    file.constant(pack_nibbles(numbers), ElementType.INT8, quantization=per_channel(count, axis))
    file.tensors[-1].shape, file.tensors[-1].type = list(shape), ElementType.INT4
    file.inputs.append(x)
    sums = tflite.Quantization(scale=[1e-4 * (1 + n) for n in range(count)], zero_point=[0] * count)
    wide = type == ElementType.INT16
    file.constant(
        np.arange(count) * 1001, ElementType.INT64 if wide else ElementType.INT32, quantization=sums
    )
    return file.output(*result, scale=0.02 if wide else 0.3, **fields).bytes()


@pytest.mark.parametrize("code", LAYERS_OF_4_BITS)
@pytest.mark.parametrize("type", [ElementType.INT8, ElementType.INT16])
def test_weights_of_4_bits_and_operands_of_8_and_16(code: str, type: ElementType, tmp_path: Path) -> None:
    raw, path = layer_of_4_bits(code, type), tmp_path / "net.tflite"
    if type == ElementType.INT16 and code == "DEPTHWISE_CONV_2D":
        with pytest.raises(pillion.PillionError, match="LiteRT does not unpack"):
            read(raw)
        return
    graph = same_as_litert(raw)
    path.write_bytes(raw)
    assert [op.operands[1].dtype for op in graph.ops if op.kind in ("conv2d", "linear")] in ([DType.INT4], [])
    program, x = pillion.compile(str(path), target="cortex-m33"), random_like(graph.inputs[0])
    for executor in ("reference", "host", "litert", "mps2-an505"):
        found = np.asarray(program.run(x, on=executor))
        np.testing.assert_array_equal(found.ravel(), graph.reference(x)[0].ravel())


def layer_of_bias(bias: int, scale: float) -> bytes:
    """A convolution of one pixel whose weights are the largest: the largest operands make the largest sum."""
    file = wide_file("CONV_2D", 1, 1, 1, 3, options=tflite.Conv2DOptions(stride_w=1, stride_h=1))
    file.constant(np.full((2, 1, 1, 3), 127), ElementType.INT8, quantization=per_channel(2, 0))
    scales = tflite.Quantization(scale=[1e-4, 2e-4], zero_point=[0, 0])
    file.constant([bias, -bias], ElementType.INT64, quantization=scales)
    return file.output(1, 1, 1, 2, **(WIDE | {"scale": scale})).bytes()


EDGE = 2**31 - 1 - 3 * 127 * 2**15
"""The bias of the last sum of 32 bits."""


@pytest.mark.parametrize("bias", [EDGE, EDGE + 1, EDGE + 2, 2**31 - 1, -EDGE - 1, 1 - 2**31])
@pytest.mark.parametrize("scale", [0.03, 7.3])
def test_sums_at_the_edge_of_32_bits(bias: int, scale: float, tmp_path: Path) -> None:
    path, largest = tmp_path / "net.tflite", np.full((1, 1, 1, 3), -(2**15), np.int16)
    path.write_bytes(layer_of_bias(bias, scale))
    program = pillion.compile(str(path), target="cortex-m33")
    for x in (largest, np.full_like(largest, 2**15 - 1)):
        (wanted,) = run_litert(path.read_bytes(), x)
        for executor in ("reference", "host", "mps2-an505"):
            np.testing.assert_array_equal(np.asarray(program.run(x, on=executor)).ravel(), wanted.ravel())


LAYERS: dict[str, tuple[tuple[int, ...], Table]] = {
    "CONV_2D": ((5, 1, 2, 3), tflite.Conv2DOptions(stride_w=1, stride_h=1)),
    "DEPTHWISE_CONV_2D": (
        (1, 1, 2, 5),
        tflite.DepthwiseConv2DOptions(stride_w=1, stride_h=1, depth_multiplier=1),
    ),
    "TRANSPOSE_CONV": ((5, 2, 1, 3), tflite.TransposeConvOptions(stride_w=1, stride_h=1, padding=1)),
    "FULLY_CONNECTED": ((5, 3), tflite.FullyConnectedOptions()),
}


def layer_of_biases(code: str, biases: list[int], fine: float = 1.0) -> bytes:
    """A layer of five outputs, whose biases become numbers of some hundred steps, `fine` times as many."""
    rng = np.random.default_rng(abs(biases[0]) % 1000)
    shape, options = LAYERS[code]
    file, axis = File(code, options), 3 if code == "DEPTHWISE_CONV_2D" else 0
    sizes = [fine * rng.uniform(100, 9000) / (abs(b) + 2**31) for b in biases]
    scales = {"zero_point": [0] * 5, "quantized_dimension": axis}
    weights = rng.integers(-127, 128, shape)
    x = file.tensor((7, 3) if len(shape) == 2 else (2, 1, 7, shape[3]), **WIDE)
    file.inputs.append(x)
    if code == "TRANSPOSE_CONV":
        file.constant([2, 2, 7, 5])
    else:
        file.operands.append(x)
    file.constant(weights, ElementType.INT8, quantization=tflite.Quantization(scale=sizes, **scales))
    if code == "TRANSPOSE_CONV":
        file.operands.append(x)
    quantization = tflite.Quantization(scale=[0.01 * s for s in sizes], zero_point=[0] * 5)
    file.constant(biases, ElementType.INT64, quantization=quantization)
    result = {"FULLY_CONNECTED": (7, 5), "TRANSPOSE_CONV": (2, 2, 7, 5)}.get(code)
    return file.output(*(result or (2, 1, 7, 5)), **WIDE).bytes()


MOST = 2**47 - 2**31 - 127 * 2**15 * 6 - 1
WIDE_BIASES = (
    [2**31, -(2**31) - 1, 2**32 - 1, 2**40 + 3, -(2**46) - 5],
    [MOST, -MOST, -(2**31), 5, 2**33 + 2**31],
    [-(2**45) + 1, 2**39 - 2**31 - 1, -(2**36) - 2**31, 2**34 + 2**31 - 1, 0],
)


@pytest.mark.parametrize("code", LAYERS)
def test_biases_beyond_32_bits(code: str, tmp_path: Path) -> None:
    for number, biases in enumerate(WIDE_BIASES):
        raw, path = layer_of_biases(code, biases, 1 + 50 * number), tmp_path / f"net{number}.tflite"
        graph = same_as_litert(raw)
        assert {op.bias.dtype for op in graph.ops if hasattr(op, "bias")} == {DType.INT64}
        path.write_bytes(raw)
        same_as_litert(emit(graph))
        for target, board in (("cortex-m33", "mps2-an505"), ("cortex-m55", "mps3-an547"))[number % 2 :][:1]:
            program = pillion.compile(str(path), target=target)
            for x in (random_like(graph.inputs[0]), np.full(graph.inputs[0].shape, -(2**15), np.int16)):
                (wanted,) = run_litert(raw, x)
                for executor in ("reference", "host", "litert", board):
                    found = np.asarray(program.run(x, on=executor))
                    np.testing.assert_array_equal(found.ravel(), wanted.ravel())


@pytest.mark.parametrize("code", LAYERS)
@pytest.mark.parametrize(
    ("bias", "fine", "words"),
    [
        (MOST + 2**40, 2.0**9, "2\\^47"),
        (-(2**63), 2.0**26, "2\\^47|fit 32 bits"),
        (2**45, 2.0**22, "fit 32 bits"),
    ],
)
def test_sums_that_litert_wraps_around_are_refused(code: str, bias: int, fine: float, words: str) -> None:
    with pytest.raises(pillion.PillionError, match=words):
        read(layer_of_biases(code, [bias, 1, 2, 3, 4], fine))


def test_an_operand_of_64_bits_that_is_no_bias_is_refused() -> None:
    file = wide_file("GATHER", 5, 9, options=tflite.GatherOptions(axis=1))
    file.constant([1, 2**31], ElementType.INT64)
    with pytest.raises(pillion.PillionError, match="int64 constants fit 32 bits"):
        read(file.output(5, 2, **WIDE).bytes())


def test_biases_are_int64_in_the_file() -> None:
    raw = emit(graph_of(first_of_16_bits(Conv2d)))
    model = read_root_table(tflite.Model, raw, tflite.IDENTIFIER)
    types = [tensor.type for tensor in model.subgraphs[0].tensors]
    assert codes_in(raw)[0] == "CONV_2D"
    assert types.count(ElementType.INT64) == 1


FUNCTIONS: dict[str, Table | None] = {
    **{"LOGISTIC": None, "TANH": None, "EXP": tflite.ExpOptions(), "LOG": None, "SQRT": None, "RSQRT": None},
    **{"ABS": tflite.AbsOptions(), "GELU": tflite.GeluOptions()},
}
STEEPEST = {"EXP": 2.0**-13}
"""The coarsest operands: beyond them, the function leaves float32."""
POSITIVE = ("SQRT", "RSQRT")


def scales_of_functions(code: str) -> list[tuple[float, float]]:
    """Scales of an operand and a result: random, equal, powers of two, and such that all results saturate."""
    rng, most = np.random.default_rng(len(code)), STEEPEST.get(code, 2.0**-6)
    pairs = [(most * float(2.0 ** -rng.uniform(0, 9)), float(2.0 ** rng.uniform(-15, -4))) for _ in range(8)]
    pairs += [(2.0**-13, 2.0**-13), (2.0**-13, 2.0**-10), (2.0**-14, 2.0**-15), (0.0003, 1e-7)]
    return [(a, OUTPUT_16.scale) for a, _ in pairs] if code in ("LOGISTIC", "TANH") else pairs


@pytest.mark.parametrize("code", FUNCTIONS)
def test_functions_of_every_16_bit_number(code: str, tmp_path: Path) -> None:
    path, every = tmp_path / "net.tflite", np.maximum(EVERY, 0) if code in POSITIVE else EVERY
    for number, (scale, step) in enumerate(scales_of_functions(code)):
        file = File(code, FUNCTIONS[code]).input(*EVERY.shape, **(WIDE | {"scale": scale}))
        raw = file.output(*EVERY.shape, **(WIDE | {"scale": step})).bytes()
        (wanted,) = run_litert(raw, every)
        path.write_bytes(raw)
        np.testing.assert_array_equal(read(emit(read(raw))).reference(every)[0], wanted)
        if number not in (0, 11):
            continue
        program = pillion.compile(str(path), target="cortex-m33")
        for executor in ("reference", "host", "litert", "mps2-an505"):
            found = np.asarray(program.run(every, on=executor))
            np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)


def test_an_exponential_beyond_float32_is_refused() -> None:
    file = wide_file("EXP", 2, 3, options=tflite.ExpOptions())
    with pytest.raises(pillion.PillionError, match="finite"):
        read(file.output(2, 3, **WIDE).bytes())


def pair_of_numbers(divisor: bool) -> list[Array]:
    """Every pair of extremes, and random numbers small and large; divisors are not 0."""
    ends = np.array([-(2**15), -(2**15) + 1, -1, 0, 1, 2**15 - 1])
    rng = np.random.default_rng(5)
    a = np.concatenate([np.repeat(ends, 6), rng.integers(-(2**15), 2**15, 685)])
    b = np.concatenate([np.tile(ends, 6), rng.integers(-(2**15), 2**15, 300), rng.integers(-40, 40, 385)])
    pair = [a.reshape(7, 103), b.reshape(7, 103)]
    return [x.astype(np.int16) for x in (pair[0], np.where(pair[1] == 0, 7, pair[1]) if divisor else pair[1])]


def same_on_all_executors(raw: bytes, inputs: list[Array], folder: Path, on: str = "mps2-an505") -> None:
    path, (wanted,) = folder / "net.tflite", run_litert(raw, *inputs)
    path.write_bytes(raw)
    program = pillion.compile(str(path), target="cortex-m33")
    for executor in ("reference", "host", on):
        found = np.asarray(program.run(*inputs, on=executor))
        np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)


@pytest.mark.parametrize("code", ["NEG", "FLOOR_DIV", "FLOOR_MOD"])
def test_numbers_are_computed_as_they_are_whatever_their_scales(code: str, tmp_path: Path) -> None:
    inputs = pair_of_numbers(divisor=code != "NEG")[:: -1 if code == "NEG" else 1][
        : 1 if code == "NEG" else 2
    ]
    file = File(code)
    for number, _ in enumerate(inputs):
        file.input(7, 103, **(WIDE | {"scale": (0.01, 0.07)[number]}))
    same_on_all_executors(file.output(7, 103, **(WIDE | {"scale": 0.003})).bytes(), inputs, tmp_path)


def test_a_quotient_of_two_shapes(tmp_path: Path) -> None:
    raw = wide_file("FLOOR_DIV", 3, 1, 7).input(5, 1, **WIDE).output(3, 5, 7, **WIDE).bytes()
    a, b = pair_of_numbers(divisor=True)
    a, b = a.ravel()[-21:].reshape(3, 1, 7), b.ravel()[:5].reshape(5, 1)
    same_on_all_executors(raw, [a, b], tmp_path)


@pytest.mark.parametrize(
    ("scale", "slope", "zero", "step"),
    [
        (0.01, 0.003, 0, 0.02),
        (2.0**-11, 2.0**-7, 0, 2.0**-12),
        (0.0007, 0.02, -7, 0.0004),
        (2.0**-9, 1.3, 5, 0.1),
    ],
)
@pytest.mark.parametrize("shape", [(103,), (1, 1), (7, 1)])
def test_slopes_of_8_bits(
    scale: float, slope: float, zero: int, step: float, shape: tuple[int, ...], tmp_path: Path
) -> None:
    slopes = np.resize([-128, 127, 0, 1, -1, 57, -90], shape)
    quantization = tflite.Quantization(scale=[slope], zero_point=[zero])
    file = File("PRELU").input(7, 103, **(WIDE | {"scale": scale}))
    file.constant(slopes, ElementType.INT8, quantization=quantization)
    raw = file.output(7, 103, **(WIDE | {"scale": step})).bytes()
    same_on_all_executors(raw, pair_of_numbers(divisor=False)[:1], tmp_path)
    same_as_litert(emit(read(raw)))


@pytest.mark.parametrize(("code", "words"), [("DIV", "31 places"), ("REDUCE_PROD", "after each factor")])
def test_operators_that_litert_has_on_16_bits_are_refused_with_a_reason(code: str, words: str) -> None:
    file = (
        wide_file(code, 3, 5).constant([1]) if code == "REDUCE_PROD" else wide_file(code, 3).input(3, **WIDE)
    )
    with pytest.raises(pillion.PillionError, match=words):
        read(file.output(3, **WIDE).bytes())


def test_slopes_of_16_bits_are_refused() -> None:
    """LiteRT takes the bytes of such slopes for slopes."""
    file = wide_file("PRELU", 3, 5).constant(np.arange(5), ElementType.INT16, **STORED)
    with pytest.raises(pillion.PillionError, match="takes others for bytes"):
        read(file.output(3, 5, **WIDE).bytes())


SUMS: list[tuple[tuple[int, ...], list[int], bool, float, float]] = [
    ((2, 3, 5, 7), [1, 2], False, 0.01, 0.07),
    ((3, 11, 5), [1], True, 2.0**-11, 2.0**-8),
    ((1, 65535), [0, 1], False, 2.0**-13, 2.0**-7),
    ((7, 13), [-1], False, 0.003, 0.0007),
    ((3, 5, 7, 2), [0, 2], True, 0.01, 0.01),
]


@pytest.mark.parametrize(("shape", "axes", "keeps", "scale", "step"), SUMS)
def test_sums_have_the_bytes_of_litert_s_optimized_kernel(
    shape: tuple[int, ...], axes: list[int], keeps: bool, scale: float, step: float, tmp_path: Path
) -> None:
    """The reference kernel takes the bytes of 16-bit numbers for numbers."""
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    options = tflite.ReducerOptions(keep_dims=keeps)
    file = File("SUM", options).input(*shape, **(WIDE | {"scale": scale})).constant(axes)
    x = np.random.default_rng(3).integers(-(2**15), 2**15, shape).astype(np.int16)
    x.flat[0] = -(2**15)
    result = x.sum(axis=tuple(axes), keepdims=keeps).shape
    raw, path = file.output(*result, **(WIDE | {"scale": step})).bytes(), tmp_path / "net.tflite"
    resolver = litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = litert.Interpreter(model_content=raw, experimental_op_resolver_type=resolver)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    wanted = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    path.write_bytes(raw)
    program = pillion.compile(str(path), target="cortex-m55")
    for executor in ("reference", "host", "mps3-an547"):
        found = np.asarray(program.run(x, on=executor))
        np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)

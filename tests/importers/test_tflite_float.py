# SPDX-License-Identifier: Apache-2.0
"""Files in float: the module that is quantized computes what LiteRT computes, and the program is as near to it as a plain int8
simulation is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from float_files import FloatFile, landmarks, mobile
from net_file import answers, litert

import pillion
from nightly import part_of, runs_all
from pillion.cli.named_program import NamedProgramOptions
from pillion.cli.request import Request, check_request
from pillion.compile_options import CompileOptions, Quantization
from pillion.errors import PillionError
from pillion.importers import tflite
from pillion.importers.tflite_float import float_module
from pillion.ir.types import Array
from pillion.schemas import tflite as schema
from pillion.schemas.tflite import Padding
from plain_int8 import decibels, plain_answers

NETS: dict[str, tuple[Callable[..., bytes], tuple[int, ...]]] = {
    "mobile": (mobile, (1, 31, 25, 3)),
    "landmarks": (landmarks, (1, 24, 20, 3)),
}


def images(shape: tuple[int, ...], count: int, seed: int) -> list[Array]:
    """Smooth pictures from -1 to 1, as cameras give them."""
    rng = np.random.default_rng(seed)
    coarse = torch.from_numpy(rng.uniform(-1, 1, (count, 3, 4, 4)).astype(np.float32))
    wide = torch.nn.functional.interpolate(coarse, size=shape[1:3], mode="bilinear")
    return [one[None].numpy() for one in wide.permute(0, 2, 3, 1)]


@pytest.mark.parametrize("weights", ["float32", "float16", "int8"])
@pytest.mark.parametrize("name", NETS)
def test_the_module_is_the_file(name: str, weights: str) -> None:
    make, shape = NETS[name]
    raw = make(weights)
    opened = tflite.open_file(raw)
    assert opened.computes_in_float
    module, examples = float_module(opened)
    assert [tuple(x.shape) for x in examples] == [shape]
    if weights == "int8":  # LiteRT rounds the activations of such files at run time; the module does not
        raw = make("float32")
    interpreter = litert(raw)
    for image in images(shape, 3, 1):
        made = module(torch.from_numpy(image))
        for found, wanted in zip(
            made if isinstance(made, tuple) else (made,), answers(interpreter, [image]), strict=True
        ):
            bound = (0.1 if weights == "int8" else 1e-5) * np.abs(wanted).max()
            assert np.abs(found.numpy() - wanted).max() <= bound


@pytest.mark.parametrize(
    ("name", "weights"), part_of([("mobile", "float32"), ("mobile", "int8"), ("landmarks", "float16")], 3)
)
def test_quantized_with_data_it_is_near_to_litert(tmp_path: Path, name: str, weights: str) -> None:
    """As near as an int8 simulation whose every tensor has the range of this very sample, but for 3 dB."""
    make, shape = NETS[name]
    file = tmp_path / f"{name}.tflite"
    file.write_bytes(make(weights))
    program = pillion.compile(file, target="cortex-m55", calibrate=images(shape, 24, 2))
    assert (program.graph.name, program.graph.inputs[0].name) == (name, "image")
    assert not [op for op in program.graph if op.kind == "transpose"], "images stay channels last"
    assert {op.source.partition(":")[0] for op in program.graph if op.source} == {f"{name}.tflite"}
    interpreter, (module, _) = litert(make("float32")), float_module(tflite.open_file(file))
    seen = images(shape, 12, 3)
    wanted = np.stack([answers(interpreter, [image])[-1] for image in seen])
    found = [program.run(image) for image in seen]
    plain = np.stack([plain_answers(module, [torch.from_numpy(image)])[-1] for image in seen])
    ours = decibels(wanted, np.stack([f[-1] for f in found]))
    assert ours >= max(decibels(wanted, plain) - 3, 25)
    on_host = program.run(seen[0], on="host")
    assert [a.tobytes() for a in on_host] == [a.tobytes() for a in found[0]]


def one(
    code: str, *operands: Array, options: object = None, out: tuple[int, ...] = (), shape: tuple[int, ...]
) -> bytes:
    net = FloatFile(3)
    held = [net.input(*shape), *map(net.constant, operands)]
    return net.bytes(net.add(code, held, net.tensor(*(out or shape)), options))  # type: ignore[arg-type]  # a table


AXES, RNG = np.array([1, 2], np.int32), np.random.default_rng(8)
SQUARE = RNG.normal(size=(5,)).astype(np.float32)
SINGLE: dict[str, bytes] = {
    "relu": one("RELU", shape=(2, 5)),
    "relu6": one("RELU6", shape=(2, 5)),
    "relu -1 to 1": one("RELU_N1_TO_1", shape=(2, 5)),
    "tanh": one("TANH", shape=(2, 5)),
    "logistic": one("LOGISTIC", shape=(2, 5)),
    "elu": one("ELU", shape=(2, 5)),
    "exp": one("EXP", shape=(2, 5), options=schema.ExpOptions()),
    "abs": one("ABS", shape=(2, 5), options=schema.AbsOptions()),
    "neg": one("NEG", shape=(2, 5)),
    "square": one("SQUARE", shape=(2, 5)),
    "gelu": one("GELU", shape=(2, 5), options=schema.GeluOptions(approximate=True)),
    "leaky relu": one("LEAKY_RELU", shape=(2, 5), options=schema.LeakyReluOptions(alpha=0.3)),
    "softmax, beta": one("SOFTMAX", shape=(2, 5), options=schema.SoftmaxOptions(beta=0.5)),
    "log softmax": one("LOG_SOFTMAX", shape=(2, 5)),
    "add": one("ADD", SQUARE, shape=(2, 5), options=schema.AddOptions(fused_activation=3)),
    "sub": one("SUB", SQUARE, shape=(2, 5), options=schema.SubOptions()),
    "mul": one("MUL", SQUARE, shape=(2, 5), options=schema.MulOptions(fused_activation=1)),
    "div": one("DIV", SQUARE, shape=(2, 5), options=schema.DivOptions()),
    "maximum": one("MAXIMUM", SQUARE, shape=(2, 5), options=schema.MaximumMinimumOptions()),
    "squared difference": one("SQUARED_DIFFERENCE", SQUARE, shape=(2, 5)),
    "prelu of vectors": one("PRELU", np.abs(SQUARE), shape=(2, 5)),
    "mean": one("MEAN", AXES, shape=(2, 3, 5, 4), out=(2, 4), options=schema.ReducerOptions()),
    "sum": one("SUM", AXES, shape=(2, 3, 5, 4), out=(2, 1, 1, 4), options=schema.ReducerOptions(keep_dims=True)),
    "largest": one("REDUCE_MAX", AXES, shape=(2, 3, 5, 4), out=(2, 4), options=schema.ReducerOptions()),
    "pad": one("PADV2", np.array([[0, 0], [1, 2]], np.int32), np.float32([0.5]), shape=(2, 5), out=(2, 8), options=schema.PadV2Options()),
    "slice": one("SLICE", np.array([1, 2], np.int32), np.array([1, -1], np.int32), shape=(2, 5), out=(1, 3), options=schema.SliceOptions()),
    "strided slice": one(
        "STRIDED_SLICE", *(np.array(n, np.int32) for n in ([0, 1], [2, 5], [1, 2])), shape=(2, 5), out=(2, 2), options=schema.StridedSliceOptions()
    ),
    "transpose": one("TRANSPOSE", np.array([2, 0, 1], np.int32), shape=(2, 3, 5), out=(5, 2, 3), options=schema.TransposeOptions()),
    "gather": one("GATHER", np.array([2, 0], np.int32), shape=(2, 3, 5), out=(2, 2, 5), options=schema.GatherOptions(axis=1)),
    "tile": one("TILE", np.array([2, 3], np.int32), shape=(2, 5), out=(4, 15)),
    "floor mod": one("FLOOR_MOD", np.float32(0.75), shape=(2, 5)),
    "space to batch": one("SPACE_TO_BATCH_ND", np.array([2, 3], np.int32), np.array([[0, 1], [1, 0]], np.int32), shape=(2, 5, 5, 2), out=(12, 3, 2, 2)),
    "batch to space": one("BATCH_TO_SPACE_ND", np.array([2, 3], np.int32), np.array([[0, 1], [1, 0]], np.int32), shape=(12, 3, 2, 2), out=(2, 5, 5, 2)),
    "expand": one("EXPAND_DIMS", np.array(1, np.int32), shape=(2, 5), out=(2, 1, 5)),
    "nearest": one("RESIZE_NEAREST_NEIGHBOR", np.array([7, 9], np.int32), shape=(1, 3, 4, 2), out=(1, 7, 9, 2), options=schema.ResizeNearestNeighborOptions()),
    "nearest, half pixels": one(
        "RESIZE_NEAREST_NEIGHBOR", np.array([7, 9], np.int32), shape=(1, 3, 4, 2), out=(1, 7, 9, 2), options=schema.ResizeNearestNeighborOptions(half_pixel_centers=True)
    ),
    **{
        f"bilinear {align} {half}": one(
            "RESIZE_BILINEAR", np.array([7, 3], np.int32), shape=(1, 3, 5, 2), out=(1, 7, 3, 2),
            options=schema.ResizeBilinearOptions(align_corners=align, half_pixel_centers=half),
        )
        for align, half in ((False, False), (True, False), (False, True))
    },
    **{
        f"{code} {size}": one(
            code, shape=(1, *size, 2), out=(1, -(-size[0] // 2), -(-size[1] // 2), 2),
            options=schema.Pool2DOptions(padding=Padding.SAME, stride_h=2, stride_w=2, filter_h=3, filter_w=2),
        )
        for code in ("AVERAGE_POOL_2D", "MAX_POOL_2D")
        for size in ((7, 6), (6, 7))
    },
    "transposed convolution": b"",
    "split": b"",
    "matmul": b"",
    "floor mod of two": b"",
}  # fmt: skip


def _transposed() -> bytes:
    net = FloatFile(3)
    x = net.input(1, 4, 3, 5)
    operands = [
        net.constant(np.array([1, 8, 6, 2], np.int32)),
        net.constant(net.random(2, 3, 3, 5, fan=9).astype(np.float32)),
        x,
        net.constant(np.float32([0.5, -1])),
    ]
    options = schema.TransposeConvOptions(padding=Padding.SAME, stride_h=2, stride_w=2)
    return net.bytes(net.add("TRANSPOSE_CONV", operands, net.tensor(1, 8, 6, 2), options))


def _split() -> bytes:
    net = FloatFile(3)
    x, axis = net.input(2, 6), net.constant(np.array(1, np.int32))
    halves = [net.tensor(2, 3), net.tensor(2, 3)]
    net.add("SPLIT", [axis, x], halves[0], schema.SplitOptions(num_splits=2))
    net.graph.operators[-1].outputs = halves
    return net.bytes(net.add("ADD", halves, net.tensor(2, 3), schema.AddOptions()), *halves[:1])


def _matmul() -> bytes:
    net = FloatFile(3)
    a, b = net.input(2, 3, 4), net.input(2, 5, 4)
    return net.bytes(
        net.add("BATCH_MATMUL", [a, b], net.tensor(2, 3, 5), schema.BatchMatMulOptions(adj_y=True))
    )


def _floor_mod() -> bytes:
    net = FloatFile(3)
    pair = [net.input(2, 3, 5), net.input(3, 1)]
    return net.bytes(net.add("FLOOR_MOD", pair, net.tensor(2, 3, 5)))


SINGLE |= {
    "transposed convolution": _transposed(),
    "split": _split(),
    "matmul": _matmul(),
    "floor mod of two": _floor_mod(),
}


@pytest.mark.parametrize("name", SINGLE)
def test_every_operator_equals_litert(name: str) -> None:
    opened = tflite.open_file(SINGLE[name])
    module, examples = float_module(opened)
    made = module(*examples)
    interpreter = pytest.importorskip("ai_edge_litert.interpreter").Interpreter(model_content=SINGLE[name])
    interpreter.allocate_tensors()
    wanted = answers(interpreter, [x.numpy() for x in examples])
    for found, other in zip(made if isinstance(made, tuple) else (made,), wanted, strict=True):
        assert tuple(found.shape) == other.shape
        np.testing.assert_allclose(found.numpy(), other, rtol=2e-5, atol=2e-6)


def recurrent(weights: str = "float32", time_major: bool = False) -> bytes:
    """An LSTM of 7 steps of 5 numbers with 6 cells, as Keras makes it, and a layer behind its last step."""
    net = FloatFile(4, weights)
    x = net.input(*((7, 1, 5) if time_major else (1, 7, 5)), name="x")
    matrices = [net.weights(2 * net.random(6, fan, fan=fan), per_channel=False) for fan in [5] * 4 + [6] * 4]
    biases = [net.constant(net.rng.normal(0, 0.3, 6).astype(np.float32)) for _ in range(4)]
    states = [net.tensor(1, 6, name=name, is_variable=True) for name in "hc"]
    operands = [x, *matrices, -1, -1, -1, *biases, -1, -1, *states, -1, -1, -1, -1]
    options = schema.SequenceLstmOptions(fused_activation=schema.Activation.TANH, time_major=time_major)
    shape = (7, 1, 6) if time_major else (1, 7, 6)
    y = net.add("UNIDIRECTIONAL_SEQUENCE_LSTM", operands, net.tensor(*shape), options)
    axis = 0 if time_major else 1
    first = [
        np.array(held, np.int32)
        for held in (
            [6 * (a == axis) for a in range(3)],
            [1 if a == axis else n for a, n in enumerate(shape)],
        )
    ]
    last = net.add("SLICE", [y, *map(net.constant, first)], net.tensor(1, 1, 6), schema.SliceOptions())
    return net.bytes(net.connected(last, 3), y)


@pytest.mark.turns(2)
@pytest.mark.parametrize("time_major", part_of([False, True], 2))
def test_an_lstm_continues_from_the_previous_run(tmp_path: Path, time_major: bool) -> None:
    raw = recurrent(time_major=time_major)
    (tmp_path / "net.tflite").write_bytes(raw)
    rng = np.random.default_rng(1)
    shape = (7, 1, 5) if time_major else (1, 7, 5)
    steps = [rng.normal(size=shape).astype(np.float32) for _ in range(60 if runs_all() else 12)]
    interpreter = litert(raw)
    wanted = [answers(interpreter, [x]) for x in steps]
    module, _ = float_module(tflite.open_file(raw))
    with torch.no_grad():
        for x, ys in zip(steps, wanted, strict=True):
            for found, y in zip(module(torch.from_numpy(x)), ys, strict=True):
                np.testing.assert_allclose(found.numpy(), y, atol=2e-6)
    program = pillion.compile(tmp_path / "net.tflite", target="cortex-m33", calibrate=steps)
    assert [state.initial.shape for state in program.graph.states] == [(1, 6), (1, 6)]
    found = program.stream().run([[x] for x in steps])
    for place in range(2):
        theirs = np.stack([ys[place] for ys in wanted])
        assert decibels(theirs, np.stack([ys[place] for ys in found])) >= 25
    assert {op.source.partition(":")[0] for op in program.graph if op.source} == {"net.tflite"}
    host = program.stream("host").run([[x] for x in steps[:9]])
    assert [y.tobytes() for ys in host for y in ys] == [y.tobytes() for ys in found[:9] for y in ys]


def test_an_lstm_with_8_bit_weights(tmp_path: Path) -> None:
    module, (x,) = float_module(tflite.open_file(recurrent("int8")))
    exact, _ = float_module(tflite.open_file(recurrent()))
    with torch.no_grad():
        assert decibels(exact(x)[1].numpy(), module(x)[1].numpy()) > 30


def test_missing_calibration_data_is_explained(tmp_path: Path) -> None:
    file = tmp_path / "net.tflite"
    file.write_bytes(mobile())
    with pytest.raises(PillionError) as caught:
        pillion.compile(file, target="cortex-m33")
    assert "computes in float" in caught.value.what
    assert "--quantize --calibrate" in caught.value.help
    assert "calibrate=samples" in caught.value.help


def test_an_operator_that_it_does_not_know_is_named(tmp_path: Path) -> None:
    net = FloatFile()
    x = net.input(2, 5)
    opened = tflite.open_file(net.bytes(net.unary("CUMSUM", x)))
    with pytest.raises(PillionError, match="CUMSUM") as caught:
        float_module(opened)
    assert "1 × CUMSUM" in caught.value.here


def test_invalid_files_are_refused() -> None:
    net = FloatFile()
    x = net.input(2, 5)
    wrong = net.bytes(net.add("RELU", [x], net.tensor(3, 5)))
    early = FloatFile()
    y = early.tensor(2, 5)
    unmade = early.bytes(early.add("ADD", [early.input(2, 5), y], early.tensor(2, 5), schema.AddOptions()))
    misfit = FloatFile()
    pair = [misfit.input(2, 5), misfit.input(3, 4)]
    unfitting = misfit.bytes(misfit.add("ADD", pair, misfit.tensor(2, 5), schema.AddOptions()))
    for raw, words in (
        (wrong, "the result has the shape"),
        (unmade, "before anything makes it"),
        (unfitting, "fit together"),
    ):
        with pytest.raises(PillionError) as caught:
            float_module(tflite.open_file(raw))
        assert words in caught.value.rule


def test_an_image_of_bytes_that_is_cast() -> None:
    """What Keras exports with a cast in front takes the bytes themselves."""
    net = FloatFile(2)
    bytes_in = net.input(1, 6, 5, 3, dtype="uint8", quantization=None)
    real = net.add("CAST", [bytes_in], net.tensor(1, 6, 5, 3), schema.CastOptions())
    scaled = net.add(
        "MUL", [real, net.constant(np.float32(1 / 255))], net.tensor(1, 6, 5, 3), schema.MulOptions()
    )
    raw = net.bytes(net.conv(scaled, 4))
    module, examples = float_module(tflite.open_file(raw))
    assert examples[0].dtype == torch.uint8
    image = np.random.default_rng(1).integers(0, 256, (1, 6, 5, 3)).astype(np.uint8)
    np.testing.assert_allclose(
        module(torch.from_numpy(image)).numpy(), answers(litert(raw), [image])[0], atol=1e-5
    )


def test_int8_files_take_no_calibration_data(tmp_path: Path) -> None:
    net = FloatFile()
    net.dtype = "int8"
    file = tmp_path / "net.tflite"
    file.write_bytes(net.bytes(net.quantized(net.input(2, 3), "int8")))
    with pytest.raises(PillionError, match="inside"):
        pillion.compile(file, target="cortex-m33", calibrate=[np.zeros((2, 3), np.float32)])


def test_the_command_line_takes_data_for_files_that_are_to_be_quantized(tmp_path: Path) -> None:
    for name, raw in (("net.tflite", mobile()), ("other.pte", b"")):
        (tmp_path / name).write_bytes(raw)
    data = tmp_path / "samples.npz"
    np.savez(data, np.zeros((1, 31, 25, 3), np.float32))
    how = CompileOptions(quantize=Quantization(calibrate=data))
    check_request(Request(str(tmp_path / "net.tflite"), "cortex-m33", True, how))
    with pytest.raises(PillionError, match="inside"):
        check_request(Request(str(tmp_path / "other.pte"), "cortex-m33", True, how))


def test_the_float_model_beside_a_program_is_the_file(tmp_path: Path) -> None:
    file = tmp_path / "net.tflite"
    file.write_bytes(mobile())
    beside = NamedProgramOptions(Request(str(file), "cortex-m33", quantize=True)).floats()
    assert beside is not None
    assert (beside.name, beside.input_shapes) == ("net", ((1, 31, 25, 3),))
    image = images((1, 31, 25, 3), 1, 4)[0]
    (found,) = beside.outputs([[image]])
    np.testing.assert_allclose(found[1], answers(litert(mobile()), [image])[1], atol=1e-5)

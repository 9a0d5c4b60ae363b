# SPDX-License-Identifier: Apache-2.0
"""What a command stream of Vela's computes is what the graph means, bit for bit; and what harms or is unknown is refused."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
import pytest
from edges import Q, conv
from random_chains import chain
from single_ops import bias, made

import pillion
from ethos_streams import (
    ARITHMETIC,
    EXECUTED,
    EXECUTED_U85,
    compiled,
    differing,
    graph_of,
    needs_vela,
    tflite_of,
)
from pillion.devices.ethos_u import ETHOS_U
from pillion.devices.ethos_u.accelerators import ACCELERATORS
from pillion.devices.ethos_u.rules import SUPPORTED
from pillion.devices.ethos_u.stream import StreamInterpreter
from pillion.devices.ethos_u.stream import dump as shown
from pillion.devices.ethos_u.stream.command_words import read_stream
from pillion.devices.ethos_u.stream.operations import (
    BlockSize,
    ConvolutionKind,
    Convolve,
    DmaCopy,
    KernelWindow,
    PoolOperation,
    Range,
    Sums,
    TensorOperation,
    Wait,
)
from pillion.devices.ethos_u.stream.stream_errors import StreamError
from pillion.devices.ethos_u.stream.weight_stream import decompress_weights, weight_positions
from pillion.devices.ethos_u.vela.vela_process import VelaError
from pillion.emitters import tflite
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import DType, PerTensor, constant_value
from pillion.ir.verify import verify_graph
from pillion.ops import Conv2d, DepthwiseConv2d, Linear, Lut, MaxPool2d, Softmax
from pillion.ops.example_values import make_op, value
from pillion.ops.reduce import ReduceMax, ReduceMin, ReduceSum
from pillion.ops.unary_functions import Function

pytestmark = needs_vela
MISCOMPILED = (ReduceMax, ReduceMin, ReduceSum)
"""Reductions of which Vela 5.2 makes wrong streams for some shapes: they have tests of their own."""


def examples() -> Iterator[Op]:
    for kind in SUPPORTED:
        if not issubclass(kind, MISCOMPILED):
            yield from (op for op in kind.examples() if op.results[0].dtype is not DType.INT16)


@pytest.mark.turns(5)
@pytest.mark.parametrize("accelerator", [*EXECUTED, *EXECUTED_U85])
def test_examples_of_all_ops_are_computed_exactly(accelerator: str) -> None:
    step = 1 if accelerator in ("ethos-u55-128", "ethos-u85-256") else 3
    equal = 0
    for op in list(examples())[::step]:
        file = tflite_of(op)
        is_wrong = any(not one.ok and one.rule.endswith(".pixels") for one in ETHOS_U[accelerator].judge(op))
        if file is None or is_wrong:
            continue
        try:
            made = compiled(file, accelerator)
        except VelaError:
            continue
        assert differing(graph_of(op), made) == 0, op
        equal += 1
    assert equal >= 240 // step


@pytest.mark.parametrize("accelerator", [*EXECUTED, "ethos-u85-256"])
def test_tables_of_bytes_and_of_32_bits_lie_beside_each_other(accelerator: str) -> None:
    """Two functions, then a softmax, whose exponentials are a table of four times the size, behind a place that is taken."""
    x, g, h = (
        value(*v) for v in (("x", (1, 9), 0.05, 3), ("g", (1, 9), 1 / 128, 0), ("h", (1, 9), 1 / 256, -128))
    )
    first = Lut(x=x, y=g, function=Function.TANH, table=None)
    second = Lut(x=g, y=h, function=Function.SIGMOID, table=None)
    top = make_op(Softmax, value("y", (), 1 / 256, -128), x=h)
    graph = verify_graph(Graph("g", (x,), (first, second, top), top.results, ARITHMETIC))
    assert (
        differing(graph, compiled(tflite.emit(graph.replace(arithmetic=Arithmetic.TFLITE)), accelerator), 6)
        == 0
    )


def test_a_reduction_that_vela_miscompiles_is_seen() -> None:
    """Vela 5.2 repeats the first result of an extreme where an axis outside is larger than 1, and sums one of two axes."""
    for kind, wrong in ((ReduceMax, 10), (ReduceMin, 10)):  # five each of 8 and 16 bits
        found = [op for op in kind.examples() if _differs(op)]
        assert len(found) == wrong
        assert all(op.y.type.elements > 1 for op in found)  # type: ignore[attr-defined]  # all have y
    sums = [op for op in ReduceSum.examples() if op.x.dtype is DType.INT8 and _differs(op)]
    assert sums
    assert all(len(op.axes) > 1 for op in sums)  # type: ignore[attr-defined]  # all have axes


def _differs(op: Op) -> bool:
    file = tflite_of(op)
    assert file is not None
    try:
        return differing(graph_of(op), compiled(file)) > 0
    except VelaError:
        return False


@pytest.mark.parametrize("accelerator", ["ethos-u55-32", "ethos-u55-256"])
@pytest.mark.parametrize("part_first", [False, True])
@pytest.mark.parametrize("bytes_each", [1, 2])
def test_weights_come_back_in_order(accelerator: str, part_first: bool, bytes_each: int) -> None:
    from ethosu import mlw_codec  # type: ignore[attr-defined]  # a compiled module

    npu = ACCELERATORS[accelerator]
    rng = np.random.default_rng(7)
    for number, (results, rows, columns, depth) in enumerate(
        ((5, 3, 3, 7), (33, 1, 1, 70), (17, 9, 2, 40), (8, 2, 11, 3))
    ):
        for depthwise in (False, True) if not part_first else (False,):
            shape = (results, rows, columns, 1 if depthwise else depth)
            block, dilation = (16, 8, 32)[number % 3], (1 + number % 2, 1 + number // 2 % 2)
            kernel = KernelWindow(rows, columns, (1, 1), dilation, (0, 0, 0, 0), part_first)
            weights = rng.integers(-128, 128, shape, dtype=np.int16)
            packed, _ = mlw_codec.reorder_encode(
                8,
                npu.channels,
                weights,
                block,
                depthwise,
                part_first,
                8 * bytes_each,
                8 // dilation[0],
                8 // dilation[1],
            )
            kind = ConvolutionKind.DEPTHWISE if depthwise else ConvolutionKind.CONVOLUTION
            deep = 16 if part_first or bytes_each == 2 else 32
            sides = BlockSize(1, 1, block, npu.channels, deep)
            order = weight_positions(kind, kernel, shape, sides, bytes_each)
            found = decompress_weights(bytes(packed))
            assert sorted(order[order >= 0]) == list(range(weights.size))
            np.testing.assert_array_equal(found[: order.size][order >= 0], weights.ravel()[order[order >= 0]])
            assert not found[: order.size][order < 0].any()
            assert not found[order.size :].any()


def half_of_the_weights() -> Op:
    """A convolution of which two of every four weights along the inputs are 0."""
    weights = np.random.default_rng(0).integers(-127, 128, (64, 1, 1, 128)).astype(np.int8)
    weights[..., ::4] = weights[..., 3::4] = 0
    held = constant_value("w", weights, PerTensor(0.01))
    return made(Conv2d, Q, x=value("x", (1, 9, 9, 128)), weights=held, bias=bias(64))


def test_u85_reads_weights_of_all_forms() -> None:
    """Sparse ones, those for its fast decoder in one stream, those of several streams, and by parts of the kernel."""
    found = set()
    for accelerator in EXECUTED_U85[1:4]:
        examples = (*Conv2d.examples(), *Linear.examples())
        layers = [op for op in examples if {op.y.dtype, op.weights.dtype} == {DType.INT8}]
        for op in (*layers, half_of_the_weights()):
            file = tflite_of(op)
            assert file is not None
            segment = compiled(file, accelerator)
            assert differing(graph_of(op), segment, 1) == 0, op
            for one in segment.interpreter.operations:
                if isinstance(one, Convolve):
                    streams = sum(stream.length > 0 for stream in one.weights)
                    found.add((one.form.sparse, one.form.fast, streams, one.kernel.part_first))
    assert {(True, False, 1, False), (False, True, 1, False), (False, False, 4, True)} <= found, found


@pytest.mark.parametrize("accelerator", EXECUTED_U85)
def test_u85_shares_sums_between_operations(accelerator: str) -> None:
    """Vela cuts strides above 3: each operation continues the sums of the one before, and the last one has a result."""
    op = conv(4, (5, 3), kind=DepthwiseConv2d)
    made = compiled(tflite.emit(graph_of(op)), accelerator)
    shared = [one.sums for one in made.interpreter.operations if isinstance(one, Convolve)]
    assert shared[:2] == [Sums(hidden=True), Sums(True, True)]
    assert shared[-1] == Sums(continued=True)
    assert differing(graph_of(op), made) == 0


def test_u85_shares_extremes_between_operations() -> None:
    x = value("x", (1, 8, 6, 16))
    op = make_op(MaxPool2d, x.like("y", shape=()), x=x, kernel=(5, 4), stride=(1, 4), padding=(2, 1, 2, 1))
    made = compiled(tflite.emit(graph_of(op)), "ethos-u85-256")
    assert any(one.sums.hidden for one in made.interpreter.operations if isinstance(one, PoolOperation))
    assert differing(graph_of(op), made) == 0


@pytest.mark.parametrize(
    ("register", "word", "says"),
    [
        ("ACC_FORMAT", 0x02010124, "sums of another width"),
        ("ACC_FORMAT", 0x02200124, "sums of another width or source"),
        ("ACC_FORMAT", 0x07000124, "what the NPU computes at once"),
        ("OFM_PRECISION", 0x41010114, "the place of a tensor"),
        ("OFM_PRECISION", 0x0A010114, "a result that is transposed and reversed"),
        ("OFM_PRECISION", 0x20010114, "an order of axes"),
        ("ACTIVATION", 0x000A0125, "a function at the end"),
        ("WEIGHT_FORMAT", 0x0002012E, "reserved bits of WEIGHT_FORMAT"),
        ("BLOCKDEP", 0x0008012F, "reserved bits of BLOCKDEP"),
    ],
)
def test_unknown_u85_commands_are_refused(register: str, word: int, says: str) -> None:
    file = tflite_of(a_convolution())
    assert file is not None
    stream = compiled(file, "ethos-u85-256").interpreter
    with pytest.raises(StreamError, match=f"not modelled: {says}"):
        run(changed(stream, command(stream, register), word))


def a_convolution() -> Op:
    return next(iter(Conv2d.examples()))


def small() -> StreamInterpreter:
    """A stream with copies, waits, a convolution and a table: an op, and a softmax."""
    file = tflite_of(next(iter(Softmax.examples())))
    assert file is not None
    return compiled(file).interpreter


def convolution() -> StreamInterpreter:
    file = tflite_of(a_convolution())
    assert file is not None
    return compiled(file).interpreter


def changed(stream: StreamInterpreter, at: int, word: int) -> StreamInterpreter:
    """The stream with one word of its commands exchanged."""
    words = list(struct.unpack(f"<{len(stream.payload) // 4}I", stream.payload))
    last = stream.stream.instructions[-1]
    words[len(words) - last.at - 1 + at] = word
    return StreamInterpreter(struct.pack(f"<{len(words)}I", *words), stream.constants, stream.sizes)


def command(stream: StreamInterpreter, name: str, number: int = 0) -> int:
    """The word of the n-th command of a name."""
    return [one.at for one in stream.stream.instructions if one.command.name == name][number]


@pytest.mark.parametrize(
    ("word", "says"),
    [
        (0x00000004, "a command"),
        (0x00000106, "a command"),
        (0x00018002, "a command"),
        (0x00010002, "reserved bits of CONV"),
        (0x00040107, "reserved bits of IFM_UPSCALE"),
        (0x00000001, "the command IRQ"),
        (0x00000000, "the mask of STOP"),
        (0x00020124, "sums of another width"),
        (0x00010123, "several cores"),
    ],
)
def test_unknown_commands_are_refused(word: int, says: str) -> None:
    stream = convolution()
    with pytest.raises(StreamError, match=f"not modelled: {says}"):
        run(changed(stream, command(stream, "BLOCKDEP"), word))


def run(stream: StreamInterpreter) -> None:
    """Runs a stream on memory that holds something everywhere, and asks for nothing."""
    stream.run({Range(region, 0, size): bytes(size) for region, size in stream.sizes.items()}, ())


def test_accesses_outside_their_region_are_refused() -> None:
    stream = convolution()
    for name, says in (
        ("OFM_BASE0", "outside its region"),
        ("IFM_BASE0", "outside its region"),
        ("SCALE_BASE", "outside"),
    ):
        with pytest.raises(StreamError, match=says):
            run(changed(stream, command(stream, name) + 1, 0x00FF_FFF0))


def test_constants_are_not_written() -> None:
    stream = convolution()
    with pytest.raises(StreamError, match="constants are written"):
        run(changed(stream, command(stream, "OFM_REGION"), 0x0000_011F))


def test_reads_of_unwritten_bytes_are_errors() -> None:
    file = tflite_of(a_convolution())
    assert file is not None
    made = compiled(file)
    with pytest.raises(StreamError, match="undefined bytes are read"):
        made.interpreter.run({}, ())


def test_a_missing_wait_is_found() -> None:
    stream, nothing = small(), 0x012F  # BLOCKDEP 0
    waits = [op for op in stream.operations if isinstance(op, Wait) and op.copies]
    assert waits
    for wait in waits:
        with pytest.raises(StreamError, match="at the same time"):
            run(changed(stream, wait.at, nothing))


@pytest.mark.turns(4)
@pytest.mark.parametrize("accelerator", [*EXECUTED, "ethos-u85-256"])
def test_operations_that_start_too_soon_are_found(accelerator: str) -> None:
    """What Vela writes into BLOCKDEP is enough, and where it is less than all, that is too much for most."""
    lets, too_soon, most = 0, 0, 7 if "u85" in accelerator else 3
    for graph in (_zoo("ds_cnn"), _softmax()):
        stream = compiled(tflite.emit(graph), accelerator).interpreter
        assert stream.operations
        set_by = {one.at: one for one in stream.stream.instructions if one.command.name == "BLOCKDEP"}
        for at, one in set_by.items():
            if one.parameter < most:
                lets += 1
                too_soon += not _starts(changed(stream, at, most << 16 | 0x012F))
    assert lets >= 4
    assert too_soon > lets / 2, f"{too_soon} of {lets}"


def _starts(stream: StreamInterpreter) -> bool:
    try:
        return bool(stream.operations)
    except StreamError as error:
        return "may not have written" not in error.what


def test_random_chains_wait_enough() -> None:
    """Convolutions read 16 channels at a time where their weights are stored by parts of the kernel: Vela's BLOCKDEP counts on it."""
    by_parts = 0
    for seed in range(25):
        graph = chain(seed)
        made = compiled(tflite.emit(graph), EXECUTED[seed % len(EXECUTED)])
        operations = made.interpreter.operations
        by_parts += sum(isinstance(op, Convolve) and op.kernel.part_first for op in operations)
        if seed % 8 == 0:
            assert differing(graph, made, 1) == 0, seed
    assert by_parts > 20


@pytest.mark.parametrize(("first", "count"), [(0, 15), pytest.param(15, 85, marks=pytest.mark.nightly)])
def test_random_chains_are_computed_exactly_on_u85(first: int, count: int) -> None:
    for seed in range(first, first + count):
        graph = chain(seed)
        made = compiled(tflite.emit(graph), EXECUTED_U85[seed % len(EXECUTED_U85)])
        assert differing(graph, made, 1) == 0, seed


def test_a_1x1_convolution_with_a_stride_that_starts_too_soon_is_found() -> None:
    """Vela 5.2 takes the inputs of its later blocks for earlier rows than they are."""
    made = compiled(tflite.emit(chain(1376, strided_1x1=True)), "ethos-u55-64")
    assert made.version.startswith("5.2")
    assert not _starts(made.interpreter)


def test_damaged_weights_are_refused_and_the_next_ones_are_read() -> None:
    stream = convolution()
    broken = StreamInterpreter(stream.payload, bytes(len(stream.constants)), stream.sizes)
    with pytest.raises(StreamError):
        run(broken)
    run(stream)


@pytest.mark.parametrize("length", [0, 3, 4, 8, 20, 40, -4, -5])
def test_payloads_that_are_cut_off_are_refused(length: int) -> None:
    with pytest.raises(StreamError):
        read_stream(convolution().payload[:length])


def test_tensors_of_any_size_are_refused_before_memory_is_taken() -> None:
    stream = convolution()
    made = changed(
        changed(stream, command(stream, "OFM_HEIGHT_M1"), 0xFFFF_0112),
        command(stream, "OFM_WIDTH_M1"),
        0xFFFF_0111,
    )
    with pytest.raises(StreamError):
        run(made)


def faults_found(
    stream: StreamInterpreter, inputs: dict[Range, bytes], outputs: tuple[Range, ...], trials: int
) -> int:
    """How many of so many single-bit faults, anywhere in the payload, change an answer or are refused."""
    rng, found = np.random.default_rng(3), 0
    words = np.frombuffer(stream.payload, "<u4")
    wanted = stream.run(inputs, outputs)
    for _ in range(trials):
        damaged = words.copy()
        damaged[rng.integers(words.size)] ^= np.uint32(1) << np.uint32(rng.integers(32))
        try:
            found += (
                StreamInterpreter(damaged.tobytes(), stream.constants, stream.sizes).run(inputs, outputs)
                != wanted
            )
        except StreamError:
            found += 1
    return found


@pytest.mark.turns(3)
@pytest.mark.parametrize("trials", [100, pytest.param(1000, marks=pytest.mark.nightly)])
@pytest.mark.parametrize(
    ("name", "accelerator"),
    [
        pytest.param("ds_cnn", "ethos-u55-32", marks=pytest.mark.nightly),
        ("softmax", "ethos-u55-64"),
        ("ds_cnn", "ethos-u55-128"),
        pytest.param("deep_autoencoder", "ethos-u55-256", marks=pytest.mark.nightly),
        ("resnet8", "ethos-u65-256"),
        ("softmax", "ethos-u85-256"),
        pytest.param("ds_cnn", "ethos-u85-256", marks=pytest.mark.nightly),
        pytest.param("mobilenet_v1_025", "ethos-u55-128", marks=pytest.mark.nightly),
    ],
)
def test_single_bit_faults_are_found(name: str, accelerator: str, trials: int) -> None:
    graph = _softmax() if name == "softmax" else _zoo(name)
    made = compiled(tflite.emit(graph), accelerator)
    rng = np.random.default_rng(0)
    inputs = {
        port.place: rng.integers(-128, 128, port.place.length, dtype=np.int8).tobytes()
        for port in made.inputs
    }
    found = faults_found(made.interpreter, inputs, tuple(port.place for port in made.outputs), trials)
    assert found >= 0.9 * trials, f"{found} of {trials}"


def _softmax() -> Graph:
    """Several rows in 8 bits."""
    return graph_of(next(op for op in Softmax.examples() if op.x.shape == (2, 3, 7)))


def _zoo(name: str) -> Graph:
    program = pillion.compile(name, target="cortex-m55", io_dtype="int8", io_layout="nhwc")
    return program.graph.replace(arithmetic=ARITHMETIC)


@pytest.mark.turns(4)
@pytest.mark.parametrize("name", ["ds_cnn", "resnet8", "mobilenet_v1_025", "deep_autoencoder"])
def test_whole_networks_are_computed_exactly(name: str) -> None:
    graph = _zoo(name)
    for accelerator in (*EXECUTED[2::2], *EXECUTED_U85[1::2]):
        assert differing(graph, compiled(tflite.emit(graph), accelerator), 1) == 0


def test_every_command_and_operation_is_shown() -> None:
    for stream in (convolution(), small()):
        lines = list(shown.command_lines(stream.stream))
        assert len(lines) == len(stream.stream.instructions)
        assert lines[-1].split()[1:] == ["STOP", "65535"]
        summary = list(shown.operation_lines(stream.operations))
        kinds = [type(op) for op in stream.operations]
        assert len(summary) == len(kinds)
        assert any(issubclass(kind, TensorOperation) for kind in kinds)
    assert DmaCopy in kinds
    assert any(line.split()[1:3] == ["clz", "int32[1x1x1]"] for line in summary)

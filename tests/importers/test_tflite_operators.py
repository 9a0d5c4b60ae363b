# SPDX-License-Identifier: Apache-2.0
"""Operators as other programs write them: LiteRT answers what the graph that was read answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tflite_file import RNG, File, per_channel, same_as_litert, weights

from pillion.importers.tflite import read
from pillion.ir.op import Op
from pillion.ops.conv import Conv2d
from pillion.ops.linear import Linear
from pillion.ops.lut import Lut
from pillion.ops.movement import Reshape, Slice
from pillion.ops.pool import Pool
from pillion.ops.unary_functions import Function
from pillion.schemas import tflite
from pillion.schemas.flatbuffer import write_flatbuffer
from pillion.schemas.tflite import Activation, ElementType, Padding


@pytest.mark.parametrize("stride", [(1, 1), (2, 2), (2, 3)])
@pytest.mark.parametrize("image", [(5, 7), (6, 8), (7, 6)])
@pytest.mark.parametrize("padding", Padding)
@pytest.mark.parametrize("dilation", [(1, 1), (2, 1)])
def test_padding_of_convolutions(
    stride: tuple[int, int], image: tuple[int, int], padding: Padding, dilation: tuple[int, int]
) -> None:
    extents = [d * (k - 1) + 1 for d, k in zip(dilation, (3, 2), strict=True)]
    trimmed = [0 if padding is Padding.SAME else extent - 1 for extent in extents]
    size = [-(-(i - t) // s) for i, t, s in zip(image, trimmed, stride, strict=True)]
    options = tflite.Conv2DOptions(
        padding=padding, stride_h=stride[0], stride_w=stride[1], fused_activation=Activation.RELU6
    )
    options.dilation_h, options.dilation_w = dilation
    file = File("CONV_2D", options).input(1, *image, 4)
    file.constant(weights(6, 3, 2, 2), ElementType.INT8, quantization=per_channel(6, 0))
    file.constant(RNG.integers(-999, 999, 6), quantization=per_channel(6, 0)).output(1, *size, 6)
    conv = same_as_litert(file.bytes()).ops[0]
    assert isinstance(conv, Conv2d)
    assert (conv.groups, conv.stride, conv.low, conv.high) == (2, stride, 3, 63)


def test_depthwise_convolution_without_a_bias() -> None:
    options = tflite.DepthwiseConv2DOptions(stride_h=1, stride_w=1, depth_multiplier=2)
    file = File("DEPTHWISE_CONV_2D", options).input(1, 5, 4, 3)
    file.constant(weights(1, 3, 3, 6), ElementType.INT8, quantization=per_channel(6, 3))
    assert len(same_as_litert(file.output(1, 5, 4, 6).bytes()).ops) == 1


def test_a_bias_is_read_whatever_it_says_of_its_scale() -> None:
    """Some writers name axis 3 of a bias with one axis; its scale follows from the others anyway."""
    file = File("CONV_2D", tflite.Conv2DOptions(stride_h=1, stride_w=1)).input(1, 5, 5, 2)
    file.constant(weights(6, 1, 1, 2), ElementType.INT8, quantization=per_channel(6, 0))
    file.constant(RNG.integers(-999, 999, 6), quantization=per_channel(6, 3)).output(1, 5, 5, 6)
    conv = read(file.bytes()).ops[0]
    assert isinstance(conv, Conv2d)
    assert (
        conv.bias.channel_scales.tolist() == np.float32(conv.x.scale * conv.weights.channel_scales).tolist()
    )


def test_a_bias_shared_by_two_scales_becomes_two() -> None:
    file = File("FULLY_CONNECTED").input(2, 3)
    file.constant(weights(5, 3), ElementType.INT8, quantization=per_channel(5, 0))
    file.constant(RNG.integers(-999, 999, 5)).output(2, 5).output(2, 3, scale=0.7)
    model = file.model()
    first, extra = model.subgraphs[0].operators[0], file.outputs.pop()
    file.inputs.append(extra)
    second = tflite.Operator(inputs=[extra, *first.inputs[1:]], outputs=[file.tensor((2, 5))])
    first.outputs = first.outputs[:1]
    file.outputs.append(second.outputs[0])
    model.subgraphs[0].operators.append(second)
    graph = same_as_litert(write_flatbuffer(model, tflite.IDENTIFIER))
    assert [v.name for v in graph.constants] == ["t1", "t2", "t2_2"]


@pytest.mark.parametrize(
    ("x", "y", "keep", "kinds"),
    [
        ((2, 12), (2, 5), False, [Linear]),
        ((2, 3, 12), (2, 3, 5), True, [Linear]),
        ((2, 3, 12), (6, 5), False, [Reshape, Linear]),
        ((1, 2, 2, 6), (2, 5), False, [Reshape, Linear]),
    ],
    ids=str,
)
def test_fully_connected_flattens_what_it_reads(x: Any, y: Any, keep: bool, kinds: list[type[Op]]) -> None:
    file = File("FULLY_CONNECTED", tflite.FullyConnectedOptions(keep_num_dims=keep)).input(*x)
    file.constant(weights(5, 12), ElementType.INT8, quantization=per_channel(5, 0))
    file.constant(RNG.integers(-999, 999, 5), quantization=per_channel(5, 0)).output(*y)
    assert [type(op) for op in same_as_litert(file.bytes()).ops] == kinds


@pytest.mark.parametrize("code", ["AVERAGE_POOL_2D", "MAX_POOL_2D"])
@pytest.mark.parametrize("activation", list(Activation)[:4])
def test_pools(code: str, activation: Activation) -> None:
    options = tflite.Pool2DOptions(padding=Padding.SAME, stride_w=2, stride_h=2, filter_w=3, filter_h=2)
    options.fused_activation = activation
    pool = same_as_litert(File(code, options).input(1, 7, 5, 3).output(1, 4, 3, 3).bytes()).ops[0]
    assert isinstance(pool, Pool)
    assert (pool.kernel, pool.padding) == ((2, 3), (0, 1, 1, 1))


FUNCTIONS = (
    "LOGISTIC",
    "TANH",
    "HARD_SWISH",
    "EXP",
    "LOG",
    "ABS",
    "RELU",
    "RELU6",
    "RELU_N1_TO_1",
    "RELU_0_TO_1",
)


@pytest.mark.parametrize("code", FUNCTIONS)
def test_functions(code: str) -> None:
    scale, zero = {"LOGISTIC": (1 / 256, -128), "TANH": (1 / 128, 0)}.get(code, (0.07, -20))
    same_as_litert(File(code).input(5, 51, scale=0.03).output(5, 51, scale=scale, zero=zero).bytes())


@pytest.mark.parametrize("options", [tflite.GeluOptions(), tflite.GeluOptions(approximate=True)], ids=str)
def test_both_forms_of_gelu(options: tflite.GeluOptions) -> None:
    op = same_as_litert(File("GELU", options).input(256).output(256).bytes()).ops[0]
    assert isinstance(op, Lut)
    assert op.function is (Function.GELU_TANH if options.approximate else Function.GELU)


def test_leaky_relu_with_its_slope() -> None:
    file = File("LEAKY_RELU", tflite.LeakyReluOptions(alpha=0.3)).input(256).output(256, scale=0.2)
    assert same_as_litert(file.bytes()).ops[0].attributes["alpha"] == float(np.float32(0.3))


@pytest.mark.parametrize(
    ("begin", "end", "stride"), [((1, 0, -3), (2, -1, 99), (1, 2, 1)), ((-1, 1, 1), (9, 6, 7), (1, 1, 2))]
)
@pytest.mark.parametrize("masks", [(0, 0, 0), (1, 4, 0), (4, 2, 1), (0, 0, 5)])
def test_strided_slices(begin: Any, end: Any, stride: Any, masks: tuple[int, int, int]) -> None:
    options = tflite.StridedSliceOptions(begin_mask=masks[0], end_mask=masks[1], shrink_axis_mask=masks[2])
    index = tuple(
        b % d
        if masks[2] & 1 << i
        else slice(None if masks[0] & 1 << i else b, None if masks[1] & 1 << i else e, s)
        for i, (b, e, s, d) in enumerate(zip(begin, end, stride, (2, 7, 9), strict=True))
    )
    shape = np.zeros((2, 7, 9))[index].shape
    file = (
        File("STRIDED_SLICE", options)
        .input(2, 7, 9)
        .constant(list(begin))
        .constant(list(end))
        .constant(list(stride))
    )
    same_as_litert(file.output(*shape).bytes())


def test_slice_to_the_end() -> None:
    graph = same_as_litert(File("SLICE").input(5, 7).constant([1, 2]).constant([3, -1]).output(3, 5).bytes())
    assert isinstance(graph.ops[0], Slice)


def test_split_takes_its_axis_first() -> None:
    file = File("SPLIT", tflite.SplitOptions(num_splits=3)).constant(-1)
    assert len(same_as_litert(file.input(5, 9).output(5, 3).output(5, 3).output(5, 3).bytes()).ops) == 3


def test_split_into_parts_of_different_sizes() -> None:
    file = (
        File("SPLIT_V", tflite.SplitVOptions(num_splits=3))
        .input(9, 2)
        .constant([2, 4, 3])
        .constant(0)
        .output(2, 2)
        .output(4, 2)
        .output(3, 2)
    )
    assert len(same_as_litert(file.bytes()).ops) == 3


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_pack_and_unpack(axis: int) -> None:
    stacked = tuple(np.stack([np.zeros((2, 3))] * 2, axis).shape)
    packed = (
        File("PACK", tflite.PackOptions(values_count=2, axis=axis)).input(2, 3).input(2, 3).output(*stacked)
    )
    same_as_litert(packed.bytes())
    unpacked = (
        File("UNPACK", tflite.UnpackOptions(num=2, axis=axis)).input(*stacked).output(2, 3).output(2, 3)
    )
    same_as_litert(unpacked.bytes())


def test_squeeze_and_expand_dims_are_reshapes() -> None:
    squeeze = File("SQUEEZE", tflite.SqueezeOptions(squeeze_dims=[1])).input(2, 1, 3).output(2, 3)
    assert [type(op) for op in same_as_litert(squeeze.bytes()).ops] == [Reshape]
    expand = File("EXPAND_DIMS").input(2, 3).constant(1).output(2, 1, 3)
    assert [type(op) for op in same_as_litert(expand.bytes()).ops] == [Reshape]


def test_the_shape_of_a_reshape_may_be_left_out_or_open() -> None:
    same_as_litert(File("RESHAPE").input(6).constant([3, -1]).output(3, 2).bytes())
    options = tflite.ReshapeOptions(new_shape=[3, 2])
    same_as_litert(File("RESHAPE", options).input(6).output(3, 2).bytes())


def test_mean_over_axes_from_the_end() -> None:
    file = (
        File("MEAN", tflite.ReducerOptions(keep_dims=True))
        .input(2, 5, 7)
        .constant([-1, 1])
        .output(2, 1, 1, scale=0.05)
    )
    assert same_as_litert(file.bytes()).ops[0].attributes == {"axes": (1, 2), "keepdims": True}


def test_padding_with_zero_and_with_a_level() -> None:
    pairs = [[0, 1], [2, 0]]
    same_as_litert(File("PAD").input(3, 2).constant(pairs).output(4, 4).bytes())
    fill = tflite.Quantization(scale=[0.1], zero_point=[3])
    file = File("PADV2").input(3, 2).constant(pairs).constant([-9], ElementType.INT8, quantization=fill)
    same_as_litert(file.output(4, 4).bytes())


def test_paddings_may_be_wide_integers() -> None:
    same_as_litert(File("PAD").input(3, 2).constant([[0, 1], [2, 0]], ElementType.INT64).output(4, 4).bytes())


def test_operands_may_be_constants() -> None:
    quant = tflite.Quantization(scale=[0.3], zero_point=[-4])
    file = File("ADD", tflite.AddOptions(pot_scale_int16=False)).input(2, 3)
    same_as_litert(file.constant(weights(3), ElementType.INT8, quantization=quant).output(2, 3).bytes())


def test_shape_operators_become_constants() -> None:
    graph = read(File("SHAPE").input(2, 3).output(2, type=ElementType.INT32, quantization=None).bytes())
    assert (graph.ops, graph.outputs[0].constant.tolist()) == ((), [2, 3])


@pytest.mark.parametrize("padding", Padding)
@pytest.mark.parametrize(
    ("kernel", "stride", "more"), [((3, 3), (2, 2), 0), ((2, 4), (1, 3), 0), ((1, 2), (2, 3), 1)]
)
@pytest.mark.parametrize("has_bias", [True, False])
def test_transposed_convolutions(
    padding: Padding, kernel: tuple[int, int], stride: tuple[int, int], more: int, has_bias: bool
) -> None:
    image, same = (3, 4), padding is Padding.SAME
    steps = zip(image, stride, kernel, strict=True)
    size = [i * s if same else (i - 1) * s + k + more for i, s, k in steps]
    options = tflite.TransposeConvOptions(padding=padding, stride_h=stride[0], stride_w=stride[1])
    file = File("TRANSPOSE_CONV", options).constant([1, *size, 5])
    file.constant(weights(5, *kernel, 2), ElementType.INT8, quantization=per_channel(5, 0)).input(
        1, *image, 2
    )
    if has_bias:
        file.constant(RNG.integers(-999, 999, 5), quantization=per_channel(5, 0))
    assert len(same_as_litert(file.output(1, *size, 5).bytes()).ops) == 1


@pytest.mark.parametrize("batches", [(), (3,), (2, 3)], ids=str)
@pytest.mark.parametrize("adj", [(False, False), (True, True)], ids=str)
def test_matrix_products_of_any_rank(batches: tuple[int, ...], adj: tuple[bool, bool]) -> None:
    options = tflite.BatchMatMulOptions(adj_x=adj[0], adj_y=adj[1])
    a, b = (4, 5)[:: -1 if adj[0] else 1], (5, 7)[:: -1 if adj[1] else 1]
    file = (
        File("BATCH_MATMUL", options)
        .input(*batches, *a)
        .input(*batches, *b)
        .output(*batches, 4, 7, scale=0.9)
    )
    same_as_litert(file.bytes())


@pytest.mark.parametrize("axis", [0, 2, -1])
def test_tensors_run_backwards(axis: int) -> None:
    file = File("REVERSE_V2").input(2, 3, 5).constant([axis]).output(2, 3, 5)
    assert [op.kind for op in same_as_litert(file.bytes()).ops] == ["flip"]

# SPDX-License-Identifier: Apache-2.0
"""The table from PyTorch operators to ops. A row is a function whose arguments are those of the operator; tensors come
`Placed`, and what it answers is placed again. Operators that are not in the table are refused by name."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import torch

from pillion.errors import PillionError
from pillion.importers.layout import NHWC, NLC, Builder, Order, Placed, plain
from pillion.importers.views import view
from pillion.ir.op import Op
from pillion.ir.types import Pair, Sides, Value, constant
from pillion.ops import (
    Add,
    AvgPool2d,
    Concat,
    Conv2d,
    DepthwiseConv2d,
    Function,
    Linear,
    Lut,
    Maximum,
    MaxPool2d,
    Mean,
    Minimum,
    Mul,
    Pad,
    Slice,
    Softmax,
    Sub,
)

aten = torch.ops.aten
Lowering = Callable[..., Any]
ROWS: dict[Any, Lowering] = {}
Row = TypeVar("Row", bound=Lowering)


def lowers(*targets: Any) -> Callable[[Row], Row]:
    """Puts a function into the table under one or more operators."""

    def put(function: Row) -> Row:
        ROWS.update((target, function) for target in targets)
        return function

    return put


def pair(value: int | Sequence[int]) -> Pair:
    """Height and width from a number, a list of one, or a list of two."""
    numbers = [value] if isinstance(value, int) else list(value)
    return (numbers[0], numbers[-1])


def sides(padding: int | Sequence[int]) -> Sides:
    vertical, horizontal = pair(padding)
    return (vertical, horizontal, vertical, horizontal)


def refuse(what: str, rule: str, here: object, help: str = "") -> PillionError:
    return PillionError(what, rule=rule, here=str(here), help=help)


# --- convolution and matrix products ----------------------------------------------------------------------------------


@lowers(aten.conv2d.default)
def conv2d(
    b: Builder,
    x: Placed,
    weight: Placed,
    bias: Placed | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Placed:
    return _conv2d(b, x, weight, bias, pair(stride), sides(padding), pair(dilation), groups)


@lowers(aten.conv2d.padding)
def conv2d_padding(
    b: Builder,
    x: Placed,
    weight: Placed,
    bias: Placed | None = None,
    stride: Any = 1,
    padding: str = "valid",
    dilation: Any = 1,
    groups: int = 1,
) -> Placed:
    border = _same_padding(weight.shape[2:], pair(dilation)) if padding == "same" else (0, 0, 0, 0)
    return _conv2d(b, x, weight, bias, pair(stride), border, pair(dilation), groups)


@lowers(aten.convolution.default)
def convolution(
    b: Builder,
    x: Placed,
    weight: Placed,
    bias: Placed | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Placed:
    if transposed:
        packet = aten.conv_transpose1d.default if x.rank == 3 else aten.conv_transpose2d.input
        return ROWS[packet](b, x, weight, bias, stride, padding, output_padding, groups, dilation)
    if x.rank == 3:
        return conv1d(b, x, weight, bias, stride, padding, dilation, groups)
    return _conv2d(b, x, weight, bias, pair(stride), sides(padding), pair(dilation), groups)


@lowers(aten.conv1d.default)
def conv1d(
    b: Builder,
    x: Placed,
    weight: Placed,
    bias: Placed | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Placed:
    return _conv1d(b, x, weight, bias, pair(stride)[0], (0, pair(padding)[0]) * 2, pair(dilation)[0], groups)


@lowers(aten.conv1d.padding)
def conv1d_padding(
    b: Builder,
    x: Placed,
    weight: Placed,
    bias: Placed | None = None,
    stride: Any = 1,
    padding: str = "valid",
    dilation: Any = 1,
    groups: int = 1,
) -> Placed:
    step = pair(dilation)[0]
    border = _same_padding((1, weight.shape[2]), (1, step)) if padding == "same" else (0, 0, 0, 0)
    return _conv1d(b, x, weight, bias, pair(stride)[0], border, step, groups)


def _conv1d(
    b: Builder,
    x: Placed,
    weight: Placed,
    bias: Placed | None,
    stride: int,
    padding: Any,
    dilation: int,
    groups: int,
) -> Placed:
    """A convolution over images of height 1."""
    if x.rank != 3:
        raise refuse(
            "an unbatched conv1d is not supported",
            "conv1d: the input has rank 3",
            f"shape {list(x.shape)}",
            "add a batch axis: x.unsqueeze(0)",
        )
    batch, channels, length = x.shape
    image = Placed(b.reshape(b.arrange(x, NLC), (batch, 1, length, channels)), NHWC)
    out = _conv2d(b, image, with_height(weight), bias, (1, stride), padding, (1, dilation), groups)
    return Placed(b.reshape(out.value, (batch, out.shape[3], out.shape[1])), NLC)


def with_height(weight: Placed) -> Placed:
    """Weights [O, I, K] as [O, I, 1, K]; they are constant and lie in logical order."""
    value = weight.value
    return plain(constant(value.name, value.constant[:, :, None, :], value.type.quant))


def _same_padding(kernel: Sequence[int], dilation: Pair) -> Sides:
    """PyTorch's `padding="same"`: an odd pixel goes to the bottom and right."""
    (vertical, horizontal) = (d * (k - 1) for k, d in zip(kernel, dilation, strict=True))
    return (vertical // 2, horizontal // 2, vertical - vertical // 2, horizontal - horizontal // 2)


def _conv2d(
    b: Builder,
    x: Placed,
    weight: Placed,
    bias: Placed | None,
    stride: Pair,
    padding: Sides,
    dilation: Pair,
    groups: int,
) -> Placed:
    if x.rank != 4:
        raise refuse(
            "an unbatched conv2d is not supported",
            "conv2d: the input has rank 4",
            f"shape {list(x.shape)}",
            "add a batch axis: x.unsqueeze(0)",
        )
    want_constant("conv2d", "weight", weight)
    out_channels, channels = weight.shape[0], x.shape[1]
    depthwise = groups == channels and out_channels % channels == 0 and (groups > 1 or weight.shape[1] == 1)
    fields: dict[str, Any] = {
        "x": b.arrange(x, NHWC),
        "bias": bias_or_zeros(b, bias, out_channels),
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
    }
    if depthwise and groups > 1:
        return Placed(b.emit(DepthwiseConv2d, weights=b.arrange(weight, (1, 2, 3, 0)), **fields), NHWC)
    return Placed(b.emit(Conv2d, weights=b.arrange(weight, NHWC), groups=groups, **fields), NHWC)


@lowers(aten.linear.default)
def linear(b: Builder, x: Placed, weight: Placed, bias: Placed | None = None) -> Placed:
    want_constant("linear", "weight", weight)
    return plain(
        b.emit(Linear, x=b.plain(x), weights=b.plain(weight), bias=bias_or_zeros(b, bias, weight.shape[0]))
    )


@lowers(aten.addmm.default)
def addmm(b: Builder, bias: Placed, x: Placed, weight: Placed) -> Placed:
    return linear(b, x, weight.permuted((1, 0)), bias)


@lowers(aten.mm.default)
def mm(b: Builder, x: Placed, weight: Placed) -> Placed:
    return linear(b, x, weight.permuted((1, 0)))


def want_constant(op: str, what: str, x: Placed) -> None:
    if not x.value.is_constant:
        raise refuse(
            f"{op} with a computed {what} is not supported",
            f"{op}: the {what} is constant",
            repr(x.value),
            "torch.bmm multiplies two computed tensors",
        )


def bias_or_zeros(b: Builder, bias: Placed | None, count: int) -> Value:
    """The bias, or zeros where there is none."""
    if bias is not None:
        return b.plain(bias)
    return b.constant(constant(f"{b.hint}bias_or_zeros", np.zeros(count, np.float32)))


# --- element by element -----------------------------------------------------------------------------------------------


def broadcasting(cls: type[Op]) -> Lowering:
    def lower(b: Builder, first: Placed, second: Placed, *, alpha: float = 1) -> Placed:
        if alpha != 1:
            raise refuse(
                f"{cls.kind} with alpha is not supported",
                f"{cls.kind}: alpha is 1",
                alpha,
                "multiply the second operand beforehand",
            )
        return binary(b, cls, first, second)

    return lower


def binary(b: Builder, cls: type[Op], first: Placed, second: Placed) -> Placed:
    """Both operands in the order of the larger one, broadcast over logical axes."""
    rank = max(first.rank, second.rank)
    lead = first if _leads(first, second) else second
    order = _extended(lead, rank).order
    left, right = (_with_rank(b, operand, order) for operand in (first, second))
    return Placed(b.emit(cls, a=left, b=right), order)


def _leads(first: Placed, second: Placed) -> bool:
    """The operand with more elements (the first, if equal) decides the order; constants never do."""
    if first.value.is_constant != second.value.is_constant:
        return second.value.is_constant
    return first.value.type.elements >= second.value.type.elements


def _extended(x: Placed, rank: int) -> Placed:
    """The note of a tensor with leading axes of size 1 added."""
    extra = rank - x.rank
    return Placed(x.value, (*range(extra), *(axis + extra for axis in x.order)))


def _with_rank(b: Builder, x: Placed, order: Order) -> Value:
    """The operand arranged in `order`, with leading axes of size 1 where it has fewer."""
    extra = len(order) - x.rank
    inner = tuple(axis - extra for axis in order if axis >= extra)
    arranged = b.arrange(x, inner)
    shape = iter(arranged.shape)
    return b.reshape(arranged, tuple(next(shape) if axis >= extra else 1 for axis in order))


for _target, _cls in {
    aten.add.Tensor: Add,
    aten.add_.Tensor: Add,
    aten.sub.Tensor: Sub,
    aten.sub_.Tensor: Sub,
    aten.mul.Tensor: Mul,
    aten.mul_.Tensor: Mul,
    aten.minimum.default: Minimum,
    aten.maximum.default: Maximum,
}.items():
    ROWS[_target] = broadcasting(_cls)


def unary(b: Builder, x: Placed, function: Function, **options: Any) -> Placed:
    return x.with_value(b.emit(Lut, x=x.value, function=function, **options))


def _unary(function: Function, **options: float) -> Lowering:
    return lambda b, x: unary(b, x, function, **options)


FUNCTIONS: dict[Any, Lowering] = {
    aten.sigmoid: _unary(Function.SIGMOID),
    aten.tanh: _unary(Function.TANH),
    aten.hardsigmoid: _unary(Function.HARDSIGMOID),
    aten.hardswish: _unary(Function.HARDSWISH),
    aten.silu: _unary(Function.SILU),
    aten.relu: _unary(Function.CLAMP, low=0.0),
    aten.relu6: _unary(Function.CLAMP, low=0.0, high=6.0),
    aten.exp: _unary(Function.EXP),
    aten.log: _unary(Function.LOG),
    aten.sqrt: _unary(Function.SQRT),
    aten.rsqrt: _unary(Function.RSQRT),
    aten.reciprocal: _unary(Function.RECIPROCAL),
    aten.square: _unary(Function.SQUARE),
    aten.abs: _unary(Function.ABS),
    aten.neg: _unary(Function.NEG),
}
"""Unary operators without arguments; each also has an in-place twin."""
for _packet, _lower in FUNCTIONS.items():
    ROWS[_packet.default] = _lower
    _twin = getattr(aten, f"{_packet._qualified_op_name.split('::')[1]}_", None)
    if _twin is not None:
        ROWS[_twin.default] = _lower


@lowers(aten.hardtanh.default, aten.hardtanh_.default)
def hardtanh(b: Builder, x: Placed, min_val: float = -1, max_val: float = 1) -> Placed:
    return unary(b, x, Function.CLAMP, low=float(min_val), high=float(max_val))


@lowers(aten.clamp.default, aten.clamp_.default)
def clamp(b: Builder, x: Placed, min: float | None = None, max: float | None = None) -> Placed:
    low, high = -math.inf if min is None else float(min), math.inf if max is None else float(max)
    return unary(b, x, Function.CLAMP, low=low, high=high)


@lowers(aten.clamp_min.default)
def clamp_min(b: Builder, x: Placed, min: float) -> Placed:
    return clamp(b, x, min=min)


@lowers(aten.clamp_max.default)
def clamp_max(b: Builder, x: Placed, max: float) -> Placed:
    return clamp(b, x, max=max)


@lowers(aten.leaky_relu.default, aten.leaky_relu_.default)
def leaky_relu(b: Builder, x: Placed, negative_slope: float = 0.01) -> Placed:
    return unary(b, x, Function.LEAKY_RELU, alpha=float(negative_slope))


@lowers(aten.elu.default, aten.elu_.default)
def elu(b: Builder, x: Placed, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Placed:
    if (scale, input_scale) != (1, 1):
        raise refuse(
            "elu with scales is not supported", "elu: scale and input_scale are 1", (scale, input_scale)
        )
    return unary(b, x, Function.ELU, alpha=float(alpha))


@lowers(aten.gelu.default)
def gelu(b: Builder, x: Placed, *, approximate: str = "none") -> Placed:
    return unary(b, x, Function.GELU_TANH if approximate == "tanh" else Function.GELU)


@lowers(aten.softplus.default)
def softplus(b: Builder, x: Placed, beta: float = 1, threshold: float = 20) -> Placed:
    if beta != 1:
        raise refuse("softplus with beta is not supported", "softplus: beta is 1", beta)
    return unary(b, x, Function.SOFTPLUS)


# --- pools and reductions ---------------------------------------------------------------------------------------------


@lowers(aten.max_pool2d.default, aten.max_pool2d_with_indices.default)
def max_pool2d(
    b: Builder,
    x: Placed,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Placed:
    if pair(dilation) != (1, 1):
        raise refuse("a dilated max_pool2d is not supported", "max_pool2d: dilation is 1", pair(dilation))
    return _pool(b, MaxPool2d, x, kernel_size, stride, sides(padding), ceil_mode)


@lowers(aten.avg_pool2d.default)
def avg_pool2d(
    b: Builder,
    x: Placed,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Placed:
    if divisor_override is not None:
        raise refuse(
            "avg_pool2d with divisor_override is not supported",
            "avg_pool2d: divisor_override is None",
            divisor_override,
            "multiply the result by a constant instead",
        )
    border = sides(padding)
    if count_include_pad and any(border):
        top, left, bottom, right = border
        image = b.arrange(x, NHWC)
        x = Placed(
            b.emit(
                Pad,
                x=image,
                before=(0, top, left, 0),
                after=(0, bottom, right, 0),
                value=0.0,
                name=f"{b.hint}_padded",
            ),
            NHWC,
        )
        return _pool(b, AvgPool2d, x, kernel_size, stride, (0, 0, 0, 0), ceil_mode, reach=border)
    return _pool(b, AvgPool2d, x, kernel_size, stride, border, ceil_mode)


def _pool(
    b: Builder,
    cls: type[Op],
    x: Placed,
    kernel_size: Any,
    stride: Any,
    padding: Sides,
    ceil_mode: bool,
    reach: Sides = (0, 0, 0, 0),
) -> Placed:
    """`reach` is padding that was already made part of the image: PyTorch's ceil rule counts it as such."""
    kernel = pair(kernel_size)
    step = pair(stride) if stride not in ((), []) else kernel
    image, batched = _as_image(b, x)
    if ceil_mode:
        padding = _ceil_padding(image.shape[1:3], kernel, step, padding, reach)
    y = b.emit(cls, x=image, kernel=kernel, stride=step, padding=padding)
    return Placed(y, NHWC) if batched else Placed(b.reshape(y, y.shape[1:]), (1, 2, 0))


def _as_image(b: Builder, x: Placed) -> tuple[Value, bool]:
    """[N, H, W, C] of a tensor with or without a batch axis."""
    if x.rank == 4:
        return b.arrange(x, NHWC), True
    value = b.arrange(x, (1, 2, 0))
    return b.reshape(value, (1, *value.shape)), False


def _ceil_padding(image: Sequence[int], kernel: Pair, stride: Pair, padding: Sides, reach: Sides) -> Sides:
    """More padding at the bottom and right, so that the last, partial window counts; it must begin inside the image or its
    padding at the top and left."""
    more = []
    for axis in (0, 1):
        before, after = padding[axis], padding[axis + 2]
        start_limit = image[axis] + before - reach[axis + 2]
        positions = math.ceil((image[axis] + before + after - kernel[axis]) / stride[axis]) + 1
        if (positions - 1) * stride[axis] >= start_limit:
            positions -= 1
        more.append(
            max(
                (positions - 1) * stride[axis] + kernel[axis] - image[axis] - before,
                after if positions < 1 else 0,
            )
        )
    return (padding[0], padding[1], more[0], more[1])


@lowers(aten.max_pool1d.default)
def max_pool1d(
    b: Builder,
    x: Placed,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Placed:
    step = (1, pair(stride)[0]) if stride not in ((), []) else ()
    image = _sequence_as_image(b, x)
    out = max_pool2d(b, image, (1, pair(kernel_size)[0]), step, (0, pair(padding)[0]), dilation, ceil_mode)
    return _image_as_sequence(b, out)


@lowers(aten.avg_pool1d.default)
def avg_pool1d(
    b: Builder,
    x: Placed,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Placed:
    step = (1, pair(stride)[0]) if stride not in ((), []) else ()
    image = _sequence_as_image(b, x)
    out = avg_pool2d(
        b, image, (1, pair(kernel_size)[0]), step, (0, pair(padding)[0]), ceil_mode, count_include_pad
    )
    return _image_as_sequence(b, out)


def _sequence_as_image(b: Builder, x: Placed) -> Placed:
    batch, channels, length = x.shape
    return Placed(b.reshape(b.arrange(x, NLC), (batch, 1, length, channels)), NHWC)


def _image_as_sequence(b: Builder, x: Placed) -> Placed:
    batch, channels, _, length = x.shape
    return Placed(b.reshape(x.value, (batch, length, channels)), NLC)


@lowers(aten.adaptive_avg_pool2d.default)
def adaptive_avg_pool2d(b: Builder, x: Placed, output_size: Any) -> Placed:
    return _adaptive(b, AvgPool2d, x, output_size)


@lowers(aten.adaptive_avg_pool1d.default)
def adaptive_avg_pool1d(b: Builder, x: Placed, output_size: Any) -> Placed:
    return _image_as_sequence(b, _adaptive(b, AvgPool2d, _sequence_as_image(b, x), (1, pair(output_size)[0])))


@lowers(aten.adaptive_max_pool2d.default)
def adaptive_max_pool2d(b: Builder, x: Placed, output_size: Any) -> Placed:
    return _adaptive(b, MaxPool2d, x, output_size)


def _adaptive(b: Builder, cls: type[Op], x: Placed, output_size: Any) -> Placed:
    sizes = [
        given if given is not None else size
        for given, size in zip(pair(output_size), x.shape[-2:], strict=True)
    ]
    if any(size % wanted for size, wanted in zip(x.shape[-2:], sizes, strict=True)):
        raise refuse(
            "an adaptive pool with windows of different sizes is not supported",
            "adaptive pool: output height and width divide those of the input",
            f"{list(x.shape[-2:])} to {sizes}",
        )
    stride = tuple(size // wanted for size, wanted in zip(x.shape[-2:], sizes, strict=True))
    return _pool(b, cls, x, stride, stride, (0, 0, 0, 0), False)


@lowers(aten.mean.dim)
def mean(b: Builder, x: Placed, dim: Sequence[int] | None, keepdim: bool = False) -> Placed:
    return reduced(b, Mean, x, dim, keepdim)


def reduced(b: Builder, cls: type[Op], x: Placed, dim: Sequence[int] | None, keepdim: bool) -> Placed:
    """An op over some logical axes, or all; the others stay as they lie."""
    axes = tuple(sorted(x.axis(d) for d in (dim if dim else range(x.rank))))
    y = b.emit(cls, x=x.value, axes=axes, keepdims=keepdim)
    if keepdim:
        return x.with_value(y)
    kept = [axis for i, axis in enumerate(x.order) if i not in axes]
    return Placed(y, tuple(sorted(kept).index(axis) for axis in kept))


@lowers(aten.mean.default)
def mean_all(b: Builder, x: Placed) -> Placed:
    return mean(b, x, None)


@lowers(aten.softmax.int, aten._softmax.default)
def softmax(b: Builder, x: Placed, dim: int, *_: Any) -> Placed:
    """Over the last axis in memory: the wanted one is brought there."""
    wanted = dim % x.rank
    order = (*(axis for axis in x.order if axis != wanted), wanted)
    return Placed(b.emit(Softmax, x=b.arrange(x, order)), order)


# --- movement ---------------------------------------------------------------------------------------------------------


@lowers(aten.cat.default, aten.concat.default)
def cat(b: Builder, tensors: Sequence[Placed], dim: int = 0) -> Placed:
    lead = max(tensors, key=lambda t: t.value.type.elements)
    values = tuple(b.arrange(t, lead.order) for t in tensors)
    if len(values) == 1:
        return lead
    return Placed(b.emit(Concat, xs=values, axis=lead.axis(dim)), lead.order)


@lowers(aten.stack.default)
def stack(b: Builder, tensors: Sequence[Placed], dim: int = 0) -> Placed:
    return cat(b, [unsqueeze(b, t, dim) for t in tensors], dim % (tensors[0].rank + 1))


@lowers(aten.slice.Tensor)
def slice_tensor(
    b: Builder, x: Placed, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Placed:
    size = x.shape[dim]
    begin, stop, _ = slice(start, end).indices(size)
    count = max(0, -(-(stop - begin) // step))
    if (begin, count, step) == (0, size, 1):
        return x
    if count == 0:
        raise refuse(
            "an empty slice is not supported",
            "slice: at least one element",
            f"{start}:{end}:{step} of {size}",
        )
    axis = x.axis(dim)
    shape = tuple(count if i == axis else d for i, d in enumerate(x.value.shape))
    begins = tuple(begin if i == axis else 0 for i in range(x.rank))
    steps = tuple(step if i == axis else 1 for i in range(x.rank))
    return x.with_value(b.emit(Slice, x=x.value, shape=shape, begin=begins, step=steps))


@lowers(aten.select.int)
def select(b: Builder, x: Placed, dim: int, index: int) -> Placed:
    start = index % x.shape[dim]
    return squeeze(b, slice_tensor(b, x, dim, start, start + 1), [dim])


@lowers(aten.split.Tensor)
def split(b: Builder, x: Placed, split_size: int, dim: int = 0) -> list[Placed]:
    size = x.shape[dim]
    return [slice_tensor(b, x, dim, i, min(i + split_size, size)) for i in range(0, size, split_size)]


@lowers(aten.split_with_sizes.default)
def split_with_sizes(b: Builder, x: Placed, split_sizes: Sequence[int], dim: int = 0) -> list[Placed]:
    ends = np.cumsum(split_sizes).tolist()
    return [slice_tensor(b, x, dim, end - size, end) for size, end in zip(split_sizes, ends, strict=True)]


@lowers(aten.chunk.default)
def chunk(b: Builder, x: Placed, chunks: int, dim: int = 0) -> list[Placed]:
    return split(b, x, -(-x.shape[dim] // chunks), dim)


@lowers(aten.constant_pad_nd.default)
def constant_pad_nd(b: Builder, x: Placed, pad: Sequence[int], value: float = 0) -> Placed:
    """The list goes from the last logical axis backwards; negative numbers crop."""
    before, after = [0] * x.rank, [0] * x.rank
    for i in range(len(pad) // 2):
        logical = x.rank - 1 - i
        first, last = pad[2 * i], pad[2 * i + 1]
        x = slice_tensor(b, x, logical, max(-first, 0), x.shape[logical] - max(-last, 0))
        before[x.axis(logical)], after[x.axis(logical)] = max(first, 0), max(last, 0)
    if not any((*before, *after)):
        return x
    return x.with_value(b.emit(Pad, x=x.value, before=tuple(before), after=tuple(after), value=float(value)))


@lowers(aten.pad.default)
def pad(
    b: Builder, x: Placed, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Placed:
    if mode != "constant":
        raise refuse(f"pad with mode {mode!r} is not supported", "pad: the mode is constant", mode)
    return constant_pad_nd(b, x, pad, value or 0)


@lowers(aten.permute.default)
def permute(b: Builder, x: Placed, dims: Sequence[int]) -> Placed:
    return x.permuted(dims)


@lowers(aten.transpose.int)
def transpose(b: Builder, x: Placed, dim0: int, dim1: int) -> Placed:
    axes = list(range(x.rank))
    axes[dim0], axes[dim1] = axes[dim1], axes[dim0]
    return x.permuted(axes)


@lowers(aten.t.default, aten.numpy_T.default)
def t(b: Builder, x: Placed) -> Placed:
    return x.permuted(range(x.rank)[::-1])


@lowers(aten.view.default, aten.reshape.default, aten._unsafe_view.default)
def reshape(b: Builder, x: Placed, size: Sequence[int]) -> Placed:
    known = math.prod(s for s in size if s != -1)
    return view(b, x, tuple(s if s != -1 else x.value.type.elements // max(known, 1) for s in size))


@lowers(aten.flatten.using_ints)
def flatten(b: Builder, x: Placed, start_dim: int = 0, end_dim: int = -1) -> Placed:
    start, end = start_dim % x.rank, end_dim % x.rank
    return view(b, x, (*x.shape[:start], math.prod(x.shape[start : end + 1]), *x.shape[end + 1 :]))


@lowers(aten.unflatten.int)
def unflatten(b: Builder, x: Placed, dim: int, sizes: Sequence[int]) -> Placed:
    axis = dim % x.rank
    known = math.prod(s for s in sizes if s != -1)
    filled = [s if s != -1 else x.shape[axis] // known for s in sizes]
    return view(b, x, (*x.shape[:axis], *filled, *x.shape[axis + 1 :]))


@lowers(aten.squeeze.default)
def squeeze_all(b: Builder, x: Placed) -> Placed:
    return view(b, x, tuple(size for size in x.shape if size != 1))


@lowers(aten.squeeze.dim, aten.squeeze.dims)
def squeeze(b: Builder, x: Placed, dim: int | Sequence[int]) -> Placed:
    axes = {d % x.rank for d in ([dim] if isinstance(dim, int) else dim)}
    return view(b, x, tuple(size for axis, size in enumerate(x.shape) if axis not in axes or size != 1))


@lowers(aten.unsqueeze.default)
def unsqueeze(b: Builder, x: Placed, dim: int) -> Placed:
    shape = list(x.shape)
    shape.insert(dim % (x.rank + 1), 1)
    return view(b, x, tuple(shape))


@lowers(aten.expand.default)
def expand(b: Builder, x: Placed, size: Sequence[int], *, implicit: bool = False) -> Placed:
    """Only where nothing is repeated: the ops broadcast by themselves."""
    extra = len(size) - x.rank
    wanted = tuple(x.shape[i - extra] if s == -1 else s for i, s in enumerate(size))
    if math.prod(wanted) != x.value.type.elements:
        raise refuse(
            "expand that repeats elements is not supported",
            "expand: the number of elements stays",
            f"{list(x.shape)} to {list(wanted)}",
            "leave the broadcast to the operator that reads it",
        )
    return view(b, x, wanted)


@lowers(
    aten.clone.default,
    aten.contiguous.default,
    aten.detach.default,
    aten.alias.default,
    aten.lift_fresh_copy.default,
    aten.dropout.default,
    aten.feature_dropout.default,
)
def identity(b: Builder, x: Placed, *_: Any, **__: Any) -> Placed:
    return x


@lowers(aten.to.dtype, aten._to_copy.default)
def to(b: Builder, x: Placed, dtype: Any = torch.float32, *_: Any, **__: Any) -> Placed:
    if dtype is not torch.float32:
        raise refuse("a change of number format inside the model is not supported", "to: float32", dtype)
    return x


@lowers(operator.getitem)
def getitem(b: Builder, parts: Sequence[Placed] | Placed, index: int) -> Placed:
    if isinstance(parts, Placed):
        if index != 0:
            raise refuse(
                "the indices of a maximum are not supported",
                "max_pool2d, max, min: only the values are used",
                f"output {index}",
            )
        return parts
    return parts[index]

# SPDX-License-Identifier: Apache-2.0
"""Lists the ONNX operators that are read, each as calls of PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from pillion.importers.torch.onnx import windows
from pillion.importers.torch.onnx.reading import Operator, UnreadableOperator, bounded
from pillion.importers.torch.onnx.recurrent import CELLS, recurrent, recurrent_operands
from pillion.importers.torch.quantize.quantized_program import PER_CHANNEL, PER_TENSOR


def _gemm(op: Operator, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    a = a.t() if op.get("transA", 0) else a
    weight = b if op.get("transB", 0) else b.t()
    alpha, beta = op.get("alpha", 1.0), op.get("beta", 1.0)
    if alpha == 1 and (c is None or (c.ndim == 1 and beta == 1)):
        return F.linear(a, weight, c)
    y = F.linear(a, weight) * alpha
    return y if c is None else y + c * beta


def _softmax(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def call(op: Operator, x: Tensor) -> Tensor:
        if op.opset >= 13:
            return function(x, op.get("axis", -1))
        axis = op.get("axis", 1) % x.ndim
        return function(x.flatten(axis), axis).reshape(x.shape)

    return call


def _reshape(op: Operator, x: Tensor, *_: Any) -> Tensor:
    shape = op.required_numbers(1, "shape")
    keeps_zero = op.get("allowzero", 0)
    return x.reshape([x.shape[i] if n == 0 and not keeps_zero else n for i, n in enumerate(shape)])


def _flatten(op: Operator, x: Tensor) -> Tensor:
    axis = op.get("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


def _squeeze(op: Operator, x: Tensor, *_: Any) -> Tensor:
    axes = op.numbers(1, "axes")
    return x.squeeze() if axes is None else x.squeeze(tuple(axes))


def _unsqueeze(op: Operator, x: Tensor, *_: Any) -> Tensor:
    axes = op.required_numbers(1, "axes")
    for axis in sorted(a % (x.ndim + len(axes)) for a in axes):
        x = x.unsqueeze(axis)
    return x


def _slice(op: Operator, x: Tensor, *_: Any) -> Tensor:
    starts, ends = op.required_numbers(1, "starts"), op.required_numbers(2, "ends")
    axes = op.numbers(3, "axes") or list(range(len(starts)))
    steps = op.numbers(4, "steps") or [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if step < 0:
            backwards = range(*slice(start, end, step).indices(x.shape[axis]))
            x = x.index_select(axis, torch.tensor(list(backwards), dtype=torch.int64))
            continue
        first, last = slice(start, end, step).indices(x.shape[axis])[:2]
        x = (
            x.narrow(axis, first, max(last - first, 0))
            if step == 1
            else torch.ops.aten.slice(x, axis, first, last, step)
        )
    return x


def _split(op: Operator, x: Tensor, *_: Any) -> tuple[Tensor, ...]:
    axis = op.get("axis", 0)
    op.require("num_outputs", op.outputs)
    sizes = op.numbers(1, "split")
    return torch.split(x, sizes or -(-x.shape[axis] // op.outputs), axis)


def _gather(op: Operator, x: Tensor, indices: Tensor) -> Tensor:
    axis = op.get("axis", 0) % x.ndim
    if op.constants[1] is not None and indices.ndim == 0:
        return x.select(axis, op.required_numbers(1, "index")[0])
    is_known = op.constants[1] is not None
    rows = torch.where(indices < 0, indices + x.shape[axis], indices) if is_known else indices
    if axis == 0 and op.constants[0] is not None:
        return F.embedding(rows, x) if x.ndim == 2 else x[rows]
    flat = x.index_select(axis, rows.reshape(-1))
    return flat.reshape([*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]])


def _pad(op: Operator, x: Tensor, *_: Any) -> Tensor:
    pads, mode = op.required_numbers(1, "pads"), op.get("mode", "constant")
    axes = [axis % x.ndim for axis in op.numbers(3, "axes") or range(x.ndim)]
    pairs = dict(zip(axes, zip(pads[: len(axes)], pads[len(axes) :], strict=True), strict=True))
    ordered = [pairs.get(axis, (0, 0)) for axis in range(x.ndim)]
    bounded([max(n + a + b, 0) for n, (a, b) in zip(x.shape, ordered, strict=True)])
    flat = [n for pair in reversed(ordered) for n in pair]
    value = (op.numbers(2, "value") or [0.0])[0]
    if mode == "constant":
        return F.pad(x, flat, value=float(value))
    while len(flat) > 2 and flat[-2:] == [0, 0]:
        flat = flat[:-2]
    return F.pad(x, flat, mode={"edge": "replicate", "wrap": "circular"}.get(mode, mode))


def _reduce(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def call(op: Operator, x: Tensor, *_: Any) -> Tensor:
        axes, keeps = op.numbers(1, "axes"), bool(op.get("keepdims", 1))
        if op.get("noop_with_empty_axes", 0) and not axes:
            raise UnreadableOperator("noop_with_empty_axes is 1, without axes")
        return function(x, axes or list(range(x.ndim)), keeps)

    return call


def _l2_norm(x: Tensor, axes: list[int], keeps: bool) -> Tensor:
    return torch.sqrt(torch.sum(x * x, axes, keeps))


def _arg(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def call(op: Operator, x: Tensor) -> Tensor:
        op.require("select_last_index", 0)
        return function(x, op.get("axis", 0), bool(op.get("keepdims", 1)))

    return call


def _top_k(op: Operator, x: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    largest, in_order = bool(op.get("largest", 1)), bool(op.get("sorted", 1))
    return torch.topk(x, op.required_numbers(1, "k")[0], op.get("axis", -1), largest, in_order)


def _batch_norm(op: Operator, x: Tensor, w: Tensor, b: Tensor, mean: Tensor, var: Tensor) -> Tensor:
    op.get("momentum")
    op.require("training_mode", 0)
    op.require("spatial", 1)
    return F.batch_norm(x, mean, var, w, b, eps=op.get("epsilon", 1e-5))


def _layer_norm(op: Operator, x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
    op.require("stash_type", 1)
    return F.layer_norm(x, list(x.shape[op.get("axis", -1) % x.ndim :]), w, b, op.get("epsilon", 1e-5))


def _rms_norm(op: Operator, x: Tensor, w: Tensor) -> Tensor:
    op.require("stash_type", 1)
    return F.rms_norm(x, list(x.shape[op.get("axis", -1) % x.ndim :]), w, op.get("epsilon", 1e-5))


def _group_norm(op: Operator, x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    op.require("stash_type", 1)
    if op.opset < 21:
        raise UnreadableOperator("before opset 21, its weights are those of groups")
    return F.group_norm(x, op.get("num_groups"), w, b, op.get("epsilon", 1e-5))


def _clip(op: Operator, x: Tensor, *bounds: Any) -> Tensor:
    for at, (name, bound) in enumerate((("min", torch.maximum), ("max", torch.minimum)), 1):
        if op.has(at) and op.lists[at] is None:
            x = bound(x, bounds[at - 1])
        elif limit := op.numbers(at, name):
            x = torch.clamp(x, **{name: limit[0]})
    return x


def _dropout(op: Operator, x: Tensor, *_: Any) -> Tensor:
    op.get("seed")
    op.get("ratio")
    if any(op.numbers(2, "training_mode") or ()):
        raise UnreadableOperator("training_mode is true")
    return x


def _shape(op: Operator, x: Tensor) -> Tensor:
    return torch.tensor(list(x.shape)[slice(op.get("start", 0), op.get("end"))], dtype=torch.int64)


def _depth_to_space(op: Operator, x: Tensor) -> Tensor:
    """Moves blocks of channels to rows and columns; `CRD` is PyTorch's order."""
    size = op.get("blocksize")
    batch, channels, height, width = x.shape
    if op.get("mode", "DCR") == "CRD":
        return F.pixel_shuffle(x, size)
    blocks = x.reshape(batch, size, size, channels // size**2, height, width)
    return blocks.permute(0, 3, 4, 1, 5, 2).reshape(batch, -1, height * size, width * size)


def _space_to_depth(op: Operator, x: Tensor) -> Tensor:
    size = op.get("blocksize")
    op.require("mode", "DCR")
    batch, channels, height, width = x.shape
    blocks = x.reshape(batch, channels, height // size, size, width // size, size)
    return blocks.permute(0, 3, 5, 1, 2, 4).reshape(batch, -1, height // size, width // size)


def _tile(op: Operator, x: Tensor, *_: Any) -> Tensor:
    repeats = op.required_numbers(1, "repeats")
    bounded([n * count for n, count in zip(x.shape, repeats, strict=True)])
    return x.repeat(repeats)


def _expand(op: Operator, x: Tensor, *_: Any) -> Tensor:
    shape = bounded(op.required_numbers(1, "shape"))
    return x.expand(torch.broadcast_shapes(x.shape, shape))  # type: ignore[no-untyped-call]


CAST_TYPES = {
    **{1: torch.float32, 2: torch.uint8, 3: torch.int8, 5: torch.int16, 6: torch.int32, 7: torch.int64},
    **{9: torch.bool, 10: torch.float16, 11: torch.float64},
}
"""Element types by ONNX's number."""


def _cast(op: Operator, x: Tensor) -> Tensor:
    op.get("saturate")  # these are of floats of 8 bits
    op.get("round_mode")
    if (to := op.get("to")) not in CAST_TYPES:
        raise UnreadableOperator(f"element type {to} of ONNX")
    return x.to(CAST_TYPES[to])


def _range(op: Operator, *_: Any) -> Tensor:
    start, end, step = (op.required_numbers(i, name)[0] for i, name in enumerate(("start", "limit", "delta")))
    bounded([max(math.ceil((end - start) / step), 0)])
    kind = op.constants[0].dtype if op.constants[0] is not None else None
    return torch.arange(start, end, step, dtype=kind)


def int8_operands(op: Operator, x: Tensor) -> list[str | Tensor]:
    """Returns the operands of a conversion as int8: uint8 is int8 shifted by 128."""
    del x
    scale, zero, known = op.constants[1], (*op.constants, None)[2], op.constants[0]
    if scale is None or (zero is None and op.has(2)) or op.get("block_size", 0):
        raise UnreadableOperator("scales and zero points must be constant, for a tensor or a channel")
    op.require("output_dtype", 0, 2, 3)
    op.require("precision", 0, 1)
    op.require("saturate", 1)
    if zero is None:
        zero = torch.zeros_like(scale, dtype=_type_without_zero_point(op, known))
    if zero.dtype not in (torch.int8, torch.uint8):
        raise UnreadableOperator(f"{str(zero.dtype).removeprefix('torch.')}: integers are int8 or uint8")
    shift = 128 if zero.dtype == torch.uint8 else 0
    if known is not None and known.dtype == torch.uint8:
        known = (known.to(torch.int16) - 128).to(torch.int8)
    return [op.names[0] if known is None else known, scale, zero.to(torch.int64) - shift]


def _type_without_zero_point(op: Operator, known: Tensor | None) -> torch.dtype:
    """Returns the integers of a conversion whose zero point, 0, is left out."""
    if op.kind == "QuantizeLinear":
        return torch.int8 if op.get("output_dtype", 0) == 3 else torch.uint8
    if known is None:
        raise UnreadableOperator("a computed operand without a zero point may be int8 or uint8")
    return known.dtype


def _conversion(tensor: Callable[..., Tensor], channel: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def call(op: Operator, x: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
        axis = op.get("axis", 1)
        if scale.numel() == 1:
            numbers = (op.required_numbers(1, "scale")[0], op.required_numbers(2, "zero point")[0])
            return tensor(x, *numbers, -128, 127, torch.int8)
        return channel(x, scale, zero, axis % x.ndim, -128, 127, torch.int8)

    return call


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda op, *operands: function(*operands)


def _folded(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def call(op: Operator, x: Tensor, *more: Tensor) -> Tensor:
        for other in more:
            x = function(x, other)
        return x

    return call


def _divide(op: Operator, a: Tensor, b: Tensor) -> Tensor:
    return a / b if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc")


def _celu(op: Operator, x: Tensor) -> Tensor:
    return F.celu(x, op.get("alpha", 1.0))


def _selu(op: Operator, x: Tensor) -> Tensor:
    alpha, gamma = op.get("alpha", 1.67326319217681884765625), op.get("gamma", 1.05070102214813232421875)
    return gamma * F.elu(x, alpha)


OPERATORS: Mapping[str, Callable[..., Any]] = {
    "Conv": windows.conv,
    "ConvTranspose": windows.conv_transpose,
    "Gemm": _gemm,
    "MatMul": _plain(torch.matmul),
    "MaxPool": windows.max_pool,
    "AveragePool": windows.average_pool,
    "GlobalAveragePool": _plain(lambda x: x.mean(list(range(2, x.ndim)), keepdim=True)),
    "GlobalMaxPool": _plain(lambda x: x.amax(list(range(2, x.ndim)), keepdim=True)),
    **dict.fromkeys(CELLS, recurrent),
    "BatchNormalization": _batch_norm,
    "InstanceNormalization": lambda op, x, w, b: F.instance_norm(
        x, None, None, w, b, eps=op.get("epsilon", 1e-5)
    ),
    "LayerNormalization": _layer_norm,
    "GroupNormalization": _group_norm,
    "RMSNormalization": _rms_norm,
    "LRN": windows.local_response,
    "LpNormalization": lambda op, x: F.normalize(x, op.get("p", 2), op.get("axis", -1)),
    "Add": _plain(torch.add),
    "Sub": _plain(torch.sub),
    "Mul": _plain(torch.mul),
    "Div": _divide,
    "Pow": _plain(torch.pow),
    "Sum": _folded(torch.add),
    "Mean": lambda op, *xs: _folded(torch.add)(op, *xs) / len(xs),
    "Min": _folded(torch.minimum),
    "Max": _folded(torch.maximum),
    "Relu": _plain(F.relu),
    "LeakyRelu": lambda op, x: F.leaky_relu(x, op.get("alpha", 0.01)),
    "PRelu": lambda op, x, w: (
        F.prelu(x, w.reshape(-1))
        if w.numel() == 1 or (w.ndim == x.ndim - 1 and w.shape[0] == w.numel() == x.shape[1])
        else torch.where(x < 0, x * w, x)
    ),
    "Elu": lambda op, x: F.elu(x, op.get("alpha", 1.0)),
    "Celu": _celu,
    "Selu": _selu,
    "Gelu": lambda op, x: F.gelu(x, approximate=op.get("approximate", "none")),
    "HardSigmoid": lambda op, x: (x * op.get("alpha", 0.2) + op.get("beta", 0.5)).clamp(0.0, 1.0),
    "HardSwish": _plain(F.hardswish),
    "Swish": lambda op, x: x * torch.sigmoid(x * op.get("alpha", 1.0)),
    "Mish": _plain(F.mish),
    "Softplus": _plain(F.softplus),
    "Softsign": _plain(F.softsign),
    "Sigmoid": _plain(torch.sigmoid),
    "Tanh": _plain(torch.tanh),
    "Erf": _plain(torch.erf),
    "Exp": _plain(torch.exp),
    "Log": _plain(torch.log),
    "Sqrt": _plain(torch.sqrt),
    "Sin": _plain(torch.sin),
    "Cos": _plain(torch.cos),
    "Abs": _plain(torch.abs),
    "Neg": _plain(torch.neg),
    "Sign": _plain(torch.sign),
    "Floor": _plain(torch.floor),
    "Ceil": _plain(torch.ceil),
    "Round": _plain(torch.round),
    "Reciprocal": _plain(torch.reciprocal),
    "Clip": _clip,
    "Softmax": _softmax(torch.softmax),
    "LogSoftmax": _softmax(torch.log_softmax),
    "ReduceMean": _reduce(torch.mean),
    "ReduceSum": _reduce(torch.sum),
    "ReduceMax": _reduce(torch.amax),
    "ReduceMin": _reduce(torch.amin),
    "ReduceL1": _reduce(lambda x, axes, keeps: torch.sum(torch.abs(x), axes, keeps)),
    "ReduceL2": _reduce(_l2_norm),
    "ReduceSumSquare": _reduce(lambda x, axes, keeps: torch.sum(x * x, axes, keeps)),
    "ReduceLogSum": _reduce(lambda x, axes, keeps: torch.log(torch.sum(x, axes, keeps))),
    "ReduceLogSumExp": _reduce(torch.logsumexp),
    "ArgMax": _arg(torch.argmax),
    "ArgMin": _arg(torch.argmin),
    "TopK": _top_k,
    "Concat": lambda op, *xs: torch.cat(xs, op.get("axis")),
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Transpose": lambda op, x: x.permute(op.get("perm", list(reversed(range(x.ndim))))),
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Slice": _slice,
    "Split": _split,
    "Gather": _gather,
    "Tile": _tile,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
    "Pad": _pad,
    "Resize": windows.resize,
    "Upsample": windows.resize,
    "Expand": _expand,
    "Where": _plain(torch.where),
    "Equal": _plain(torch.eq),
    "Greater": _plain(torch.gt),
    "GreaterOrEqual": _plain(torch.ge),
    "Less": _plain(torch.lt),
    "LessOrEqual": _plain(torch.le),
    "And": _plain(torch.logical_and),
    "Or": _plain(torch.logical_or),
    "Xor": _plain(torch.logical_xor),
    "Not": _plain(torch.logical_not),
    "Identity": _plain(lambda x: x),
    "Dropout": _dropout,
    "Shape": _shape,
    "Size": _plain(lambda x: torch.tensor(x.numel())),
    "Range": _range,
    "Cast": _cast,
    "CastLike": _plain(lambda x, like: x.to(like.dtype)),
    "QuantizeLinear": _conversion(PER_TENSOR.quantize, PER_CHANNEL.quantize),
    "DequantizeLinear": _conversion(PER_TENSOR.dequantize, PER_CHANNEL.dequantize),
}
"""How each operator is computed: a function of the operator and its operands."""

PREPARED: Mapping[str, Callable[[Operator, Tensor], list[str | Tensor]]] = {
    **dict.fromkeys(CELLS, recurrent_operands),
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), int8_operands),
}
"""Operators whose constants take another form when the file is read: the operands that they then have."""

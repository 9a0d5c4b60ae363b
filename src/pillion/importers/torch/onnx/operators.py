# SPDX-License-Identifier: Apache-2.0
"""Lists the ONNX operators that are read, each as calls of PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from pillion.importers.torch.quantize.quantized_program import PER_CHANNEL, PER_TENSOR

MOST_ELEMENTS = 1 << 28
"""Limit of the elements of a tensor, so that a small file cannot ask for more memory than there is."""


class UnreadableOperator(Exception):
    """Says why one operator of a file cannot be read."""


@dataclass(frozen=True)
class Operator:
    """An ONNX operator: its attributes, and its operands that are known when the file is read."""

    kind: str
    attributes: Mapping[str, Any]
    constants: tuple[Tensor | None, ...]
    lists: tuple[list[Any] | None, ...]
    """The elements of small constants."""
    opset: int
    outputs: int

    def get(self, name: str, default: Any = None) -> Any:
        """Returns an attribute."""
        return self.attributes.get(name, default)

    def numbers(self, index: int, name: str) -> list[Any] | None:
        """Returns numbers that are an operand in newer opsets and an attribute in older ones; None if absent."""
        if index < len(self.lists) and (found := self.lists[index]) is not None:
            return found
        value = self.get(name)
        return value if value is None or isinstance(value, list) else [value]

    def require(self, index: int, name: str) -> list[Any]:
        """Returns numbers that must be known."""
        found = self.numbers(index, name)
        if found is None:
            raise UnreadableOperator(f"its {name} must be constant")
        return found


def bounded(shape: Sequence[int]) -> list[int]:
    """Returns a shape whose number of elements is within the limit."""
    if any(size < 0 for size in shape) or math.prod(shape) > MOST_ELEMENTS:
        raise UnreadableOperator(f"shape {list(shape)} passes {MOST_ELEMENTS:,} elements")
    return list(shape)


def _window_padding(op: Operator, x: Tensor, kernel: Sequence[int]) -> list[tuple[int, int]]:
    """Returns the padding before and after each spatial axis."""
    n, mode = len(kernel), op.get("auto_pad", "NOTSET")
    if mode in ("NOTSET", "VALID"):
        pads = op.get("pads", [0] * 2 * n) if mode == "NOTSET" else [0] * 2 * n
        return list(zip(pads[:n], pads[n:], strict=True))
    strides, dilations = op.get("strides", [1] * n), op.get("dilations", [1] * n)
    pairs = []
    for size, k, stride, dilation in zip(x.shape[2:], kernel, strides, dilations, strict=True):
        total = max((-(-size // stride) - 1) * stride + (k - 1) * dilation + 1 - size, 0)
        small = total // 2
        pairs.append((small, total - small) if mode == "SAME_UPPER" else (total - small, small))
    return pairs


def _padded(op: Operator, x: Tensor, kernel: Sequence[int], value: float) -> tuple[Tensor, list[int]]:
    """Returns an operand, padded where the two sides differ, and the padding left to the layer."""
    pairs = _window_padding(op, x, kernel)
    if all(a == b for a, b in pairs):
        return x, [a for a, _ in pairs]
    return F.pad(x, [n for pair in reversed(pairs) for n in pair], value=value), [0] * len(pairs)


def _by_rank(name: str, rank: int) -> Callable[..., Tensor]:
    if rank not in (1, 2, 3):
        raise UnreadableOperator(f"{rank} spatial axes")
    return getattr(F, f"{name}{rank}d")


def _conv(op: Operator, x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
    n = w.ndim - 2
    x, padding = _padded(op, x, w.shape[2:], 0.0)
    strides, dilations = op.get("strides", [1] * n), op.get("dilations", [1] * n)
    return _by_rank("conv", n)(x, w, bias, strides, padding, dilations, op.get("group", 1))


def _conv_transpose(op: Operator, x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
    n = w.ndim - 2
    pads = op.get("pads", [0] * 2 * n)
    if op.get("auto_pad", "NOTSET") != "NOTSET" or pads[:n] != pads[n:] or op.get("output_shape"):
        raise UnreadableOperator("auto_pad, output_shape or a padding that differs at both ends")
    more, dilations = op.get("output_padding", [0] * n), op.get("dilations", [1] * n)
    strides, group = op.get("strides", [1] * n), op.get("group", 1)
    return _by_rank("conv_transpose", n)(x, w, bias, strides, pads[:n], more, group, dilations)


def _max_pool(op: Operator, x: Tensor) -> Tensor:
    kernel = op.get("kernel_shape")
    n = len(kernel)
    if op.outputs > 1:
        raise UnreadableOperator("its indices are an output")
    x, padding = _padded(op, x, kernel, -math.inf)
    strides, dilations = op.get("strides", [1] * n), op.get("dilations", [1] * n)
    return _by_rank("max_pool", n)(x, kernel, strides, padding, dilations, bool(op.get("ceil_mode", 0)))


def _average_pool(op: Operator, x: Tensor) -> Tensor:
    kernel = op.get("kernel_shape")
    n, counts = len(kernel), bool(op.get("count_include_pad", 0))
    pairs = _window_padding(op, x, kernel)
    if any(a != b for a, b in pairs) and not counts:
        raise UnreadableOperator("its padding differs at both ends, and is not counted")
    x, padding = _padded(op, x, kernel, 0.0)
    return _by_rank("avg_pool", n)(
        x, kernel, op.get("strides", [1] * n), padding, bool(op.get("ceil_mode", 0)), counts
    )


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
    shape = op.require(1, "shape")
    keeps_zero = op.get("allowzero", 0)
    return x.reshape([x.shape[i] if n == 0 and not keeps_zero else n for i, n in enumerate(shape)])


def _flatten(op: Operator, x: Tensor) -> Tensor:
    axis = op.get("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape(math.prod(x.shape[:axis]), -1)


def _squeeze(op: Operator, x: Tensor, *_: Any) -> Tensor:
    axes = op.numbers(1, "axes")
    return x.squeeze() if axes is None else x.squeeze(tuple(axes))


def _unsqueeze(op: Operator, x: Tensor, *_: Any) -> Tensor:
    axes = op.require(1, "axes")
    for axis in sorted(a % (x.ndim + len(axes)) for a in axes):
        x = x.unsqueeze(axis)
    return x


def _slice(op: Operator, x: Tensor, *_: Any) -> Tensor:
    starts, ends = op.require(1, "starts"), op.require(2, "ends")
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
    sizes = op.numbers(1, "split")
    return torch.split(x, sizes or -(-x.shape[axis] // op.outputs), axis)


def _gather(op: Operator, x: Tensor, indices: Tensor) -> Tensor:
    axis = op.get("axis", 0) % x.ndim
    if op.constants[1] is not None and indices.ndim == 0:
        return x.select(axis, op.require(1, "index")[0])
    rows = torch.where(indices < 0, indices + x.shape[axis], indices)
    flat = x.index_select(axis, rows.reshape(-1))
    return flat.reshape([*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]])


def _pad(op: Operator, x: Tensor, *_: Any) -> Tensor:
    pads, mode = op.require(1, "pads"), op.get("mode", "constant")
    if op.numbers(3, "axes") is not None:
        raise UnreadableOperator("it names axes")
    bounded([n + pads[i] + pads[i + x.ndim] for i, n in enumerate(x.shape)])
    flat = [n for i in reversed(range(x.ndim)) for n in (pads[i], pads[i + x.ndim])]
    if mode == "constant":
        return F.pad(x, flat, value=float((op.numbers(2, "value") or [0.0])[0]))
    while len(flat) > 2 and flat[-2:] == [0, 0]:
        flat = flat[:-2]
    return F.pad(x, flat, mode={"edge": "replicate"}.get(mode, mode))


def _reduce(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def call(op: Operator, x: Tensor, *_: Any) -> Tensor:
        axes = op.numbers(1, "axes")
        if not axes and op.get("noop_with_empty_axes", 0):
            return x
        return function(x, axes or list(range(x.ndim)), bool(op.get("keepdims", 1)))

    return call


def _batch_norm(op: Operator, x: Tensor, w: Tensor, b: Tensor, mean: Tensor, var: Tensor) -> Tensor:
    return F.batch_norm(x, mean, var, w, b, eps=op.get("epsilon", 1e-5))


def _layer_norm(op: Operator, x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
    return F.layer_norm(x, list(x.shape[op.get("axis", -1) % x.ndim :]), w, b, op.get("epsilon", 1e-5))


def _clip(op: Operator, x: Tensor, *_: Any) -> Tensor:
    low, high = op.numbers(1, "min"), op.numbers(2, "max")
    if low is high is None:
        return x
    return torch.clamp(x, low[0] if low else None, high[0] if high else None)


def _resize(op: Operator, x: Tensor, *_: Any) -> Tensor:
    mode, where = op.get("mode", "nearest"), op.get("coordinate_transformation_mode", "half_pixel")
    size, scales = op.numbers(3, "sizes"), op.numbers(2, "scales")
    size = size or [int(n * s) for n, s in zip(x.shape, scales or [1.0] * x.ndim, strict=True)]
    bounded(size)
    if op.opset < 11 or x.ndim != 4 or list(x.shape[:2]) != size[:2] or op.get("axes"):
        raise UnreadableOperator("it resizes other axes than the last two of four")
    if (
        mode == "nearest"
        and where == "asymmetric"
        and op.get("nearest_mode", "round_prefer_floor") == "floor"
    ):
        return F.interpolate(x, size[2:], mode="nearest")
    if mode == "linear" and where in ("half_pixel", "pytorch_half_pixel", "align_corners"):
        return F.interpolate(x, size[2:], mode="bilinear", align_corners=where == "align_corners")
    raise UnreadableOperator(f"mode {mode} with {where}")


def int8_operands(op: Operator) -> tuple[Tensor, Tensor, Tensor | None]:
    """Returns scale, zero point and constant operand of a conversion as int8: uint8 is int8 shifted by 128."""
    scale, zero, x = op.constants[1], (*op.constants, None)[2], op.constants[0]
    if scale is None or (zero is None and len(op.constants) > 2) or op.get("block_size", 0):
        raise UnreadableOperator("scales and zero points must be constant, for a tensor or a channel")
    zero = torch.zeros_like(scale, dtype=torch.uint8) if zero is None else zero
    if zero.dtype not in (torch.int8, torch.uint8):
        raise UnreadableOperator(f"{str(zero.dtype).removeprefix('torch.')}: integers are int8 or uint8")
    shift = 128 if zero.dtype == torch.uint8 else 0
    if x is not None and x.dtype == torch.uint8:
        x = (x.to(torch.int16) - 128).to(torch.int8)
    return scale, zero.to(torch.int64) - shift, x


def _conversion(tensor: Callable[..., Tensor], channel: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def call(op: Operator, x: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
        if scale.numel() == 1:
            numbers = (op.require(1, "scale")[0], op.require(2, "zero point")[0])
            return tensor(x, *numbers, -128, 127, torch.int8)
        return channel(x, scale, zero, op.get("axis", 1) % x.ndim, -128, 127, torch.int8)

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


OPERATORS: Mapping[str, Callable[..., Any]] = {
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Gemm": _gemm,
    "MatMul": _plain(torch.matmul),
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "GlobalAveragePool": _plain(lambda x: x.mean(list(range(2, x.ndim)), keepdim=True)),
    "GlobalMaxPool": _plain(lambda x: x.amax(list(range(2, x.ndim)), keepdim=True)),
    "BatchNormalization": _batch_norm,
    "LayerNormalization": _layer_norm,
    "Add": _plain(torch.add),
    "Sub": _plain(torch.sub),
    "Mul": _plain(torch.mul),
    "Div": _divide,
    "Pow": _plain(torch.pow),
    "Min": _folded(torch.minimum),
    "Max": _folded(torch.maximum),
    "Relu": _plain(F.relu),
    "LeakyRelu": lambda op, x: F.leaky_relu(x, op.get("alpha", 0.01)),
    "PRelu": _plain(lambda x, w: F.prelu(x, w.reshape(-1))),
    "Elu": lambda op, x: F.elu(x, op.get("alpha", 1.0)),
    "Gelu": lambda op, x: F.gelu(x, approximate=op.get("approximate", "none")),
    "HardSigmoid": lambda op, x: (x * op.get("alpha", 0.2) + op.get("beta", 0.5)).clamp(0.0, 1.0),
    "HardSwish": _plain(F.hardswish),
    "Softplus": _plain(F.softplus),
    "Sigmoid": _plain(torch.sigmoid),
    "Tanh": _plain(torch.tanh),
    "Erf": _plain(torch.erf),
    "Exp": _plain(torch.exp),
    "Log": _plain(torch.log),
    "Sqrt": _plain(torch.sqrt),
    "Abs": _plain(torch.abs),
    "Neg": _plain(torch.neg),
    "Reciprocal": _plain(torch.reciprocal),
    "Clip": _clip,
    "Softmax": _softmax(torch.softmax),
    "LogSoftmax": _softmax(torch.log_softmax),
    "ReduceMean": _reduce(torch.mean),
    "ReduceSum": _reduce(torch.sum),
    "ReduceMax": _reduce(torch.amax),
    "ReduceMin": _reduce(torch.amin),
    "Concat": lambda op, *xs: torch.cat(xs, op.get("axis")),
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Transpose": lambda op, x: x.permute(op.get("perm", list(reversed(range(x.ndim))))),
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Slice": _slice,
    "Split": _split,
    "Gather": _gather,
    "Pad": _pad,
    "Resize": _resize,
    "Expand": lambda op, x, *_: x * torch.ones(bounded(op.require(1, "shape")), dtype=x.dtype),
    "Where": _plain(torch.where),
    "Equal": _plain(torch.eq),
    "Greater": _plain(torch.gt),
    "Less": _plain(torch.lt),
    "Identity": _plain(lambda x: x),
    "Dropout": lambda op, x, *_: x,
    "Shape": _plain(lambda x: torch.tensor(list(x.shape))),
    "QuantizeLinear": _conversion(PER_TENSOR.quantize, PER_CHANNEL.quantize),
    "DequantizeLinear": _conversion(PER_TENSOR.dequantize, PER_CHANNEL.dequantize),
}
"""How each operator is computed: a function of the operator and its operands."""

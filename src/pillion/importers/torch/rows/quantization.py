# SPDX-License-Identifier: Apache-2.0
"""Which op of the graph each aten op becomes, and where its operands are. How it is quantized is what the op declares.

These are the canonical forms that `normalize` leaves. An aten op without a row stays in float and is reported."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from pillion.importers.torch.nodes import aten, is_constant, named_argument
from pillion.importers.torch.rows import TABULATED
from pillion.importers.torch.train.simulation import batch_norm
from pillion.ir.op import Op, Quantization
from pillion.ops.conv import Conv2d
from pillion.ops.div import Div
from pillion.ops.elementwise import Add, Maximum, Minimum, Mul, Sub
from pillion.ops.linear import Linear
from pillion.ops.lut import Clamp, Function, Lut
from pillion.ops.matmul import BatchMatmul
from pillion.ops.movement import Concat, Pad, Reshape, Slice, Transpose
from pillion.ops.pool import AvgPool2d, MaxPool2d, Mean
from pillion.ops.prelu import Prelu
from pillion.ops.reduce import ReduceMax, ReduceMin, ReduceSum
from pillion.ops.resize import ResizeBilinear, ResizeNearest
from pillion.ops.softmax import OUTPUT as SOFTMAX_OUTPUT
from pillion.ops.softmax import Softmax
from pillion.ops.transpose_conv import TransposeConv2d

Refusal = Callable[[Node], str]
"""Why a call stays in float; empty if it does not."""


@dataclass(frozen=True)
class Rule:
    """One row: `kind` is the name of the op, positions count the arguments of the aten op."""

    kind: str
    quantization: Quantization = Quantization.OWN
    operands: tuple[int, ...] = (0,)
    weight: int | None = None
    axis: int | None = None
    """Channel axis of the weights; None for one scale."""
    fixed: tuple[float, int] | None = None
    takes_clamp: bool = False
    """A clamp that follows is the op's own output range."""
    function: Function | None = None
    refusal: Refusal = lambda _: ""


def row(op: type[Op], **fields: Any) -> Rule:
    """Makes the rule that the op declares."""
    names = {field.name for field in dataclasses.fields(op)}
    clamps = {"low", "high"} <= names and op.quantization is Quantization.OWN and op is not Clamp
    return Rule(op.kind, op.quantization, takes_clamp=clamps, **fields)


def lut(function: Function, refusal: Refusal = lambda _: "") -> Rule:
    """Makes the rule of a function of one number; some functions fix the scale of their result."""
    fixed = function.fixed_output
    kind = Quantization.OWN if fixed is None else Quantization.FIXED
    return Rule(Lut.kind, kind, fixed=fixed, function=function, refusal=refusal)


def _computed_weights(node: Node) -> str:
    return "" if is_constant(node.args[1]) else "its weights are computed from the input"


def _grouped(check: Refusal) -> Refusal:
    def refusal(node: Node) -> str:
        groups = named_argument(node, "groups")
        return f"a transposed convolution in {groups} groups" if groups != 1 else check(node)

    return refusal


def _pad_mode(node: Node) -> str:
    mode = named_argument(node, "mode")
    return "" if mode == "constant" else f"only constants are padded with, not mode {mode!r}"


def _cast(node: Node) -> str:
    dtype = named_argument(node, "dtype")
    return "" if dtype is None or node.meta["val"].dtype == dtype else f"it casts to {dtype}"


def function_of(node: Node) -> Function | None:
    """Gives the function that a call is; TABLE where its arguments are not those that the function stands for."""
    rule = RULES.get(node.target)
    function = None if rule is None else rule.function
    if function is Function.GELU:
        return Function.GELU_TANH if named_argument(node, "approximate") == "tanh" else function
    if function is Function.ELU:
        return (
            function
            if named_argument(node, "scale") == named_argument(node, "input_scale") == 1
            else Function.TABLE
        )
    if function is Function.SOFTPLUS:
        return function if named_argument(node, "beta") == 1 else Function.TABLE
    return function


BINARY = (0, 1)
RULES: Mapping[Any, Rule] = {
    aten.add.Tensor: row(Add, operands=BINARY),
    aten.amax.default: row(ReduceMax),
    aten.amin.default: row(ReduceMin),
    aten.avg_pool2d.default: row(AvgPool2d),
    aten.bmm.default: row(BatchMatmul, operands=BINARY),
    aten.cat.default: row(Concat),
    aten.clamp.default: row(Clamp),
    aten.conv1d.default: row(Conv2d, weight=1, axis=0, refusal=_computed_weights),
    aten.conv2d.default: row(Conv2d, weight=1, axis=0, refusal=_computed_weights),
    aten.conv_transpose1d.default: row(
        TransposeConv2d, weight=1, axis=1, refusal=_grouped(_computed_weights)
    ),
    aten.conv_transpose2d.input: row(TransposeConv2d, weight=1, axis=1, refusal=_grouped(_computed_weights)),
    aten.div.Tensor: row(Div, operands=BINARY),
    aten.linear.default: row(Linear, weight=1, axis=0, refusal=_computed_weights),
    aten.max_pool2d.default: row(MaxPool2d),
    aten.maximum.default: row(Maximum, operands=BINARY),
    aten.mean.dim: row(Mean, refusal=_cast),
    aten.minimum.default: row(Minimum, operands=BINARY),
    aten.mul.Tensor: row(Mul, operands=BINARY),
    aten.pad.default: row(Pad, refusal=_pad_mode),
    aten.permute.default: row(Transpose),
    aten.prelu.default: row(Prelu, weight=1),
    aten.relu.default: row(Clamp),
    aten.reshape.default: row(Reshape),
    aten.slice.Tensor: row(Slice),
    aten.softmax.int: row(Softmax, fixed=(SOFTMAX_OUTPUT.scale, SOFTMAX_OUTPUT.zero_point), refusal=_cast),
    aten.sub.Tensor: row(Sub, operands=BINARY),
    aten.sum.dim_IntList: row(ReduceSum, refusal=_cast),
    aten.upsample_bilinear2d.vec: row(ResizeBilinear),
    aten.upsample_nearest2d.vec: row(ResizeNearest),
    batch_norm: row(Conv2d),  # only in training: it becomes a depthwise convolution, or goes into a layer
    # Functions of one number.
    aten.abs.default: lut(Function.ABS),
    aten.elu.default: lut(Function.ELU),
    aten.exp.default: lut(Function.EXP),
    aten.gelu.default: lut(Function.GELU),
    aten.hardsigmoid.default: lut(Function.HARDSIGMOID),
    aten.hardswish.default: lut(Function.HARDSWISH),
    aten.leaky_relu.default: lut(Function.LEAKY_RELU),
    aten.log.default: lut(Function.LOG),
    aten.neg.default: lut(Function.NEG),
    aten.reciprocal.default: lut(Function.RECIPROCAL),
    aten.rsqrt.default: lut(Function.RSQRT),
    aten.sigmoid.default: lut(Function.SIGMOID),
    aten.silu.default: lut(Function.SILU),
    aten.softplus.default: lut(Function.SOFTPLUS),
    aten.sqrt.default: lut(Function.SQRT),
    aten.square.default: lut(Function.SQUARE),
    aten.tanh.default: lut(Function.TANH),
    # … and those that torch fills the table for.
    **{target: lut(Function.TABLE) for target in TABULATED},
}

REASONS: Mapping[Any, str] = {
    aten.adaptive_avg_pool2d.default: "its windows differ in size: the output size does not divide the input size",
    aten.embedding.default: "no op looks rows up in a table",
    aten.gru.input: "a loop over time; compile one step of it, nn.GRUCell, with the state as input and output",
    aten.index_select.default: "no op looks rows up in a table",
    aten.lstm.input: "a loop over time; compile one step of it, nn.LSTMCell, with the state as input and output",
    aten.native_batch_norm.default: "it has no running statistics and normalizes by those of the batch",
    aten.scaled_dot_product_attention.default: "its mask is computed as booleans, or it drops out",
    torch.ops.higher_order.wrap_with_autocast: "torch.autocast changes types; export the model without it",
    aten.log_softmax.int: "no int8 form; return the logits, their order is the same",
}
"""Why ops that could have had a row stay in float."""

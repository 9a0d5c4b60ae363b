# SPDX-License-Identifier: Apache-2.0
"""How PyTorch operators are quantized, as declared by their rows (`lowers(…, quantized=…)`) and ops. An operator
without a row stays in float and is reported."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch.fx import Node

from pillion import ops
from pillion.importers.torch.fx_nodes import CLAMPS, named_argument
from pillion.importers.torch.scalar_function import evaluate_steps, operator_of
from pillion.importers.torch.train.batch_norm_calls import batch_norm
from pillion.ir.op import Op, Quantization

Refusal = Callable[[Node], str]
"""Returns why a call stays in float; empty if it does not."""


@dataclass(frozen=True)
class QuantizationRule:
    """Quantization rule of an operator: `kind` names the op, positions count the operator's arguments."""

    kind: str
    quantization: Quantization = Quantization.OWN
    operands: tuple[int, ...] = (0,)
    weight: int | None = None
    axis: int | None = None
    """Channel axis of the weights; None for one scale."""
    fixed: tuple[float, int] | None = None
    takes_clamp: bool = False
    """Whether a clamp that follows becomes the op's output range."""
    function: ops.Function | None = None
    refusal: Refusal = lambda _: ""
    numbers: bool = False
    """Whether operands or results may be integers and booleans, which are not quantized."""
    also: tuple[type[Op], ...] = ()
    """Other ops that the operator may become, depending on its arguments."""


def rule_of_op(op: type[Op], **fields: Any) -> QuantizationRule:
    """Returns the rule that the op declares."""
    names = {field.name for field in dataclasses.fields(op)}
    clamps = {"low", "high"} <= names and op.quantization is Quantization.OWN and op is not ops.Clamp
    return QuantizationRule(op.kind, op.quantization, takes_clamp=clamps, **fields)


def lut(function: ops.Function, refusal: Refusal = lambda _: "") -> QuantizationRule:
    """Returns the rule of a function of one number; some functions fix the scale of their result."""
    fixed = function.fixed_output
    kind = Quantization.OWN if fixed is None else Quantization.FIXED
    return QuantizationRule(ops.Lut.kind, kind, fixed=fixed, function=function, refusal=refusal)


RULES: dict[Any, QuantizationRule] = {
    # Only in training: it becomes a depthwise convolution, or goes into a layer.
    batch_norm: rule_of_op(ops.Conv2d)
}
"""Rules by operator; rows register theirs here."""


def rule_of(node: Node) -> QuantizationRule:
    """Returns the rule of a call with a row. An expression that ends in a sigmoid or tanh has that function's rule."""
    rule = RULES[node.target]
    if node.target is not evaluate_steps:
        return rule
    steps: Any = node.args[1]
    last = RULES.get(operator_of(steps[-1][0]))
    return rule if last is None or last.fixed is None else last


NO_OPERATOR: Mapping[type[Op], str] = {
    ops.Quantize: "the quantizer puts it where int8 begins",
    ops.Dequantize: "the quantizer puts it where int8 ends",
    **dict.fromkeys(
        (ops.LstmCell, ops.LstmOutput, ops.SvdfMemory, ops.SvdfOutput), "files of LiteRT have such layers"
    ),
    ops.Detections: "files of LiteRT end in it",
    ops.SquaredDifference: "files of LiteRT have it; in PyTorch it is a difference and a product",
    ops.L2Normalize: "files of LiteRT have it; in PyTorch F.normalize has finer steps",
    ops.SignalStage: "files of TensorFlow Lite Micro have it",
    **dict.fromkeys((ops.AvgPool2dUp, ops.ResizeBilinearFloat), "files of LiteRT in uint8 round so"),
}
"""Ops that no PyTorch operator becomes, and why."""


def function_of(node: Node) -> ops.Function | None:
    """Returns the function that a call computes; TABLE if its arguments differ from the function's."""
    rule = RULES.get(node.target)
    function = None if rule is None else rule.function
    if function is ops.Function.GELU:
        return ops.Function.GELU_TANH if named_argument(node, "approximate") == "tanh" else function
    if function is ops.Function.ELU:
        return (
            function
            if named_argument(node, "scale") == named_argument(node, "input_scale") == 1
            else ops.Function.TABLE
        )
    if function is ops.Function.SOFTPLUS:
        return function if named_argument(node, "beta") == 1 else ops.Function.TABLE
    return function


def clamps_result(node: Node) -> bool:
    """Whether the op of a call clamps its result, or is a clamp."""
    return node.target in CLAMPS or (node.target in RULES and rule_of(node).takes_clamp)


def moves_numbers(node: Node) -> bool:
    """Whether the result of a call has the numbers of its operands, in the same steps."""
    return node.target in RULES and rule_of(node).quantization is Quantization.SHARED

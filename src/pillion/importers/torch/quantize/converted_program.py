# SPDX-License-Identifier: Apache-2.0
"""Reads programs that torch's pt2e flow (`convert_pt2e`) has converted. Their quantize and dequantize nodes say how
each tensor is quantized; nothing is calibrated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e import ObserverBase
from torchao.quantization.pt2e.fake_quantize import FakeQuantizeBase

from pillion.compile_options import Quantization as QuantizationOptions
from pillion.errors import PillionError, distinct_lines_with_counts
from pillion.importers.torch.conversion_forms import (
    canonicalize_conversions,
    has_other_scale,
    move_constants,
    rescale_pools,
)
from pillion.importers.torch.export import check_examples, export
from pillion.importers.torch.fx_nodes import (
    CLAMPS,
    aten,
    call,
    calls,
    constant_nodes,
    conversion_name,
    is_constant,
    is_tensor,
    operator_name,
    single_user,
    source_line,
)
from pillion.importers.torch.layer_activations import quantize_before_activations
from pillion.importers.torch.quantize.annotate import PICKS, handles_reals, operands_of
from pillion.importers.torch.quantize.quantized_program import PER_TENSOR
from pillion.importers.torch.rewrite.functionalize import is_write, refused_writes
from pillion.importers.torch.rewrite.pipeline import rewrite_for_quantization
from pillion.importers.torch.rows.quantization import RULES
from pillion.importers.torch.rows.refusal_reasons import REASONS
from pillion.importers.torch.train.qat_module import QatModule
from pillion.ir.op import Quantization

ELEMENT_MOVES = (*PICKS, aten.max_pool2d.default, aten.cat.default, aten.pad.default)
"""Calls that return elements of their operands, or a constant: rounding before or after makes no difference."""


AVERAGES = (aten.avg_pool2d.default, aten.upsample_bilinear2d.vec)
"""Computing calls that keep the scale of their operand."""


def is_converted(model: Any) -> bool:
    """Whether a module or exported program has quantize and dequantize nodes."""
    return any(conversion_name(node) for graph in _graphs_of(model) for node in graph.nodes)


def refuse_prepared(model: Any) -> None:
    """Raises if a module still has the observers of `prepare_pt2e`."""
    if isinstance(model, nn.Module) and not isinstance(model, QatModule):
        observers = (
            name
            for graph_module in model.modules()
            if isinstance(graph_module, GraphModule)
            for name, part in graph_module.named_modules()
            if isinstance(part, (ObserverBase, FakeQuantizeBase))
        )
        if (first := next(observers, None)) is not None:
            raise PillionError(
                f"{type(model).__name__} is prepared, and not converted",
                rule="a float model, or what convert_pt2e returns",
                here=f"observer `{first}`",
                help="pillion.compile(convert_pt2e(model), example_inputs, target=…)",
            )


def _graphs_of(model: Any) -> list[Any]:
    if isinstance(model, ExportedProgram):
        return [model.graph]
    parts = model.modules() if isinstance(model, nn.Module) and not isinstance(model, QatModule) else ()
    return [part.graph for part in parts if isinstance(part, GraphModule)]


def refuse_quantization_options(name: str, options: QuantizationOptions) -> None:
    """Raises if options ask for a quantization that the program does not have."""
    asked = ["calibrate"] * (options.calibrate is not None) + list(options.tuning)
    if asked:
        raise PillionError(
            f"`{name}` is quantized already",
            rule="calibration data and tuning (--calibrate, --ranges, --equalize, --no-correct-biases) go with float models",
            here=", ".join(asked),
            help="leave them out, or compile the float model that the program was made from",
        )


def read_converted(model: nn.Module | ExportedProgram, inputs: tuple[Tensor, ...], name: str) -> GraphModule:
    """Returns a converted program in the form of `QuantizedProgram`, with its own scales and zero points."""
    if isinstance(model, ExportedProgram):
        check_examples(model, inputs)
    exported = model if isinstance(model, ExportedProgram) else export(model, inputs)
    module = exported.module(check_guards=False)
    canonicalize_converted(module)
    refuse_float_nodes(module, name)
    return module


def canonicalize_converted(module: GraphModule) -> None:
    """Rewrites a captured converted program in the form of `QuantizedProgram`."""
    canonicalize_conversions(module)
    rewrite_for_quantization(module)
    move_constants(module)
    quantize_before_activations(module)
    _quantize_before_moves(module)
    rescale_pools(module)
    module.graph.eliminate_dead_code()
    module.recompile()


def _quantize_before_moves(module: GraphModule) -> None:
    """Moves the quantization of moved elements ahead of the moves, to the op that computes them."""
    for node in reversed(calls(module.graph, ELEMENT_MOVES)):
        formats = _formats_of_result(node)
        if len(formats) != 1 or None in formats:
            continue
        (parameters,) = formats
        for operand in node.all_input_nodes:
            if not _is_real(operand) and not is_constant(operand):
                integers = call(node, PER_TENSOR.quantize, operand, *parameters)  # type: ignore[misc]  # not None
                node.replace_input_with(operand, call(node, PER_TENSOR.dequantize, integers, *parameters))  # type: ignore[misc]  # not None


def _formats_of_result(node: Node) -> set[tuple[Any, ...] | None]:
    """Returns the parameters with which readers quantize a result; None stands for readers that do not."""
    return {user.args[1:] if conversion_name(user) == "quantize_per_tensor" else None for user in node.users}


def _is_real(node: Node) -> bool:
    """Whether a node gives the real numbers that integers stand for, perhaps moved."""
    while node.target in PICKS:
        node = node.args[0]  # type: ignore[assignment]  # the operand
    return conversion_name(node).startswith("dequantize")


def float_nodes(module: GraphModule) -> Iterator[tuple[Node, str]]:
    """Yields the calls of a canonical program that have no int8 form, each with the reason."""
    constants = constant_nodes(module.graph)
    for node in calls(module.graph):
        if node not in constants and not conversion_name(node):
            reason = "it writes into a tensor that others see" if is_write(node) else _float_reason(node)
            if reason:
                yield node, reason


def refuse_float_nodes(module: GraphModule, name: str) -> None:
    """Raises if calls have no int8 form, with the node and the reason."""
    found = list(float_nodes(module))
    writes = [node for node, _ in found if is_write(node)]
    if writes:
        raise refused_writes([source_line(node) for node in writes], operator_name(writes[0]))
    left = [
        f"{operator_name(node)} `{node.name}`{f' ({line})' if (line := source_line(node)) else ''}: {reason}"
        for node, reason in found
    ]
    if left:
        raise PillionError(
            f"{len(left)} {'node' if len(left) == 1 else 'nodes'} of `{name}` would stay in float",
            rule="every computing node lies between dequantize and quantize; a clamp may follow a layer directly",
            here="\n".join(distinct_lines_with_counts(left)),
            help="let the quantizer annotate these nodes, as pillion.executorch.PillionQuantizer does, or compile the float model with --quantize",
        )


def _float_reason(node: Node) -> str:
    """Returns why a call has no int8 form; empty if it has one."""
    rule = RULES.get(node.target)
    if rule is None:
        return str(REASONS.get(node.target, "no int8 form")) if handles_reals(node) else ""
    refusal = rule.refusal(node)
    if refusal:
        return refusal
    fused = _takes_clamp(node.args[0]) if node.target in CLAMPS else False
    for operand in operands_of(node, rule):
        if is_tensor(operand) and not _is_real(operand) and not fused:
            return f"its operand `{operand.name}` is not quantized"
    weight: Any = None if rule.weight is None else node.args[rule.weight]
    if weight is not None and not _is_real(weight):
        return f"its weights `{weight.name}` are not quantized"
    if weight is not None and conversion_name(weight).endswith("per_tensor") and weight.args[2] != 0:
        return f"its weights have the zero point {weight.args[2]}, and not 0"
    if node.target in AVERAGES and has_other_scale(node):
        return "it keeps the scale of its operand, and its result is quantized with another"
    is_free = rule.quantization is Quantization.SHARED or not is_tensor(node) or _takes_clamp(node)
    return "" if is_free else _result_reason(node)


def _takes_clamp(node: Any) -> bool:
    """Whether a layer's result takes the bounds of the clamp that follows."""
    rule = RULES.get(node.target)
    user = single_user(node)
    return rule is not None and rule.takes_clamp and user is not None and user.target in CLAMPS


def _result_reason(node: Node) -> str:
    """Returns why the integers of a result are not determined; empty if they are."""
    formats = _formats_of_result(node)
    if formats == {None} or not formats:
        return "its result is not quantized"
    if None in formats:
        reader = next(user for user in node.users if not conversion_name(user))
        return f"`{reader.name}` reads its result without rounding, others rounded"
    return "" if len(formats) == 1 else "its result is quantized with several scales"

# SPDX-License-Identifier: Apache-2.0
"""How the tests read a quantized graph."""

from __future__ import annotations

from operator import getitem
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import Node

from pillion.importers.torch import capture
from pillion.importers.torch.fx_nodes import CLAMPS
from pillion.importers.torch.quantize.annotate import handles_reals, operands_of
from pillion.importers.torch.quantize.ptq import ptq
from pillion.importers.torch.quantize.quantized_program import DEQUANTIZE, QUANTIZE, QuantizedProgram
from pillion.importers.torch.rewrite.pipeline import rewrite_for_quantization
from pillion.importers.torch.rows.quantization import RULES
from pillion.ir.constraints import QuantizationConstraints
from pillion.ir.op import Quantization

Parameters = tuple[float, int, int, int]


def random_inputs(*shapes: tuple[int, ...], seed: int = 0) -> tuple[Tensor, ...]:
    source = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(shape, generator=source) for shape in shapes)


def quantized(
    module: nn.Module, *inputs: Tensor, constraints: QuantizationConstraints | None = None
) -> QuantizedProgram:
    """PTQ of a module in eval mode, after its rewriting was shown to leave the results as they were."""
    module.eval()
    check_normalized(module, *inputs)
    program = ptq(module, inputs, calibrate=[inputs], constraints=constraints)
    check_graph(program)
    return program


def check_normalized(module: nn.Module, *inputs: Tensor) -> None:
    """Normalization computes the same numbers as the module."""
    with torch.no_grad():
        want = module(*inputs)
        got = rewrite_for_quantization(capture.export(module, inputs).module(check_guards=False))(*inputs)
    torch.testing.assert_close(got, want, atol=1e-6, rtol=1e-6)  # measured: 2.4e-7


def check_graph(program: QuantizedProgram) -> None:
    """Every call is either listed as float or has the parameters that its rule demands."""
    floats = {op.name for op in program.float_ops}
    for node in program.nodes:
        assert node.op == "output" or node.meta.get("val") is not None, node
        passive = {*QUANTIZE, *DEQUANTIZE, getitem}
        if node.op == "call_function" and node.target not in passive and node.name not in floats:
            assert node.target in RULES or not handles_reals(node), node.format_node()
            if handles_reals(node):
                check_call(node)


def check_call(node: Node) -> None:
    rule = RULES[node.target]
    operands = list(operands_of(node, rule))
    result = result_parameters(node)
    if [o.target for o in operands] != [o.target for o in operands if o.target in DEQUANTIZE]:
        assert node.target in CLAMPS, node.format_node()
        assert RULES[operands[0].target].takes_clamp, node.format_node()
        return
    if rule.quantization is Quantization.SHARED:
        assert {parameters(o) for o in operands} == {result}, node.format_node()
    if rule.fixed is not None:
        assert result is not None
        own_steps = rule.function is not None or (
            node.target == torch.ops.aten.softmax.int and result[1] == rule.fixed[1]
        )
        assert own_steps or result[:2] == rule.fixed, node.format_node()
    if rule.weight is not None:
        weight: Any = node.args[rule.weight]
        assert weight.target in DEQUANTIZE, node.format_node()
        assert rule.axis is None or weight.args[3] == rule.axis, node.format_node()
        assert weight.args[-3:] == (-127, 127, torch.int8)


def parameters(node: Node) -> Parameters:
    """Scale, zero point and range of a quantize or dequantize node (per tensor)."""
    assert node.target in QUANTIZE | DEQUANTIZE, node.format_node()
    return node.args[1:5]  # type: ignore[return-value]  # scale, zero point, range


def result_parameters(node: Node) -> Parameters | None:
    """Those of a call's result; None for a call whose range a clamp holds."""
    users = list(node.users)
    if len(users) == 1 and users[0].target in CLAMPS and RULES[node.target].takes_clamp:
        return None
    found = {parameters(user) for user in users}
    assert len(found) == 1, node.format_node()
    assert all(user.target in QUANTIZE for user in users), node.format_node()
    return found.pop()


def targets(program: QuantizedProgram) -> list[str]:
    """The ops of a graph, without quantize and dequantize."""
    kept = (n for n in program.nodes if n.op == "call_function" and n.target not in QUANTIZE | DEQUANTIZE)
    return [str(n.target).removeprefix("aten.").rpartition(".")[0] for n in kept]


def noise(program: QuantizedProgram, module: nn.Module, *inputs: Tensor) -> float:
    """Root mean square of the error, relative to the result's."""
    with torch.no_grad():
        want = torch.as_tensor(module(*inputs))
        got = program(*inputs)
        got = got[0] if isinstance(got, (tuple, list)) else got
        assert isinstance(got, Tensor)
        return float((got - want).square().mean().sqrt() / want.square().mean().sqrt())

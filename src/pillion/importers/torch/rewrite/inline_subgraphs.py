# SPDX-License-Identifier: Apache-2.0
"""Inlines subgraphs: scopes such as `torch.no_grad()`, and the branches of `torch.cond`."""

from __future__ import annotations

from operator import getitem
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from pillion.errors import PillionError
from pillion.importers.torch import fx_nodes as fx
from pillion.importers.torch.fx_nodes import aten
from pillion.importers.torch.rewrite.functionalize import NO_RESULT
from pillion.importers.torch.rows.refusal_reasons import REASONS

AUTOCAST = torch.ops.higher_order.wrap_with_autocast
SCOPES = (torch.ops.higher_order.wrap_with_set_grad_enabled, AUTOCAST)
COND = torch.ops.higher_order.cond
WHILE_LOOP = torch.ops.higher_order.while_loop


def inline_subgraphs(module: GraphModule) -> None:
    """Inlines scopes and conditions. Computations under `autocast` run in float32; of a computed condition, both
    branches run."""
    if _inline_scopes(module):
        reinfer_types(module)


def _inline_scopes(module: GraphModule) -> bool:
    """Inlines scopes, inner ones first. Returns whether any scope casts."""
    casts = False
    for node in fx.calls(module.graph, [*SCOPES, COND, WHILE_LOOP]):
        if node.target is WHILE_LOOP:
            raise _unsupported_loop_error(node)
        if node.target is COND:
            casts |= _inline_condition(module, node)
            continue
        casts |= node.target is AUTOCAST
        index = next(i for i, a in enumerate(node.args) if isinstance(a, Node) and a.op == "get_attr")
        scope, *inputs = node.args[index:]
        results, inner = _inline_subgraph(module, node, scope, inputs)
        casts |= inner
        replace_results(node, results)
    module.graph.eliminate_dead_code()
    return casts


def _inline_subgraph(module: GraphModule, node: Node, scope: Any, inputs: Any) -> tuple[Any, bool]:
    """Results of an inlined subgraph, and whether it casts."""
    inner: Any = module.get_submodule(str(scope.target))
    casts = _inline_scopes(inner)
    _, results = copy_calls_before(inner, node, list(inputs))
    return results, casts


def _inline_condition(module: GraphModule, node: Node) -> bool:
    """Inlines one branch of a constant condition, or both with a selection between their results. Returns whether
    they cast."""
    condition, *branches, inputs = node.args
    known = _constant_condition(condition)
    if known is not None:
        results, casts = _inline_subgraph(module, node, branches[0 if known else 1], inputs)
        replace_results(node, results)
        return casts
    (first, casts), (second, more) = (_inline_subgraph(module, node, branch, inputs) for branch in branches)
    flag: Any = condition
    if fx.shape_of(flag):
        flag = fx.call(node, aten.reshape.default, flag, [])
    chosen = [fx.call(node, aten.where.self, flag, a, b) for a, b in zip(first, second, strict=True)]
    replace_results(node, chosen)
    return casts or more


def _unsupported_loop_error(node: Node) -> PillionError:
    reason = REASONS[WHILE_LOOP]
    return PillionError(
        f"a loop cannot be compiled: {reason.why}",
        rule="all that runs is known when the program is compiled",
        here=f"torch.while_loop ({fx.source_line(node)})",
        help=f"a loop in Python, of as many steps as there may be, each of which is taken or not: x = {reason.instead}",
    )


def _constant_condition(condition: Any) -> bool | None:
    """Returns the value of a constant condition; None if it is computed."""
    if not isinstance(condition, Node):
        return bool(condition)
    return bool(fx.evaluate_constant(condition)) if fx.is_constant(condition) else None


def reinfer_types(module: GraphModule) -> None:
    """Re-infers the types of all results."""
    for node in fx.calls(module.graph):
        if node.target in NO_RESULT:
            module.graph.erase_node(node)
        else:
            node.meta["val"] = fx.evaluate(module.graph, node.target, node.args, node.kwargs)  # type: ignore[arg-type]  # a call


def copy_calls_before(traced: GraphModule, node: Node, inputs: list[Node]) -> tuple[list[Node], Any]:
    """Copies the calls of a graph in front of a node. Returns the copies and the graph's results."""
    mapping: dict[Node, Node] = dict(zip(traced.graph.find_nodes(op="placeholder"), inputs, strict=True))
    copies = []
    with node.graph.inserting_before(node):
        for old in fx.calls(traced.graph):
            new = node.graph.node_copy(old, lambda n: mapping[n])
            new.meta = {
                "val": fx.fake_result(old),
                **{key: node.meta[key] for key in fx.KEPT_META if key in node.meta},
            }
            mapping[old] = new
            copies.append(new)
    return copies, map_arg(traced.graph.output_node().args[0], lambda n: mapping[n])


def replace_results(node: Node, results: Any) -> None:
    """Redirects readers of a call's results and erases the call."""
    if isinstance(results, Node):
        node.replace_all_uses_with(results)
    else:
        for user in [u for u in node.users if u.target is getitem]:
            user.replace_all_uses_with(results[user.args[1]])
            user.graph.erase_node(user)
    node.graph.erase_node(node)

# SPDX-License-Identifier: Apache-2.0
"""Decomposes operators, so that fewer remain to quantize, import and test.

`decompositions.table.TABLE` maps operators to functions of tensors, which are traced in place of a call.
Operators that torch itself composes (einsum, matmul, hstack …) need no entry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from pillion.importers.torch import fx_nodes as fx
from pillion.importers.torch.fx_nodes import aten
from pillion.importers.torch.rewrite import decompositions, tensor_decompositions  # noqa: F401  # they fill the table
from pillion.importers.torch.rewrite.decompositions.table import LATE, TABLE
from pillion.importers.torch.rewrite.functionalize import DROPOUTS, is_write
from pillion.importers.torch.rewrite.inline_subgraphs import copy_calls_before, replace_results
from pillion.importers.torch.rewrite.norm_calls import OPERATORS
from pillion.importers.torch.rewrite.recurrent import LAYERS
from pillion.importers.torch.rows.quantization import RULES

Traces = dict[Any, GraphModule]
"""Traced decompositions by function and arguments; unrolled loops repeat the same calls."""

KEPT = frozenset(
    {
        *(
            *DROPOUTS,
            *LAYERS,
            *OPERATORS,
            *fx.torch_operators("adaptive_avg_pool2d batch_norm istft stft type_as"),
        ),
        *(aten.stft.center, aten.to.dtype),
    }
)
"""Composite operators that stay whole without a row: later rewrites lower them, or they are refused by the name that the user knows."""


def decompose_late(module: GraphModule) -> bool:
    """Decomposes layers that kernels lack after batch norms were folded. Returns whether there were any."""
    late = [node for node in fx.calls(module.graph, LATE) if LATE[node.target].applies(node)]
    for node in late:
        _inline_trace(node, LATE[node.target].function, {})
    return bool(late)


def decompose(module: GraphModule) -> None:
    """Decomposes calls until none is left to decompose."""
    pending = fx.calls(module.graph)
    traces: Traces = {}
    while pending:
        node = pending.pop()
        function = _decomposition_of(node)
        if function is not None:
            pending += _inline_trace(node, function, traces)
    module.graph.eliminate_dead_code()  # results that nobody asked for, such as the indices of a max pool


def _decomposition_of(node: Node) -> Callable[..., Any] | None:
    target = node.target
    if target in TABLE:
        return TABLE[target].function if TABLE[target].applies(node) else None
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return None
    if target in KEPT or target in RULES or is_write(node):  # a write would go to copies
        return None
    name = target.name()  # type: ignore[no-untyped-call]  # of torch
    composed = torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd")
    return target if composed and fx.fake_result(node) is not None else None


def _inline_trace(node: Node, function: Callable[..., Any], traces: Traces) -> list[Node]:
    """Replaces a call by a trace, and returns the new calls."""
    leaves, nesting = pytree.tree_flatten((node.args, node.kwargs))
    inputs = [leaf for leaf in leaves if isinstance(leaf, Node)]
    key = (function, nesting, tuple(map(_trace_properties, leaves)))
    if key not in traces or node.target in LAYERS:  # each layer is a loop of its own
        traces[key] = _trace_function(node.graph, function, leaves, nesting)
    inlined, results = copy_calls_before(traces[key], node, inputs)
    if [n for n in inlined if n.target is node.target] and len(inlined) == 1:
        for same in inlined:  # torch has nothing simpler for it
            node.graph.erase_node(same)
        return []
    replace_results(node, results)
    unread = set()
    for new in reversed(inlined):
        if not new.users and not new.is_impure():  # such as the indices of a max pool
            unread.add(new)
            new.graph.erase_node(new)
    return [new for new in inlined if new not in unread]


def _trace_function(
    graph: Graph, function: Callable[..., Any], leaves: list[Any], nesting: Any
) -> GraphModule:
    """Traces a function's calls for some arguments."""

    def run(*tensors: Tensor) -> Any:
        rest = iter(tensors)
        args, kwargs = pytree.tree_unflatten(
            [next(rest) if isinstance(x, Node) else x for x in leaves], nesting
        )
        return function(*args, **kwargs)

    with fx.fake_mode(graph), torch.no_grad():
        return make_fx(run)(
            *_detach_repeated([fx.fake_result(leaf) for leaf in leaves if isinstance(leaf, Node)])
        )


def _detach_repeated(values: list[Any]) -> list[Any]:
    """Detaches repeated tensors, because the trace identifies its inputs by identity."""
    seen: dict[int, Any] = {}
    return [
        v.detach() if isinstance(v, Tensor) and seen.setdefault(id(v), i) != i else v
        for i, v in enumerate(values)
    ]


def _trace_properties(leaf: Any) -> Any:
    """Properties of an argument that a trace depends on."""
    if not isinstance(leaf, Node):
        return type(leaf), str(leaf)
    value = fx.fake_result(leaf)
    return (value.dtype, tuple(value.shape), value.stride()) if isinstance(value, Tensor) else leaf

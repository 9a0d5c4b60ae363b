# SPDX-License-Identifier: Apache-2.0
"""Many ways to write one thing become one: fewer ops to quantize, import and test.

`tensor_forms.FORMS` says what an op is made of, as an ordinary function of tensors, which is traced in place of the call. Ops that torch
itself composes of others (einsum, matmul, hstack …) need no entry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from pillion.importers.torch.nodes import (
    aten,
    calls,
    fake_mode,
    value_of,
)
from pillion.importers.torch.rewrite import forms
from pillion.importers.torch.rewrite.functional import DROPOUTS, is_write
from pillion.importers.torch.rewrite.recurrent import LAYERS
from pillion.importers.torch.rewrite.scopes import graft, hand_over
from pillion.importers.torch.rewrite.tensor_forms import CONDITIONS, FORMS

Traces = dict[Any, GraphModule]
"""What calls are made of, by function and arguments: loops that are written out call the same again and again."""

# Composite ops that stay whole: they have a rule of their own, or are listed as float under the name that the user knows.
KEPT = frozenset(
    {
        *DROPOUTS,
        aten.adaptive_avg_pool2d.default,
        aten.batch_norm.default,
        aten.conv1d.default,
        aten.conv2d.default,
        aten.conv3d.default,
        aten.conv_transpose1d.default,
        aten.conv_transpose2d.input,
        aten.conv_transpose3d.input,
        aten.embedding.default,
        aten.group_norm.default,
        aten.instance_norm.default,
        aten.layer_norm.default,
        aten.linear.default,
        aten.log_sigmoid.default,
        aten.log_softmax.int,
        aten.max_pool2d.default,
        aten.pad.default,
        aten.prelu.default,
        aten.reshape.default,
        aten.rms_norm.default,
        aten.selu.default,
        aten.softmax.int,
        aten.square.default,
        aten.to.dtype,
        aten.type_as.default,
        aten._upsample_nearest_exact2d.vec,
        aten.upsample_bilinear2d.vec,
        aten.upsample_nearest2d.vec,
        *LAYERS,
        aten.stft.default,
        aten.stft.center,
        aten.istft.default,
    }
)


def decompose_late(module: GraphModule) -> bool:
    """Replaces layers that kernels lack, once batch norms had their chance to go into them; whether there were any."""
    late = [n for n in calls(module.graph, forms.LATE) if forms.LATE_CONDITIONS[n.target](n)]
    for node in late:
        _inline(node, forms.LATE[node.target], {})
    return bool(late)


def decompose(module: GraphModule) -> None:
    """Replaces calls by what they are made of, until nothing is left to replace."""
    pending = calls(module.graph)
    traces: Traces = {}
    while pending:
        node = pending.pop()
        function = _function(node)
        if function is not None:
            pending += _inline(node, function, traces)
    module.graph.eliminate_dead_code()  # results that nobody asked for, such as the indices of a max pool


def _function(node: Node) -> Callable[..., Any] | None:
    target = node.target
    if target in FORMS:
        return FORMS[target] if target not in CONDITIONS or CONDITIONS[target](node) else None
    if not isinstance(target, torch._ops.OpOverload) or target in KEPT or target.namespace != "aten":
        return None
    if is_write(node):  # what it is made of would write to copies
        return None
    name = target.name()  # type: ignore[no-untyped-call]  # of torch
    composed = torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd")
    return target if composed and value_of(node) is not None else None


def _inline(node: Node, function: Callable[..., Any], traces: Traces) -> list[Node]:
    """Puts the trace of a function in the place of a call; the new calls."""
    leaves, form = pytree.tree_flatten((node.args, node.kwargs))
    inputs = [leaf for leaf in leaves if isinstance(leaf, Node)]
    key = (function, form, tuple(map(_looks, leaves)))
    if key not in traces or node.target in LAYERS:  # each layer is a loop of its own
        traces[key] = _traced(node.graph, function, leaves, form)
    made, results = graft(traces[key], node, inputs)
    if [n for n in made if n.target is node.target] and len(made) == 1:
        for same in made:  # torch has nothing simpler for it
            node.graph.erase_node(same)
        return []
    hand_over(node, results)
    unread = set()
    for new in reversed(made):
        if not new.users and not new.is_impure():  # such as the indices of a max pool
            unread.add(new)
            new.graph.erase_node(new)
    return [new for new in made if new not in unread]


def _traced(graph: Graph, function: Callable[..., Any], leaves: list[Any], form: Any) -> GraphModule:
    """The calls that a function makes of some arguments."""

    def run(*tensors: Tensor) -> Any:
        rest = iter(tensors)
        args, kwargs = pytree.tree_unflatten([next(rest) if isinstance(x, Node) else x for x in leaves], form)
        return function(*args, **kwargs)

    with fake_mode(graph), torch.no_grad():
        return make_fx(run)(*_distinct([value_of(leaf) for leaf in leaves if isinstance(leaf, Node)]))


def _distinct(values: list[Any]) -> list[Any]:
    """The same with a tensor of its own for each: the trace tells its inputs apart by them, and is used for other calls, too."""
    seen: dict[int, Any] = {}
    return [
        v.detach() if isinstance(v, Tensor) and seen.setdefault(id(v), i) != i else v
        for i, v in enumerate(values)
    ]


def _looks(leaf: Any) -> Any:
    """What of an argument a trace depends on."""
    if not isinstance(leaf, Node):
        return type(leaf), str(leaf)
    value = value_of(leaf)
    return (value.dtype, tuple(value.shape), value.stride()) if isinstance(value, Tensor) else leaf

# SPDX-License-Identifier: Apache-2.0
"""Many ways to write one thing become one: fewer ops to quantize, import and test.

`tensor_forms.FORMS` says what an op is made of, as an ordinary function of tensors, which is traced in place of the call. Ops that torch
itself composes of others (einsum, matmul, hstack …) need no entry."""

from __future__ import annotations

from collections.abc import Callable
from operator import getitem
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from pillion.importers.torch.nodes import (
    KEPT_META,
    aten,
    calls,
    evaluate,
    fake_mode,
    value_of,
)
from pillion.importers.torch.rewrite import forms
from pillion.importers.torch.rewrite.functional import DROPOUTS, NO_RESULT
from pillion.importers.torch.rewrite.recurrent import LAYERS
from pillion.importers.torch.rewrite.tensor_forms import CONDITIONS, FORMS

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
    }
)


AUTOCAST = torch.ops.higher_order.wrap_with_autocast
SCOPES = (torch.ops.higher_order.wrap_with_set_grad_enabled, AUTOCAST)


def decompose_late(module: GraphModule) -> bool:
    """Replaces layers that kernels lack, once batch norms had their chance to go into them; whether there were any."""
    late = [n for n in calls(module.graph, forms.LATE) if forms.LATE_CONDITIONS[n.target](n)]
    for node in late:
        _inline(node, forms.LATE[node.target])
    return bool(late)


def decompose(module: GraphModule) -> None:
    """Replaces calls by what they are made of, until nothing is left to replace."""
    pending = calls(module.graph)
    while pending:
        node = pending.pop()
        function = _function(node)
        if function is not None:
            pending += _inline(node, function)
    module.graph.eliminate_dead_code()  # results that nobody asked for, such as the indices of a max pool


def inline_scopes(module: GraphModule) -> None:
    """Inlines what runs under `torch.no_grad()` or `torch.autocast`, which is a graph of its own. What `autocast` would compute in
    fewer bits is computed in float32: rounding comes later, and to 8 bits."""
    if _inline_scopes(module):
        _evaluate_again(module)


def _inline_scopes(module: GraphModule) -> bool:
    """Inlines the scopes of a graph, those within scopes first; whether any of them casts."""
    casts = False
    for node in calls(module.graph, SCOPES):
        casts |= node.target is AUTOCAST
        place = next(i for i, a in enumerate(node.args) if isinstance(a, Node) and a.op == "get_attr")
        scope, *inputs = node.args[place:]
        inner: Any = module.get_submodule(str(scope.target))  # type: ignore[union-attr]  # a node
        casts |= _inline_scopes(inner)
        _, results = _graft(inner, node, inputs)  # type: ignore[arg-type]  # what follows is nodes
        _hand_over(node, results)
    module.graph.eliminate_dead_code()
    return casts


def _evaluate_again(module: GraphModule) -> None:
    """Finds the types of all results anew."""
    for node in calls(module.graph):
        if node.target in NO_RESULT:
            module.graph.erase_node(node)
        else:
            node.meta["val"] = evaluate(module.graph, node.target, node.args, node.kwargs)  # type: ignore[arg-type]  # a call


def _function(node: Node) -> Callable[..., Any] | None:
    target = node.target
    if target in FORMS:
        return FORMS[target] if target not in CONDITIONS or CONDITIONS[target](node) else None
    if not isinstance(target, torch._ops.OpOverload) or target in KEPT or target.namespace != "aten":
        return None
    name = target.name()  # type: ignore[no-untyped-call]  # of torch
    composed = torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd")
    return target if composed and value_of(node) is not None else None


def _inline(node: Node, function: Callable[..., Any]) -> list[Node]:
    """Puts the trace of a function in the place of a call; the new calls."""
    leaves, form = pytree.tree_flatten((node.args, node.kwargs))
    inputs = [leaf for leaf in leaves if isinstance(leaf, Node)]

    def run(*tensors: Tensor) -> Any:
        rest = iter(tensors)
        args, kwargs = pytree.tree_unflatten([next(rest) if isinstance(x, Node) else x for x in leaves], form)
        return function(*args, **kwargs)

    with fake_mode(node.graph), torch.no_grad():
        traced = make_fx(run)(*(value_of(leaf) for leaf in inputs))
    made, results = _graft(traced, node, inputs)
    if [n for n in made if n.target is node.target] and len(made) == 1:
        for same in made:  # torch has nothing simpler for it
            node.graph.erase_node(same)
        return []
    _hand_over(node, results)
    unread = set()
    for new in reversed(made):
        if not new.users and not new.is_impure():  # such as the indices of a max pool
            unread.add(new)
            new.graph.erase_node(new)
    return [new for new in made if new not in unread]


def _graft(traced: GraphModule, node: Node, inputs: list[Node]) -> tuple[list[Node], Any]:
    places: dict[Node, Node] = dict(zip(traced.graph.find_nodes(op="placeholder"), inputs, strict=True))
    made = []
    with node.graph.inserting_before(node):
        for old in calls(traced.graph):
            new = node.graph.node_copy(old, lambda n: places[n])
            new.meta = {
                "val": value_of(old),
                **{key: node.meta[key] for key in KEPT_META if key in node.meta},
            }
            places[old] = new
            made.append(new)
    return made, map_arg(traced.graph.output_node().args[0], lambda n: places[n])


def _hand_over(node: Node, results: Any) -> None:
    if isinstance(results, Node):
        node.replace_all_uses_with(results)
    else:
        for user in [u for u in node.users if u.target is getitem]:
            user.replace_all_uses_with(results[user.args[1]])
            user.graph.erase_node(user)
    node.graph.erase_node(node)

# SPDX-License-Identifier: Apache-2.0
"""Replaces in-place operators by functional ones, and removes identities."""

from __future__ import annotations

from collections.abc import Sequence
from operator import getitem
from typing import Any

import torch
from torch.fx import GraphModule, Node

from pillion.errors import PillionError, distinct_lines_with_counts
from pillion.importers.torch import fx_nodes as fx
from pillion.importers.torch.fx_nodes import aten

SAME_VALUES = fx.torch_operators("alias clone contiguous detach detach_ lift_fresh lift_fresh_copy")
CASTS = (aten.to.dtype, aten.to.device, aten.to.dtype_layout, aten._to_copy.default, aten.type_as.default)
COPYING = (aten.clone.default, aten.lift_fresh_copy.default, aten._to_copy.default)
"""Calls whose result has its own memory: writes to it leave the operand unchanged."""
DROPOUTS = fx.torch_operators("alpha_dropout dropout feature_alpha_dropout feature_dropout")
COPIES = ("_to_copy", "lift_fresh_copy", "index_copy")
"""Operators ending in `_copy` that are no copies of views."""
NO_RESULT = (
    aten._assert_async.msg,
    aten._assert_scalar.default,
    aten._assert_tensor_metadata.default,
    aten._linalg_check_errors.default,
)


def functionalize(module: GraphModule, *, training: bool = False) -> bool:
    """Replaces in-place calls by functional ones (`relu_(x)` by `relu(x)`) and redirects later readers. Returns
    whether there were any. Other writes stay and are refused later; before training, at once."""
    for node in fx.calls(module.graph):
        node.target = _view_operator(node.target)
    for node in fx.calls(module.graph, [aten.rrelu_with_noise.default]):
        fx.replace(node, _rrelu_as_leaky_relu(node))
    writes = [node for node in fx.calls(module.graph) if is_write(node)]
    for node in writes:
        if not _make_functional(node) and (training or _is_untracked_write(node)):
            raise refused_writes([fx.source_line(node)], fx.operator_name(node))
    return bool(writes)


def _view_operator(target: Any) -> Any:
    """Returns the view operator of a `_copy` variant: `t` for `t_copy`."""
    packet = getattr(getattr(target, "overloadpacket", None), "__name__", "")
    if not packet.endswith("_copy") or packet in COPIES:
        return target
    view = getattr(aten, packet.removesuffix("_copy"), None)
    return getattr(view, target._overloadname, target)


def is_write(node: Node) -> bool:
    """Whether a call modifies its operand."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and bool(schema.is_mutable) and node.target not in SAME_VALUES


def refused_writes(places: Sequence[str], operator: str) -> PillionError:
    """Returns the error for writes that are visible elsewhere."""
    return PillionError(
        f"{operator} writes into a tensor that others see",
        rule="tensors are made once: what is written to is a tensor, or a slice of one, that is made in forward",
        here="\n".join(distinct_lines_with_counts(places)),
        help="write the result to a new tensor, for example with torch.cat",
    )


def _rrelu_as_leaky_relu(node: Node) -> Node:
    """Replaces `rrelu` by a leaky relu with the mean slope."""
    if fx.named_argument(node, "training"):
        raise PillionError(
            "an rrelu draws its slopes at random",
            rule="slopes are constant: those of an rrelu are so outside training",
            here=fx.source_line(node),
            help="F.rrelu(x, training=False), or nn.LeakyReLU",
        )
    low, high = fx.named_argument(node, "lower"), fx.named_argument(node, "upper")
    return fx.call(node, aten.leaky_relu.default, node.args[0], (float(low) + float(high)) / 2)


def _make_functional(node: Node) -> bool:
    """Makes a call functional. Returns whether that was possible."""
    changed = node.args[0]
    target = _functional_form(node)
    if target is None or not isinstance(changed, Node) or _is_read_by_alias(changed, node):
        return False
    node.target = target
    changed.replace_all_uses_with(node, delete_user_cb=lambda user: _is_after(user, node))
    _write_through(changed, node)
    return True


WRITTEN_THROUGH = {
    aten.slice.Tensor: aten.slice_scatter.default,
    aten.select.int: aten.select_scatter.default,
}
"""Views that may be written to, and the scatter that updates their base."""
SHAPES = (
    *fx.torch_operators("squeeze unsqueeze view"),
    *(aten.flatten.using_ints, aten.squeeze.dim, aten.squeeze.dims, aten.unflatten.int),
)
"""Reshapes by other names. Reshapes of tensors that are not contiguous may be copies."""
NEVER = (aten.as_strided.default, aten.unfold.default)
"""Views that decompose to copies, which would lose writes."""
ORDERS = (aten.permute.default, aten.t.default, aten.transpose.int)
"""Views with permuted axes."""


def _write_through(view: Node, new_value: Node) -> None:
    """Updates the bases of a modified view, from the inside out, and redirects their later readers."""
    while _is_written_through(view):
        base: Any = view.args[0]
        with new_value.graph.inserting_after(new_value):
            updated = new_value.graph.call_function(*_base_update_call(view, base, new_value))
        updated.meta.update({**new_value.meta, "val": fx.fake_result(base)})
        base.replace_all_uses_with(
            updated, delete_user_cb=lambda user, updated=updated: _is_after(user, updated)
        )
        view, new_value = base, updated


def _is_untracked_write(node: Node) -> bool:
    """Whether a call writes to an `out` argument, or to a view that decomposes to a copy."""
    if isinstance(node.kwargs.get("out"), Node):
        return True
    view = node.args[0]
    while isinstance(view, Node) and view.target not in NEVER:
        base = view.args[0] if view.args else None
        view = base if isinstance(base, Node) and _is_view(view, base) else None
    return isinstance(view, Node)


def _is_written_through(view: Node) -> bool:
    """Whether a write to a view is known to update its base."""
    if view.target in WRITTEN_THROUGH or view.target in ORDERS:
        return True
    if view.target not in (*SHAPES, aten.reshape.default):
        return False
    base: Any = view.args[0]
    return bool(fx.fake_result(base).is_contiguous())


def _base_update_call(view: Node, base: Node, updated: Node) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Returns the target and arguments of the call that updates a view's base."""
    if view.target in WRITTEN_THROUGH:
        return WRITTEN_THROUGH[view.target], (base, updated, *view.args[1:]), dict(view.kwargs)
    if view.target in (*SHAPES, aten.reshape.default):
        return aten.reshape.default, (updated, list(fx.shape_of(base))), {}
    if view.target is aten.permute.default:
        order = [axis % len(fx.shape_of(base)) for axis in fx.named_argument(view, "dims")]
        return aten.permute.default, (updated, fx.inverse_permutation(order)), {}
    return view.target, (updated, *view.args[1:]), {}


def _functional_form(node: Node) -> torch._ops.OpOverload | None:
    name, _, overload = str(node.target).removeprefix("aten.").rpartition(".")
    packet = getattr(aten, name.removesuffix("_"), None) if name.endswith("_") else None
    return getattr(packet, overload, None)


def _is_after(user: Node, node: Node) -> bool:
    return user is not node and node < user


def _is_read_by_alias(changed: Node, node: Node) -> bool:
    """Whether a later node reads the memory of `changed` through an alias that is not updated."""
    base = changed
    renewed = {base}
    while _is_written_through(base):
        base = base.args[0]  # type: ignore[assignment]  # a node
        renewed.add(base)
    if base.op == "get_attr":
        return True
    family, frontier = {changed}, [changed]
    while frontier:
        member = frontier.pop()
        relatives = [user for user in member.users if _is_view(user, member) and user < node]
        if member.args and isinstance(member.args[0], Node) and _is_view(member, member.args[0]):
            relatives.append(member.args[0])
        frontier += [r for r in relatives if r not in family]
        family.update(relatives)
    return any(_is_after(user, node) for member in family - renewed for user in member.users)


def _is_view(node: Node, base: Node) -> bool:
    if node.op != "call_function" or not node.args or node.args[0] is not base or _is_copying(node):
        return False
    if node.target in (*SAME_VALUES, *CASTS, *DROPOUTS):
        return True
    maker = base if node.target is getitem else node
    returns = getattr(getattr(maker.target, "_schema", None), "returns", ())
    return any(r.alias_info is not None for r in returns)


def _is_copying(node: Node) -> bool:
    """Whether a call copies its operand."""
    return node.target in COPYING or (node.target in CASTS and bool(fx.named_argument(node, "copy")))


def remove_identities(module: GraphModule, *, training: bool = False) -> None:
    """Removes copies, casts to the same type and, unless training, dropouts. Copies stay while in-place writes
    remain, which would otherwise modify their source."""
    writes = any(is_write(node) for node in fx.calls(module.graph))
    for node in fx.calls(module.graph):
        if node.target in NO_RESULT:
            module.graph.erase_node(node)
        elif _is_identity(node, training) and not (writes and _is_copying(node)):
            fx.replace(node, node.args[0])  # type: ignore[arg-type]  # the schema says tensor


def _is_identity(node: Node, training: bool) -> bool:
    source = node.args[0] if node.args else None
    if not isinstance(source, Node):
        return False
    if node.target in DROPOUTS:
        return not training
    if node.target in CASTS:
        return bool(fx.fake_result(source).dtype == fx.fake_result(node).dtype)
    if node.target in (aten.expand.default, aten.reshape.default, aten.view.default):
        return fx.shape_of(source) == fx.shape_of(node)
    if node.target is aten.permute.default:
        rank = len(fx.shape_of(node))
        return [axis % rank for axis in fx.named_argument(node, "dims")] == list(range(rank))
    return node.target in SAME_VALUES

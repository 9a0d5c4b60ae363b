# SPDX-License-Identifier: Apache-2.0
"""Which operands of a concatenation keep a range of their own.

What is joined has one scale. Where a wide tensor is joined with a narrow one that others read, too, the narrow one need not have the wide
one's steps for all of them: it is scaled where it is joined. That is one more op, so ranges that are nearly the same become one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch.fx import GraphModule, Node

from pillion.importers.torch.nodes import aten
from pillion.importers.torch.quantize.histogram import CountedRange
from pillion.ir.op import Quantization

NEARLY = 1.5
"""How much wider the range of two may be than that of one: 3.5 dB, where scaling on its own takes an instruction or two for an element."""


def is_read_by_others(joined: Node, rules: Mapping[Node, Any]) -> bool:
    """Whether a tensor that is joined goes to others than concatenations, moved or not: these need its steps, not those of what it is
    joined with."""
    made = joined
    while _moves(made, rules):
        made = made.all_input_nodes[0]
    ways = [made]
    while ways:
        for user in ways.pop().users:
            if _moves(user, rules):
                ways.append(user)
            elif user.op == "output" or (user in rules and user.target is not aten.cat.default):
                return True
    return False


def _moves(node: Node, rules: Mapping[Node, Any]) -> bool:
    """Whether a call gives elements of its one operand."""
    rule = rules.get(node)
    is_move = rule is not None and rule.quantization is Quantization.SHARED
    return is_move and node.target is not aten.cat.default and len(node.all_input_nodes) == 1


def settle_joins(prepared: GraphModule) -> None:
    """Gives an operand and what it is joined to one range, where both are nearly as wide as that."""
    families: dict[CountedRange, list[CountedRange]] = {}
    for own, joined in _pairs(prepared):
        first, second = (families.setdefault(observer, [observer]) for observer in (own, joined))
        if first is second:
            continue
        low, high = (f(_end(o, n) for o in (own, joined)) for n, f in enumerate((min, max)))
        if high - low <= NEARLY * min(_end(o, 1) - _end(o, 0) for o in (own, joined)):
            first += second
            for observer in first:
                families[observer] = first
                observer.min_val.fill_(low)
                observer.max_val.fill_(high)


def _pairs(prepared: GraphModule) -> Iterator[tuple[CountedRange, CountedRange]]:
    """The observers of a tensor and of the same as it is joined, where these are two of the same format."""
    for node in prepared.graph.find_nodes(op="call_function", target=aten.cat.default):
        for operand in node.all_input_nodes:
            source = operand.all_input_nodes[0] if operand.op == "call_module" else operand
            if source.op == "call_module":
                own, joined = (prepared.get_submodule(str(n.target)) for n in (source, operand))
                if isinstance(own, CountedRange) and isinstance(joined, CountedRange) and _alike(own, joined):
                    yield own, joined


def _alike(one: CountedRange, other: CountedRange) -> bool:
    return one is not other and (one.dtype, one.qscheme) == (other.dtype, other.qscheme)


def _end(observer: CountedRange, which: int) -> float:
    """The least number of a range, or the largest; zero is in every range."""
    return max(0.0, float(observer.max_val)) if which else min(0.0, float(observer.min_val))

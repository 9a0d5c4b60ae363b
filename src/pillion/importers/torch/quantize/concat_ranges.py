# SPDX-License-Identifier: Apache-2.0
"""Decides which operands of a concatenation keep their own range.

A concatenation has one scale. A narrow operand that other ops read, too, keeps its finer scale and is
requantized for the concatenation, unless the ranges are nearly equal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch.fx import GraphModule, Node

from pillion.importers.torch.fx_nodes import aten
from pillion.importers.torch.observers import observer_of, range_of, set_range
from pillion.importers.torch.quantize.outlier_clipping import HistogramRange
from pillion.ir.op import Quantization

NEARLY = 1.5
"""Maximum ratio of the joint range to each own range for merging: 3.5 dB, against one or two instructions per
element."""


def is_read_by_others(joined: Node, rules: Mapping[Node, Any], written: Mapping[Node, Node]) -> bool:
    """Whether a concatenated tensor also reaches other ops, directly or through moves. `written` maps the
    read of a buffer to its written value: computed buffers keep their range, windows of the last elements that only
    move through concatenations share it."""
    source = _source_before_moves(joined, rules)
    if source in written:
        return _source_before_moves(written[source], rules).target is not aten.cat.default
    waiting = [source]
    while waiting:
        for user in waiting.pop().users:
            if _is_move(user, rules):
                waiting.append(user)
            elif user.op == "output" or (user in rules and user.target is not aten.cat.default):
                return True
    return False


def _source_before_moves(node: Node, rules: Mapping[Node, Any]) -> Node:
    while _is_move(node, rules):
        node = node.all_input_nodes[0]
    return node


def _is_move(node: Node, rules: Mapping[Node, Any]) -> bool:
    """Whether a call only moves elements of its one operand."""
    rule = rules.get(node)
    is_move = rule is not None and rule.quantization is Quantization.SHARED
    return is_move and node.target is not aten.cat.default and len(node.all_input_nodes) == 1


def merge_concat_ranges(prepared: GraphModule) -> None:
    """Merges the ranges of an operand and its concatenation if both are nearly as wide as their union."""
    families: dict[HistogramRange, list[HistogramRange]] = {}
    for own, joined in _observer_pairs(prepared):
        first, second = (families.setdefault(observer, [observer]) for observer in (own, joined))
        if first is second:
            continue
        (low, high), (least, most) = range_of(own), range_of(joined)
        narrower = min(high - low, most - least)
        low, high = min(low, least), max(high, most)
        if high - low <= NEARLY * narrower:
            first += second
            for observer in first:
                families[observer] = first
                set_range(observer, low, high)


def _observer_pairs(prepared: GraphModule) -> Iterator[tuple[HistogramRange, HistogramRange]]:
    """Yields the observers of a tensor and of its requantized form in a concatenation, if their formats agree."""
    for node in prepared.graph.find_nodes(op="call_function", target=aten.cat.default):
        for operand in node.all_input_nodes:
            source = operand.all_input_nodes[0] if operand.op == "call_module" else operand
            if source.op == "call_module":
                own, joined = (observer_of(prepared, n) for n in (source, operand))
                if (
                    isinstance(own, HistogramRange)
                    and isinstance(joined, HistogramRange)
                    and own.may_clip
                    and (own is not joined and (own.dtype, own.qscheme) == (joined.dtype, joined.qscheme))
                ):
                    yield own, joined

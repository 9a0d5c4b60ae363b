# SPDX-License-Identifier: Apache-2.0
"""Compares calls of a graph: equal values, and calls that may be the same one in two steps of a loop."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from torch import Tensor
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from pillion.importers.torch import fx_nodes as fx
from pillion.importers.torch.fx_nodes import aten
from pillion.importers.torch.loop_nodes import LOOP_ARGUMENT
from pillion.importers.torch.rewrite.functionalize import is_write

SMALL = 2**12
"""Constants with at most this many elements are compared by content."""
BASE, MODULUS = 1_000_003, 2**61 - 1
"""Parameters of the rolling hash over runs of calls."""


def operands_of(node: Node) -> list[Node]:
    """Returns the nodes that a call reads, in order, with repetitions."""
    read: list[Node] = []
    map_arg((node.args, dict(node.kwargs)), read.append)
    return read


def call_signature(node: Node) -> tuple[Any, ...]:
    """Returns the properties that two calls share if they are the same call in two steps."""
    value = fx.fake_result(node)
    form = (tuple(value.shape), value.dtype) if isinstance(value, Tensor) else None
    return node.target, str(map_arg((node.args, dict(node.kwargs)), lambda _: "·")), form


class ValueNumbering:
    """Value numbering: nodes with the same number have the same value."""

    def __init__(self, graph: Graph) -> None:
        self._numbers: dict[Node, int] = {}
        self._known: dict[Any, int] = {}
        for node in graph.nodes:
            self._numbers[node] = self._known.setdefault(self._value_key(node), len(self._known))

    def __getitem__(self, node: Node) -> int:
        return self._numbers.get(node, -1 - id(node))

    def _value_key(self, node: Node) -> Any:
        if node.op == "get_attr":
            tensor = fx.constant_of(node)
            return node.target if tensor is None or tensor.numel() > SMALL else _content_key(tensor)
        if node.op != "call_function" or _has_unique_value(node):
            return node
        arguments = str(map_arg((node.args, dict(node.kwargs)), lambda n: f"·{self._numbers[n]}"))
        return node.target, arguments


def _content_key(tensor: Tensor) -> tuple[Any, ...]:
    """Returns the content key of a tensor; trained parameters are identified by themselves."""
    if tensor.requires_grad:
        return (id(tensor),)
    raw = tensor.detach().cpu().contiguous().numpy().tobytes()
    return tensor.dtype, tuple(tensor.shape), hashlib.sha256(raw).digest()


def _has_unique_value(node: Node) -> bool:
    """Whether equal operands do not imply equal values: random calls, writes and loop boundaries."""
    random = fx.RANDOM in getattr(node.target, "tags", ())
    return random or is_write(node) or node.target in LOOP_ARGUMENT


class CallSequence:
    """Calls of a graph that are not constant, hashed to find repeated runs."""

    def __init__(self, graph: Graph, numbers: ValueNumbering) -> None:
        constants = fx.constant_nodes(graph)
        ids: dict[Any, int] = {}
        self.nodes = [node for node in fx.calls(graph) if node not in constants]
        sums, powers = [0], [1]
        for node in self.nodes:
            known = ids.setdefault(_call_key(node, constants, numbers), len(ids) + 1)
            sums.append((sums[-1] * BASE + known) % MODULUS)
            powers.append(powers[-1] * BASE % MODULUS)
        self._sums, self._powers = sums, powers

    def repeated(self, most: int) -> Iterator[tuple[Node, Iterator[Node]]]:
        """Yields, from the last call on, each call that ends a repeated run, with the ends of earlier runs among
        its last `most` equal calls."""
        alike: dict[Any, list[int]] = {}
        repeats: dict[int, list[int]] = {}
        for at, node in enumerate(self.nodes):
            if fx.is_tensor(node) and node.target not in LOOP_ARGUMENT:
                same = alike.setdefault(call_signature(node), [])
                repeats[at] = [p for p in same[-most:] if self._is_run(p, at)]
                same.append(at)
        for at in sorted(repeats, reverse=True):
            if repeats[at]:
                yield self.nodes[at], (self.nodes[p] for p in reversed(repeats[at]))

    def _is_run(self, first: int, second: int) -> bool:
        """Whether the calls between two positions repeat those before the first."""
        length = second - first
        return first + 1 >= length and self._run_hash(first, length) == self._run_hash(second, length)

    def _run_hash(self, last: int, length: int) -> int:
        begin = last + 1 - length
        return (self._sums[last + 1] - self._sums[begin] * self._powers[length]) % MODULUS


def _call_key(node: Node, constants: frozenset[Node], numbers: ValueNumbering) -> Any:
    """Returns the hash key that corresponding calls of two steps share; offsets of slices are ignored."""
    if node.target is aten.slice.Tensor:
        return node.target, node.args[1:2], tuple(fx.fake_result(node).shape)
    reads = map_arg((node.args, dict(node.kwargs)), lambda n: f"·{numbers[n]}" if n in constants else "·")
    return node.target, str(reads)

# SPDX-License-Identifier: Apache-2.0
"""Which calls of a graph are alike: which hold the same, and which may be the same call of two steps of a loop."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from torch import Tensor
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from pillion.importers.torch.loops import LOOP_ARGUMENT
from pillion.importers.torch.nodes import (
    RANDOM,
    aten,
    calls,
    constant_nodes,
    constant_of,
    is_tensor,
    value_of,
)
from pillion.importers.torch.rewrite.functional import is_write

SMALL = 2**12
"""Numbers of a constant up to which it is compared by what it holds."""
BASE, MODULUS = 1_000_003, 2**61 - 1
"""Of the polynomial by which runs of calls are compared."""


def operands_of(node: Node) -> list[Node]:
    """Gives the nodes that a call reads, in order, as often as it reads them."""
    read: list[Node] = []
    map_arg((node.args, dict(node.kwargs)), read.append)
    return read


def signature(node: Node) -> tuple[Any, ...]:
    """Gives what two calls have to have in common in order to be the same step of two times."""
    value = value_of(node)
    form = (tuple(value.shape), value.dtype) if isinstance(value, Tensor) else None
    return node.target, str(map_arg((node.args, dict(node.kwargs)), lambda _: "·")), form


class Numbers:
    """A number for what each node holds: nodes of the same number hold the same."""

    def __init__(self, graph: Graph) -> None:
        self._numbers: dict[Node, int] = {}
        self._known: dict[Any, int] = {}
        for node in graph.nodes:
            self._numbers[node] = self._known.setdefault(self._key(node), len(self._known))

    def __getitem__(self, node: Node) -> int:
        return self._numbers.get(node, -1 - id(node))

    def _key(self, node: Node) -> Any:
        if node.op == "get_attr":
            held = constant_of(node)
            return node.target if held is None or held.numel() > SMALL else _content(held)
        if node.op != "call_function" or _is_of_its_own(node):
            return node
        arguments = str(map_arg((node.args, dict(node.kwargs)), lambda n: f"·{self._numbers[n]}"))
        return node.target, arguments


def _content(held: Tensor) -> tuple[Any, ...]:
    """What a tensor holds; a parameter that is trained is only itself."""
    if held.requires_grad:
        return (id(held),)
    raw = held.detach().cpu().contiguous().numpy().tobytes()
    return held.dtype, tuple(held.shape), hashlib.sha256(raw).digest()


def _is_of_its_own(node: Node) -> bool:
    """Whether a call gives something else than another one with the same operands, or is part of a loop already."""
    random = RANDOM in getattr(node.target, "tags", ())
    return random or is_write(node) or node.target in LOOP_ARGUMENT


class Rhythm:
    """The calls of a graph that are no constants, in their order: a loop that is written out is a run of calls, and the same run again."""

    def __init__(self, graph: Graph, numbers: Numbers) -> None:
        constants = constant_nodes(graph)
        ids: dict[Any, int] = {}
        self.nodes = [node for node in calls(graph) if node not in constants]
        sums, powers = [0], [1]
        for node in self.nodes:
            known = ids.setdefault(_beat(node, constants, numbers), len(ids) + 1)
            sums.append((sums[-1] * BASE + known) % MODULUS)
            powers.append(powers[-1] * BASE % MODULUS)
        self._sums, self._powers = sums, powers

    def repeated(self, most: int) -> Iterator[tuple[Node, Iterator[Node]]]:
        """Gives each call, from the last one on, that ends a run which was there just before, and the ends of such runs before it; of so
        many calls of its form."""
        alike: dict[Any, list[int]] = {}
        places: dict[int, list[int]] = {}
        for at, node in enumerate(self.nodes):
            if is_tensor(node) and node.target not in LOOP_ARGUMENT:
                same = alike.setdefault(signature(node), [])
                places[at] = [p for p in same[-most:] if self._is_run(p, at)]
                same.append(at)
        for at in sorted(places, reverse=True):
            if places[at]:
                yield self.nodes[at], (self.nodes[p] for p in reversed(places[at]))

    def _is_run(self, first: int, second: int) -> bool:
        """Whether what is called between two places is what was called before the first."""
        length = second - first
        return first + 1 >= length and self._run(first, length) == self._run(second, length)

    def _run(self, last: int, length: int) -> int:
        begin = last + 1 - length
        return (self._sums[last + 1] - self._sums[begin] * self._powers[length]) % MODULUS


def _beat(node: Node, constants: frozenset[Node], numbers: Numbers) -> Any:
    """What two calls have in common that are the same of two steps; slices may lie at other places."""
    if node.target is aten.slice.Tensor:
        return node.target, node.args[1:2], tuple(value_of(node).shape)
    reads = map_arg((node.args, dict(node.kwargs)), lambda n: f"·{numbers[n]}" if n in constants else "·")
    return node.target, str(reads)

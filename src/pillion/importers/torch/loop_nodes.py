# SPDX-License-Identifier: Apache-2.0
"""Loops over time in torch graphs: the calls of one step, between calls that read sequences and carry values.

    x_t = element(x, loop, reverse)             the next element of a sequence, along its first axis
    h = carried(h0, x, loop, index)             the carried value; h0 in the first step, broadcast to x's samples
    h_T = last(h, h_next, loop, index, count)   the carried value after `count` steps; h_next is the next step's value
    y = stacked(y_t, loop, count, reverse)      the results of all steps, along a new first axis

Quantization sees one step whose observers run in each step. `run` computes such graphs; calling these operators
computes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule, Interpreter, Node
from torch.fx.node import has_side_effect, map_arg


def broadcast_to_batch(initial: Tensor, sequence: Tensor) -> Tensor:
    """Broadcasts an initial state to the batch of a sequence whose elements are [samples, …]."""
    return initial.expand(sequence.shape[1], *initial.shape[1:]) if initial.shape[0] == 1 else initial


_DECLARED: dict[str, Callable[..., Tensor]] = {
    "element(Tensor sequence, int loop, bool reverse) -> Tensor": lambda sequence, loop, reverse: (
        torch.empty_like(sequence[0])
    ),
    "carried(Tensor initial, Tensor sequence, int loop, int index) -> Tensor": (
        lambda initial, sequence, loop, index: torch.empty_like(
            broadcast_to_batch(initial, sequence).contiguous()
        )
    ),
    "last(Tensor carried, Tensor next, int loop, int index, int count) -> Tensor": (
        lambda carried, next, loop, index, count: torch.empty_like(next)
    ),
    "stacked(Tensor element, int loop, int count, bool reverse) -> Tensor": (
        lambda element, loop, count, reverse: element.new_empty((count, *element.shape))
    ),
}
"""The operators' schemas with their shape functions."""


def _declare_loop_operators() -> Any:
    """Registers the operators with torch, which drops them with the library object."""
    library: Any = torch.library.Library("pillion", "DEF")  # type: ignore[no-untyped-call]  # of torch
    for schema, shape in _DECLARED.items():
        library.define(schema)
        library.impl(schema.partition("(")[0], shape, "Meta")
    return library


_LIBRARY = _declare_loop_operators()
_OPERATORS: Any = torch.ops.pillion
ELEMENT = _OPERATORS.element.default
CARRIED = _OPERATORS.carried.default
LAST = _OPERATORS.last.default
STACKED = _OPERATORS.stacked.default
BEGINS, ENDS = frozenset({ELEMENT, CARRIED}), frozenset({LAST, STACKED})
LOOP_ARGUMENT = {ELEMENT: 1, CARRIED: 2, LAST: 2, STACKED: 1}
"""Position of the loop number in each operator's arguments."""

_numbers = count()
has_side_effect(LAST)  # the next step needs it, even if nothing reads the last step's value


def new_loop() -> int:
    """Returns an unused loop number."""
    return next(_numbers)


@dataclass
class LoopNodes:
    """The calls of one loop, in order."""

    number: int
    begins: list[Node] = field(default_factory=list)
    body: list[Node] = field(default_factory=list)
    ends: list[Node] = field(default_factory=list)

    def calls_of(self, target: Any) -> list[Node]:
        """Returns the boundary calls of one operator."""
        return [node for node in (*self.begins, *self.ends) if node.target is target]

    @property
    def carried(self) -> dict[int, Node]:
        """The calls of `carried`, by index."""
        return {_state_index(node): node for node in self.calls_of(CARRIED)}

    @property
    def lasts(self) -> dict[int, Node]:
        """The calls of `last`, by the index of their carried value."""
        return {_state_index(node): node for node in self.calls_of(LAST)}

    @property
    def reverse(self) -> bool:
        """Whether the sequence is read from its end."""
        return any(bool(node.args[-1]) for node in (*self.calls_of(ELEMENT), *self.calls_of(STACKED)))

    @property
    def count(self) -> int:
        """Number of steps."""
        return int(self.calls_of(LAST)[0].args[4])  # type: ignore[arg-type]  # the schema says int

    @property
    def invariants(self) -> list[Node]:
        """Loop-invariant nodes that the body reads."""
        own = {*self.begins, *self.body}
        read = (n for node in (*self.body, *self.ends) for n in node.all_input_nodes if n not in own)
        return list(dict.fromkeys(read))

    @property
    def reads(self) -> list[Node]:
        """All nodes outside the loop that it reads."""
        begins = (n for node in self.begins for n in node.all_input_nodes)
        return list(dict.fromkeys([*begins, *self.invariants]))

    @property
    def nodes(self) -> list[Node]:
        """All nodes of the loop."""
        return [*self.begins, *self.body, *self.ends]


def _state_index(node: Node) -> int:
    return int(node.args[3])  # type: ignore[arg-type]  # the schema says int


def loop_of(node: Node) -> int | None:
    """Returns the loop number of a boundary call; None for other nodes."""
    position = LOOP_ARGUMENT.get(node.target)
    return None if position is None else int(node.args[position])  # type: ignore[arg-type]  # the schema says int


def number_loops(graph: Graph) -> None:
    """Renumbers the loops of a graph from 0 in order, so that equal models have equal graphs."""
    numbers: dict[int, int] = {}
    for node in graph.nodes:
        loop = loop_of(node)
        if loop is not None:
            at = LOOP_ARGUMENT[node.target]
            node.args = (*node.args[:at], numbers.setdefault(loop, len(numbers)), *node.args[at + 1 :])


def has_loops(graph: Graph) -> bool:
    """Whether a graph contains loops."""
    return any(node.target in LOOP_ARGUMENT for node in graph.nodes)


def in_execution_order(graph: Graph) -> Iterator[Node | LoopNodes]:
    """Yields the nodes of a graph in execution order, each loop as one item."""
    inside = _loop_by_node(graph)
    missing = {loop.number: len(loop.nodes) for loop in inside.values()}
    done: set[Node] = set()
    waiting: list[Node] = []
    for node in graph.nodes:
        loop = inside.get(node)
        if loop is not None:
            missing[loop.number] -= 1
            if missing[loop.number]:
                continue
            yield loop
            done.update(loop.nodes)
            late, waiting = waiting, []
        else:
            late = [node]
        for candidate in late:
            if done.issuperset(candidate.all_input_nodes):
                yield candidate
                done.add(candidate)
            else:
                waiting.append(candidate)
    assert not waiting, "what a loop reads comes before it"


def _loop_by_node(graph: Graph) -> dict[Node, LoopNodes]:
    """Maps each node inside a loop to its loop: from the `carried` and `element` calls to the `last` and `stacked`
    calls."""
    loops: dict[int, LoopNodes] = {}
    inside: dict[Node, LoopNodes] = {}
    for node in graph.nodes:
        number = loop_of(node)
        if number is not None:
            loop = loops.setdefault(number, LoopNodes(number))
            (loop.begins if node.target in BEGINS else loop.ends).append(node)
            inside[node] = loop
            continue
        around = [inside[n] for n in node.all_input_nodes if n in inside and n.target not in ENDS]
        if around:
            around[0].body.append(node)
            inside[node] = around[0]
    return inside


def compute_node(module: GraphModule, node: Node, value_of: Callable[[Node], Any]) -> Any:
    """Computes one node that is no input, of the values of other nodes."""
    owner, _, name = str(node.target).rpartition(".")
    if node.op == "get_attr":
        return getattr(module.get_submodule(owner), name)
    args, kwargs = map_arg((node.args, dict(node.kwargs)), value_of)
    if node.op == "output":
        return args[0]
    function = module.get_submodule(str(node.target)) if node.op == "call_module" else node.target
    return function(*args, **kwargs)  # type: ignore[operator]  # a function


def run_with_loops(module: GraphModule, *inputs: Tensor) -> Any:
    """Runs a module, including all steps of its loops."""
    return LoopInterpreter(module).run(*inputs) if has_loops(module.graph) else module(*inputs)


class LoopInterpreter(Interpreter):
    """Interprets a graph, repeats the body of each loop, and passes each call with its result to `record`."""

    def __init__(
        self, module: GraphModule, record: Callable[[Node, Any], None] = lambda node, value: None
    ) -> None:
        super().__init__(module)
        self.record = record

    def run_node(self, n: Node) -> Any:
        """Computes and records one node."""
        value = super().run_node(n)
        self.record(n, value)
        return value

    def run(self, *args: Any, initial_env: Any = None, enable_io_processing: bool = True) -> Any:
        """Computes the outputs."""
        self.env = {}
        self.args_iter = iter(self.graph.process_inputs(*args))
        for item in in_execution_order(self.graph):
            if isinstance(item, LoopNodes):
                self._loop(item)
            else:
                self.env[item] = self.run_node(item)
        result = self.env[self.graph.output_node()]
        return self.graph.process_outputs(result)

    def steps(self, loop: LoopNodes, values: Mapping[Node, Any]) -> dict[Node, Any]:
        """Runs one loop and returns the results of its end nodes."""
        self.env = {node: values[node] for node in loop.reads}
        self._loop(loop)
        return {node: self.env[node] for node in loop.ends}

    def _loop(self, loop: LoopNodes) -> None:
        args: dict[Node, Any] = {node: self.map_nodes_to_values(node.args, node) for node in loop.begins}
        state = {i: broadcast_to_batch(*args[node][:2]) for i, node in loop.carried.items()}
        sequences = {node: args[node][0] for node in loop.calls_of(ELEMENT)}
        rows: dict[Node, list[Tensor]] = {node: [] for node in loop.calls_of(STACKED)}
        for at in range(loop.count - 1, -1, -1) if loop.reverse else range(loop.count):
            self.env.update((node, sequence[at]) for node, sequence in sequences.items())
            self.env.update((node, state[i]) for i, node in loop.carried.items())
            for node in loop.body:
                self.env[node] = self.run_node(node)
            state = {i: self.env[node.args[1]] for i, node in loop.lasts.items()}  # type: ignore[index]  # a node
            for node, column in rows.items():
                column.append(self.env[node.args[0]])  # type: ignore[index]  # a node
        self.env.update((node, state[i]) for i, node in loop.lasts.items())
        for node, column in rows.items():
            self.env[node] = torch.stack(column[::-1] if loop.reverse else column)

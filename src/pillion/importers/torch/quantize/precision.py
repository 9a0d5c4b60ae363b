# SPDX-License-Identifier: Apache-2.0
"""Uses int16 for the tensors that the user names, or for all with a 16-bit form. Ops without such a form read and
make int8."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import inf
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e import ObserverBase
from torchao.quantization.pt2e.fake_quantize import FakeQuantizeBase

from pillion.errors import PillionError
from pillion.importers.torch.fx_nodes import (
    CLAMPS,
    argument_of,
    aten,
    constant_nodes,
    constant_of,
    fake_result,
    module_of,
)
from pillion.importers.torch.loop_nodes import CARRIED, LOOP_ARGUMENT
from pillion.importers.torch.observers import calls_of_observers, is_per_tensor, observer_of
from pillion.importers.torch.quantize.bias_headroom import COARSER, add_bias_headroom
from pillion.importers.torch.quantize.int16_observers import SymmetricObserver, WidenedObserver, limit_levels
from pillion.importers.torch.quantize.int16_states import ARITHMETIC
from pillion.importers.torch.quantize.int16_sums import NORMS, accepts_int16
from pillion.importers.torch.rewrite.functionalize import DROPOUTS
from pillion.importers.torch.rows.quantization import (
    RULES,
    clamps_result,
    function_of,
    moves_numbers,
    rule_of,
)
from pillion.importers.torch.scalar_function import operators_in
from pillion.ops import ALL_OPS, Conv2d, DepthwiseConv2d, Function, Gather, Linear, Softmax
from pillion.ops.softmax16 import OUTPUT_16

OPS = {op.kind: op for op in ALL_OPS}
SUMS = aten.add.Tensor, aten.sub.Tensor
LAYERS = frozenset([Conv2d.kind, DepthwiseConv2d.kind, Linear.kind])
JUMPS = frozenset(
    [
        "ceil",
        "eq",
        "floor",
        "fmod",
        "frac",
        "ge",
        "gt",
        "hardshrink",
        "le",
        "lt",
        "ne",
        "remainder",
        "round",
        "sgn",
        "sign",
        "tan",
        "threshold",
        "trunc",
        "where",
    ]
)
"""Operators that jump: lines between the entries of a table would round off the steps."""


@dataclass(frozen=True)
class Computation:
    """The calls between observed operands and an observed result: an op with its clamp."""

    result: Node
    calls: tuple[Node, ...]
    operands: tuple[Node, ...]

    @property
    def has_form(self) -> bool:
        """Whether the compiler has a 16-bit form of all calls."""
        return all(map(_has_form, self.calls))

    @property
    def layer(self) -> Node | None:
        """The convolution or linear layer that it is, if any: its result may have 16 bits and its operand 8."""
        return next((node for node in self.calls if _kind(node) in LAYERS), None)

    @property
    def makes_shares(self) -> bool:
        """Whether it is a softmax, which fixes the scale of its result."""
        return any(_kind(node) == Softmax.kind for node in self.calls)

    @property
    def most(self) -> float:
        """The largest magnitude of the result if a clamp has two bounds; infinity otherwise."""
        last = self.result.all_input_nodes[0]
        is_clamp = last.target is aten.clamp.default
        bounds = [abs(one) for one in last.args[1:3] if isinstance(one, int | float)] if is_clamp else []
        return (max(bounds) or inf) if len(bounds) == 2 else inf

    @property
    def is_rectified(self) -> bool:
        """Whether a clamp keeps the result from being negative."""
        last = self.result.all_input_nodes[0]
        low = 0.0 if last.target is aten.relu.default else argument_of(last, 1)
        return last.target in CLAMPS and isinstance(low, int | float) and low >= 0

    @property
    def has_windows_of_3x3(self) -> bool:
        """Whether it is a convolution with plain windows of 3x3, for which fast kernels have conditions."""
        layer = self.layer
        if layer is None or layer.target is not aten.conv2d.default:
            return False
        weights = fake_result(observed_node(layer.all_input_nodes[1]))
        steps, dilation, groups = (argument_of(layer, position) for position in (3, 5, 6))
        is_plain = set(steps) == set(dilation) == {1} and groups == 1
        return is_plain and isinstance(weights, Tensor) and tuple(weights.shape[2:]) == (3, 3)

    @property
    def is_sum(self) -> bool:
        """Whether it adds or subtracts two tensors."""
        return any(node.target in SUMS for node in self.calls)

    @property
    def may_mix(self) -> bool:
        """Whether its operands may differ in width."""
        return any(node.target in ARITHMETIC for node in self.calls)


def observed_node(node: Node) -> Node:
    """Returns the node behind observers."""
    while node.op == "call_module":
        node = node.all_input_nodes[0]
    return node


def _kind(node: Node) -> str:
    """Returns the kind of op that a call becomes; empty if there is none."""
    return rule_of(node).kind if node.target in RULES else ""


def _has_form(node: Node) -> bool:
    """Whether the compiler has a 16-bit form of a call."""
    if node.target in (*CLAMPS, *DROPOUTS, *LOOP_ARGUMENT):
        return True
    if node.target in NORMS:
        return accepts_int16(node)
    op = OPS.get(_kind(node))
    if op is None or not op.takes_int16:
        return False
    if op is Gather:
        return constant_of(node.all_input_nodes[0]) is None  # rows of a table of weights have 8 bits
    return function_of(node) is not Function.TABLE or JUMPS.isdisjoint(operators_in(node))


def use_int16_tensors(prepared: GraphModule, patterns: Sequence[str], image_bits: int = 16) -> None:
    """Uses int16 for results whose module or name matches a pattern, such as `head.*`, and reads them in 16 bits. Images
    of 3x3 convolutions have `image_bits` of them."""
    if not patterns:
        return
    computations = computations_of(prepared)
    chosen = _chosen_observers(prepared, computations, patterns)
    Widening(prepared, chosen, image_bits).run(computations)


def computations_of(prepared: GraphModule) -> list[Computation]:
    """Returns the computations of the observed int8 tensors of a graph, in running order."""
    found: list[Computation] = []
    constants = constant_nodes(prepared.graph)  # training leaves computations with parameters in the graph
    observed = {
        node: None
        for node in prepared.graph.find_nodes(op="call_module")
        if is_activation(prepared, node) and constants.isdisjoint(node.all_input_nodes)
    }
    for result in observed:
        calls: dict[Node, None] = {}
        operands: dict[Node, None] = {}
        ahead = list(result.all_input_nodes)
        while ahead:
            node = ahead.pop()
            if node in observed:
                operands[node] = None
            elif node.op == "call_function" and node not in calls and node not in constants:
                calls[node] = None
                read = node.all_input_nodes
                ahead += read[:1] if node.target is CARRIED else read  # the second is read for its shape
        with_reals = tuple(node for node in calls if _has_reals(node))
        found.append(Computation(result, with_reals, tuple(operands)))
    return found


def _has_reals(node: Node) -> bool:
    """Whether a call reads or makes real numbers. Positions, and integers computed from them, are exact."""
    values = [fake_result(n) for n in (node, *node.all_input_nodes)]
    return any(v.is_floating_point() if isinstance(v, Tensor) else True for v in values)


def is_activation(prepared: GraphModule, node: Node) -> bool:
    """Whether a call observes a tensor that the model computes, or an input, in int8."""
    observer = observer_of(prepared, node)
    is_int8 = isinstance(observer, ObserverBase) and observer.dtype is torch.int8
    source = node.all_input_nodes[0] if node.all_input_nodes else None
    return is_int8 and source is not None and source.op != "get_attr" and _is_per_tensor(observer)


def _is_per_tensor(observer: Any) -> bool:
    return is_per_tensor(observer) or not hasattr(observer, "min_val")


def _chosen_observers(
    prepared: GraphModule, computations: Sequence[Computation], patterns: Sequence[str]
) -> set[Any]:
    """Returns the observers of the named tensors. Tensors that share an observer, such as operand and result of a
    move, are chosen together, unless one of them has no 16-bit form."""
    named = {observer_of(prepared, c.result) for c in computations if any(_matches(c, p) for p in patterns)}
    has_16_bits = any(getattr(module, "dtype", None) is torch.int16 for module in prepared.modules())
    unmatched = [
        p
        for p in patterns
        if not (p == "*" and has_16_bits) and not any(_matches(c, p) for c in computations)
    ]
    if unmatched:
        names = dict.fromkeys(name for c in computations for name in names_of(c) if name)
        raise PillionError(
            f"--int16 {unmatched[0]!r} names no tensor",
            rule="a pattern matches the path of a module or the name of an op",
            here=", ".join(list(names)[:12]) + (", …" if len(names) > 12 else ""),
            help="--int16 with one of these, or a pattern such as 'head.*'",
        )
    return named & set(widenable_observers(prepared, computations))


def widenable_observers(prepared: GraphModule, computations: Sequence[Computation]) -> dict[Any, None]:
    """Returns the observers whose tensors all have 16-bit forms, in running order."""
    without = {observer_of(prepared, c.result) for c in computations if not c.has_form}
    known = dict.fromkeys(observer_of(prepared, c.result) for c in computations)
    return {observer: None for observer in known if observer not in without}


def names_of(computation: Computation) -> Iterator[str]:
    """Yields the names by which patterns find a tensor: of its modules and ops, or of the input."""
    for node in (*computation.calls, observed_node(computation.result)):
        yield module_of(node)
        yield node.name


def _matches(computation: Computation, pattern: str) -> bool:
    return any(name == pattern or fnmatchcase(name, pattern) for name in names_of(computation) if name)


class Widening:
    """Exchanges the observers of chosen tensors; readers without a 16-bit form get a call of the old one."""

    def __init__(self, prepared: GraphModule, chosen: set[Any], image_bits: int = 16) -> None:
        self.prepared = prepared
        self.chosen = chosen
        self.image_bits = image_bits
        self.fine: dict[Any, str] = {}
        self.shares: set[Any] = set()
        self.coarse = {
            observer: str(calls[0].target) for observer, calls in calls_of_observers(prepared).items()
        }
        self.computations: Sequence[Computation] = ()
        self.observers: dict[Node, Any] = {}

    def run(self, computations: Sequence[Computation]) -> None:
        """Widens tensors, with the operands and results that must have the same width, and the ranges of weights
        whose biases or sums would overflow 32 bits in the finer steps."""
        self.computations = computations
        self.observers = {c.result: observer_of(self.prepared, c.result) for c in computations}
        self.shares = {self.observers[c.result] for c in computations if c.makes_shares}
        is_chosen = {result: observer in self.chosen for result, observer in self.observers.items()}
        is_wide = {
            c.result: c.has_form
            and (is_chosen[c.result] or any(is_chosen.get(operand, False) for operand in c.operands))
            for c in computations
        }
        carried = self.prepared.graph.find_nodes(op="call_function", target=CARRIED)
        firsts = {node.args[0]: observer_of(self.prepared, node.args[0]) for node in carried}
        for result, chosen in is_chosen.items():
            if chosen:
                result.target = self.fine_module(self.observers[result])
        for node, observer in firsts.items():  # constants are no results of computations
            if observer in self.chosen and node not in is_chosen:
                node.target = self.fine_module(observer)
        for computation in computations:
            if computation.calls:  # others convert operands of a concatenation, from any width to any
                self.connect(computation, is_chosen, is_wide[computation.result])
        for layer in [c for c in computations if is_wide[c.result] and c.has_windows_of_3x3]:
            if len(layer.operands) == 1:
                self.narrow_image(layer)
        sums = [c for c in computations if c.is_sum and is_wide[c.result]]
        self.share_steps(sums)
        add_bias_headroom(self.prepared)  # may coarsen results
        self.share_steps(sums)
        self.prepared.recompile()

    def narrow_image(self, layer: Computation) -> None:
        """Limits the image of a convolution to fewer bits, if the ops that make it can clamp it. Half of the levels are
        negative, unless none is: they count as one bit."""
        coarse = self.observers[layer.operands[0]]
        made = [c for c in self.computations if self.observers[c.result] is coarse]
        sources = [c.result.all_input_nodes[0] for c in made]
        if coarse not in self.fine or not all(clamps_result(node) or moves_numbers(node) for node in sources):
            return
        clamped = [c for c, source in zip(made, sources, strict=True) if clamps_result(source)]
        bits = min(self.image_bits + all(c.is_rectified for c in clamped), 16)
        limit_levels(self.prepared.get_submodule(self.fine[coarse]), -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)

    def share_steps(self, sums: Sequence[Computation]) -> None:
        """Gives 16-bit tensors that are added, and their sums, the same steps, so that nothing is rescaled. A tensor whose
        steps would grow too much keeps its own."""
        groups: list[set[SymmetricObserver]] = []
        for computation in sums:
            added = {self.fine_observer(node) for node in (computation.result, *computation.operands)}
            if None not in added:
                members = {observer for observer in added if observer}
                members |= {
                    observer for group in groups if not group.isdisjoint(members) for observer in group
                }
                groups = [group for group in groups if group.isdisjoint(members)] + [members]
        for group in groups:
            steps = {observer: float(observer.calculate_qparams()[0]) for observer in group}
            ranges = {observer: step * (observer.quant_max + 1) for observer, step in steps.items()}
            largest, widest = max(steps.values()), max(ranges.values())
            for observer, reach in ranges.items():
                if COARSER * reach >= widest:
                    observer.shared_step = largest

    def fine_observer(self, node: Node) -> SymmetricObserver | None:
        """Returns the 16-bit observer of a tensor if it has one whose steps may change."""
        name = self.fine.get(self.observers[node])
        fine = self.prepared.get_submodule(name) if name else None
        return fine if isinstance(fine, SymmetricObserver) and fine.fixed is None else None

    def connect(self, computation: Computation, is_chosen: dict[Node, bool], wide: bool) -> None:
        """Gives a computation operands of its width, and its result the width that readers expect."""
        result = computation.result
        if wide and not is_chosen[result]:
            name = self.fine_module(self.observers[result])
            self.insert_before(result, result.all_input_nodes[0], name, [result])
        if wide and computation.may_mix:
            return
        for operand in computation.operands:
            if is_chosen.get(operand, False) != wide:
                observer = self.observers[operand]
                name = self._module_between(computation, observer) if wide else self.coarse[observer]
                readers = [node for node in (*computation.calls, result) if operand in node.all_input_nodes]
                self.insert_before(readers[0], operand, name, readers)

    def _module_between(self, computation: Computation, operand: Any) -> str:
        """Returns the name of the 16-bit observer of an int8 operand. Layers read its integers unchanged."""
        if computation.layer is None:
            return self.fine_module(operand)
        name = f"{self.coarse[operand]}_widened"
        self.prepared.add_submodule(name, WidenedObserver(operand))
        return name

    def fine_module(self, coarse: Any) -> str:
        """Returns the name of the 16-bit observer that belongs to an int8 one."""
        if coarse not in self.fine:
            name = f"{self.coarse[coarse]}_in_16_bits"
            fixed = OUTPUT_16 if coarse in self.shares else None
            most = [c.most for c in self.computations if self.observers[c.result] is coarse]
            fine = SymmetricObserver(coarse, fixed, max(most, default=inf))
            trains = isinstance(self.prepared.get_submodule(self.coarse[coarse]), FakeQuantizeBase)
            self.prepared.add_submodule(name, fine.trained() if trains else fine)
            self.fine[coarse] = name
        return self.fine[coarse]

    def insert_before(self, place: Node, source: Node, module: str, readers: Sequence[Node]) -> None:
        """Inserts a call of an observer between a tensor and some readers."""
        with self.prepared.graph.inserting_after(source):
            between = self.prepared.graph.call_module(module, (source,))
        between.meta.update(source.meta)
        for reader in readers:
            reader.replace_input_with(source, between)

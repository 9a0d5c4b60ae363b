# SPDX-License-Identifier: Apache-2.0
"""Buffers that forward writes to: read and written values share one range. States that typically change by few int8
steps become int16, because rounding in each run would lose the change."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from torch import Tensor
from torch.fx import GraphModule, Node

from pillion.errors import warn
from pillion.importers.torch.fx_nodes import constant_of
from pillion.importers.torch.loop_nodes import LoopNodes, in_execution_order
from pillion.importers.torch.observers import calls_of_observers, observer_of, set_range
from pillion.importers.torch.quantize.function_ranges import FunctionRange
from pillion.importers.torch.quantize.int16_states import ARITHMETIC, MOVES, Int16Widening, step_of
from pillion.importers.torch.rewrite.norm_calls import normalize_axes
from pillion.importers.torch.scalar_function import is_smooth
from pillion.importers.torch.train.trained_ranges import MinMaxRangeObserver
from pillion.ir.constraints import QuantizationConstraints
from pillion.modules.filters import BIQUADS
from pillion.ops import Add
from pillion.ops.wide_arithmetic import STEPS_IN_LOOPS

ADDING = (*ARITHMETIC, normalize_axes)
"""Calls that compute 16-bit states."""
FEW_STEPS = 16.0
"""int8 steps per typical change below which a state becomes int16."""
TOO_FEW = 2.0
"""Steps per typical change below which a warning is given: rounding loses 0.29 of a step each time."""


class StateMemory(Protocol):
    """Adds states to samples."""

    names: tuple[str, ...]

    def observed(self, sample: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Returns a sample with its states."""

    @property
    def changes(self) -> Sequence[float]:
        """Root mean square change of each state per run."""


def share_state_ranges(prepared: GraphModule, memory: StateMemory) -> None:
    """Gives the read and the written value of each state one range: its integers persist between runs."""
    for _, before, after in _state_observers(prepared, memory):
        observers = [observer_of(prepared, node) for node in (before, after)]
        are_observed = all(isinstance(end, MinMaxRangeObserver) for end in observers)
        limits = _representable_range(observers[1])
        fits = False
        if isinstance(observers[0], MinMaxRangeObserver) and limits is not None:
            fits = limits[0] <= float(observers[0].min_val) and float(observers[0].max_val) <= limits[1]
        if observers[0] is not observers[1] and are_observed and (limits is None or fits):
            low, high = min(float(o.min_val) for o in observers), max(float(o.max_val) for o in observers)
            for observer in observers:
                set_range(observer, low, high)
        if fits and calls_of_observers(prepared)[observers[0]] == [before]:
            before.target = after.target


def _representable_range(observer: Any) -> tuple[float, float] | None:
    """Returns the least and largest value of a format that calibration does not widen; None for other formats."""
    if isinstance(observer, FunctionRange):
        return observer.ends
    if not hasattr(observer, "scale"):
        return None
    scale, zero = (float(n) for n in observer.calculate_qparams())
    return (observer.quant_min - zero) * scale, (observer.quant_max + 1 - zero) * scale


def widen_written_states(
    prepared: GraphModule, constraints: QuantizationConstraints, memory: StateMemory
) -> None:
    """Widens states with a typical change of few int8 steps to int16 where the ops in between allow it, and warns
    of states that still lose much of their change."""
    looped = {
        node
        for item in in_execution_order(prepared.graph)
        if isinstance(item, LoopNodes)
        for node in item.nodes
    }
    widening = Int16Widening(prepared, frozenset(n for n in prepared.graph.nodes if n not in looped))
    states = list(zip(_state_observers(prepared, memory), memory.changes, strict=True))
    steps = {
        name: change / step_of(observer_of(prepared, end)) for (name, _, end), change in states if change
    }
    for (name, before, after), _ in states:
        is_few = steps.get(name, math.inf) < FEW_STEPS and Add.kind not in constraints.fixed
        if is_few and _is_smooth_state_update(after, before) and widening.can_hold(before, after):
            widening.take(before)
            widening.take_change(after)
            steps[name] *= STEPS_IN_LOOPS
    widening.apply()
    prepared.recompile()
    for (name, before, after), change in states:
        if steps.get(name, math.inf) < TOO_FEW and _is_more_than_moved(after, before):
            warn(
                f"`{name}` changes by {change:.3g} from run to run, {steps[name]:.2g} of the steps that hold it: much of that is rounded off "
                "each time (docs/guide/quantization.md, states between runs)"
            )


def _state_observers(prepared: GraphModule, memory: StateMemory) -> Iterator[tuple[str, Node, Node]]:
    """Yields each state's name and the observer calls of its read and written value."""
    inputs: Any = list(prepared.graph.find_nodes(op="placeholder"))
    outputs: Any = prepared.graph.output_node().args[0]
    count = len(memory.names)
    for name, read, after in zip(memory.names, inputs[-count:], outputs[-count:], strict=True):
        before = next((user for user in read.users if observer_of(prepared, user) is not None), read)
        yield name, before, after


def _is_smooth_state_update(after: Node, before: Node) -> bool:
    """Whether a state is computed from itself by sums, products, smooth functions and norms."""
    open_ends, seen = [after], {after}
    while open_ends:
        node = open_ends.pop()
        if node is before:
            return True
        source = node.all_input_nodes[0] if node.op == "call_module" else node
        if node is after and source.target not in ADDING:
            return False
        if source.target in (*ADDING, *MOVES) or is_smooth(source) or source.op == "call_module":
            fresh = [n for n in source.all_input_nodes if n not in seen and constant_of(n) is None]
            seen.update(fresh)
            open_ends += fresh
    return False


def _is_more_than_moved(after: Node, before: Node) -> bool:
    """Whether a state is computed from itself by more than moves, and by more than filters, which keep all bits."""
    open_ends, seen = [(before, False)], set()
    while open_ends:
        node, computed = open_ends.pop()
        if node is after and computed:
            return True
        for user in node.users:
            is_move = user.op != "call_function" or user.target in (*MOVES, BIQUADS)
            step = (user, computed or not is_move)
            if step not in seen:
                seen.add(step)
                open_ends.append(step)
    return False

# SPDX-License-Identifier: Apache-2.0
"""The user's bounds of flash, time, RAM and quality: they decide the layers with 4 bits and the costs of 16-bit
plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import ceil
from typing import Protocol, runtime_checkable

import numpy as np

from pillion.compile_options import CompileOptions, Memory, Stream
from pillion.errors import PillionError, warn
from pillion.flash_budget import FlashSample, FlashSearch
from pillion.ir.flash_choice import FlashChoice
from pillion.ir.graph import Graph
from pillion.ir.precision_choice import CostBound, FloatRuns, MetricChange, PlanCost, PrecisionChoice, Pricing
from pillion.ir.quantized_model import ReadModel
from pillion.ir.types import Array, Value
from pillion.ir.verdict import all_ok
from pillion.ops import Dequantize, Quantize, Requantize
from pillion.ops.movement import Movement
from pillion.program import Program
from pillion.run.float_interface import as_type, graph_inputs, imported_name

ATTEMPTS = 4
"""Most attempts to hold the bounds of time and flash together."""
SAME_STATE = 1e-4
"""Differences of a state, over its size, that come from the order of float sums."""


@runtime_checkable
class MetricBound(Protocol):
    """A bound of a metric on labelled samples, such as `MetricGoal`."""

    option: str

    def change(self, program: Program, floats: FloatRuns | None = None) -> MetricChange:
        """Runs a program on the samples, and compares it with the float model."""


def pricing(
    options: CompileOptions,
    compile: Callable[[Graph, CompileOptions], Program],
    metric: MetricBound | None = None,
    reserve: float = 0.0,
) -> Pricing | None:
    """Returns how plans of 16-bit tensors are compared, and the bounds of their costs and metric; None if the user names
    the tensors. Plans leave a `reserve` of time, in parts of that in 8 bits, for the limit of flash."""
    if not options.quantize.is_mixed:
        return None
    options = replace(options, memory=replace(options.memory, max_flash=None))  # 4 bits are chosen last

    def cost(graph: Graph) -> PlanCost:
        try:
            return compile(graph, options).cost
        except PillionError:
            if options.memory.limit is None:
                raise
        return compile(graph, replace(options, memory=Memory())).cost

    bounds, quality = _cost_bounds(options, reserve), options.quantize.least_quality
    if metric is None:
        return Pricing(cost, bounds, quality)
    quality = quality if options.quantize.min_quality is not None else None
    in_windows = replace(options, memory=Memory(), stream=Stream())  # the same bytes, whatever is stored

    def change(graph: Graph, floats: FloatRuns) -> MetricChange:
        return metric.change(compile(graph, in_windows), floats)

    return Pricing(cost, bounds, quality, change)


def _cost_bounds(options: CompileOptions, reserve: float = 0.0) -> tuple[CostBound, ...]:
    """Returns the bounds of time, less a reserve in parts of the time in 8 bits, and of RAM."""
    bounds = []
    if (most_time := options.quantize.most_time) is not None:
        name = f"--max-time {options.quantize.max_time}"
        bounds.append(CostBound(name, "time", most_time - reserve, is_relative=True))
    if (most_ram := options.memory.limit) is not None:
        bounds.append(CostBound(f"--max-ram {options.memory.max_ram}", "ram_bytes", most_ram))
    return tuple(bounds)


def flash_search(graph: Graph, read: ReadModel, options: CompileOptions) -> FlashSearch | None:
    """Returns the search for layers of 4 bits, without a limit of flash None. `graph` is that of the model in integers."""
    if options.memory.flash_limit is None:
        return None
    if read.floats is None or not read.samples:
        raise PillionError(
            "--max-flash chooses no layers of this model",
            rule="layers get weights of 4 bits by what that costs on calibration samples, of a float model that is quantized here",
            here=f"`{graph.name}`",
            help="leave --max-flash out, or compile the float model with --quantize --calibrate DATA",
        )
    judged, after = list[FlashSample](), list[Array]()
    for tensors in map(read.floats, read.samples):
        before = [_real_numbers(graph, state.before, tensors) for state in graph.states]
        judged.append(
            FlashSample(
                graph_inputs(graph, tensors),
                {
                    y: _real_numbers(read.graph, own, tensors)
                    for y, own in zip(graph.outputs, read.graph.outputs, strict=True)
                },
                [as_type(state.before, real) for state, real in zip(graph.states, before, strict=True)],
                len(after) > 0 and all(map(_are_close, after, before)),
            )
        )
        after = [_real_numbers(graph, state.after, tensors) for state in graph.states]
    bound = "--min-quality" if options.quantize.max_time is None else "--max-time"
    ways = f"a lower {bound} or none (16 bits take code, too), " if options.quantize.is_mixed else ""
    ways += "a larger --max-ram (where weights of 4 bits are unpacked), " if options.memory.limit else ""
    return FlashSearch(graph, judged, ways)


def _are_close(a: Array, b: Array) -> bool:
    """Whether a sample begins with the states that the one before it left."""
    real = a.astype(np.float64)
    return bool(
        np.abs(real - b.astype(np.float64)).max(initial=0) <= SAME_STATE * np.abs(real).max(initial=0)
    )


def _real_numbers(graph: Graph, y: Value, tensors: Mapping[str, Array]) -> Array:
    """Returns the float model's numbers of an output or a state, which may be a moved or converted copy of its tensor."""
    real = tensors.get(imported_name(y))
    if real is not None and real.shape == y.shape:
        return real
    op = graph.producers.get(y)
    if not isinstance(op, (Movement, Quantize, Dequantize, Requantize)):
        raise PillionError(
            f"--max-flash cannot judge the output `{y.name}`",
            rule="the float model has the tensor that an output or a state is, or is a copy of",
            here=f"the result of {op.kind if op else 'no op'} is not in it",
            help="leave --max-flash out",
        )
    source = _real_numbers(graph, op.activations[0], tensors)
    return op.reference(graph.arithmetic, source) if isinstance(op, Movement) else source


def within_time(attempt: Callable[[float], Program], options: CompileOptions) -> Program:
    """Returns a program that holds the bounds of flash and of time. What flash needs may take time: `attempt` compiles
    with a reserve for it, in parts of the time in 8 bits. Raises if no program holds both."""
    reserve, programs = 0.0, list[Program]()
    for _ in range(ATTEMPTS):
        try:
            programs.append(program := attempt(reserve))
        except PillionError:
            if not programs:
                raise
            break  # with less time, other bounds are missed
        plan, choice = program.precision, program.four_bits
        if plan is None or choice is None or not (choice.layers or choice.slower):
            return program
        verdicts = tuple(bound.verdict(program.cost, plan.cost_before) for bound in _cost_bounds(options))
        if all_ok(verdicts) and (len(programs) == 1 or plan.has_quality):
            return replace(program, precision=replace(plan, cost=program.cost, verdicts=verdicts))
        if not plan.tensors:
            break
        reserve = plan.time_ratio(program.cost) - plan.time_ratio(plan.cost)
    raise _lost_time(programs[0], options)


def _lost_time(program: Program, options: CompileOptions) -> PillionError:
    """Returns the error for a program that fits its limit of flash, and takes more time than the user allows."""
    plan, choice = program.precision, program.four_bits
    assert plan is not None
    assert choice is not None
    more = ceil(100 * (plan.time_ratio(program.cost) - 1))
    return PillionError(
        f"--max-flash {options.memory.max_flash} and --max-time {options.quantize.max_time} contradict each other",
        rule="the time holds with what flash needs: kernels with smaller constants, and weights of 4 bits",
        here=f"{plan.time_share(program.cost)} in {choice.after_bytes:,} bytes of flash, {plan.time_share(plan.cost)} in {choice.before_bytes:,}",
        help=f"--max-flash {choice.before_bytes}, or --max-time +{more}%",
    )


def refuse_lost_quality(choice: FlashChoice | None, options: CompileOptions) -> None:
    """Raises if weights of 4 bits, which the limit of flash needs, leave less quality than the user requires."""
    quantize = options.quantize
    if choice is None or quantize.min_quality is None or choice.after >= (quantize.least_quality or 0.0):
        return
    raise PillionError(
        f"--max-flash {options.memory.max_flash} and --min-quality {quantize.min_quality} contradict each other",
        rule="the quality holds with weights of 4 bits in as many layers as flash needs",
        here=f"{choice.before:.1f} dB in {choice.before_bytes:,} bytes of flash with 8 bits, {choice.after:.1f} dB in {choice.after_bytes:,} with 4 bits "
        f"in {len(choice.layers)} layers",
        help=f"--max-flash {choice.before_bytes}, or a lower --min-quality",
    )


def refuse_lost_metric(program: Program, metric: MetricBound, options: CompileOptions) -> PrecisionChoice:
    """Returns the choice of 16-bit tensors with the metric of the program. Raises if no tensors were chosen, or if weights
    of 4 bits, which the limit of flash needs, make the metric worse than it may be."""
    choice, four_bits = program.precision, program.four_bits
    if choice is None:
        raise PillionError(
            f"{metric.option} chooses no tensors of this model",
            rule="tensors of 16 bits are chosen for a float model that is quantized here, of at most 64 MB",
            here=f"`{program.graph.name}`",
            help=f"leave {metric.option} out, or compile the float model with --quantize --calibrate DATA",
        )
    if note := choice.metrics[0].note:
        warn(note)
    if four_bits is None or not four_bits.layers:
        return choice
    found = metric.change(program)
    if not found.is_ok:
        raise PillionError(
            f"--max-flash {options.memory.max_flash} and {metric.option} contradict each other",
            rule="the metric holds with weights of 4 bits in as many layers as flash needs",
            here=f"{found.text}, with 4 bits in {len(four_bits.layers)} layers; {choice.metrics[1].text}, with 8 bits",
            help=f"--max-flash {four_bits.before_bytes}, or a looser --max-drop",
        )
    return replace(choice, metrics=(choice.metrics[0], found, choice.metrics[2]))

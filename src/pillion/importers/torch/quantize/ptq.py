# SPDX-License-Identifier: Apache-2.0
"""Post-training quantization: observes the ranges of all tensors on samples, then rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.fx import GraphModule
from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e

from pillion.compile_options import Quantization
from pillion.data.python_data import items_of, length_of
from pillion.errors import PillionError, warn
from pillion.host_io.progress import stage
from pillion.importers.torch.export import check_examples, export, quiet_torch
from pillion.importers.torch.float_origin import copy_module
from pillion.importers.torch.fx_nodes import aten, calls, operator_name, source_line
from pillion.importers.torch.loop_nodes import has_loops, run_with_loops
from pillion.importers.torch.observers import has_finite_range, observer_of
from pillion.importers.torch.quantize.annotate import FloatOp, PillionQuantizer
from pillion.importers.torch.quantize.bias_correction import FEWEST, MOST, correct_biases
from pillion.importers.torch.quantize.convert import convert
from pillion.importers.torch.quantize.equalize import equalize
from pillion.importers.torch.quantize.precision_search import PrecisionGoal, PrecisionSearch
from pillion.importers.torch.quantize.quantized_program import QuantizedProgram
from pillion.importers.torch.quantize.range_checks import require_finite, warn_of_ranges
from pillion.importers.torch.quantize.range_policies import FORMATS, RANGES, Calibrated, apply_policies
from pillion.importers.torch.quantize.self_check import warn_of_loss
from pillion.importers.torch.quantize.specs import Specs
from pillion.importers.torch.quantize.weight_rounding import fitted_layers, round_weights
from pillion.importers.torch.quantize.wide_log_softmax import lower_wide_log_softmaxes
from pillion.importers.torch.quantize.width_trials import WidthTrials, outputs_of_runs
from pillion.importers.torch.quantize.written_states import StateMemory
from pillion.importers.torch.rewrite.pipeline import accuracy_rewrites, rewrite_for_quantization
from pillion.importers.torch.user_inputs import (
    Batches,
    LimitedSamples,
    as_calibration_batches,
    as_inputs,
    split_into_samples,
)
from pillion.ir.constraints import QuantizationConstraints
from pillion.ir.precision_choice import PrecisionChoice
from pillion.ir.quantized_model import Progress, QuantizationTask

Inputs = Sequence[Tensor]
Follow = Callable[[tuple[Tensor, ...]], tuple[Tensor, ...]]
"""Appends the states that earlier samples left to a sample."""
Refuse = Callable[[Sequence[FloatOp]], None]
"""Raises if float ops are not allowed."""

DEFAULT_TUNING = Quantization()
HELD_BACK, FEWEST_TO_HOLD_BACK = 4, 64
"""Every fourth sample is held back to judge the choice of 16-bit tensors, from this many samples on."""
PARTS = 4
"""Parts into which fewer samples are divided; each judges programs that the other parts calibrate."""
FEW = 64
"""Samples for equalizing channels."""
ONE_EXAMPLE = "calibrated with the example input only: give calibration data for useful ranges"


def ptq(
    model: nn.Module | ExportedProgram,
    example_inputs: Any,
    calibrate: Batches | None = None,
    progress: Progress | None = None,
    constraints: QuantizationConstraints | None = None,
    refuse: Refuse | None = None,
    tuning: Quantization = DEFAULT_TUNING,
    wishes: QuantizationConstraints | None = None,
) -> QuantizedProgram:
    """Quantizes a trained model to int8. Without calibration data, calibrates with the example inputs and warns.

    `refuse` receives the float ops before calibration, which may take long. `wishes` is the old name of
    `constraints`."""
    constraints = constraints or wishes or QuantizationConstraints()
    task = QuantizationTask(tuning, constraints, progress).calibrated_by(calibrate)
    return PostTraining(task, refuse).quantize(model, as_inputs(example_inputs, "example_inputs"))


@dataclass(frozen=True)
class PostTraining:
    """Quantizes trained models to int8."""

    task: QuantizationTask
    refuse: Refuse | None = None
    """Receives the float ops before calibration, which may take long."""
    memory: StateMemory | None = None
    """Carries states from sample to sample."""
    goal: PrecisionGoal | None = None
    """Chooses the tensors that get 16 bits."""

    def quantize(self, model: nn.Module | ExportedProgram, inputs: tuple[Tensor, ...]) -> QuantizedProgram:
        """Quantizes a model. Without calibration data, calibrates with the example inputs and warns."""
        options, constraints, memory = self.task.options, self.task.constraints, self.memory
        all_inputs = memory.observed(inputs) if memory else inputs
        if isinstance(model, ExportedProgram):
            check_examples(model, all_inputs)
        exported = model if isinstance(model, ExportedProgram) else export(model, all_inputs)
        has_data = options.calibrate is not None
        ranges = "minmax" if options.ranges == "auto" and not has_data else options.ranges
        states = len(all_inputs) - len(inputs)
        quantizer = PillionQuantizer(Specs(counted=ranges != "minmax"), constraints, states)
        batches: Batches = options.calibrate if has_data else [inputs]
        with stage("preparing"):
            module = rewrite_for_quantization(exported.module(check_guards=False), constraints)
            batches = self._rewrite_by_ranges(module, batches, inputs, counted=quantizer.specs.counted)
            in_float = copy_module(module)
            prepared = insert_observers(module, quantizer)
        if self.refuse is not None:
            self.refuse(quantizer.float_ops)
        held_back: list[tuple[Tensor, ...]] | None = [] if self.goal and memory is None else None
        follow = memory.observed if memory else None
        seen = run_through_observers(prepared, batches, self.task.progress, inputs, follow, held_back)
        fits_weights = options.fits_weights and self.goal is None
        calibrated = Calibrated(prepared, ranges, constraints, memory, options.int16_patterns, fits_weights)
        apply_policies(RANGES, calibrated)
        check_ranges(prepared, "calibration")
        warn_of_ranges(prepared)
        apply_policies(FORMATS, calibrated)
        _warn_of_few_samples(options, len(seen))
        if fits_weights:
            round_weights(prepared, seen, centred=options.correct_biases)
        choice: PrecisionChoice | None = None
        if self.goal is not None and in_float is not None:

            def recalibrated(samples: Sequence[Inputs]) -> GraphModule:
                with quiet_torch():
                    observing = insert_observers(deepcopy(in_float), replace(quantizer))
                run_through_observers(observing, samples, None, inputs)
                apply_policies((*RANGES, *FORMATS), replace(calibrated, prepared=observing))
                return observing

            trials = WidthTrials(prepared, in_float, seen, seen, options, constraints.image_bits, states)
            judges, judged_by = judges_of(trials, held_back or (), recalibrated if memory is None else None)
            choice, wide = PrecisionSearch(trials, judges, self.goal, judged_by).choose()
            prepared = trials.widened(wide)
        notes = () if has_data else (ONE_EXAMPLE,)
        fitted = fitted_layers(prepared)
        with stage("quantizing"):
            converted = convert(prepared)
            if has_data and in_float is not None:
                answers = correct_biases(converted, in_float, seen, change=options.correct_biases)
                if states:
                    real = outputs_of_runs(in_float, seen, states)
                    answers = real, outputs_of_runs(converted, seen, states)
                has_16_bits = bool(options.int16_patterns) or self.goal is not None
                judged = len(answers[0][0]) - states
                warn_of_loss(converted, in_float, seen, answers, judged, has_16_bits=has_16_bits)
            return QuantizedProgram(
                converted, tuple(quantizer.float_ops), notes, in_float, choice, seen, fitted
            )

    def _rewrite_by_ranges(
        self, module: GraphModule, batches: Batches, inputs: Inputs, *, counted: bool
    ) -> Batches:
        """Rewrites a model by the ranges of its first samples. Returns all samples."""
        if counted and self.memory is None and calls(module.graph, [aten.log_softmax.int]):
            few, batches = first_samples(batches, inputs, names_of_inputs(module))
            lower_wide_log_softmaxes(module, few)
        accuracy_rewrites(module, self.task.constraints, calibrated=counted)
        if self.task.options.equalize and _allows_equalization(module, self.memory):
            few, batches = first_samples(batches, inputs, names_of_inputs(module))
            equalize(module, few)
        return batches


def _warn_of_few_samples(tuning: Quantization, count: int) -> None:
    if tuning.weight_rounding == "fitted" and count < FEWEST:
        warn(
            f"--weight-rounding fitted needs {FEWEST} calibration samples, here {count}: each weight is rounded to the nearest step"
        )


def judges_of(
    trials: WidthTrials,
    held_back: Sequence[Inputs],
    recalibrated: Callable[[Sequence[Inputs]], GraphModule] | None,
) -> tuple[list[WidthTrials], str]:
    """Returns the trials that measure programs on samples that did not calibrate them, and a text that names the
    samples. Held-back samples judge if there are any. Otherwise each part of the samples judges a program that the
    other parts calibrate; a single sample, and samples of models with state, judge what they calibrate."""
    seen = trials.calibrating
    if held_back:
        judge = trials.of(trials.prepared, seen, held_back)
        return [judge], f"{len(judge.judging)} samples that did not calibrate"
    if recalibrated is None or len(seen) < 2:
        return [trials], f"the {len(trials.judging)} that calibrated"
    parts = [seen[first::PARTS] for first in range(min(PARTS, len(seen)))]
    judges = []
    for number, part in enumerate(parts):
        others = [sample for other in (*parts[:number], *parts[number + 1 :]) for sample in other]
        judges.append(trials.of(recalibrated(others), others, part))
    return judges, f"{len(seen)} samples in {len(parts)} parts, each after calibration by the others"


def first_samples(
    batches: Batches, examples: Sequence[Tensor], names: Sequence[str] = ()
) -> tuple[list[tuple[Tensor, ...]], Iterable[Any]]:
    """Returns the first samples, and an iterable over all of them."""
    samples = all_samples(batches, examples, names)
    few = list(islice(samples, FEW))
    for number, sample in enumerate(few, start=1):
        require_finite(sample, number)
    return few, LimitedSamples(chain(few, samples))


def all_samples(
    batches: Batches, examples: Sequence[Tensor], names: Sequence[str]
) -> Iterator[tuple[Tensor, ...]]:
    """Yields all samples, in the examples' shapes and types."""
    for number, item in enumerate(
        items_of(as_calibration_batches(batches, examples, names), "calibrate"), start=1
    ):
        yield from split_into_samples(item, number, examples, names)


def names_of_inputs(module: nn.Module) -> tuple[str, ...]:
    """Returns the names of a model's inputs, if its graph kept them."""
    graph = getattr(module, "rounding", module)
    if not isinstance(graph, GraphModule):
        return ()
    return tuple(str(node.target) for node in graph.graph.find_nodes(op="placeholder"))


def _allows_equalization(module: GraphModule, memory: StateMemory | None) -> bool:
    """Whether a model has neither states nor loops over time; warns if it has."""
    reason = (
        "remembers from run to run" if memory else "has a loop over time" if has_loops(module.graph) else ""
    )
    if reason:
        warn(f"--equalize is left out: the model {reason}")
    return not reason


def insert_observers(module: GraphModule, quantizer: PillionQuantizer) -> GraphModule:
    """Inserts observers into a module."""
    with quiet_torch():
        return prepare_pt2e(module, quantizer)


def run_through_observers(
    prepared: nn.Module,
    batches: Batches,
    progress: Progress | None,
    examples: Sequence[Tensor],
    follow: Follow | None = None,
    held_back: list[tuple[Tensor, ...]] | None = None,
) -> list[tuple[Tensor, ...]]:
    """Runs batches shaped like the examples through the observers, and returns the first samples. If `held_back` is a
    list and the samples are many, every fourth goes there instead."""
    seen: list[tuple[Tensor, ...]] = []
    names = names_of_inputs(prepared)
    batches = as_calibration_batches(batches, examples, names)
    total = length_of(batches)
    item = 0
    with stage("calibrating", total) as advance, torch.no_grad():

        def read_samples() -> Iterator[tuple[int, tuple[Tensor, ...]]]:
            for number, batch in enumerate(items_of(batches, "calibrate"), start=1):
                for sample in split_into_samples(batch, number, examples, names):
                    yield number, sample
                advance(number, total)
                if progress is not None:
                    progress(number, total)

        samples = read_samples()
        if held_back is not None:
            first = list(islice(samples, FEWEST_TO_HOLD_BACK))
            held_back = held_back if len(first) == FEWEST_TO_HOLD_BACK else None
            samples = chain(first, samples)
        for count, (item, sample) in enumerate(samples, start=1):
            full_sample = follow(sample) if follow else sample
            if held_back is not None and count % HELD_BACK == 0:
                held_back += [full_sample] * (len(held_back) < MOST)
                continue
            _observe_one(prepared, full_sample, item, examples)
            seen += [full_sample] * (len(seen) < MOST)
    if not item:
        raise no_calibration_data()
    return seen


def no_calibration_data() -> PillionError:
    """Returns the error for an empty iterable of samples."""
    return PillionError(
        "there is no calibration data",
        rule="at least one batch of inputs",
        here="the iterable was empty",
        help="give inputs like those that the model will see, or leave `calibrate` out",
    )


def _observe_one(
    prepared: nn.Module, batch: tuple[Tensor, ...], number: int, examples: Sequence[Tensor]
) -> None:
    require_finite(batch, number)
    try:
        run_with_loops(prepared, *batch) if isinstance(prepared, GraphModule) else prepared(*batch)
    except (RuntimeError, IndexError, TypeError, ValueError) as error:
        shapes, example_shapes = (
            ", ".join(str(list(x.shape)) for x in inputs) for inputs in (batch, examples)
        )
        raise PillionError(
            f"the model fails on batch {number} of the calibration data",
            rule="the model computes every batch, as it computes the example inputs",
            here=f"{str(error).splitlines()[0]}  (shapes {shapes}; the example inputs: {example_shapes})",
            help="give samples of the shapes of the example inputs, or run the model on this batch in PyTorch",
        ) from error


def check_ranges(prepared: GraphModule, stage: str) -> None:
    """Raises if a range is not finite."""
    for node in (n for n in prepared.graph.nodes if n.op == "call_module"):
        if not has_finite_range(observer_of(prepared, node)):
            source = node.all_input_nodes[0]
            raise PillionError(
                f"{stage} met a value that is not finite",
                rule="every tensor is finite on all data",
                here=f"{operator_name(source)}  ({source_line(source)})",
                help="look for a division by zero, a logarithm of zero, or broken weights and inputs",
            )

# SPDX-License-Identifier: Apache-2.0
"""Post-training quantization: observe the ranges of all tensors on examples, then round."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Sized
from itertools import chain, islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e

from pillion.data.given import items_of
from pillion.errors import PillionError, warn
from pillion.importers.torch.export import check_examples, export, quiet
from pillion.importers.torch.floats import copied
from pillion.importers.torch.given import Batches, as_batches, as_inputs, as_samples
from pillion.importers.torch.loops import BEGINS, run
from pillion.importers.torch.nodes import operator_name, source_line
from pillion.importers.torch.quantize.annotate import FloatOp, PillionQuantizer
from pillion.importers.torch.quantize.bias import make_room_for_biases
from pillion.importers.torch.quantize.convert import convert
from pillion.importers.torch.quantize.correct import correct_biases
from pillion.importers.torch.quantize.equalize import equalize
from pillion.importers.torch.quantize.flat_ends import cut_flat_ends
from pillion.importers.torch.quantize.histogram import settle_ranges
from pillion.importers.torch.quantize.joins import settle_joins
from pillion.importers.torch.quantize.known_ranges import widen_known_ranges
from pillion.importers.torch.quantize.least_ranges import widen_least_ranges
from pillion.importers.torch.quantize.program import QuantizedProgram
from pillion.importers.torch.quantize.room import give_room
from pillion.importers.torch.quantize.scores import cut_lost_scores
from pillion.importers.torch.quantize.specs import Specs
from pillion.importers.torch.quantize.useful_ranges import has_finite_range, want_finite, warn_of_ranges
from pillion.importers.torch.quantize.wide_states import widen_states
from pillion.importers.torch.quantize.widen import widen_sums
from pillion.importers.torch.rewrite.finer_forms import finer_forms
from pillion.importers.torch.rewrite.masks import limit_masks
from pillion.importers.torch.rewrite.normalize import normalize
from pillion.ir.tuning import Tuning
from pillion.ir.wishes import Wishes
from pillion.outside.progress import stage

Inputs = Sequence[Tensor]
Follow = Callable[[tuple[Tensor, ...]], tuple[Tensor, ...]]
"""Gives a sample with what is remembered from those before it."""
Progress = Callable[[int, int | None], None]
"""Called after each batch with the number of batches so far, and of all where known."""

AS_USUAL = Tuning()
FEW = 64
"""Samples by which channels are equalized and biases corrected."""
ONE_EXAMPLE = "calibrated with the example input only: give calibration data for useful ranges"


def ptq(
    model: nn.Module | ExportedProgram,
    example_inputs: Any,
    calibrate: Batches | None = None,
    progress: Progress | None = None,
    wishes: Wishes | None = None,
    refuse: Callable[[Sequence[FloatOp]], None] | None = None,
    follow: Follow | None = None,
    tuning: Tuning = AS_USUAL,
) -> QuantizedProgram:
    """Quantizes a trained model to int8. Without calibration data the example inputs stand in, with a warning. Where samples have to
    follow one another, `follow` gives each what those before it have left, of which example inputs and data know nothing.

    `refuse` hears what would stay in float before any calibration, which may take long."""
    inputs = as_inputs(example_inputs, "example_inputs")
    if isinstance(model, ExportedProgram):
        check_examples(model, inputs)
    whole = follow(inputs) if follow else inputs
    exported = model if isinstance(model, ExportedProgram) else export(model, whole)
    tuning = _without_states(tuning) if follow else tuning
    ranges = "minmax" if tuning.ranges == "auto" and calibrate is None else tuning.ranges
    specs = Specs(counted=ranges != "minmax")
    quantizer = PillionQuantizer(specs, wishes=wishes or Wishes())
    batches: Batches = [inputs] if calibrate is None else calibrate
    few: list[tuple[Tensor, ...]] = []
    with stage("preparing"):
        module = normalize(exported.module(check_guards=False), quantizer.wishes)
        finer_forms(module, quantizer.wishes)
        if tuning.equalize or tuning.correct_biases:
            few, batches = first_samples(batches, inputs, names_of_inputs(module))
        if tuning.equalize and not _has_loops(module, "--equalize"):
            equalize(module, few)
        in_float = copied(module)
        prepared = prepare(module, quantizer)
    if refuse is not None:
        refuse(quantizer.float_ops)
    observe(prepared, batches, progress, inputs, follow)
    widen_sums(prepared, quantizer.wishes)
    settle_ranges(prepared, ranges)
    if ranges == "auto":
        give_room(prepared)
    widen_known_ranges(prepared)
    widen_least_ranges(prepared)
    limit_masks(prepared)
    cut_lost_scores(prepared)
    cut_flat_ends(prepared)
    settle_joins(prepared)
    check_ranges(prepared, "calibration")
    warn_of_ranges(prepared)
    make_room_for_biases(prepared)
    widen_states(prepared, quantizer.wishes)
    notes = (ONE_EXAMPLE,) if calibrate is None else ()
    with stage("quantizing"):
        converted = convert(prepared)
        if tuning.correct_biases and in_float is not None and not _has_loops(converted, "--correct-biases"):
            correct_biases(converted, in_float, few)
        return QuantizedProgram(converted, tuple(quantizer.float_ops), notes, in_float)


def first_samples(
    batches: Batches, examples: Sequence[Tensor], names: Sequence[str] = ()
) -> tuple[list[tuple[Tensor, ...]], Iterable[Any]]:
    """Gives some samples, and all of them to go through again: a generator gives each only once."""
    items = enumerate(items_of(as_batches(batches, examples, names), "calibrate"), start=1)
    samples = (sample for number, item in items for sample in as_samples(item, number, examples, names))
    few = list(islice(samples, FEW))
    for number, sample in enumerate(few, start=1):
        want_finite(sample, number)
    return few, chain(few, samples)


def names_of_inputs(module: nn.Module) -> tuple[str, ...]:
    """Gives the names that a model's inputs have in its forward, as far as its graph kept them."""
    graph = getattr(module, "rounding", module)
    if not isinstance(graph, GraphModule):
        return ()
    return tuple(str(node.target) for node in graph.graph.find_nodes(op="placeholder"))


def _without_states(tuning: Tuning) -> Tuning:
    """What can be tuned where samples follow one another: ranges."""
    if tuning.equalize or tuning.correct_biases:
        warn("--equalize and --correct-biases are left out: the model remembers from run to run")
    return Tuning(tuning.ranges)


def _has_loops(module: GraphModule, option: str) -> bool:
    """Whether a model has loops over time, whose layers see other numbers in each step; it is said that they are left as they are."""
    found = any(node.target in BEGINS for node in module.graph.nodes)
    if found:
        warn(f"{option} is left out: the model has a loop over time")
    return found


def prepare(module: GraphModule, quantizer: PillionQuantizer) -> GraphModule:
    """Puts observers into a module, without torchao's own chatter."""
    with quiet():
        return prepare_pt2e(module, quantizer)


def observe(
    prepared: nn.Module,
    batches: Batches,
    progress: Progress | None,
    examples: Sequence[Tensor],
    follow: Follow | None = None,
) -> None:
    """Runs the batches through the observers, each of which is like the examples."""
    names = names_of_inputs(prepared)
    samples = as_batches(batches, examples, names)
    total = _count(samples)
    done = 0
    with stage("calibrating", total) as advance, torch.no_grad():
        for done, item in enumerate(items_of(samples, "calibrate"), start=1):
            for sample in as_samples(item, done, examples, names):
                _observe_one(prepared, follow(sample) if follow else sample, done, examples)
            advance(done, total)
            if progress is not None:
                progress(done, total)
    if not done:
        raise PillionError(
            "there is no calibration data",
            rule="at least one batch of inputs",
            here="the iterable was empty",
            help="give inputs like those that the model will see, or leave `calibrate` out",
        )


def _count(samples: Iterable[Any]) -> int | None:
    """How many there are; a DataLoader of a stream has a `len` that raises."""
    try:
        return len(samples) if isinstance(samples, Sized) else None
    except TypeError:
        return None


def _observe_one(
    prepared: nn.Module, batch: tuple[Tensor, ...], number: int, examples: Sequence[Tensor]
) -> None:
    want_finite(batch, number)
    try:
        run(prepared, *batch) if isinstance(prepared, GraphModule) else prepared(*batch)
    except (RuntimeError, IndexError, TypeError, ValueError) as error:
        shapes, usual = (", ".join(str(list(x.shape)) for x in inputs) for inputs in (batch, examples))
        raise PillionError(
            f"the model fails on batch {number} of the calibration data",
            rule="the model computes every batch, as it computes the example inputs",
            here=f"{str(error).splitlines()[0]}  (shapes {shapes}; the example inputs: {usual})",
            help="give samples of the shapes of the example inputs, or run the model on this batch in PyTorch",
        ) from error


def check_ranges(prepared: GraphModule, stage: str) -> None:
    """Raises where a range is not finite, or its width is not."""
    for node in (n for n in prepared.graph.nodes if n.op == "call_module"):
        observer = prepared.get_submodule(str(node.target))
        observer = getattr(observer, "activation_post_process", observer)
        if not has_finite_range(observer):
            raise _infinite(node, stage)


def _infinite(node: Node, stage: str) -> PillionError:
    source = node.args[0]
    assert isinstance(source, Node)
    return PillionError(
        f"{stage} met a value that is not finite",
        rule="every tensor is finite on all data",
        here=f"{operator_name(source)}  ({source_line(source)})",
        help="look for a division by zero, a logarithm of zero, or broken weights and inputs",
    )

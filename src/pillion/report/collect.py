# SPDX-License-Identifier: Apache-2.0
"""Collects all facts of a report from a program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pillion.compiled_program import CompiledProgram
from pillion.data.python_data import open_data
from pillion.data.sample import InputSpec, batch_samples
from pillion.errors import PillionError
from pillion.host_io.progress import stage
from pillion.ir.types import Array, Shape, Value
from pillion.ops import Segment
from pillion.overlap import overlap_of
from pillion.report import board_measurement, flash, quality
from pillion.report.arena import arena_facts
from pillion.report.branches import branches_of
from pillion.report.op_facts import op_facts, segments, tensor_edges, tensor_facts, with_boundary_bytes
from pillion.report.provenance import provenance_facts
from pillion.report.report_facts import Facts, OverlapFacts, QualityFacts, StateFacts, TimeFacts, TimelineRow
from pillion.report.report_options import ReportOptions
from pillion.run.float_interface import as_type, graph_inputs
from pillion.run.random_inputs import random_samples
from pillion.run.time_estimate import estimate_program


def collect(subject: CompiledProgram, asked: ReportOptions) -> Facts:
    """Returns all facts about a program. Facts that are unknown here carry the reason."""
    shapes = subject.floats.input_shapes if subject.floats else [v.shape for v in subject.graph.inputs]
    samples = (
        [] if asked.data is None else _report_samples(asked.data, subject.graph.inputs, shapes, asked.samples)
    )
    with stage("comparing with float" if subject.floats else "looking at samples") as advance:
        measured = quality.measure_quality(subject, samples, asked.progress or advance)
    with stage("counting instructions"):
        measurement = (
            _measure_first_sample(subject, samples)
            if asked.measure
            else board_measurement.not_measured("not asked for (--no-measure)")
        )
    with stage("planning memory"):
        facts = _assemble_facts(subject, asked, measured, measurement)
    if asked.conditions is None:
        return facts
    with stage("estimating time"):
        estimate = estimate_program(subject, asked.conditions)
    low, high = estimate.milliseconds.low, estimate.milliseconds.high
    time = TimeFacts(str(estimate.clock), low, high, estimate.basis, estimate.left_out)
    return replace(facts, time=time)


def _report_samples(
    given: Any, inputs: Sequence[Value], shapes: Sequence[Shape], most: int
) -> list[list[Array]]:
    """Returns at most `most` samples of data in any form that calibration accepts, without labels, each with an array per input: real numbers, or the input's integers."""
    specs = [InputSpec.of(v, shape) for v, shape in zip(inputs, shapes, strict=True)]
    samples = [list(arrays) for arrays, _ in batch_samples(open_data(given).samples(specs, most), specs)]
    if not samples:
        raise PillionError(
            "there are no samples to look at",
            rule="one sample at least",
            here=f"{given}" if isinstance(given, str) else "the data was empty",
            help="give inputs like those that the model will see, or leave the data out",
        )
    return samples


def _assemble_facts(
    subject: CompiledProgram,
    options: ReportOptions,
    measured: QualityFacts,
    measurement: board_measurement.Measurement,
) -> Facts:
    graph, target, lowered = subject.graph, subject.target, subject.lowered
    between = tensor_edges(subject)
    ops = op_facts(subject, measurement.instructions)
    if subject.file is not None:
        ops = with_boundary_bytes(ops, between)
    return Facts(
        model=graph.name,
        target=target.name,
        target_summary=target.summary,
        core=target.core.name,
        kernels=target.isa.value,
        npu=_npu_name(subject),
        npu_payload=subject.payloads.summary if target.npu and subject.payloads.segments else "",
        optimize=subject.optimize,
        arithmetic=graph.arithmetic.value,
        inputs=tuple(map(tensor_facts, graph.inputs)),
        outputs=tuple(map(tensor_facts, graph.outputs)),
        states=tuple(StateFacts(s.name, tensor_facts(s.before), tensor_facts(s.after)) for s in graph.states),
        state_bytes=lowered.memory.state_bytes,
        macs=graph.macs,
        sram_bytes=subject.sram_bytes,
        sram_bytes_of_chip=subject.ram_of_chip,
        flash_bytes_there=target.flash_bytes if options.max_flash is None else options.max_flash,
        npu_constant_bytes=subject.npu_constant_bytes,
        npu_flash_bytes=subject.npu_memory.flash_bytes,
        is_memory_exact=subject.npu_memory.is_exact,
        constant_bytes=lowered.constant_bytes,
        params_bytes=lowered.params_bytes,
        crossing_bytes=sum(op.crossing_bytes for op in ops),
        ops=ops,
        edges=between,
        segments=segments(subject, ops),
        arena=arena_facts(subject, ops),
        constants=flash.constant_parts(subject, ops),
        code=flash.code_parts(subject, measurement.elf) if measurement.elf else (),
        measured=measurement.facts,
        quality=measured,
        origin=provenance_facts(subject, options),
        overlap=_overlap_facts(subject),
        precision=subject.precision_texts,
        branches=tuple(branches_of(subject)),
    )


def _overlap_facts(subject: CompiledProgram) -> OverlapFacts | None:
    found = overlap_of(subject)
    if found is None:
        return None
    return OverlapFacts(found.summary, tuple(TimelineRow(**row) for row in found.rows))


def _npu_name(subject: CompiledProgram) -> str:
    """Returns the name of the chip's NPU, or of the NPU in the file."""
    if subject.target.npu:
        return subject.target.npu.name
    return ", ".join(dict.fromkeys(op.device for op in subject.graph.ops if isinstance(op, Segment)))


def _measure_first_sample(
    subject: CompiledProgram, samples: Sequence[Sequence[Array]]
) -> board_measurement.Measurement:
    """Counts instructions on the first sample of the data, or on a random one."""
    if not samples:
        return board_measurement.measure_on_board(subject, random_samples(subject.graph, 1, 0)[0])
    if subject.floats is not None:
        return board_measurement.measure_on_board(
            subject, graph_inputs(subject.graph, subject.floats(samples[0]))
        )
    inputs = [as_type(v, x) for v, x in zip(subject.graph.inputs, samples[0], strict=True)]
    return board_measurement.measure_on_board(subject, inputs)

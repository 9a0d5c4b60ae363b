# SPDX-License-Identifier: Apache-2.0
"""Everything that a report says, gathered from a program."""

from __future__ import annotations

from collections.abc import Sequence

from pillion.ir.types import Array
from pillion.ops import Segment
from pillion.report import flash, measured, quality
from pillion.report.arena import arena
from pillion.report.data import samples
from pillion.report.facts import Facts, QualityFacts, StateFacts
from pillion.report.ops import edges, op_facts, segments, tensor, with_crossings
from pillion.report.origin import origin
from pillion.report.subject import Asked, Subject
from pillion.run.floats import as_type, graph_inputs
from pillion.run.samples import random_samples

NOT_ASKED = "not asked for (--no-measure)"


def collect(subject: Subject, asked: Asked) -> Facts:
    """Gathers all facts of a program. Where something cannot be known here, the reason stands in its place."""
    stage = asked.stage or (lambda words: None)
    stage("comparing with float" if subject.floats else "looking at samples")
    shapes = subject.floats.input_shapes if subject.floats else [v.shape for v in subject.graph.inputs]
    given = [] if asked.data is None else samples(asked.data, subject.graph.inputs, shapes, asked.samples)
    found = quality.quality(subject, given, asked.progress)
    stage("counting instructions")
    measurement = _measurement(subject, given) if asked.measure else measured.not_measured(NOT_ASKED)
    stage("planning memory")
    return _facts(subject, asked, found, measurement)


def _facts(subject: Subject, asked: Asked, found: QualityFacts, measurement: measured.Measurement) -> Facts:
    graph, target, lowered = subject.graph, subject.target, subject.lowered
    between = edges(subject)
    ops = op_facts(subject, measurement.instructions)
    if subject.file is not None:
        ops = with_crossings(ops, between)
    return Facts(
        model=graph.name,
        target=target.name,
        target_summary=target.summary,
        core=target.core.name,
        kernels=target.isa.value,
        npu=_npu(subject),
        npu_payload=subject.payloads.summary if target.npu and subject.payloads.segments else "",
        optimize=subject.optimize,
        arithmetic=graph.arithmetic.value,
        inputs=tuple(map(tensor, graph.inputs)),
        outputs=tuple(map(tensor, graph.outputs)),
        states=tuple(StateFacts(s.name, tensor(s.before), tensor(s.after)) for s in graph.states),
        state_bytes=lowered.memory.state_bytes,
        macs=graph.macs,
        sram_bytes=subject.sram_bytes,
        sram_bytes_of_chip=target.sram_bytes,
        npu_constant_bytes=subject.npu_constant_bytes,
        constant_bytes=lowered.constant_bytes,
        params_bytes=lowered.params_bytes,
        crossing_bytes=sum(op.crossing_bytes for op in ops),
        ops=ops,
        edges=between,
        segments=segments(subject, ops),
        arena=arena(subject, ops),
        constants=flash.constants(subject, ops),
        code=flash.code(subject, measurement.elf) if measurement.elf else (),
        measured=measurement.facts,
        quality=found,
        origin=origin(subject, asked),
    )


def _npu(subject: Subject) -> str:
    """The name of the NPU: that of the chip, or the one that a file speaks of."""
    if subject.target.npu:
        return subject.target.npu.name
    return ", ".join(dict.fromkeys(op.device for op in subject.graph.ops if isinstance(op, Segment)))


def _measurement(subject: Subject, given: Sequence[Sequence[Array]]) -> measured.Measurement:
    """Counts instructions on the first sample of the data, on a random one where there is none."""
    if not given:
        return measured.measure(subject, random_samples(subject.graph, 1, 0)[0])
    if subject.floats is not None:
        return measured.measure(subject, graph_inputs(subject.graph, subject.floats(given[0])))
    inputs = [as_type(v, x) for v, x in zip(subject.graph.inputs, given[0], strict=True)]
    return measured.measure(subject, inputs)

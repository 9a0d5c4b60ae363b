# SPDX-License-Identifier: Apache-2.0
"""What a report says is what the program is: each figure against its own source."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import faulty_executors
import pillion
from pillion.errors import PillionError
from pillion.ir.types import Array
from pillion.ops import Segment
from pillion.program import Program
from pillion.report.arena import arena_facts
from pillion.report.collect import collect
from pillion.report.op_facts import op_facts
from pillion.report.report_facts import Facts
from pillion.report.report_options import ReportOptions

pytestmark = pytest.mark.torch
PLAIN = ReportOptions(measure=False)


def test_report_ops_equal_the_ledgers(on_npu: Program, npu_facts: Facts) -> None:
    by_name = {op.name: op for op in npu_facts.ops}
    assert len(by_name) == len(npu_facts.ops) == len(on_npu.ledger.entries)
    for entry in on_npu.ledger:
        op = by_name[entry.op.name]
        assert (op.unit, op.segment, op.because, op.flip) == (
            entry.unit.value,
            entry.segment,
            entry.because,
            entry.flip,
        )
        assert (op.kind, op.source, op.crossing_bytes) == (
            entry.op.kind,
            entry.op.source,
            entry.crossing_bytes,
        )
        assert [r.rule for r in op.rules] == [v.rule for v in entry.verdicts]
        assert op.decided_by.rule == entry.deciding.rule
    assert {op.source.split(":")[0] for op in npu_facts.ops if op.kind == "conv2d"} == {"branches.py"}
    assert npu_facts.macs == sum(op.macs for op in npu_facts.ops) == on_npu.graph.macs


def test_report_edges_join_producers_with_readers(npu_facts: Facts) -> None:
    for edge in npu_facts.edges:
        if edge.maker >= 0:
            assert edge.tensor in [t.name for t in npu_facts.ops[edge.maker].makes]
        if edge.reader >= 0:
            assert edge.tensor in [t.name for t in npu_facts.ops[edge.reader].reads]
        assert edge.maker < edge.reader or edge.reader == -1
    read = {(e.reader, e.tensor) for e in npu_facts.edges}
    assert {(op.number, t.name) for op in npu_facts.ops for t in op.reads} <= read
    assert {t.name for t in npu_facts.outputs} == {e.tensor for e in npu_facts.edges if e.reader == -1}
    assert {t.name for t in npu_facts.inputs} == {e.tensor for e in npu_facts.edges if e.maker == -1}


def test_boundary_tensors_count_once_per_segment(on_npu: Program, npu_facts: Facts) -> None:
    assert npu_facts.crossing_bytes == on_npu.ledger.crossing_bytes
    assert npu_facts.crossing_bytes == sum(s.bytes_in + s.bytes_out for s in npu_facts.segments)
    crossing = {e.tensor for e in npu_facts.edges if e.is_border}
    at_borders = {t.name for s in npu_facts.segments for t in (*s.enters, *s.leaves)}
    assert crossing == at_borders
    bodies = [op.body for op in on_npu.graph.ops if isinstance(op, Segment)]
    assert [s.macs for s in npu_facts.segments] == [body.macs for body in bodies]
    assert sum(s.weight_bytes for s in npu_facts.segments) == on_npu.npu_constant_bytes


@pytest.mark.parametrize("which", ["on_npu", "on_cpu"])
def test_the_arena_is_that_of_the_plan(which: str, request: pytest.FixtureRequest) -> None:
    program: Program = request.getfixturevalue(which)
    held = arena_facts(program, op_facts(program, None))
    plan, graph = program.memory, program.lowered.graph
    assert held.arena_bytes == plan.arena_bytes
    for value, offset in plan.offsets.items():
        one = next(r for r in held.residents if value.name in r.name.split(", "))
        assert one.offset == offset
        assert value.type.size_bytes <= one.bytes < value.type.size_bytes + 16
        for step, op in enumerate(graph.ops):  # whoever is read or made is there
            if value in (*op.activations, *op.results):
                assert one.first <= step <= one.last
    for op, offset in plan.scratch_offsets.items():
        scratch = next(r for r in held.residents if r.name == f"scratch of {op.name}")
        assert (scratch.offset, scratch.first, scratch.what) == (offset, scratch.last, "scratch")
    assert held.peak.bytes == max(held.bytes_in_use) <= held.arena_bytes
    for step, bytes_in_use in enumerate(held.bytes_in_use):
        taken = np.zeros(held.arena_bytes, bool)
        for one in held.residents:
            if one.first <= step <= one.last:
                taken[one.offset : one.offset + one.bytes] = True
        assert taken.sum() == bytes_in_use


def test_the_next_peak_shares_no_resident_with_the_peak(on_cpu: Program) -> None:
    held = arena_facts(on_cpu, op_facts(on_cpu, None))
    assert held.next_peak is not None
    assert not {r.name for r in held.peak.residents} & {r.name for r in held.next_peak.residents}
    assert held.next_peak.bytes <= held.peak.bytes


def test_advice_is_planned(on_cpu: Program) -> None:
    narrow = pillion.compile(_net(), (torch.randn(1, 3, 17, 23),), target="cortex-m55", io_dtype="int8")
    wide = pillion.compile(_net(), (torch.randn(1, 3, 17, 23),), target="cortex-m55")
    told = " ".join(collect(wide, PLAIN).arena.advice)
    assert f"--io-dtype int8 needs {narrow.memory.arena_bytes:,} bytes (planned)" in told
    for other in (narrow, on_cpu):  # of the second, the peak is in the middle
        assert "--io-dtype int8" not in " ".join(collect(other, PLAIN).arena.advice)


@pytest.mark.parametrize("channels", [3, 16, 96])
def test_smaller_kernels_are_advised_where_their_plan_is_smaller(channels: int) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(channels, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, channels, 3, padding=1))
    example = (torch.randn(1, channels, 5, 5),)
    fast, small = (
        pillion.compile(net, example, target="cortex-m33", io_dtype="int8", optimize=wish)  # type: ignore[arg-type]  # of two
        for wish in ("speed", "size")
    )
    told = " ".join(collect(fast, PLAIN).arena.advice)
    words = f"--optimize size needs {small.memory.arena_bytes:,} bytes (planned)"
    assert (words in told) == (small.memory.arena_bytes < fast.memory.arena_bytes)
    assert ("--optimize size" in told) == (words in told)
    assert fast.memory.scratch_bytes


def _net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 5, 3, stride=4), nn.ReLU())


def test_a_shortcut_that_waits_is_named() -> None:
    class Waiting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.wide, self.narrow = nn.Conv2d(4, 64, 1), nn.Conv2d(64, 4, 1)

        def forward(self, x: Tensor) -> Tensor:
            x = x.abs()
            return self.narrow(self.wide(x).relu()[:, :, ::1].sigmoid()) + x

    program = pillion.compile(Waiting(), (torch.randn(1, 4, 16, 16),), target="cortex-m3", extra=0)
    held = collect(program, PLAIN).arena
    kept = [
        r
        for r in held.peak.residents
        if any(r.name in words and "only kept" in words for words in held.advice)
    ]
    assert len(kept) == 1
    assert kept[0].bytes == 4 * 16 * 16


def test_constants_are_all_of_flash(on_npu: Program, on_cpu: Program) -> None:
    for program in (on_npu, on_cpu):
        facts = collect(program, PLAIN)
        held = program.lowered.constant_bytes + program.lowered.params_bytes + program.npu_memory.flash_bytes
        assert sum(part.bytes for part in facts.constants) == held
        assert facts.code == ()
        assert all(facts.ops[p.op].name == p.name for p in facts.constants if p.op >= 0)


@pytest.mark.qemu
def test_report_instructions_equal_the_emulators(on_cpu: Program, samples: list[Array]) -> None:
    facts = collect(on_cpu, ReportOptions(samples))
    profile = on_cpu.measure(samples[0], on="mps3-an547").profile
    assert profile is not None
    assert [op.instructions for op in facts.ops] == list(profile.op_instructions)
    assert facts.measured.instructions == profile.instructions
    assert facts.measured.code_bytes == profile.code_bytes
    assert facts.measured.missing == ""
    tables = sum(p.bytes for p in facts.code if p.group == "tables")
    assert sum(p.bytes for p in facts.code) - tables == profile.code_bytes
    called = {routine.name for routine in on_cpu.lowered.routines}
    assert {p.name for p in facts.code if p.group == "kernels"} <= called


@pytest.mark.qemu
def test_the_stand_in_of_the_npu_is_no_measurement(on_npu: Program) -> None:
    facts = collect(on_npu, ReportOptions())
    assert {op.unit for op in facts.ops if op.instructions is None} == {"npu"}
    assert {op.unit for op in facts.ops if op.instructions is not None} == {"cpu"}
    assert facts.measured.instructions == sum(op.instructions or 0 for op in facts.ops)


def test_missing_measurements_have_a_reason(on_cpu: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no-measure" in collect(on_cpu, PLAIN).measured.missing
    nowhere = pillion.compile(_net(), (torch.randn(1, 3, 9, 9),), target="cortex-m0plus")
    assert "no emulated board has a cortex-m0plus" in collect(nowhere, ReportOptions()).measured.missing
    monkeypatch.setenv("PATH", "")
    assert "apt-get install" in collect(on_cpu, ReportOptions()).measured.missing


def test_signal_to_noise_is_that_of_torch(on_cpu: Program, samples: list[Array]) -> None:
    from branches import Branches

    quality = {q.tensor: q for q in collect(on_cpu, ReportOptions(samples, measure=False)).quality.tensors}
    with torch.no_grad():
        wanted = [Branches()(torch.from_numpy(x)) for x in samples]
    made = [on_cpu.run(x) for x in samples]
    for place, output in enumerate(on_cpu.graph.outputs):
        real = np.stack([w[place].numpy() for w in wanted]).astype(float)
        error = real - np.stack([m[place] for m in made])
        ratio = 10 * np.log10((real**2).sum() / (error**2).sum())
        integers = on_cpu.graph.producers[output].operands[0]  # what the dequantize reads
        assert quality[integers.name].signal_to_noise_db == pytest.approx(ratio, abs=0.01)
        assert ratio > 15


def test_training_afterwards_does_not_change_the_report(samples: list[Array]) -> None:
    from branches import SHAPE, Branches

    model = Branches()
    program = pillion.compile(model, (torch.zeros(SHAPE),), target="cortex-m55", calibrate=samples)
    before = collect(program, ReportOptions(samples, measure=False)).quality
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(7)
    assert collect(program, ReportOptions(samples, measure=False)).quality == before


def test_saturation_and_histograms_are_counted(on_cpu: Program, samples: list[Array]) -> None:
    loud = [x * 3 for x in samples]
    facts = collect(on_cpu, ReportOptions(loud, measure=False))
    first = next(q for q in facts.quality.tensors if q.op == 0)
    quant = on_cpu.graph.values[first.tensor].quant
    places = np.stack(loud).astype(float) / quant.scale + quant.zero_point
    assert first.saturated == pytest.approx(((places < -128.5) | (places > 127.5)).mean())
    assert first.saturated is not None
    assert first.saturated > 0.1
    integers = np.clip(np.round(places), -128, 127)
    assert first.at_bounds == pytest.approx(np.isin(integers, (-128, 127)).mean(), abs=1e-3)
    held = first.histogram
    assert sum(held.integers) == sum(held.floats) == first.elements == places.size
    assert held.floats[0] == (places < -128.5).sum()
    assert held.floats[-1] == (places >= 127.5).sum()
    assert held.integers[0] == held.integers[-1] == 0
    assert (held.low, held.high) == pytest.approx(
        ((-128.5 - quant.zero_point) * quant.scale, (127.5 - quant.zero_point) * quant.scale)
    )


def test_tensors_inside_of_segments_are_compared(npu_facts: Facts) -> None:
    inside = {op.number for op in npu_facts.ops if op.segment is not None}
    compared = {q.op for q in npu_facts.quality.tensors if q.signal_to_noise_db is not None}
    assert len(inside & compared) >= len(inside) - 2  # transposes have no counterpart
    assert all(
        q.signal_to_noise_db > 10 for q in npu_facts.quality.tensors if q.signal_to_noise_db is not None
    )


def test_layouts_of_the_border_do_not_matter(samples: list[Array]) -> None:
    from branches import SHAPE, Branches

    options: dict[str, Any] = {"target": "cortex-m55", "calibrate": samples}
    usual = pillion.compile(Branches(), (torch.zeros(SHAPE),), **options)
    other = pillion.compile(Branches(), (torch.zeros(SHAPE),), io_dtype="int8", io_layout="nhwc", **options)
    ratios = [
        {
            q.tensor: q.signal_to_noise_db
            for q in collect(p, ReportOptions(samples, measure=False)).quality.tensors
        }
        for p in (usual, other)
    ]
    shared = [name for name in ratios[0] if name in ratios[1] and ratios[0][name] and "conv" in name]
    assert shared
    assert all(ratios[0][name] == pytest.approx(ratios[1][name]) for name in shared)


def test_a_program_without_a_float_model_shows_its_integers() -> None:
    program = faulty_executors.program(faulty_executors.net(), "cortex-m33")
    rng = np.random.default_rng(0)
    facts = collect(program, ReportOptions([rng.standard_normal((1, 5, 4, 3))], measure=False))
    assert not facts.quality.has_floats
    assert facts.quality.tensors
    assert all(q.signal_to_noise_db is None and not q.histogram.floats for q in facts.quality.tensors)
    assert all(sum(q.histogram.integers) == q.elements for q in facts.quality.tensors)


def test_segments_of_files_are_explained() -> None:
    program = faulty_executors.program(faulty_executors.with_segment(), "cortex-m33")
    facts = collect(dataclasses.replace(program, ledger=type(program.ledger)(())), PLAIN)
    assert [op.unit for op in facts.ops] == ["cpu", "npu", "npu", "cpu"]
    assert facts.ops[1].because == "the file says so: npu"
    assert facts.npu == "npu"
    assert [e.is_border for e in facts.edges if e.tensor in ("clamped", "inner")] == [True]


WRONG: dict[str, tuple[Any, str]] = {
    "nothing": ([], "no samples to look at"),
    "shape": ([np.zeros((1, 3, 17, 24))], "does not fit the model"),
    "words": ([np.array(["a"])], "does not fit the model"),
    "NaN": ([np.full((1, 3, 17, 23), np.nan)], "not finite"),
    "mapping": ({"x": 1}, "does not fit the model"),
    "number": (3, "cannot be gone through"),
    "no path": ("nowhere/at/all.npz", "no data at"),
}


@pytest.mark.parametrize("name", WRONG)
def test_invalid_data_is_refused(name: str, on_cpu: Program) -> None:
    data, words = WRONG[name]
    with pytest.raises(PillionError, match=words):
        collect(on_cpu, ReportOptions(data, measure=False))


def test_data_may_be_of_many_kinds(on_cpu: Program, samples: list[Array], tmp_path: Any) -> None:
    whole = np.concatenate(samples)
    np.save(tmp_path / "all.npy", whole)
    np.savez(tmp_path / "all.npz", x=whole, y=np.arange(len(whole)))
    many: list[Callable[[], Any]] = [
        lambda: samples,
        lambda: (torch.from_numpy(x) for x in samples),
        lambda: [(x[0],) for x in samples],
        lambda: [(x, 1) for x in samples],
        lambda: tmp_path / "all.npy",
        lambda: str(tmp_path / "all.npz"),
    ]
    found = [collect(on_cpu, ReportOptions(make(), measure=False)).quality for make in many]
    assert all(one == found[0] for one in found)
    assert found[0].samples == 3
    assert collect(on_cpu, ReportOptions(tmp_path, samples=2, measure=False)).quality.samples == 2


def test_facts_are_plain_data(npu_facts: Facts) -> None:
    data = json.loads(json.dumps(npu_facts.as_data(), allow_nan=False))
    assert data["ops"][0]["name"] == npu_facts.ops[0].name
    assert set(data["origin"]["versions"]) >= {"pillion", "python", "numpy", "torch"}
    assert all(len(digest) == 64 for digest in data["origin"]["hashes"].values())

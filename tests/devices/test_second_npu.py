# SPDX-License-Identifier: Apache-2.0
"""An NPU that nobody has heard of, given as one `Device`: everything that Pillion does with an NPU it does with this one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import pillion
from pillion import REGISTRY, Registry
from pillion.devices.cortex_m import CORES
from pillion.devices.device import Device, NpuRule
from pillion.devices.payloads import Payloads, SegmentFile, SegmentPayload
from pillion.devices.retyped import Fixit
from pillion.importers.pte.container import Container
from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.rewriting import rewrite
from pillion.ops import Conv2d, Linear, Lut, Reshape, Segment
from pillion.program import Program
from pillion.report.collect import collect
from pillion.report.page import render
from pillion.report.report_options import ReportOptions
from pillion.targets import Target, find_target

REWRITTEN: list[str] = []


def renamed(graph: Graph) -> Graph:
    """Leaves every op as it is, and notes that it was asked."""
    REWRITTEN.append(graph.name)
    return rewrite(graph, lambda op, sweep: None)


def odd_kernel(op: Op) -> tuple[object, bool]:
    assert isinstance(op, Conv2d)
    return op.kernel, all(k % 2 for k in op.kernel)


def smaller_kernel(rule: str, op: Op) -> Iterator[Fixit]:
    if rule == "odd" and isinstance(op, Conv2d):
        first, height, width, last = op.weights.shape
        shape = (first, height - 1, width - 1, last)
        data = np.broadcast_to(np.int8(0), shape)
        weights = dataclasses.replace(
            op.weights, type=dataclasses.replace(op.weights.type, shape=shape), data=data
        )
        yield f"kernel {op.kernel} → {shape[1:3]}", dataclasses.replace(op, weights=weights)


def backwards(files: Sequence[SegmentFile], chip: str) -> Payloads:
    """A converter that turns files round."""
    made = tuple(SegmentPayload(file.name, file.tflite, file.tflite[::-1]) for file in files)
    return Payloads(made, converter="backwards 1.0", firmware_files={"chip.txt": chip})


NPU = Device(
    name="second-npu",
    summary="An NPU for convolutions with odd kernels",
    ops=frozenset({Conv2d, Linear, Reshape}),
    rules=(NpuRule(Conv2d, "odd", "an odd kernel", odd_kernel, "test"),),
    estimate=lambda op: 1,
    rewrites=(renamed,),
    fixits=smaller_kernel,
    removes=lambda op: isinstance(op, (Reshape, Linear)),
    delegate="SecondBackend",
)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.odd, self.even, self.last = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 2), nn.Linear(4 * 4 * 3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.even(torch.sigmoid(self.odd(x))).flatten(1))


X = torch.linspace(-1, 1, 3 * 7 * 6).reshape(1, 3, 7, 6)


@pytest.fixture
def registry() -> Iterator[Registry]:
    with REGISTRY.changed() as changed:
        yield changed


def compiled(registry: Registry, npu: Device = NPU) -> Program:
    registry.add_npu(npu)
    registry.add_target(Target("chip", "a chip", CORES["cortex-m33"], npu, converter_name="chip-r1"))
    REWRITTEN.clear()
    return pillion.compile(Net().eval(), (X,), target="chip")


def test_the_second_npu_is_placed_explained_and_run(registry: Registry) -> None:
    program = compiled(registry)
    assert REWRITTEN == ["net"]
    segments = [op for op in program.graph.ops if isinstance(op, Segment)]
    assert [op.kind for segment in segments for op in segment.body] == ["conv2d"]
    assert {segment.device for segment in segments} == {"second-npu"}
    by_kind = {entry.op.kind: entry for entry in program.ledger if entry.segment is None}
    assert by_kind["conv2d"].flip == "kernel (2, 2) → (1, 1)"
    assert by_kind["lut"].deciding.rule == "lut.supported"
    assert by_kind["linear"].deciding.rule == "segment.work", "what its converter drops makes no segment"
    np.testing.assert_array_equal(program.run(X)[0], program.run(X, on="host")[0])
    assert any(isinstance(op, Lut) for op in program.graph.ops)


def test_without_a_converter_its_segments_are_tflite(registry: Registry) -> None:
    program = compiled(registry)
    assert (program.payloads.converter, len(program.payloads.segments)) == ("", 1)
    assert program.payloads.summary == "1 segment, as TFLite: there is no converter"
    assert [one.id for one in Container(program.pte(), "net").plan.delegates] == ["SecondBackend"]
    assert program.verify(1).ok


def test_its_converter_is_asked_with_the_name_of_the_chip(registry: Registry, tmp_path: Path) -> None:
    program = compiled(registry, dataclasses.replace(NPU, payloads=backwards))
    (segment,) = program.payloads.segments
    assert segment.payload == segment.tflite[::-1]
    assert program.payloads.summary == "1 segment, converted by backwards 1.0"
    assert segment.payload in program.pte()
    assert program.files["npu_segment_0.bin"] == segment.payload
    assert program.files["chip.txt.txt"] == "chip-r1"
    program.save(tmp_path / "net.pte")
    assert (tmp_path / "net_chip.txt").read_text() == "chip-r1"


def test_a_report_knows_it_by_its_rules(registry: Registry) -> None:
    program = compiled(registry)
    facts = collect(program, ReportOptions(measure=False))
    assert facts.npu == NPU.name
    assert {op.kernel.name for op in facts.ops if op.unit == "npu"} == {NPU.name}
    assert [op.unit for op in facts.ops] == [entry.unit.value for entry in program.ledger]
    assert facts.npu_payload == program.payloads.summary
    assert NPU.name in render(facts)


def test_the_npu_leaves_with_the_registry() -> None:
    with REGISTRY.changed() as registry:
        registry.add_npu(NPU)
        assert find_target("cortex-m55+second-npu").npu is NPU
        with pytest.raises(pillion.PillionError, match="there is a NPU `second-npu` already"):
            registry.add_npu(NPU)
    with pytest.raises(pillion.PillionError, match="there is no target"):
        find_target("cortex-m55+second-npu")

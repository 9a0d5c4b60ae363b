# SPDX-License-Identifier: Apache-2.0
"""Layers that a chip's NPU leaves to the core: they read 8 bits and make 16, and the ledger names them and their reasons."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion
from ethos_streams import needs_vela
from pillion import compiler
from pillion.ops import Conv2d, DepthwiseConv2d, Requantize, Scan, Segment, flatten_ops
from pillion.partition import ProcessingUnit
from pillion.program import Program
from pillion.report.collect import collect
from pillion.report.report_options import ReportOptions

ETHOS, NEUTRON = "cortex-m55+ethos-u55-128", "cortex-m55+neutron-n3-64"
SAMPLES = [torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(n)) for n in range(5)]
ON_CORE = {"keep_on_cpu": ["depthwise_conv2d"]}


class Net(nn.Module):
    """Layers that make 16 bits from 8: one that no Ethos-U55 runs, by its stride, and others."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.depthwise = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 16, 3, groups=16)
        self.pointwise, self.strided = nn.Conv2d(16, 32, 1), nn.Conv2d(32, 24, 3, stride=4, padding=1)
        self.last = nn.Linear(24 * 4 * 4, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.depthwise(torch.relu(self.first(x))))
        x = torch.relu(self.strided(torch.relu(self.pointwise(x))))
        return self.last(x.flatten(1))


@cache
def compiled(target: str, **options: Any) -> Program:
    wide = ("depthwise", "strided")
    placed = ON_CORE if "+" in target else {}
    return pillion.compile(
        Net().eval(), SAMPLES[0], target=target, calibrate=SAMPLES, int16=wide, **placed, **options
    )


def layers(program: Program) -> list[Conv2d | DepthwiseConv2d]:
    """The layers that read 8 bits and make 16."""
    return [op for op in program.graph.ops if isinstance(op, (Conv2d, DepthwiseConv2d)) and op.widens]


def widened(program: Program) -> list[Requantize]:
    return [op for op in flatten_ops(program.graph.ops) if isinstance(op, Requantize) and op.to.bits == 16]


@needs_vela
def test_the_core_of_an_ethos_reads_8_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    program = compiled(ETHOS)
    depthwise, strided = layers(program)
    assert not widened(program)
    reasons = {entry.op: entry.deciding.rule for entry in program.ledger}
    assert reasons[depthwise] == "user.keep_on_cpu"
    assert reasons[strided] == "conv2d.stride"
    assert f"conv2d {strided.name}: cpu, conv2d.stride: wanted at most 3" in program.explain()
    kernels = {step.choice.op: step.choice.kernel.name for step in program.lowered.steps}
    assert kernels[depthwise] == "depthwise_3x3_8_16_mve"
    assert kernels[strided] == "conv2d_im2col_8_16_mve"
    monkeypatch.setattr(compiler, "read_int8_operands", lambda graph, isa: graph)
    before = compiled.__wrapped__(ETHOS)
    assert len(widened(before)) == 2
    assert program.cycles < before.cycles
    x = SAMPLES[3].numpy()
    exact = program.run(x, on="reference")[0]
    np.testing.assert_array_equal(before.run(x, on="reference")[0], exact)
    runs = [one.measure(x, on="mps3-an547") for one in (program, before)]
    for run in runs:
        np.testing.assert_array_equal(run.outputs[0], exact)
    counts = [_instructions_of_core(one, run) for one, run in zip((program, before), runs, strict=True)]
    assert counts[0] < 0.7 * counts[1]


def _instructions_of_core(program: Program, run: Any) -> int:
    """The instructions of the core, without those of the C in the place of the NPU."""
    counted = zip(program.lowered.steps, run.profile.op_instructions, strict=True)
    return sum(count for step, count in counted if not isinstance(step.choice.op, Segment))


@needs_vela
def test_all_executors_give_the_same_bytes() -> None:
    verified = pillion.verify(compiled(ETHOS))
    assert {run.executor for run in verified.runs if run.outputs} >= {"reference", "host", "npu"}
    assert all(pair.bytes_different == 0 for pair in verified.pairs)


@pytest.mark.parametrize("target", [NEUTRON, pytest.param(ETHOS, marks=needs_vela)])
def test_the_ledger_names_the_ops_of_the_program(target: str) -> None:
    program = compiled(target)
    inside = ((op.body.ops if isinstance(op, Segment) else (op,)) for op in program.graph.ops)
    assert [entry.op for entry in program.ledger] == [op for ops in inside for op in ops]
    numbers = [entry.segment for entry in program.ledger if entry.segment is not None]
    assert numbers == sorted(numbers)
    shown = {row.name: row for row in collect(program, ReportOptions(measure=False)).ops}
    for op in layers(program):
        row = shown[op.name]
        assert (row.unit, row.reads[0].dtype, row.makes[0].dtype) == ("cpu", "int8", "int16")
        assert row.estimated_cycles > 0


class Recurrence(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.gru, self.last = nn.GRU(9, 17, batch_first=True), nn.Linear(17, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.gru(x)[0])  # type: ignore[no-any-return]  # of torch


def test_layers_in_loops() -> None:
    data = [torch.randn(1, 11, 9) for _ in range(4)]
    wide = ("linear_default", "linear_default_2")
    options: Any = {"calibrate": data, "progress": False, "int16": wide, "keep_on_cpu": ["scan"]}
    program = pillion.compile(Recurrence().eval(), data[0], target=NEUTRON, **options)
    (loop,) = (op for op in program.graph.ops if isinstance(op, Scan))
    assert sum(op.widens for op in loop.body.ops if op.kind == "linear") == 2
    known = {entry.op: entry for entry in program.ledger}
    assert all(known[op].unit is ProcessingUnit.CPU for op in flatten_ops([loop]))


@pytest.mark.parametrize("target", ["cortex-m55", "cortex-m3", pytest.param(ETHOS, marks=needs_vela)])
def test_tflite_files_widen_operands(target: str, tmp_path: Path) -> None:
    program = compiled(target, arithmetic="tflite", io_dtype="int8")
    assert layers(program)
    path = tmp_path / "net.tflite"
    program.save(path)
    again = pillion.compile(str(path), target=target)
    x = np.random.default_rng(0).integers(-128, 128, program.graph.inputs[0].shape, np.int8)
    np.testing.assert_array_equal(again.run(x, on="litert")[0], program.run(x, on="reference")[0])


@needs_vela
def test_precision_search_prices_ops_by_their_unit() -> None:
    options: Any = {"calibrate": SAMPLES, "min_quality": "40dB"}
    program = pillion.compile(Net().eval(), SAMPLES[0], target=ETHOS, **options)
    choice = program.precision
    assert choice is not None
    assert choice.cost.time == program.cycles
    assert sum(choice.cost.by_op.values()) == pytest.approx(program.cycles)
    assert choice.cost.time < 0.85 * choice.cost_everywhere.time


@pytest.mark.parametrize("name", ["relu_default_3_i8", "relu_default_3_i16"])
def test_a_name_keeps_an_op_on_the_core_in_each_width_that_a_search_tries(name: str) -> None:
    search = {"min_quality": "38dB", "keep_on_cpu": [name]}
    program = pillion.compile(Net().eval(), SAMPLES[0], target=ETHOS, calibrate=SAMPLES, **search)
    kept = [entry.unit for entry in program.ledger if entry.op.name.startswith("relu_default_3_i")]
    assert kept == [ProcessingUnit.CPU]

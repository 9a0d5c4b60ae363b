# SPDX-License-Identifier: Apache-2.0
"""Activations that TFLite lacks run on the NPU, as tables that take the place of those of leaky ReLUs in Vela's constants."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import pillion
from ethos_streams import EXECUTED, EXECUTED_U85, needs_vela
from nightly import in_turn
from pillion.devices.ethos_u import limits
from pillion.devices.ethos_u.accelerators import ACCELERATORS
from pillion.devices.ethos_u.vela import CompiledSegment, VelaSettings, compile_segment
from pillion.devices.ethos_u.vela.table_placeholders import compile_with_tables
from pillion.devices.ethos_u.vela.vela_process import VelaError
from pillion.emitters import tflite
from pillion.errors import PillionError
from pillion.importers import tflite as importer
from pillion.ir.graph import Graph
from pillion.ir.types import constant_value
from pillion.ops import Lut, Segment
from pillion.ops.example_values import value
from pillion.ops.unary_functions import Function
from pillion.program import Program
from pillion.schemas import tflite as schema
from pillion.schemas.flatbuffer import read_root_table, write_flatbuffer

pytestmark = needs_vela
ACTIVATIONS = (nn.SiLU, nn.GELU, nn.ELU, nn.Mish, nn.Softplus)
SAMPLES = [torch.randn(1, 3, 24, 24, generator=torch.Generator().manual_seed(n)) for n in range(3)]


class Activated(nn.Module):
    """Four convolutions, and an activation after each."""

    def __init__(self, *kinds: type[nn.Module]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.convs = nn.ModuleList(nn.Conv2d(c, 16, 3, padding=1) for c in (3, 16, 16, 16))
        self.activations = nn.ModuleList(kinds[n % len(kinds)]() for n in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for conv, activation in zip(self.convs, self.activations, strict=True):
            x = activation(conv(x))
        return x


def compiled(npu: str, *kinds: type[nn.Module], **options: object) -> Program:
    return pillion.compile(
        Activated(*kinds).eval(),
        SAMPLES[0],
        target=f"cortex-m55+{npu}",
        calibrate=SAMPLES,
        progress=False,
        **options,
    )


def segments(program: Program) -> int:
    return sum(isinstance(op, Segment) for op in program.graph.ops)


@pytest.mark.parametrize(("kind", "npu"), in_turn(ACTIVATIONS, [*EXECUTED[2:5:2], EXECUTED_U85[1]]))
def test_an_activation_does_not_cut_a_net(kind: type[nn.Module], npu: str) -> None:
    program = compiled(npu, kind)
    assert segments(program) == 1
    apart = compiled(npu, kind, keep_on_cpu=("lut",))
    assert segments(apart) == 4
    assert program.cycles < 0.85 * apart.cycles
    for sample in SAMPLES:
        np.testing.assert_array_equal(program.run(sample)[0], program.run(sample, on="npu")[0])
        np.testing.assert_array_equal(program.run(sample)[0], apart.run(sample)[0])


def test_several_tables_of_a_segment_have_places_of_their_own(tmp_path: Path) -> None:
    program = compiled("ethos-u55-128", *ACTIVATIONS[:3], nn.LeakyReLU)
    assert segments(program) == 1
    done = program.verify(2)
    assert done.ok
    ran = {run.executor for run in done.runs if run.outputs}
    assert {"reference", "host", "npu"} <= ran
    litert = next(run for run in done.runs if run.executor == "litert")
    assert litert.skipped is not None
    loaded = pillion.load(program.save(tmp_path / "net.pte"))
    np.testing.assert_array_equal(program.run(SAMPLES[1])[0], loaded.run(SAMPLES[1], on="npu")[0])


def test_one_that_stays_on_the_core_keeps_its_name() -> None:
    program = compiled("ethos-u55-128", nn.SiLU, keep_on_cpu=("lut",))
    assert {op.function for op in program.graph.ops if isinstance(op, Lut)} == {Function.SILU}


def test_without_vela_they_stay_on_the_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "is_vela_installed", lambda: False)
    assert segments(compiled("ethos-u55-128", nn.Mish)) == segments(compiled("ethos-u55-128", nn.SiLU)) == 4


def a_table(seed: int = 0, **x: float) -> Graph:
    entries = np.random.default_rng(seed).integers(-128, 128, 256).astype(np.int8)
    table = constant_value("table", entries)
    x_value = value("x", (1, 4, 4, 3), x.get("scale", 0.05), int(x.get("zero_point", 3)))
    y = value("y", (1, 4, 4, 3), 0.04, -7)
    op = Lut(x=x_value, y=y, table=table, function=Function.TABLE)
    return Graph("table", (op.x,), (op,), (op.y,))


def compile_with(change: int | None) -> CompiledSegment:
    """Compiles with a byte of the second compilation's constants changed."""
    made: list[CompiledSegment] = []

    def compile_file(file: bytes) -> CompiledSegment:
        segment = compile_segment(file, VelaSettings(ACCELERATORS["ethos-u55-128"]), 60)
        if made and change is not None:
            raw = bytearray(segment.constants)
            raw[change] ^= 1
            segment = replace(segment, constants=bytes(raw))
        made.append(segment)
        return segment

    return compile_with_tables(tflite.emit_segment(a_table()), compile_file)


def test_any_table_runs_and_is_read_back() -> None:
    graph = a_table()
    assert compile_with(None).constants == graph.ops[0].table.constant.tobytes()  # type: ignore[attr-defined]  # a table
    again = importer.read(tflite.emit_segment(graph))
    np.testing.assert_array_equal(again.ops[0].table.constant, graph.ops[0].table.constant)  # type: ignore[attr-defined]  # a table


@pytest.mark.parametrize("entries", [np.zeros(255, np.int8), np.zeros(256, np.float32)])
def test_operators_without_256_numbers_are_refused(entries: np.ndarray) -> None:
    raw = tflite.emit_segment(a_table())
    model = read_root_table(schema.Model, raw, schema.IDENTIFIER)
    (tensor,) = (one for one in model.subgraphs[0].tensors if one.buffer)
    tensor.shape, tensor.type = [entries.size], schema.ElementType[entries.dtype.name.upper()]
    model.buffers[tensor.buffer].data = entries.view(np.uint8)
    with pytest.raises(PillionError, match="256 int8 entries"):
        importer.read(write_flatbuffer(model, schema.IDENTIFIER))


def test_a_table_that_is_not_found_is_refused() -> None:
    with pytest.raises(VelaError, match="a lookup table is not found"):
        compile_with(5)

# SPDX-License-Identifier: Apache-2.0
"""Programs for chips with Ethos-U: the stream is executed beside the other executors, C calls Arm's driver, payloads are the delegate's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import pillion
from ethos_streams import compiled, needs_vela, tflite_of
from pillion.cli.intermediates import Intermediates
from pillion.compile_options import PlacementOptions
from pillion.devices.ethos_u import converter, payload
from pillion.devices.ethos_u.accelerators import ACCELERATORS
from pillion.devices.ethos_u.vela import VelaSettings, compile_segment, vela_process
from pillion.devices.ethos_u.vela.vela_process import VelaError
from pillion.devices.ethos_u.vela.vela_settings import settings_of
from pillion.devices.payloads import ConverterError, SegmentCost
from pillion.errors import PillionError
from pillion.importers.pte.container import Container
from pillion.ir.graph import Graph
from pillion.ops import Conv2d, Segment
from pillion.option_values import Runtime
from pillion.program import Program
from pillion.run.executorch import ExecuTorchExecutor
from pillion.targets import find_target, npu_interpreter


class Net(nn.Module):
    """Convolutions and a fully connected layer for the NPU, a square root between them for the core."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.last = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 16, 3, 2), nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.sqrt(torch.relu(self.first(x)))
        return self.last(torch.relu(self.second(x)).mean((2, 3)))


TWO_CORES = "cortex-m55+ethos-u65-512"
"""A target whose streams the interpreter refuses."""
X = torch.linspace(-1, 1, 3 * 41 * 37).reshape(1, 3, 41, 37)


@pytest.fixture(scope="module")
def program() -> Program:
    return pillion.compile(Net().eval(), (X,), target="cortex-m55+ethos-u55-128")


@needs_vela
def test_the_stream_is_one_of_the_executors(program: Program) -> None:
    assert len([op for op in program.graph.ops if isinstance(op, Segment)]) == 2
    done = program.verify(2)
    assert done.ok
    ran = {run.executor for run in done.runs if run.outputs}
    assert {"reference", "npu"} <= ran
    np.testing.assert_array_equal(program.run(X)[0], program.run(X, on="npu")[0])
    assert program.payloads.converter.startswith("Vela 5.")


@needs_vela
def test_litert_is_not_asked_where_the_npu_rounds_otherwise(program: Program) -> None:
    litert = next(run for run in program.verify(1).runs if run.executor == "litert")
    assert litert.skipped is not None
    assert "double precision" in litert.skipped.got


class Decoder(nn.Module):
    """An image that is resized and concatenated with another one."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.joined = nn.Conv2d(5, 11, 3, 2, 1), nn.Conv2d(16, 7, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.interpolate(self.down(x), scale_factor=2, mode="bilinear")
        return self.joined(torch.cat([y, x], 1))


@needs_vela
@pytest.mark.parametrize("npu", ["u55-128", "u65-256", "u85-256"])
def test_resized_images_are_concatenated(npu: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 5, 18, 14)
    program = pillion.compile(Decoder().eval(), (x,), target=f"cortex-m55+ethos-{npu}")
    (segment,) = (op for op in program.graph.ops if isinstance(op, Segment))
    assert {"resize_bilinear", "concat"} <= {op.kind for op in segment.body.ops}
    np.testing.assert_array_equal(program.run(x.numpy(), on="npu"), program.run(x.numpy(), on="reference"))


@needs_vela
def test_a_stream_of_u85_is_one_of_the_executors() -> None:
    program = pillion.compile(Net().eval(), (X,), target="alif-e8")
    assert program.payloads.cycles[0] > 0
    np.testing.assert_array_equal(program.run(X)[0], program.run(X, on="npu")[0])


@needs_vela
def test_two_cores_are_compiled_and_not_executed() -> None:
    program = pillion.compile(Net().eval(), (X,), target=TWO_CORES)
    with pytest.raises(PillionError, match="one core"):
        program.run(X, on="npu")


@needs_vela
def test_payloads_of_pte_files_are_the_delegates(program: Program) -> None:
    plan = Container(program.pte(), "net").plan
    assert [one.id for one in plan.delegates] == ["EthosUBackend"] * 2
    for segment in program.payloads.segments:
        read = payload.parse_payload(segment.payload)
        assert payload.compose_payload(read) == segment.payload
        assert len(segment.payload) % 16 == 0
        assert read.commands[:4] == b"COP1"


@needs_vela
@pytest.mark.parametrize("at", [0, 16, 20, 21, 40, 100])
def test_damaged_payloads_are_refused_or_read_as_they_are(program: Program, at: int) -> None:
    whole = program.payloads.segments[0].payload
    damaged = whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :]
    try:
        read = payload.parse_payload(damaged)
    except PillionError:
        return
    assert payload.compose_payload(read) == damaged


@needs_vela
def test_payloads_that_are_cut_off_are_refused(program: Program) -> None:
    whole = program.payloads.segments[0].payload
    with pytest.raises(PillionError, match="damaged"):
        payload.parse_payload(whole[:-16])


def test_without_vela_segments_stay_tflite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(converter, "is_vela_installed", lambda: False)
    program = pillion.compile(Net().eval(), (X,), target="himax-we2")
    assert program.payloads.converter == ""
    assert "pip install 'pillion[ethos-u]'" in program.payloads.summary
    assert program.verify(1, seed=1).ok
    with pytest.raises(PillionError, match="executes the code of NPUs whose compiler is installed"):
        program.run(X, on="npu")


@needs_vela
def test_placement_uses_velas_cycle_estimates(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it answers decides, and its version stands beside the number."""
    program = pillion.compile(Net().eval(), (X,), target="himax-we2")
    on_npu = [entry for entry in program.ledger if entry.segment is not None]
    assert on_npu
    assert all("estimated by Vela 5." in str(entry.deciding) for entry in on_npu)
    assert str(program.payloads.figures["npu_cycles_by"]).startswith("Vela 5.")
    slow = SegmentCost(10**9, "somebody")
    monkeypatch.setattr(converter, "_compile_cached", lambda *_: slow)
    assert not pillion.compile(Net().eval(), (X,), target="himax-we2").ledger.on_npu


@needs_vela
def test_the_segment_is_kept_where_vela_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def watch(stage: str, graph: Graph) -> None:
        Intermediates(tmp_path).watch(stage, graph)
        if stage == "place":
            monkeypatch.setattr(converter, "_compile_cached", _fail)

    with pytest.raises(VelaError):
        pillion.compile(Net().eval(), (X,), target="himax-we2", watch=watch)
    assert (tmp_path / "npu_segment_0.tflite").read_bytes()[4:8] == b"TFL3"


def _fail(*_: object) -> None:
    raise VelaError(
        "Vela did not compile a segment", rule="it ends with 0", here="exit code 1\na word\nmore", help=""
    )


@needs_vela
def test_ops_on_which_vela_fails_stay_on_the_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """An op that has no TFLite form leaves the others on the NPU; then Vela compiles nothing."""
    x = X[:, :, :40, :36]
    pooled = nn.Sequential(nn.Conv2d(3, 8, 3), nn.AvgPool2d(3, 2, 1, count_include_pad=False)).eval()
    program = pillion.compile(pooled, (x,), target="himax-we2")
    units = {entry.op.kind: entry for entry in program.ledger}
    assert units["conv2d"].segment is not None
    assert "no exact TFLite form" in str(units["avg_pool2d"].deciding)
    monkeypatch.setattr(converter, "_compile_cached", _fail)
    program = pillion.compile(pooled, (x,), target="himax-we2")
    assert not program.ledger.on_npu
    conv = next(entry for entry in program.ledger if entry.op.kind == "conv2d")
    assert conv.deciding.rule == "segment.converter"
    assert conv.deciding.got == "Vela did not compile a segment: exit code 1; a word"
    with pytest.raises(PillionError, match="only"):
        pillion.compile(pooled, (x,), target="himax-we2", placement=PlacementOptions(only_npu=True))


@needs_vela
def test_vela_that_does_not_start_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Otherwise everything would run on the core, without a word."""
    vela_process._loaded_vela().close()
    converter._compile_cached.cache_clear()
    monkeypatch.setattr(vela_process, "WORKER", tmp_path / "none.py")
    with pytest.raises(ConverterError, match="does not start"):
        pillion.compile(Net().eval(), (X,), target="cortex-m55+ethos-u55-64")


@needs_vela
def test_vela_that_fails_or_takes_too_long_is_an_error_and_the_next_run_works() -> None:
    settings = VelaSettings(ACCELERATORS["ethos-u55-128"])
    file = tflite_of(next(iter(Conv2d.examples())))
    assert file is not None
    for broken, seconds in ((b"nothing", 60.0), (file[: len(file) // 2], 60.0), (file, 0.0)):
        with pytest.raises(VelaError, match="Vela did not compile"):
            compile_segment(broken, settings, seconds)
    again = compile_segment(file, settings)
    assert again.commands == compiled(file).commands, "the same file, the same stream"


@needs_vela
def test_memory_modes_and_systems_are_told_to_vela() -> None:
    options = pillion.NpuOptions("Dedicated_Sram", "Ethos_U65_Mid_End", vela_optimise="Size")
    settings = settings_of(ACCELERATORS["ethos-u65-256"], options)
    file = tflite_of(next(iter(Conv2d.examples())))
    assert file is not None
    assert compile_segment(file, settings).estimates["memory_mode"] == "Dedicated_Sram"


def test_a_target_is_a_core_and_an_npu() -> None:
    target = find_target("cortex-m85+ethos-u65-256")
    assert (target.core.name, target.delegate) == ("cortex-m85", "EthosUBackend")
    assert find_target("cortex-m33+nodsp+ethos-u55-32").core.name == "cortex-m33+nodsp"
    for wrong in ("cortex-m55+ethos-u55-129", "ethos-u55-128", "cortex-m99+ethos-u55-128"):
        with pytest.raises(PillionError, match="there is no target"):
            find_target(wrong)


def test_weights_stay_in_flash_and_scratch_counts() -> None:
    program = pillion.compile(Net().eval(), (X,), target="cortex-m55+ethos-u55-128")
    assert program.npu_constant_bytes == 0
    assert program.sram_bytes == program.memory.arena_bytes >= program.payloads.scratch_bytes


@pytest.mark.turns(2)
@needs_vela
def test_a_segment_is_shown(program: Program, tmp_path: Path) -> None:
    file = tmp_path / "npu_segment_0.bin"
    file.write_bytes(program.payloads.segments[0].payload)
    for option, last in ((), "to int8"), (("--commands",), "STOP"):
        lines = _pillion("show", str(file), *option).stdout.splitlines()
        assert lines[0] == "ethos-u55-128"
        assert last in lines[-1]
    file.write_bytes(b"nothing")
    refused = _pillion("show", str(file))
    assert refused.returncode == 2
    assert "is no code that can be shown" in refused.stderr


def _pillion(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pillion", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@needs_vela
@pytest.mark.parametrize("runtime", ["1.4", "1.5"])
def test_a_pte_with_the_npus_code_runs_again(program: Program, runtime: Runtime, tmp_path: Path) -> None:
    file = program.save(tmp_path / "net.pte", runtime)
    loaded = pillion.load(file)
    assert loaded.target.name == "cortex-m55+ethos-u55-128"
    np.testing.assert_array_equal(loaded.run(X, on="npu")[0], program.run(X)[0])
    for other in ("reference", "host", "litert"):
        with pytest.raises(PillionError, match="a segment holds code for the NPU itself"):
            loaded.run(X, on=other)
    with pytest.raises(PillionError, match="a segment holds code for the NPU itself"):
        pillion.compile(file, target="cortex-m55")
    with pytest.raises(PillionError, match="a segment holds code for the NPU itself"):
        loaded.firmware(tmp_path / "fw")
    assert not (tmp_path / "fw").exists()


@needs_vela
def test_executorch_calls_the_ethos_delegate(program: Program, tmp_path: Path) -> None:
    """The runtime plans memory and calls the delegate, which executes the stream of the file."""
    loaded = pillion.load(program.save(tmp_path / "net.pte"))
    if not ExecuTorchExecutor().judge(loaded).ok:
        pytest.skip("pip install 'pillion[executorch]'")
    done = loaded.verify(2)
    assert {run.executor for run in done.runs if run.outputs} == {"executorch", "npu"}
    assert done.ok


@needs_vela
def test_a_pte_with_code_that_is_not_proven_is_refused_by_name(tmp_path: Path) -> None:
    loaded = pillion.load(pillion.compile(Net().eval(), (X,), target=TWO_CORES).save(tmp_path / "net.pte"))
    for on in ("npu", "executorch"):
        with pytest.raises(PillionError, match="an NPU of 2 cores"):
            loaded.run(X, on=on)
    assert loaded.verify(1).nothing_compared


@needs_vela
def test_damaged_code_in_a_pte_is_refused(program: Program, tmp_path: Path) -> None:
    """What is changed in the file is no longer what its record was written for; a delegate's data alone says no scales."""
    file = program.save(tmp_path / "net.pte")
    raw = bytearray(file.read_bytes())
    raw[raw.index(b"COP1") + 40] ^= 4
    file.write_bytes(raw)
    with pytest.raises(PillionError, match="cannot be read"):
        pillion.load(file)


def test_code_of_an_unknown_npu_is_not_executed() -> None:
    for nothing in (b"", b"nothing", b"vela_bin_stream"):
        with pytest.raises(PillionError, match=r"cannot be executed here|is damaged"):
            npu_interpreter(nothing)

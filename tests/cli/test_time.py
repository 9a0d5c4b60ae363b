# SPDX-License-Identifier: Apache-2.0
"""Estimates of whole programs, from Python and from the command line, with and without an emulator."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from shell import Call
from small_net import Net, example_inputs

import pillion as package
from nightly import part_of
from pillion import PillionError, Program
from pillion.boards.board import BOARDS
from pillion.boards.instruction_trace import count_by_op
from pillion.devices.cortex_m.memories import MEMORIES
from pillion.devices.cycle_range import sum_of_ranges
from pillion.emitters.c.kernel_costs import estimated_cycles
from pillion.run.time_estimate import ESTIMATED

NET = f"{Path(__file__).with_name('small_net.py')}:Net"


def compiled(target: str) -> Program:
    return package.compile(Net(), example_inputs(), target=target, name="net")


@pytest.mark.turns(3)
@pytest.mark.qemu
@pytest.mark.parametrize(
    "target",
    part_of(["cortex-m33", "cortex-m55", "cortex-m4", "cortex-m7", "cortex-m3", "cortex-m0", "imxrt700"], 3),
)
def test_each_op_s_classes_add_up_to_its_instructions(target: str) -> None:
    program = compiled(target)
    board = program.target.board
    assert board is not None
    x = np.random.default_rng(1).standard_normal((1, 3, 9, 7)).astype(np.float32)
    profile = program.measure(x, on=board).profile
    assert profile is not None
    time = program.time("100MHz", x)
    counted = [op.executed.instructions for op in time.ops if op.executed]
    measured = [n for n, op in zip(profile.op_instructions, profile.ops, strict=True) if op.kind != "segment"]
    # A call and a look at the clock are in one of the two counts only.
    assert all(abs(a - b) <= 12 for a, b in zip(counted, measured, strict=True)), (counted, measured)
    assert 0 < time.milliseconds.low < time.milliseconds.high
    assert time.basis == f"instructions by class, counted on {board}"


@pytest.mark.qemu
def test_counts_are_of_the_bytes_that_are_read(tmp_path: Path) -> None:
    program = compiled("cortex-m33")
    folder = program.firmware(tmp_path / "fw")
    x = np.ones((1, 3, 9, 7), np.float32)
    windows = count_by_op(folder, BOARDS["mps2-an505"], x.tobytes(), len(program.graph.ops))
    for line in (line for window in windows for line in window.lines):
        assert line.left <= line.times
        always = line.instruction.split(" ")[0] in ("b.n", "b.w", "bl", "bx", "blx")
        # The last jump of a window leads to the harness, and is nobody's.
        assert not always or line.left >= line.times - 1, line
    assert any(0 < line.left < line.times for window in windows for line in window.lines), "ends of loops"
    lines = [window.touched for window in windows]
    conv = next(i for i, op in enumerate(program.graph.ops) if op.kind == "conv2d")
    constants, arena, *_ = lines[conv]
    assert constants[0] >= 3 * 3 * 3 * 8, "all weights are read"
    assert 3 * 3 * 3 * 8 / 32 <= constants[1] <= program.lowered.constant_bytes
    assert arena[1] * 32 >= 9 * 7 * 3 + 7 * 5 * 8, "all inputs are read, and all outputs written"


@pytest.mark.qemu
@pytest.mark.nightly
def test_the_estimate_of_kernels_holds_the_counted_one() -> None:
    for target in ("cortex-m33", "cortex-m55"):
        program = package.compile("ds_cnn", target=target)
        counted = program.time("100MHz", memories="tcm")
        own = (program.target.core, program.graph.arithmetic, MEMORIES["tcm"], 1e8)
        rough = sum_of_ranges(estimated_cycles(op, *own) for op in program.graph.ops)
        assert rough.low < counted.cycles.low < counted.cycles.high < rough.high, target


@pytest.mark.qemu
@pytest.mark.nightly
def test_time_of_stripes_counts_all_runs() -> None:
    program = package.compile("resnet8", target="cortex-m33", io_dtype="int8", io_layout="nhwc")
    assert program.stripes
    x = np.zeros(program.graph.inputs[0].shape, np.int8)
    profile = program.measure(x, on="mps2-an505").profile
    counted = program.time("100MHz", memories="tcm")
    assert profile is not None
    assert sum(counted.classes.values()) == pytest.approx(profile.instructions, rel=0.01)
    assert len(counted.ops) == len(program.graph.ops)


@pytest.mark.qemu
def test_cores_without_a_board_are_counted_on_one_with_the_same_kernels() -> None:
    of_m85, of_m55 = compiled("cortex-m85").time("400MHz"), compiled("cortex-m55").time("400MHz")
    assert of_m85.classes == of_m55.classes
    assert of_m85.core == "cortex-m85"
    assert "whose cortex-m55 runs the same kernels" in of_m85.basis
    assert of_m85.cycles.low < of_m55.cycles.low


@pytest.mark.turns(2)
@pytest.mark.qemu
def test_the_npu_has_a_clock_of_its_own() -> None:
    program = package.compile("ds_cnn", target="imxrt700")
    usual, half = program.time("300MHz"), program.time("300MHz", npu_clock="150MHz")
    (of_npu,) = [op for op in usual.ops if op.unit == "npu"]
    assert half.milliseconds.low == pytest.approx(usual.milliseconds.low + of_npu.milliseconds.low)
    assert of_npu.cycles.high == pytest.approx(2 * of_npu.cycles.low)
    assert usual.memories.name == "external"


def test_time_estimates_without_an_emulator_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    program = compiled("cortex-m33")
    monkeypatch.setenv("PATH", "")
    time = program.time(160e6)
    assert time.basis.startswith(ESTIMATED)
    assert "no C compiler for Arm Cortex-M was found" in time.basis
    assert 1.6 < time.milliseconds.high / time.milliseconds.low < 3
    assert time.classes == {}


@pytest.mark.qemu
def test_an_emulator_without_plugins_is_no_reason_to_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "qemu-system-arm"
    fake.write_text("#!/bin/sh\necho 'invalid option -plugin'\nexit 1\n")
    fake.chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    time = compiled("cortex-m33").time("1GHz")
    assert time.basis.startswith(ESTIMATED)
    assert "invalid option -plugin" in time.basis


@pytest.mark.qemu
def test_a_board_that_cannot_run_the_kernels_is_refused() -> None:
    with pytest.raises(PillionError, match="compiled for cortex-m55"):
        compiled("cortex-m55").time("1GHz", on="mps2-an505")
    with pytest.raises(PillionError, match="there is no board"):
        compiled("cortex-m55").time("1GHz", on="mps9")


@pytest.mark.qemu
def test_the_command_line_gives_a_band(pillion: Call, tmp_path: Path) -> None:
    made = pillion(
        "compile", "-m", NET, "-t", "cortex-m33", "-q", "-o", tmp_path / "fw", "--clock", "160MHz", "--json"
    ).facts
    low, high = made["time_ms"]
    assert 0 < low < high
    assert made["time"].startswith("estimated ")
    assert made["time"].endswith(" ms at 160 MHz")
    assert sum(row["instructions"] for row in made["instruction_classes"]) > 1000
    ran = pillion(
        "run", tmp_path / "fw", "--on", "mps2-an505", "--clock", "160 MHz", "--profile", "--json"
    ).facts
    # Other random data: counts may differ where a loop depends on them.
    assert ran["time_ms"] == pytest.approx(made["time_ms"], rel=0.02)
    assert all("-" in row["time_ms"] for row in ran["ops"])
    told = pillion("explain", "-m", NET, "-t", "cortex-m33", "--clock", "160MHz", "--json").facts
    assert told["time_ms"] == made["time_ms"]
    assert sum(row["time_ms_band"][1] for row in told["ops"]) == pytest.approx(high, rel=0.01)
    table = pillion("explain", "-m", NET, "-t", "cortex-m33", "--clock", "160MHz").out
    assert "time ms" in table


@pytest.mark.qemu
def test_segments_are_left_out_where_only_the_stand_in_is_known(pillion: Call, tmp_path: Path) -> None:
    pillion("compile", "-m", NET, "-t", "imxrt700", "-q", "-o", tmp_path / "fw")
    ran = pillion("run", tmp_path / "fw", "--on", "mps2-an505", "--clock", "325MHz", "--json").facts
    assert "segments of the NPU" in ran["time_left_out"]
    told = pillion("explain", "-m", NET, "-t", "imxrt700", "--clock", "325MHz", "--json").facts
    assert told["segments"][0]["time"].endswith(" ms")
    assert told["time_ms"][1] > ran["time_ms"][1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--clock", "0"), "--clock 0 is no clock"),
        (("--clock", "nan"), "--clock nan is no clock"),
        (("--clock", "1GHz", "--memories", "disk"), "no assumption `disk`"),
        (("--memories", "tcm"), "it goes with --clock"),
        (("--npu-clock", "1GHz"), "it goes with --clock"),
        (("--clock", "1GHz", "--npu-clock", "-3"), "--npu-clock -3 is no clock"),
    ],
)
def test_options_are_checked_before_anything_is_written(
    pillion: Call, tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    answer = pillion("compile", "-m", NET, "-t", "cortex-m33", "-q", "-o", tmp_path / "fw", *options)
    assert answer.code == 2
    assert words in answer.err
    assert not (tmp_path / "fw").exists()


def test_files_that_run_with_other_kernels_are_not_estimated(pillion: Call, tmp_path: Path) -> None:
    answer = pillion(
        "compile", "-m", NET, "-t", "cortex-m33", "-q", "-o", tmp_path / "x.pte", "--clock", "1GHz"
    )
    assert answer.code == 2
    assert "kernels" in answer.err
    assert not (tmp_path / "x.pte").exists()
    answer = pillion("run", tmp_path / "x", "--clock", "1GHz")
    assert answer.code == 2
    assert "counts instructions on a board" in answer.err

# SPDX-License-Identifier: Apache-2.0
"""Boards at a serial port, from the command line: the emulator's UART is a pseudo-terminal, which pyserial opens like a USB port."""

from __future__ import annotations

import json
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serial_emulation import build_serial, emulated_port
from shell import Call, refused

from pillion.boards.board import BOARDS
from pillion.boards.toolchain import ARM_COMPILER, QEMU
from pillion.emitters.c.manifest import manifest_in
from pillion.emitters.c.serial_harness import PORTS, add_serial_harness
from pillion.run.executor import RunOptions
from pillion.run.executor_list import run_folder
from pillion.run.measurements import read_measurements

NET = f"{Path(__file__).parent / 'small_net.py'}:Net"
KEYWORDS = Path(__file__).parents[3].parent / "shared" / "models" / "mlperf_tiny"
pytestmark = [
    pytest.mark.qemu,
    pytest.mark.torch,
    pytest.mark.skipif(not (ARM_COMPILER.find() and QEMU.find()), reason="needs arm-none-eabi-gcc and QEMU"),
]
BOARD = {"cortex-m33": "mps2-an505", "cortex-m55": "mps3-an547"}


def compiled(pillion: Call, folder: Path, target: str, *options: object) -> Path:
    answer = pillion("compile", NET, "-t", target, "-q", "-o", folder, *options, "--json")
    assert answer.code == 0, answer.err
    return folder


def serving(folder: Path, target: str) -> Iterator[str]:
    board = BOARDS[BOARD[target]]
    with emulated_port(build_serial(folder, board, manifest_in(folder).files), board) as port:
        yield f"serial:{port}"


@pytest.mark.slow
@pytest.mark.turns(2)
@pytest.mark.parametrize("target", BOARD)
def test_commands_at_a_serial_port(pillion: Call, tmp_path: Path, target: str) -> None:
    """One port serves run, its profile, a self-test, verify and eval, one after another; another program is refused."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(5, 3, 9, 7)).astype(np.float32)
    np.savez(tmp_path / "samples.npz", x=x)
    np.savez(tmp_path / "test.npz", x=x, y=np.arange(5))
    options = ("--selftest", tmp_path / "samples.npz", "--serial", "qemu")
    folder = compiled(pillion, tmp_path / "fw", target, *options)
    other = compiled(pillion, tmp_path / "other", target, "--name", "other")
    for place in serving(folder, target):
        np.save(tmp_path / "x.npy", x[:1])
        run = ("run", folder, "-i", tmp_path / "x.npy")
        assert pillion(*run, "--on", place, "-o", tmp_path / "y.npy").code == 0
        assert pillion(*run, "-o", tmp_path / "host.npy").code == 0
        assert (tmp_path / "y.npy").read_bytes() == (tmp_path / "host.npy").read_bytes()

        kept = ("--profile", "--measurements", tmp_path / "measured")
        told = pillion(*run, "--on", place, *kept, "--json").facts
        counted = pillion(*run, "--on", BOARD[target], "--profile", "--json").facts
        pairs = zip(told["ops"], counted["ops"], strict=True)
        assert all(abs(a["instructions"] - b["instructions"]) <= 8 for a, b in pairs)
        assert all("-" in row["estimated_cycles"] for row in told["ops"])
        (measurement,) = read_measurements(tmp_path / "measured")
        assert (measurement.core, measurement.is_emulated, len(measurement.ops)) == (
            target,
            True,
            len(told["ops"]),
        )

        assert (
            pillion("run", folder, "--on", place, "--selftest", "--json")
            .facts["selftest"]
            .startswith("all ops")
        )
        verified = pillion("verify", folder, "--on", place, "--json").facts
        assert place in [row["executor"] for row in verified["executors"]]
        assert not any(pair["bytes_different"] for pair in verified["pairs"])
        evaluated = pillion("eval", folder, "-d", tmp_path / "test.npz", "--on", place, "--json")
        assert evaluated.facts["samples"] == 5
        refused(pillion("run", other, "--on", place), "runs another program")
        refused(pillion(*run, "--on", place, "--measurements", tmp_path), "--profile")
        # An emulator's instructions correct no estimate of cycles.
        refused(
            pillion(*run, "--on", BOARD[target], "--clock", "1MHz", "--measured", tmp_path / "measured"),
            "(emulated)",
        )


@pytest.mark.slow
def test_a_program_with_a_state_and_one_that_takes_rows(pillion: Call, tmp_path: Path) -> None:
    for options in (("--io-layout", "nhwc", "--rows-in"), ("--stateful", "--stream", "x:2")):
        folder = tmp_path / options[0]
        answer = pillion("compile", NET, "-t", "cortex-m33", "-q", *options, "-o", folder, "--serial", "qemu")
        if answer.code:
            pytest.fail(answer.err)
        manifest = manifest_in(folder)
        rng = np.random.default_rng(1)
        samples = [
            [rng.integers(-128, 128, one.shape).astype(one.dtype.numpy) for one in manifest.inputs]
            for _ in range(4)
        ]
        for place in serving(folder, "cortex-m33"):
            for stream in (False, True):
                run = RunOptions(stream=stream)
                wanted, got = (run_folder(folder, samples, on, run) for on in ("host", place))
                assert [[y.tobytes() for y in one.outputs] for one in wanted] == [
                    [y.tobytes() for y in one.outputs] for one in got
                ]


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.skipif(not KEYWORDS.is_dir(), reason="the models of MLPerf Tiny are not at hand")
@pytest.mark.parametrize("target", BOARD)
def test_a_thousand_keywords(pillion: Call, tmp_path: Path, target: str) -> None:
    folder = tmp_path / "kws"
    assert (
        pillion("compile", KEYWORDS / "kws_int8.tflite", "-t", target, "-o", folder, "--serial", "qemu").code
        == 0
    )
    word = np.load(KEYWORDS / "kws_inputs.npy").reshape(1, -1)
    noise = np.random.default_rng(0).normal(0, np.linspace(0, 40, 1000)[:, None], (1000, word.size))
    inputs = np.clip(word + noise, -128, 127).astype(np.int8)
    (shape,) = [one.shape for one in manifest_in(folder).inputs]
    samples = [[x.reshape(shape)] for x in inputs]
    for place in serving(folder, target):
        wanted, got = (run_folder(folder, samples, on) for on in ("host", place))
    assert (
        sum(a.outputs[0].tobytes() != b.outputs[0].tobytes() for a, b in zip(wanted, got, strict=True)) == 0
    )
    assert len({one.outputs[0].tobytes() for one in got}) > 100


FLAGS = {
    "qemu": ["-mcpu=cortex-m33"],
    "rp2040": ["-mcpu=cortex-m0plus"],
    "rp2350": ["-mcpu=cortex-m33"],
    "stm32f7": ["-mcpu=cortex-m7"],
    "stm32h7": ["-mcpu=cortex-m7"],
    "imxrt1060": ["-mcpu=cortex-m7"],
}


def test_each_port_compiles_and_the_project_changes_chips(pillion: Call, tmp_path: Path) -> None:
    folder = compiled(pillion, tmp_path / "fw", "cortex-m0plus")
    before = {path: (folder / path).read_bytes() for path in manifest_in(folder).files}
    for chip in PORTS:
        add_serial_harness(folder, chip)
        flags = [
            *FLAGS.get(chip, ["-mcpu=cortex-m4"]),
            "-mthumb",
            "-std=c99",
            "-Wall",
            "-Wextra",
            "-Wconversion",
            "-Werror",
        ]
        includes = ["-Imodel", "-Imodel/kernels/include"]
        for source in ("serial/main.c", "serial/board_port.c"):
            command = [
                "arm-none-eabi-gcc",
                *flags,
                *includes,
                "-O2",
                "-c",
                source,
                "-o",
                str(tmp_path / "out.o"),
            ]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{chip}: {done.stderr}"
        assert all((folder / path).read_bytes() == text for path, text in before.items())
    made = subprocess.run(
        ["make", "-s", "-C", str(folder), "help"], capture_output=True, text=True, check=True
    )
    assert "run-serial-BOARD" in made.stdout


def test_flash_by_a_probe(pillion: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Build, flash and reset with a session that stands in for pyOCD's; no probe was at hand."""
    image, done = tmp_path / "app.elf", []
    session = types.SimpleNamespace(
        open=lambda: done.append("open"),
        close=lambda: done.append("close"),
        target=types.SimpleNamespace(reset=lambda: done.append("reset")),
    )

    def choose(**options: Any) -> Any:
        done.append((options["unique_id"], options["options"]["target_override"]))
        return session if options["unique_id"] in (None, "1234") else None

    def programmer(session: Any, progress: Any) -> Any:
        def program(path: str) -> None:
            if Path(path).read_text() != "good":
                raise RuntimeError("flash erase failure")
            done.append("program")

        return types.SimpleNamespace(program=program)

    for name, member, value in (
        ("pyocd.core.helpers", "ConnectHelper", types.SimpleNamespace(session_with_chosen_probe=choose)),
        ("pyocd.flash.file_programmer", "FileProgrammer", programmer),
    ):
        module = types.ModuleType(name)
        setattr(module, member, value)
        monkeypatch.setitem(sys.modules, name, module)
    flash = ("flash", image, "--chip", "rp2350")
    refused(pillion(*flash), "app.elf")
    refused(pillion(*flash, "--build", "false"), "was not built", "status 1")
    refused(pillion(*flash, "--build", "no-such-program-here"), "was not built")
    image.write_text("bad")
    refused(pillion(*flash), "flash erase failure")
    refused(pillion(*flash, "--probe", "9"), "no probe with 9")
    refused(pillion(*flash, "--on", "serial:/dev/ttyACM0"), "--project")
    done.clear()
    script = f"{sys.executable} -c \"open('{image}', 'w').write('good')\""
    assert pillion(*flash, "--probe", "1234", "--build", script, "--json").facts["chip"] == "rp2350"
    assert done == [("1234", "rp2350"), "open", "program", "reset", "close"]


def test_options_that_contradict(pillion: Call, tmp_path: Path) -> None:
    refused(
        pillion("compile", NET, "-t", "cortex-m33", "-q", "-o", tmp_path / "x.pte", "--serial", "qemu"),
        "-o x/",
    )
    refused(
        pillion("compile", NET, "-t", "cortex-m33", "-q", "-o", tmp_path / "x", "--serial", "z80"), "stm32f4"
    )
    folder = compiled(pillion, tmp_path / "fw", "cortex-m33")
    refused(pillion("run", folder, "--on", f"serial:{tmp_path}/none"), "cannot be opened")
    refused(pillion("verify", folder, "--on", "serial"), "serial:PORT")
    refused(pillion("run", folder, "--measured", tmp_path), "--clock")


def test_measurements_correct_estimates(pillion: Call, tmp_path: Path) -> None:
    """Cycles at three quarters of each op's band: the corrected band is a part of the estimate there."""
    folder = compiled(pillion, tmp_path / "fw", "cortex-m33")
    run = ("run", folder, "--on", "mps2-an505", "--clock", "100MHz", "--json")
    told = pillion(*run).facts
    low, high = told["cpu_cycles"]
    op = {"name": "x", "kind": "conv", "kernel": "k", "cycles": round(low + 0.75 * (high - low))}
    measurement = {
        **{"version": 1, "model": "net", "target": "cortex-m33", "core": "cortex-m33", "chip": "a chip"},
        **{
            "clock_hz": 100_000_000,
            "compiler": "gcc",
            "flags": "-O",
            "program_hash": "00",
            "is_emulated": False,
        },
        **{"memories": told["time_memories"].partition(":")[0]},
        "ops": [{**op, "estimated_low": float(low), "estimated_high": float(high)}],
    }
    measured = tmp_path / "measured"
    refused(pillion(*run, "--measured", measured), "holds no measurements")
    measured.mkdir()
    (measured / "a.json").write_text(json.dumps(measurement))
    corrected = pillion(*run, "--measured", measured).facts
    assert low <= corrected["cpu_cycles"][0] <= corrected["cpu_cycles"][1] <= high
    assert corrected["cpu_cycles"][1] - corrected["cpu_cycles"][0] < (high - low) / 4
    assert "1 ops measured on a chip" in corrected["time_basis"]
    (measured / "a.json").write_text(json.dumps({**measurement, "core": "cortex-m4"}))
    refused(pillion(*run, "--measured", measured), "nothing was measured on a cortex-m33")
    for text in (
        "{",
        json.dumps({**measurement, "version": 2}),
        json.dumps({**measurement, "ops": [{"name": 1}]}),
    ):
        (measured / "a.json").write_text(text)
        refused(pillion(*run, "--measured", measured), "is no measurement")

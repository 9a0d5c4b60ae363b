# SPDX-License-Identifier: Apache-2.0
"""Vela's memory modes: the same bytes in each, figures equal to what is linked, and `auto` takes the fastest that fits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import pillion
from ethos_streams import needs_vela
from pillion.devices.ethos_u.vela.vela_settings import config_sections
from pillion.errors import PillionError
from pillion.program import Program

pytestmark = needs_vela
X = torch.linspace(-1, 1, 2 * 3 * 23 * 19).reshape(2, 3, 23, 19)[:1]
U55, U65 = "cortex-m55+ethos-u55-128", "cortex-m55+ethos-u65-256"


class Net(nn.Module):
    """Two segments, with a square root between them for the core."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.last = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 37, 3, 2), nn.Linear(37, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.sqrt(torch.relu(self.first(x)))
        return self.last(torch.relu(self.second(x)).mean((2, 3)))


def compiled(target: str, **options: object) -> Program:
    return pillion.compile(Net().eval(), (X,), target=target, progress=False, **options)


@pytest.mark.parametrize(
    ("target", "mode"),
    [(U55, "Sram_Only"), (U65, "Sram_Only"), (U65, "Dedicated_Sram"), (U65, "Dedicated_Sram_384KB")],
)
def test_commands_of_each_mode_give_the_bytes_of_the_reference(
    target: str, mode: str, tmp_path: Path
) -> None:
    program = compiled(target, memory_mode=mode, vela_optimise="Size" if mode == "Sram_Only" else None)
    assert f", {mode}, " in program.payloads.converter
    assert len(program.payloads.segments) == 2
    np.testing.assert_array_equal(program.run(X)[0], program.run(X, on="npu")[0])
    assert (program.payloads.fast_bytes > 0) == mode.startswith("Dedicated")
    folder = tmp_path / "net"
    program.firmware(folder)
    text = (folder / "npu" / "npu_segment_0_ethosu.c").read_text()
    assert ("static uint32_t constants_words" in text) == (mode == "Sram_Only")
    if not mode.startswith("Dedicated"):  # the driver's substitute has no buffer of its own
        done = subprocess.run(
            [sys.executable, "-m", "pillion", "verify", str(folder), "--samples", "3"],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("target", "settings"),
    [
        (U55, "Shared_Sram, Ethos_U55_High_End_Embedded"),
        ("alif-e7", "Shared_Sram, Ethos_U55_High_End_Embedded"),
        ("alif-e8", "Shared_Sram, Ethos_U85_SYS_Flash_High"),
        ("himax-we2", "Shared_Sram, Ethos_U55_Deep_Embedded"),
        ("psoc-edge-e84", "Sram_Only, Ethos_U55_High_End_Embedded"),
        ("ra8p1", "Shared_Sram, Ethos_U55_High_End_Embedded"),
    ],
)
def test_a_chip_has_settings_of_its_own(target: str, settings: str) -> None:
    assert compiled(target).payloads.converter.endswith(settings)


def test_options_come_before_the_settings_of_a_chip(tmp_path: Path) -> None:
    named = compiled("psoc-edge-e84", memory_mode="Shared_Sram", system_config="Ethos_U55_Deep_Embedded")
    assert named.payloads.converter.endswith("Shared_Sram, Ethos_U55_Deep_Embedded")
    half = compiled("himax-we2", memory_mode="Sram_Only")
    assert half.payloads.converter.endswith("Sram_Only, Ethos_U55_Deep_Embedded")
    own = tmp_path / "own.ini"
    own.write_text("[System_Config.Ethos_U55_High_End_Embedded]\ncore_clock=1e6\n[Memory_Mode.Mine]\n")
    with pytest.raises(PillionError, match="--memory-mode is one of auto, Mine"):
        compiled("psoc-edge-e84", vela_config=own)


def test_auto_takes_the_fastest_mode_that_fits() -> None:
    by_mode = {mode: compiled(U55, memory_mode=mode) for mode in ("Shared_Sram", "Sram_Only")}
    fast, small = sorted(by_mode.values(), key=lambda program: program.cycles)
    assert fast.cycles < small.cycles
    assert fast.sram_bytes > small.sram_bytes
    with pytest.raises(PillionError, match="does not fit"):
        compiled(U55, memory_mode="auto", max_ram=1000)
    roomy = compiled(U55, memory_mode="auto", max_ram=fast.sram_bytes)
    assert (roomy.cycles, roomy.sram_bytes) == (fast.cycles, fast.sram_bytes)
    tight = compiled(U55, memory_mode="auto", max_ram=fast.sram_bytes - 1)
    assert tight.cycles == small.cycles
    assert compiled("himax-we2", memory_mode="auto").payloads.converter.count("Sram_Only") == 1


def test_auto_needs_to_know_the_memory() -> None:
    with pytest.raises(PillionError, match="the RAM of `cortex-m55\\+ethos-u55-128` is not known") as error:
        compiled(U55, memory_mode="auto")
    assert "--max-ram" in error.value.help


def test_a_file_of_ones_own_has_its_own_names(tmp_path: Path) -> None:
    own = tmp_path / "my.ini"
    own.write_text(
        """[System_Config.Mine]
core_clock=250e6
axi0_port=Sram
axi1_port=OffChipFlash
Sram_clock_scale=1.0
Sram_burst_length=32
Sram_read_latency=32
Sram_write_latency=32
OffChipFlash_clock_scale=0.125
OffChipFlash_burst_length=128
OffChipFlash_read_latency=64
OffChipFlash_write_latency=0
[Memory_Mode.Base]
const_mem_area=Axi0
arena_mem_area=Axi0
cache_mem_area=Axi0
[Memory_Mode.All_In_One]
inherit=Memory_Mode.Base
"""
    )
    program = compiled(U55, memory_mode="All_In_One", system_config="Mine", vela_config=own)
    assert "All_In_One, Mine" in program.payloads.converter
    assert program.payloads.ram_constant_bytes > 0
    np.testing.assert_array_equal(program.run(X)[0], program.run(X, on="npu")[0])


@pytest.mark.parametrize(
    ("target", "options", "words"),
    [
        (U55, {"memory_mode": "Sram_only"}, ["no `Sram_only`", "--memory-mode Sram_Only"]),
        (U55, {"system_config": "Ethos_U55_High"}, ["--system-config Ethos_U55_High_End_Embedded"]),
        (U55, {"memory_mode": "Dedicated_Sram"}, ["cannot write", "--memory-mode Shared_Sram"]),
        (U55, {"vela_optimise": "size"}, ["Size"]),
        (U55, {"vela_config": "/dev/null/none.ini"}, ["cannot be read"]),
        ("imxrt700", {"memory_mode": "Sram_Only"}, ["no option --memory-mode", "--target alif-e7"]),
        ("cortex-m55", {"memory_mode": "Sram_Only"}, ["has no NPU", "--memory-mode", "--target alif-e7"]),
    ],
)
def test_unknown_memory_options_are_refused(target: str, options: dict[str, str], words: list[str]) -> None:
    with pytest.raises(PillionError) as error:
        compiled(target, **options)
    assert all(word in str(error.value) for word in words), str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "no section",
        "[Memory_Mode.A]\ninherit=Memory_Mode.A\n",
        "[Memory_Mode.A]\ninherit=Memory_Mode.B\n",
        "[Memory_Mode.A]\nx=1\nx=2\n",
        "x" * (1 << 21),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.ini").write_text(text)
    with pytest.raises(PillionError, match="cannot be read"):
        config_sections(tmp_path / "bad.ini")

# SPDX-License-Identifier: Apache-2.0
"""One source says what a program with NPU segments takes: compile, report, eval, README and manifest agree, and a link of the C does, too."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from torch import nn

import pillion
from pillion.cli.program_facts import compiled_program_facts
from pillion.cli.run_output import run_facts
from pillion.devices.ethos_u.vela import is_vela_installed
from pillion.emitters.c.manifest import read_manifest
from pillion.evaluation.program_costs import costs_of
from pillion.ir.graph import Graph
from pillion.memory.segment_peak import segment_peak_bytes
from pillion.ops import Add, Conv2d, Segment
from pillion.ops.example_values import conv_bias, conv_weights, make_op, value
from pillion.program import Program
from pillion.report.collect import collect
from pillion.report.page.summary import summary_tiles
from pillion.report.pictures.arena_picture import format_size
from pillion.report.report_options import ReportOptions
from pillion.targets import TARGETS, find_target

X = torch.linspace(-1, 1, 3 * 24 * 24).reshape(1, 3, 24, 24)
WITH_NPU = [name for name, target in TARGETS.items() if target.npu is not None] + ["cortex-m55+ethos-u55-128"]
WITH_ETHOS_U = [name for name in WITH_NPU if "ethos-u" in find_target(name).npu.name]  # type: ignore[union-attr]  # they have one


class Net(nn.Module):
    """Two segments, with a square root for the core between them, and a large tensor inside the first."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Conv2d(3, 32, 3), nn.Conv2d(32, 8, 3, 2)
        self.last = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.sqrt(torch.relu(self.second(torch.relu(self.first(x)))))
        return self.last(x.mean((2, 3)))


@pytest.mark.turns(3)
@pytest.mark.parametrize("target", WITH_NPU)
def test_all_commands_report_the_same_npu_memory(target: str, tmp_path: Path) -> None:
    program = pillion.compile(Net().eval(), (X,), target=target)
    folder = program.firmware(tmp_path / "fw")
    npu, costs = program.npu_memory, costs_of(program)
    assert npu.flash_bytes > sum(op.body.constants[0].type.elements for op in _segments(program)) / 2
    assert costs == costs_of(folder)
    assert costs.ram_bytes == program.sram_bytes == program.memory.arena_bytes + npu.ram_bytes
    assert read_manifest(folder).memory.npu == npu
    said = compiled_program_facts(program, folder)
    assert said["sram_bytes_needed" if npu.is_exact else "sram_bytes_needed_at_least"] == costs.ram_bytes
    assert (
        said["constant_bytes"] + said["npu_flash_bytes" if npu.is_exact else "npu_flash_bytes_at_least"]
        == costs.constant_bytes
    )
    facts = collect(program, ReportOptions(measure=False))
    assert facts.sram_bytes == costs.ram_bytes
    assert sum(part.bytes for part in facts.constants) == costs.constant_bytes + facts.params_bytes
    shown = {tile.what: tile.value for tile in summary_tiles(facts)}
    assert shown["RAM"] == ("" if npu.is_exact else "≥ ") + format_size(costs.ram_bytes)
    text = (folder / "README.md").read_text()
    assert f"{npu.ram_bytes:,} bytes of RAM" in text
    assert f"{npu.flash_bytes:,} bytes of flash" in text
    assert program.memory.floor_bytes <= program.memory.arena_bytes


ERROR_BYTES = 4
"""The error code of the C that calls the driver."""
MODES = {
    "in SRAM": ("cortex-m55+ethos-u55-128", "Sram_Only"),
    "in DRAM": ("cortex-m55+ethos-u65-256", "Dedicated_Sram"),
}
"""Other memory modes than the default."""
APP = """
#include "model.h"
#include "npu_ethosu.h"
#include "npu.h"

__attribute__((aligned(32))) static uint8_t arena[NET_ARENA_BYTES];
#if NET_NPU_FAST_BYTES
__attribute__((aligned(16))) static uint8_t npu_buffer[NET_NPU_FAST_BYTES];
#endif

extern "C" int main() {
#if NET_NPU_FAST_BYTES
    __asm__ volatile("" : : "r"(npu_buffer) : "memory"); /* as `ethosu_init` takes it */
#endif
    net_run(arena, nullptr);
    return net_npu_error;
}
"""
"""A product in C++ with the memory that a program asks for."""
DRIVER = """
#include <stddef.h>
#include <stdint.h>
struct ethosu_driver;
struct ethosu_driver *ethosu_reserve_driver(void) { return NULL; }
void ethosu_release_driver(struct ethosu_driver *npu) { (void)npu; }
int ethosu_invoke_v3(struct ethosu_driver *npu, const void *code, const int bytes, uint64_t *const bases,
                     const size_t *sizes, const int count, void *user) {
    (void)npu, (void)code, (void)bytes, (void)bases, (void)sizes, (void)user;
    return count;
}
"""


@pytest.mark.turns(3)
@pytest.mark.qemu
@pytest.mark.skipif(not is_vela_installed(), reason="Vela is not installed: pip install 'pillion[ethos-u]'")
@pytest.mark.skipif(not shutil.which("arm-none-eabi-g++"), reason="needs arm-none-eabi-g++")
@pytest.mark.parametrize("target", [*WITH_ETHOS_U, *MODES])
def test_a_link_has_as_many_bytes(target: str, tmp_path: Path) -> None:
    """A linked product has no RAM but that of the program and the driver's error code; its arrays are the constants."""
    chip, mode = MODES.get(target, (target, None))
    program = pillion.compile(Net().eval(), (X,), target=chip, memory_mode=mode)
    folder = program.firmware(tmp_path / "fw")
    assert bool(program.payloads.fast_bytes) == (target == "in DRAM")
    (tmp_path / "ethosu_driver.h").write_text(re.sub(r" \{[^}]*\}", ";", DRIVER))
    (tmp_path / "driver.c").write_text(DRIVER)
    (tmp_path / "app.cpp").write_text(APP)
    flags = ["-mcpu=cortex-m55", "-mfloat-abi=hard", "-mthumb", "-O2", f"-I{tmp_path}"]
    flags += [f"-I{folder / path}" for path in ("model", "model/kernels/include", "npu")]
    sources = [
        str(path) for place in ("model", "model/kernels", "npu") for path in (folder / place).glob("*.c")
    ]
    _run(tmp_path, "gcc", *flags, "-c", "driver.c", str(folder / "harness/memory.c"), *sources)
    objects = sorted(path.name for path in tmp_path.glob("*.o"))
    _run(
        tmp_path,
        "g++",
        *flags,
        "-fno-exceptions",
        "-nostdlib",
        "-Wl,-e,main",
        "app.cpp",
        *objects,
        "-lgcc",
        "-o",
        "app.elf",
    )
    symbols = re.findall(r"^\w+ (\w+) (\w) (\w+)$", _run(tmp_path, "nm", "-S", "app.elf"), re.MULTILINE)
    ram = [int(size, 16) for size, kind, _ in symbols if kind in "bBdD"]
    in_ram = program.payloads.ram_constant_bytes
    flags_bytes = len(program.payloads.segments) if in_ram else 0  # whether the data cache was written back
    assert bool(in_ram) == (target in ("in SRAM", "psoc-edge-e84"))
    assert sum(ram) == program.sram_bytes + ERROR_BYTES + flags_bytes
    text, data, bss, *_ = map(int, _run(tmp_path, "size", "app.elf").splitlines()[1].split()[:3])
    assert in_ram <= data < in_ram + 32 * len(ram), "sections are aligned"
    assert sum(ram) <= data + bss < sum(ram) + 32 * len(ram)
    arrays = re.compile(r"net_\w+|commands_words|constants_words")
    constants = sum(int(size, 16) for size, kind, name in symbols if kind in "rR" and arrays.fullmatch(name))
    assert constants + in_ram == program.constant_bytes
    assert text > constants


def _run(folder: Path, tool: str, *arguments: str) -> str:
    command = [f"arm-none-eabi-{tool}", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.mark.qemu
def test_profiles_count_the_instructions_of_the_core_alone() -> None:
    """On boards a stand-in computes the segments."""
    program = pillion.compile(Net().eval(), (X,), target="imxrt700")
    result = program.measure(X, on="mps2-an505")
    said = run_facts("net", "mps2-an505", result)
    kinds = {row["kind"]: row["instructions"] for row in said["ops"]}
    assert kinds["segment"] is None
    assert said["instructions"] == sum(row["instructions"] or 0 for row in said["ops"])
    assert "segments of the NPU (" in said["not_counted"]


def test_scratch_memory_of_the_published_microcode_is_that_of_the_tensors_inside() -> None:
    """NXP's converter reserves what lives at once inside: 40,960 bytes for two images of 32,768 and 8,192."""
    x = value("x", (1, 32, 32, 3))
    first = _convolved(x, 32, "a", 1)
    second = _convolved(first.results[0], 32, "b", 2)
    third = _convolved(second.results[0], 8, "y", 1)
    body = Graph("body", (x,), (first, second, third), (third.results[0],))
    assert segment_peak_bytes(body) == 32 * 32 * 32 + 16 * 16 * 32
    summed = make_op(Add, value("z", ()), a=first.results[0], b=first.results[0])
    over = Graph("over", (x,), (first, summed, _convolved(summed.results[0], 8, "y", 1)), ())
    assert segment_peak_bytes(over.replace(outputs=over.ops[-1].results)) == 32 * 32 * 32


def _convolved(x, channels: int, name: str, stride: int):  # type: ignore[no-untyped-def]  # an op of some value
    weights = conv_weights((channels, 3, 3, x.shape[3]), 0, 1)
    return make_op(
        Conv2d,
        value(name, ()),
        x=x,
        weights=weights,
        bias=conv_bias(x, weights, channels, 1),
        stride=(stride, stride),
        padding=(1, 1, 1, 1),
    )


def _segments(program: Program) -> list[Segment]:
    return [op for op in program.graph.ops if isinstance(op, Segment)]

# SPDX-License-Identifier: Apache-2.0
"""The delegate `PillionBackend` in the real runtime on emulated cores: one firmware for each core runs a table of programs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import pillion
from judge.delegate import answer_of, firmware, missing_tools, rows
from judge.machine import CORES, FOLDER, IMAGES, RUNTIMES, Core, judged
from judge.zoo import RESULTS
from kernels import test_four_bits as four_bits
from kernels import test_large_ratios as large_ratios
from kernels import test_layers16 as layers16
from nets_as_written import NETS
from pillion.emitters.c.kernel_choice import choose_kernels
from pillion.emitters.c.kernel_lists import KERNELS_OF
from pillion.emitters.pte import Runtime
from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.types import DType, constant_value
from pillion.ops import Conv2d, Linear
from pillion.ops.example_values import with_4_bits
from pillion.program import Program
from pillion.run.verify import random_samples
from pillion.targets import find_target
from test_sequences import Layer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.torch,
    pytest.mark.skipif(bool(missing_tools()), reason=missing_tools()),
]
MOST_OF_PEER = 0.36
"""Instructions as a share of those of ExecuTorch's own flow."""
MOST_OF_PROJECT = 1.05
"""Instructions as a share of those of the C project: deep_autoencoder has 13 short ops, and takes more than 0.36 on Cortex-M33 as a C project, too."""
MORE_MEMORY = 1024
"""Planned bytes, beyond the arena of the C project."""


class Spectrum(nn.Module):
    """Magnitudes of a short-time Fourier transform."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        window = torch.hann_window(16)
        return torch.stft(x, 16, 8, window=window, center=False, return_complex=True).abs()


class Stateful(nn.Module):
    """A sum over runs."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("sum", torch.zeros(1, 8))
        self.layer = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.sum.copy_(self.sum * 0.5 + self.layer(x))
        return torch.tanh(self.sum)


def bilstm() -> nn.Module:
    return Layer(nn.LSTM, 3, 7, bidirectional=True, batch_first=True)


Built = tuple[nn.Module, tuple[Any, ...]]
DECOMPOSED: dict[str, Callable[[], Built]] = {
    "layer norm": lambda: (NETS["layer norm"].built(), NETS["layer norm"].inputs()),
    "group norm": lambda: (NETS["group norm"].built(), NETS["group norm"].inputs()),
    "attention": lambda: (NETS["encoder with a mask"].built(), NETS["encoder with a mask"].inputs()),
    "bilstm": lambda: (bilstm(), (torch.rand(1, 5, 3) * 2 - 1,)),
    "spectrum": lambda: (Spectrum(), (torch.randn(1, 80),)),
    "state": lambda: (Stateful(), (torch.randn(1, 8),)),
}
"""Nets whose cortex_m programs compute something else than `program.run`, or do not exist; and one with a state."""


def compiled(core: Core) -> dict[str, Program]:
    built = {name: make() for name, make in DECOMPOSED.items()}
    torch.manual_seed(0)
    programs = {
        name: pillion.compile(module.eval(), inputs, target=CORES[core], progress=False)
        for name, (module, inputs) in built.items()
    }
    module, inputs = built["attention"]
    wide = pillion.compile(module, inputs, target=CORES[core], precision="int16", progress=False)
    layers = nn.Sequential(nn.Conv2d(3, 13, 3), nn.Conv2d(13, 13, 3, groups=13), nn.Conv2d(13, 24, 1))
    x = torch.randn(1, 3, 11, 9)
    between = pillion.compile(layers.eval(), x, target=CORES[core], int16=["0", "2"], progress=False)
    steps = [nn.Conv2d(8, 8, size, stride, 1, groups=8) for size in (3, 5) for stride in (1, 2)]
    filters = nn.Sequential(steps[0], nn.ReLU(), *steps[1:])
    x = torch.randn(1, 8, 37, 41)
    depthwise = pillion.compile(filters.eval(), x, target=CORES[core], precision="int16", progress=False)
    block = pillion.compile(Block().eval(), x, target=CORES[core], precision="int16", progress=False)
    sizes = nn.Conv2d(8, 16, 3, 1, 1), nn.Conv2d(16, 8, 3), nn.Conv2d(8, 10, 3, 1, (2, 1))
    rectified = nn.Sequential(*(layer for one in sizes for layer in (nn.ReLU(), one)))
    x = torch.randn(1, 8, 13, 11)
    squares = pillion.compile(rectified.eval(), x, target=CORES[core], precision="int16", progress=False)
    return {
        **programs,
        "attention in 16 bits": wide,
        "sums in 16 bits": block,
        "layers between widths": between,
        "depthwise in 16 bits": depthwise,
        "rectified images in 16 bits": squares,
    }


class Block(nn.Module):
    """A residual block with a difference."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(8, 8, 3, padding=1) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Runs the block."""
        y = self.first(x)
        return torch.relu(self.second(torch.relu(y + x))) - y


@pytest.mark.turns(5)
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_programs_take_a_third_of_the_instructions_in_the_memory_of_the_project(runtime: Runtime) -> None:
    figures = json.loads(RESULTS.read_text("utf-8"))["delegate"]
    for one in rows(["ds_cnn", "resnet8", "deep_autoencoder"], runtime):
        assert not one.answer.complaint, str(one)
        instructions = max(one.answer.instructions)
        most = max(MOST_OF_PEER * one.peer_instructions, MOST_OF_PROJECT * one.project_instructions)
        assert instructions <= most, str(one)
        assert one.share <= MOST_OF_PEER or (one.model, one.core) == ("deep_autoencoder", "m33"), str(one)
        recorded = figures[one.model][CORES[one.core]]
        assert instructions == pytest.approx(recorded["instructions"], rel=0.005), str(one)
        assert one.answer.planned <= one.arena_bytes + MORE_MEMORY, str(one)


@pytest.mark.turns(5)
@pytest.mark.parametrize("core", CORES)
def test_norms_attention_recurrence_and_spectra_are_those_of_the_program(core: Core, tmp_path: Path) -> None:
    programs = compiled(core)
    kernels = {step.choice.kernel.name for step in programs["sums in 16 bits"].lowered.steps}
    assert {name.rpartition("_")[0] for name in kernels} >= {"add_unscaled_16", "sub_unscaled_16"}
    kernels = {step.choice.kernel.name for step in programs["rectified images in 16 bits"].lowered.steps}
    assert "conv2d_winograd_16" in {name.rpartition("_")[0] for name in kernels}
    elf = firmware(tmp_path, list(programs.values()), core, RUNTIMES[0])
    for name, program in programs.items():
        samples = 1 if program.graph.states else 2  # the runtime keeps states from sample to sample
        answer = answer_of(program, elf, core, RUNTIMES[0], samples)
        assert not answer.complaint, name
        memory = program.memory
        assert answer.planned <= memory.arena_bytes + memory.state_bytes + MORE_MEMORY, name


def ops_of_4_bits() -> Iterator[Op]:
    """Layers with 4-bit weights of many sizes, with operands of 8 and of 16 bits, without and with -8, with large sums, and with large ratios of scales."""
    small = [*four_bits.pixels(), *four_bits.windows(), *four_bits.windows_3x3(), *four_bits.vectors()]
    small += [four_bits.conv2d((1, 3, 5, channels), 9) for channels in (40, 60)]
    small += [four_bits.linear(6, features, 12) for features in (16, 30, 45, 60, 90)]
    small += large_ratios.layers(1.7, DType.INT4)
    makers = layers16.pixels, layers16.windows, layers16.windows_3x3, layers16.vectors
    more = layers16.linear(10, 500, 19), layers16.conv2d((1, 3, 4, 72), 9)
    wide = list(with_4_bits(chain(*(made() for made in makers), more), DType.INT16))
    for ops in (small, wide):
        yield from ops
        yield from four_bits.with_lowest(ops)
    for op in wide:
        assert isinstance(op, Conv2d | Linear)
        large = op.bias.constant.copy()
        large[0] = 2**27
        yield replace(op, bias=constant_value("b", large, op.bias.type.quant))


MOST_MACS = 300_000


def programs_of_4_bits(core: Core) -> dict[str, Program]:
    """Returns a program for each kernel with 4-bit weights that the compiler chooses for these layers: of the largest one that takes no long time."""
    target, found = find_target(CORES[core]), dict[str, Program]()
    for op in sorted((op for op in ops_of_4_bits() if op.macs <= MOST_MACS), key=lambda op: op.macs):
        graph = Graph(op.kind, op.activations, (op,), op.results)
        (choice,) = choose_kernels(graph, target.core.isa)
        found[choice.kernel.name] = Program(graph, target)
    return found


@pytest.mark.parametrize("core", CORES)
def test_every_kernel_with_4_bit_weights_gives_the_bytes_of_the_program(core: Core, tmp_path: Path) -> None:
    """One firmware has all; tables are portable, and kernels of LiteRT's arithmetic are not those of images here."""
    programs = programs_of_4_bits(core)
    isa = find_target(CORES[core]).core.isa
    own = [k.name for k in KERNELS_OF[isa] if k.name.endswith(f"_4_{isa.value}")]
    assert {name for name in own if "tflite" not in name} <= programs.keys()
    elf = firmware(tmp_path, list(programs.values()), core, RUNTIMES[0])
    for name, program in programs.items():
        assert not answer_of(program, elf, core, RUNTIMES[0]).complaint, name


HEADERS = FOLDER / "sdk" / "include"
STRICT = [
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-Wshadow",
    "-Werror",
    "-std=c++17",
    "-Os",
    "-fno-exceptions",
    "-fno-rtti",
    "-mthumb",
]


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("tracer", [(), ("-DET_EVENT_TRACER_ENABLED",)], ids=["silent", "traced"])
def test_the_delegate_compiles_without_warnings(
    runtime: Runtime, tracer: tuple[str, ...], tmp_path: Path
) -> None:
    """With a tracer it knows its log; the judge's firmware has none."""
    here = HEADERS / IMAGES[runtime]
    folders = (here, here / "executorch" / "runtime" / "core" / "portable_type" / "c10")
    system = [word for folder in folders for word in ("-isystem", str(folder))]
    made = tmp_path / "delegate.o"
    source = resources.files("pillion.emitters.image") / "runtime" / "PillionBackend.cpp"
    flags = ("-mcpu=cortex-m33", *STRICT, *system, "-DC10_USING_CUSTOM_GENERATED_MACROS", *tracer)
    subprocess.run(["arm-none-eabi-g++", *flags, "-c", str(source), "-o", str(made)], check=True)
    logs = b"et_pal_current_ticks" in made.read_bytes()
    assert logs == bool(tracer)


@pytest.mark.parametrize("core", CORES)
def test_a_runtime_without_the_delegate_or_with_other_kernels_says_so(core: Core, tmp_path: Path) -> None:
    net, other = nn.Sequential(nn.Linear(8, 8)), nn.Sequential(nn.Conv2d(3, 8, 3))
    program, owner = (
        pillion.compile(module.eval(), inputs, target=CORES[core], progress=False)
        for module, inputs in ((net, (torch.randn(1, 8),)), (other, (torch.randn(1, 3, 8, 8),)))
    )
    fed = random_samples(program.graph, 1, seed=3)
    pte = program.pte(kernels="pillion")
    plain = judged(pte, program.graph.outputs, fed, core, RUNTIMES[0])
    assert "PillionBackend is not registered" in plain.complaint
    elf = firmware(tmp_path, [owner], core, RUNTIMES[0])
    lacking = judged(pte, program.graph.outputs, fed, core, RUNTIMES[0], image=elf)
    assert "PillionBackend: the firmware lacks a kernel of the image" in lacking.complaint
    at = pte.index(b"PLM1") + 300
    broken = pte[:at] + bytes([pte[at] ^ 1]) + pte[at + 1 :]
    damaged = judged(broken, program.graph.outputs, fed, core, RUNTIMES[0], image=elf)
    assert "PillionBackend: the image is damaged" in damaged.complaint

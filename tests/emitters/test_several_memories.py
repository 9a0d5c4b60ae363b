# SPDX-License-Identifier: Apache-2.0
"""Programs that are divided among several memories of a chip: same bytes, no memory overfull, few waits."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import pillion
from pillion import PillionError
from pillion.boards.host import HostModel
from pillion.chip_memory import ChipMemory, parse_memories
from pillion.memory import ARENA
from pillion.memory.live_blocks import LiveBlock
from pillion.memory.memory_choice import choose_memories
from pillion.memory.memory_units import MemoryUnit, Touched
from pillion.program import Program
from pillion.run.random_inputs import random_samples
from pillion.run.selftest_samples import run_selftest
from pillion.targets import TARGETS

FLASH = "flash=2M,read=40,constants"


class Skips(nn.Module):
    """Convolutions with a shortcut and a concatenation."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 12, 3, padding=1), nn.Conv2d(12, 12, 3, padding=1)
        self.c, self.d = nn.Conv2d(24, 9, 3, stride=2, padding=1), nn.Linear(9, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.a(x))
        z = torch.cat([torch.sigmoid(self.b(y)), y], 1)
        return self.d(torch.relu(self.c(z)).mean((2, 3)))


class Recurrent(nn.Module):
    """A GRU, which is a loop with constants and a state."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.out = nn.GRU(7, 11, batch_first=True), nn.Linear(11, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.gru(x)[0])


class Temporal(nn.Module):
    """Convolutions over time, for a stream."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv1d(5, 13, 3), nn.ReLU(), nn.Conv1d(13, 7, 5), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x).mean(2)


IMAGE, SEQUENCE, WINDOW = (2, 3, 17, 13), (1, 6, 7), (1, 5, 16)
CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], str, list[str], dict[str, Any]]] = {
    "image": (Skips, IMAGE, "cortex-m55", ["sram=4K", "psram=1M,slow=20", FLASH], {"io_dtype": "int8"}),
    "three": (Skips, IMAGE, "cortex-m33", ["tcm=1K", "sram=3K,slow=2", "psram=1M,slow=20", FLASH], {}),
    "rows in": (Skips, (1, *IMAGE[1:]), "cortex-m4", ["sram=2K", "psram=1M,slow=20"], {"rows_in": True}),
    "loop": (Recurrent, SEQUENCE, "cortex-m33", ["sram=96", "psram=1M,slow=20", FLASH], {"stateful": True}),
    "stream": (Temporal, WINDOW, "cortex-m55", ["sram=32", "psram=64K,slow=9", FLASH], {"stream": "x:2"}),
    "npu": (Skips, IMAGE, "cortex-m55+ethos-u55-128", ["dtcm=6K,npu=no", "sram=64K,slow=3"], {}),
    "neutron": (Skips, IMAGE, "imxrt700", ["tcm=4K", "sram=64K,slow=3"], {}),
    "overlap": (
        Skips,
        IMAGE,
        "cortex-m55+ethos-u55-128",
        ["dtcm=6K,npu=no", "sram=64K,slow=3"],
        {"overlap": True, "keep_on_cpu": ("lut",)},
    ),
    "portable": (Skips, IMAGE, "cortex-m0plus", ["sram=4K", "psram=1M,slow=20", FLASH], {}),
}


@cache
def compiled(name: str) -> Program:
    model, shape, target, memories, options = CASES[name]
    torch.manual_seed(0)
    return pillion.compile(
        model().eval(),
        torch.rand(shape),
        target=target,
        chip_memories=memories,
        progress=False,
        **options,
    )


def require_same_bytes(program: Program, on: str, seed: int) -> None:
    """Compares three runs with the reference; those of a program with a state are the steps of a stream."""
    samples = random_samples(program.graph, 3, seed=seed)
    sessions = program.stream("reference"), program.stream(on)
    if program.streaming is None and not program.graph.states:
        pairs = [(program.run(*x), program.run(*x, on=on)) for x in samples]
    else:
        pairs = [(sessions[0].step(*x), sessions[1].step(*x)) for x in samples]
    for wanted, found in pairs:
        for x, y in zip(wanted, found, strict=True):
            assert np.asarray(x).tobytes() == np.asarray(y).tobytes()


@pytest.mark.parametrize("name", CASES)
def test_programs_in_several_memories_fit_and_give_the_same_bytes(name: str) -> None:
    program = compiled(name)
    several = program.memory.several
    assert several is not None
    assert len(program.memory.arenas) > 1
    for used in several.used:
        assert used.bytes <= used.memory.bytes, used
    for resident in program.memory.residents:
        arena = next(used for used in several.used if used.area == resident.area)
        assert resident.offset + resident.bytes <= arena.arena_bytes
    require_same_bytes(program, "host", seed=1)


@pytest.mark.qemu
@pytest.mark.turns(3)
@pytest.mark.parametrize("name", ["image", "three", "rows in", "loop", "stream", "npu", "overlap"])
def test_same_bytes_on_boards(name: str) -> None:
    """Each memory is a section of its own, in regions of the board that are apart."""
    program = compiled(name)
    board = program.target.board
    assert board is not None
    require_same_bytes(program, board, seed=2)


@pytest.mark.qemu
def test_self_test_looks_into_every_memory(tmp_path: Path) -> None:
    program = compiled("three")
    folder = tmp_path / "fw"
    program.firmware(folder, selftest=random_samples(program.graph, 2, seed=3))
    source = (folder / "selftest" / "selftest.c").read_text()
    areas = source.split("areas[RESULTS] = {")[-1].split("}")[0]
    assert {"0", "1", "2"} <= set(areas.replace(" ", "").split(","))
    assert not run_selftest(folder, "mps2-an505").differs


def test_one_memory_is_as_simple_as_ever() -> None:
    torch.manual_seed(0)
    options: dict[str, Any] = {"target": "cortex-m55", "progress": False}
    program = pillion.compile(Skips().eval(), torch.rand(IMAGE), chip_memories=["sram=1M"], **options)
    header = str(program.files["model/model.h"])
    assert "skips_run(void *arena, void (*after_op)" in header
    assert "_memories" not in header
    plain = pillion.compile(Skips().eval(), torch.rand(IMAGE), extra=0, **options)
    assert program.memory.arena_bytes <= plain.memory.arena_bytes


def test_constants_in_demand_are_copied_to_the_fast_memory() -> None:
    program = compiled("image")
    several = program.memory.several
    assert several is not None
    weights = str(program.files["model/weights.h"])
    assert several.constants_in
    assert weights.count("PILLION_IN(0, sram)") + weights.count("PILLION_IN(1, psram)") > 0
    assert sum(used.constant_bytes for used in several.used) == sum(
        c.elements * c.data.itemsize for c in program.lowered.constants if c.memory
    )


def test_every_memory_has_its_own_guards(tmp_path: Path) -> None:
    """A kernel that writes one byte behind the second memory is found."""
    program = compiled("image")
    folder = tmp_path / "fw"
    program.firmware(folder)
    source = next(folder.glob("host/model.c"))
    text = source.read_text()
    assert "uint8_t *const in_psram = memories->psram;" in text
    spoiled = text.replace(
        "uint8_t *const in_psram = memories->psram;",
        "uint8_t *const in_psram = memories->psram;\n    in_psram[IMAGE_PSRAM_BYTES] = 1;",
    ).replace("IMAGE_PSRAM_BYTES", f"{program.graph.name.upper()}_PSRAM_BYTES")
    source.write_text(spoiled)
    sample = [np.ascontiguousarray(x).tobytes() for x in random_samples(program.graph, 1, seed=0)[0]]
    with HostModel(folder / "host") as model, pytest.raises(PillionError, match="outside its arena"):
        model.run(sample)


def test_npu_works_where_it_reaches() -> None:
    program = compiled("npu")
    segments = [op for op in program.lowered.graph.ops if op.kind == "segment"]
    assert segments
    assert all(program.memory.areas.get(op, ARENA) == "sram" for op in segments)


@pytest.mark.parametrize("seed", range(12))
def test_few_units_are_placed_as_an_exhaustive_search_places_them(seed: int) -> None:
    dice = np.random.default_rng(seed)
    units = []
    for _ in range(7):
        first = int(dice.integers(0, 5))
        block = LiveBlock(16 * int(dice.integers(1, 9)), first, first + int(dice.integers(0, 3)))
        moved = float(dice.integers(1, 400))
        units.append(MemoryUnit((block,), touched=Touched(moved, moved, moved, moved)))
    memories = [ChipMemory("a", 160), ChipMemory("b", 4096, read=3, write=5)]
    chosen = choose_memories("x", units, memories, ChipMemory("flash", 1 << 20), 8)

    def peak(inside: tuple[MemoryUnit, ...]) -> int:
        return max(
            sum(u.blocks[0].size for u in inside if u.blocks[0].first <= tick <= u.blocks[0].last)
            for tick in range(9)
        )

    best = min(
        sum(unit.waits(memories[1]) for unit in units if unit not in inside)
        for count in range(8)
        for inside in itertools.combinations(units, count)
        if peak(inside) <= 160
    )
    assert best <= chosen.waits <= 1.02 * best


def test_no_memory_holds_it() -> None:
    torch.manual_seed(0)
    with pytest.raises(PillionError, match="does not fit into the memories") as caught:
        pillion.compile(
            Skips().eval(), torch.rand(IMAGE), target="cortex-m33", chip_memories=["a=512", "b=700"]
        )
    assert "a 512, b 700" in caught.value.here


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (["sram"], "has no size"),
        (["sram=0"], "no size of memory"),
        (["sram=4K", "sram=8K"], "two memories are called"),
        (["f=1M,constants"], "no memory for data"),
        (["f=1M,constants", "g=1M,constants", "s=4K"], "several memories are for constants"),
        (["state=4K"], "no name of a memory"),
        (["Sram=4K"], "no name of a memory"),
        (["s=4K,slow=x"], "says nothing"),
        (["s=4K,fast=3"], "says nothing"),
        (["a=1", "b=1", "c=1", "d=1", "e=1"], "4 are the most"),
    ],
)
def test_invalid_memory_descriptions_are_refused(given: list[str], what: str) -> None:
    with pytest.raises(PillionError, match=what):
        parse_memories(given)


def test_description_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "chip.toml"
    file.write_text('[memory.sram]\nsize = "64K"\n\n[memory.psram]\nsize = "8M"\nslow = 20\nnpu = false\n')
    sram, psram = parse_memories(str(file))
    assert sram == ChipMemory("sram", 65536)
    assert psram == ChipMemory("psram", 8 << 20, 20, 20, npu=False)
    assert replace(psram, read=0.0) != psram


def test_other_bounds_and_other_runtimes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PillionError, match="two bounds"):
        pillion.compile("linear_bn", target="cortex-m33", chip_memories=["s=4K"], max_ram="8K")
    program = compiled("npu")
    with pytest.raises(PillionError, match="among memories"):
        program.save(tmp_path / "net.pte")


def test_json_names_each_memory(tmp_path: Path) -> None:
    program = compiled("three")
    program.firmware(tmp_path / "fw")
    manifest = json.loads((tmp_path / "fw" / "manifest.json").read_text())
    names = [memory["name"] for memory in manifest["memory"]["memories"]]
    assert names == ["tcm", "sram", "psram"]
    assert sum(m["arena_bytes"] for m in manifest["memory"]["memories"]) == manifest["memory"]["arena_bytes"]


EAGER = """
void NET_fetch(void *to, const void *from, uint32_t bytes) {
    memcpy(to, from, bytes);
}
void NET_wait(void) {
}
"""
LATE = """
static struct { void *to; const void *from; uint32_t bytes; } started[16];
static uint32_t count;
void NET_fetch(void *to, const void *from, uint32_t bytes) {
    memset(to, 0xa5, bytes);
    started[count].to = to;
    started[count].from = from;
    started[count++].bytes = bytes;
}
void NET_wait(void) {
    while (count > 0) {
        count--;
        memcpy(started[count].to, started[count].from, started[count].bytes);
    }
}
"""


def _rest(source: Path) -> str:
    """Returns the text of a model behind the functions that copy its constants."""
    text = source.read_text()
    return text[text.index("_wait(void) {\n}\n") + len("_wait(void) {\n}\n") :]


@pytest.mark.parametrize("at_once", [False, True])
def test_constants_arrive_between_start_and_wait(tmp_path: Path, at_once: bool) -> None:
    """A copy may happen at any moment from its start to the wait: at the earliest or at the latest, the bytes are the same."""
    torch.manual_seed(0)
    layers = [layer for _ in range(6) for layer in (nn.Linear(47, 47), nn.ReLU())]
    memories = ["sram=6K", "flash=2M,read=40,copy=4,constants"]
    program = pillion.compile(
        nn.Sequential(*layers).eval(),
        torch.rand(5, 47),
        target="cortex-m0plus",
        chip_memories=memories,
        progress=False,
    )
    several = program.memory.several
    assert several is not None
    assert len(several.streamed) > 2
    folder = program.firmware(tmp_path / "fw")
    source = folder / "model" / "model.c"
    name = program.graph.name
    own = EAGER if at_once else LATE
    source.write_text(
        source.read_text().split("__attribute__((weak))")[0] + own.replace("NET", name) + _rest(source)
    )
    samples = random_samples(program.graph, 2, seed=5)
    with HostModel(folder) as model:
        for sample in samples:
            found = model.run([np.ascontiguousarray(x).tobytes() for x in sample])
            wanted = [np.asarray(y).tobytes() for y in program.run(*sample)]
            assert found == wanted


@pytest.mark.qemu
def test_time_estimates_include_waits_for_slow_memory() -> None:
    """The same program in a memory that waits takes longer; a little fast memory shortens the longest waits."""
    torch.manual_seed(0)
    times, waits = [], []
    for memories in (["sram=1M"], ["psram=1M,slow=20"], ["sram=2K", "psram=1M,slow=20"]):
        program = pillion.compile(
            Skips().eval(), torch.rand(IMAGE), target="cortex-m55", chip_memories=memories, progress=False
        )
        time = program.time("100MHz")
        assert time.memories.name == "placed"
        times.append(time.cycles)
        waits.append(program.memory.several.waits if program.memory.several else 0)
    fast, slow, both = times
    assert fast.low < min(both.low, slow.low)
    assert slow.low - fast.low <= waits[1] <= slow.high - fast.high, (
        "the planner's waits lie between those that were counted"
    )
    assert fast.high < both.high < slow.high


def test_a_chip_knows_its_memories() -> None:
    torch.manual_seed(0)
    options: dict[str, Any] = {"chip_memories": ["chip", "psram=8M,slow=30"], "progress": False}
    program = pillion.compile(Skips().eval(), torch.rand(IMAGE), target="alif-e8", **options)
    several = program.memory.several
    assert several is not None
    assert [used.memory.name for used in several.used] == ["dtcm", "sram", "psram"]
    assert not several.used[0].memory.npu
    require_same_bytes(program, "host", seed=4)
    with pytest.raises(PillionError, match="are not known") as caught:
        pillion.compile("linear_bn", target="cortex-m33", chip_memories="chip")
    assert "alif-e8" in caught.value.rule
    with pytest.raises(PillionError, match="two memories are called `sram`"):
        pillion.compile("linear_bn", target="mcxn947", chip_memories=["chip", "sram=8K"])


@pytest.mark.qemu
@pytest.mark.parametrize("name", ["image", "three", "npu"])
def test_the_linked_firmware_has_these_sizes(name: str) -> None:
    program = compiled(name)
    several, board = program.memory.several, program.target.board
    assert several is not None
    assert board is not None
    profile = program.measure(*random_samples(program.graph, 1, seed=6)[0], on=board).profile
    assert profile is not None
    assert all(region.found == region.predicted for region in profile.regions), profile.regions
    sizes = {section: len(addresses) for section, addresses in profile.elf.places.items()}
    for number, used in enumerate(program.memory.arenas):
        assert sizes[f".pillion_memory_{number}"] == used.arena_bytes
    for number, used in enumerate(several.used):
        copied = sizes.get(f".pillion_constants_{number}", 0)
        assert used.constant_bytes <= copied <= used.constant_bytes + 32 * len(several.constants_in)


@pytest.mark.parametrize("target", ["imxrt700", "cortex-m55+ethos-u55-128"])
def test_bytes_of_the_npu_and_odd_sizes_count(target: str) -> None:
    """What the NPU needs is a part of a memory, and an arena in whole cache lines fits into a memory that is none."""
    torch.manual_seed(0)
    for spare in (0, 7, 16, 31):
        program = pillion.compile(
            Skips().eval(),
            torch.rand(IMAGE),
            target=target,
            chip_memories=[f"sram={9000 + spare}", "psram=1M,slow=9"],
            progress=False,
        )
        several = program.memory.several
        assert several is not None
        assert all(used.bytes <= used.memory.bytes for used in several.used)
        assert sum(used.memory.reserved for used in several.used) == program.npu_memory.ram_bytes
        assert program.ram_of_chip == 9000 + spare + (1 << 20)
        assert program.sram_bytes == sum(used.bytes for used in several.used)


def test_the_guide_names_the_chips_that_know_their_memories() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "memory.md").read_text("utf-8")
    sentence = guide.split("`--memory chip` stands for")[1].split(":")[0]
    named = {word for word in sentence.replace(",", " ").split() if word.startswith("`")}
    assert {f"`{target.name}`" for target in TARGETS.values() if target.chip_memories} == named

# SPDX-License-Identifier: Apache-2.0
"""Core and NPU at once: programs in steps give the bytes of those that wait, whatever the NPU does meanwhile."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from late_npu import random_schedules
from torch import nn

import pillion
from pillion import zoo
from pillion.boards.toolchain import host_compiler
from pillion.compile_options import PlacementOptions
from pillion.ir.types import Array
from pillion.memory import npu_calls, npu_workspace, plan
from pillion.memory.npu_calls import overlapped_ops
from pillion.memory.op_memory import OpMemory
from pillion.ops import Region, Scan, Segment
from pillion.program import Program
from pillion.run.random_inputs import random_samples

ETHOS, NEUTRON = "cortex-m55+ethos-u55-128", "imxrt700"


class Branches(nn.Module):
    """Two branches: convolutions for the NPU, and pools and sums that stay on the core beside them and between them."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.a, self.b = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1)
        self.c, self.d = nn.Conv2d(16, 16, 3, padding=1), nn.Conv2d(16, 8, 3, stride=2)
        self.largest, self.mean = nn.MaxPool2d(3, 1, 1), nn.AvgPool2d(3, 1, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.relu(self.a(x))
        y = self.c(self.mean(self.b(x)))
        side = self.mean(self.largest(x))
        y = y + side
        return self.d(y), self.largest(self.mean(y))


class Loop(nn.Module):
    """A recurrent layer on the core beside convolutions on the NPU."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.conv, self.next = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1)
        self.gru, self.mean = nn.GRU(12, 8, batch_first=True), nn.AvgPool2d(3, 1, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.next(torch.relu(self.conv(x))), self.gru(self.mean(x)[:, 0])[0]


class Tiles(nn.Module):
    """A large picture on the core, a few rows at a time, beside a small one on the NPU; both meet and part again."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.conv, self.last = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.largest, self.few = nn.MaxPool2d(3, 1, 1), nn.MaxPool2d(4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        small = self.conv(self.few(x))
        side = self.few(self.largest(self.largest(self.largest(x))))
        return self.last(self.largest(small)), self.largest(side)


class Shared(nn.Module):
    """An operand of the NPU that the core reads meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.conv, self.mean, self.largest = nn.Conv2d(3, 8, 3), nn.AvgPool2d(3, 1, 1), nn.MaxPool2d(3, 1, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = self.largest(x)
        return self.conv(x), self.mean(self.largest(x)), self.largest(x)


class Frames(nn.Module):
    """A stream with two branches over time."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.first = nn.Conv1d(8, 16, 3)
        self.left, self.right = nn.Conv1d(16, 16, 3), nn.Conv1d(16, 16, 3, dilation=2)
        self.last = nn.Conv1d(16, 8, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.relu(self.first(x))
        side = torch.sqrt(torch.relu(self.right(torch.sqrt(x))))
        return self.last(torch.sqrt(torch.relu(self.left(x)))), side


class Held(nn.Module):
    """A state that the NPU reads, and the core computes anew meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.conv, self.largest, self.mean = nn.Conv2d(3, 8, 3), nn.MaxPool2d(3, 1, 1), nn.AvgPool2d(3)
        self.register_buffer("held", PICTURE.clone())

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.conv(self.held)
        side = self.largest(x)
        self.held.copy_(self.largest(side))  # type: ignore[operator]  # a buffer
        return y, self.mean(side)


Options = dict[str, object]
NHWC: Options = {"io_dtype": "int8", "io_layout": "nhwc"}
ON_CORE = NHWC | {"keep_on_cpu": ("*pool*", "add")}
PICTURE = torch.linspace(-1, 1, 3 * 24 * 20).reshape(1, 3, 24, 20)
LARGE = torch.linspace(-1, 1, 3 * 48 * 40).reshape(1, 3, 48, 40)
MODELS: dict[str, tuple[Callable[[], nn.Module], torch.Tensor, Options]] = {
    "branches": (Branches, PICTURE, ON_CORE),
    "tiles": (Tiles, LARGE, NHWC | {"keep_on_cpu": ("*pool*",), "extra": "20%"}),
    "shared": (Shared, PICTURE, NHWC | {"keep_on_cpu": ("*pool*",)}),
    "loop": (
        Loop,
        torch.linspace(-2, 2, 12 * 12).reshape(1, 1, 12, 12),
        NHWC | {"keep_on_cpu": ("scan", "*pool*")},
    ),
    "state": (Held, PICTURE, NHWC | {"keep_on_cpu": ("*pool*",)}),
    "stream": (Frames, torch.linspace(-2, 2, 8 * 24).reshape(1, 8, 24), {"stream": "x:2", "hop": 2}),
}


def compiled_pair(name: str, target: str, **more: object) -> tuple[Program, Program]:
    """The program in steps, and the one that waits."""
    net, x, options = MODELS[name]
    keywords: Options = {"target": target, "prefer_npu": True, "name": f"net_{name}", **options, **more}
    overlapped = pillion.compile(net().eval(), (x,), overlap=True, **keywords)  # type: ignore[arg-type]  # of any option
    return overlapped, pillion.compile(net().eval(), (x,), **keywords)  # type: ignore[arg-type]  # of any option


def inputs(program: Program, count: int = 5) -> list[list[Array]]:
    return random_samples(program.graph, count, seed=3)


@pytest.mark.parametrize("target", [ETHOS, NEUTRON])
@pytest.mark.parametrize("name", MODELS)
def test_random_schedules_give_the_same_bytes(name: str, target: str, tmp_path: Path) -> None:
    overlapped, blocking = compiled_pair(name, target)
    graph = overlapped.lowered.graph
    assert max(overlapped_ops(graph).values()) > 0, "the core works beside the NPU"
    assert name != "tiles" or any(isinstance(op, Region) for op in graph.ops)
    assert name != "loop" or any(isinstance(op, Scan) for op in graph.ops)
    assert name not in ("state", "stream") or graph.states
    answer = random_schedules(tmp_path, [(overlapped, blocking)], [inputs(blocking)])
    assert answer == "0 of 1000 wrong, preempted 0 times"


ZOO: dict[str, tuple[str, ...]] = {
    "ds_cnn": ("depthwise*",),
    "resnet8": ("add", "conv2d_3_i8", "conv2d_6_i8"),
}
"""Networks of the zoo in several segments, by what stays on the core."""


@pytest.mark.slow
@pytest.mark.parametrize("name", ZOO)
def test_networks_of_the_zoo_give_the_same_bytes(name: str, tmp_path: Path) -> None:
    pair = [
        pillion.compile(
            *zoo.build(name),
            target=ETHOS,
            calibrate=zoo.random_inputs(name, 2),
            name=name,
            placement=PlacementOptions(ZOO[name], prefer_npu=True, overlap=overlap),
        )
        for overlap in (True, False)
    ]
    assert sum(isinstance(op, Segment) for op in pair[0].graph.ops) >= 4
    answer = random_schedules(tmp_path, [(pair[0], pair[1])], [inputs(pair[1], 2)])
    assert answer == "0 of 1000 wrong, preempted 0 times"


HOP = """
#include <stdio.h>
#include <string.h>
static _Alignas(32) uint8_t arena[2][NET_STREAM_ARENA_BYTES], state[2][NET_STREAM_STATE_BYTES];
int main(void) {
    pillion_task task;
    net_stream_reset(state[0]);
    net_stream_reset(state[1]);
    for (int call = 0, seen = 0; call < 40; call++) {
        float frames[64];
        for (int i = 0; i < 64; i++) frames[i] = (float)((call * 64 + i) % 17) / 8.0f - 1.0f;
        const int valid = net_stream_hop(arena[0], state[0], frames);
        const int started = net_stream_hop_start(&task, arena[1], state[1], frames);
        if (valid != (started == 2)) return 1;
        while (started && !net_stream_step(&task)) {}
        if (started && !net_stream_done(&task)) return 2;
        for (uint32_t i = 0; valid && i < pillion_model_net_stream.output_count; i++) {
            const pillion_buffer *const out = &pillion_model_net_stream.outputs[i];
            if (memcmp(arena[0] + out->offset, arena[1] + out->offset, out->bytes)) return 3;
        }
        seen += valid;
        if (call == 39 && (!seen || seen == 40)) return 4;
    }
    return memcmp(state[0], state[1], sizeof state[0]) ? 5 : 0;
}
"""


def test_a_stream_in_steps_is_the_stream(tmp_path: Path) -> None:
    program, _ = compiled_pair("stream", NEUTRON)
    project = program.firmware(tmp_path / "project") / "host"
    (tmp_path / "main.c").write_text(f'#include "{project / "model.h"}"\n{HOP}')
    sources = [tmp_path / "main.c", *project.glob("*.c"), *(project / "kernels").glob("*.c")]
    command = [
        *host_compiler(),
        "-std=c11",
        "-O1",
        f"-I{project / 'kernels' / 'include'}",
        *map(str, sources),
    ]
    subprocess.run([*command, "-lm", "-o", str(tmp_path / "run")], check=True, timeout=120)
    assert subprocess.run([tmp_path / "run"], timeout=60, check=False).returncode == 0


def shorten_live_ranges(self: plan._OpTicks, segment: int | None) -> None:
    """Ends the memory of a segment when it starts."""
    if segment is not None:
        self.ticks += 1
        self.numbers.append((self.numbers[-1][1],) * 2)


FAULTS: dict[str, tuple[object, str, object, str]] = {
    "live ranges end at the start": (plan._OpTicks, "_wait_for", shorten_live_ranges, "branches"),
    "cache lines are shared": (OpMemory, "guard_bytes", 0, "tiles"),
    "an operand is consumed that the core reads": (
        npu_workspace,
        "_blocks_read_meanwhile",
        lambda *_: set(),
        "shared",
    ),
    "a state is overwritten that the NPU reads": (npu_calls, "state_writers", lambda graph: {}, "state"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where, name, wrong, model = FAULTS[fault]
    monkeypatch.setattr(where, name, wrong)
    overlapped, blocking = compiled_pair(model, ETHOS)
    answer = random_schedules(tmp_path, [(overlapped, blocking)], [inputs(blocking)], 100)
    assert "of 100 wrong" in answer
    assert int(answer.split()[0]) > 0


def test_two_models_take_turns_and_preempt_one_another(tmp_path: Path) -> None:
    pairs = [compiled_pair(name, ETHOS) for name in ("branches", "stream")]
    answer = random_schedules(tmp_path, pairs, [inputs(blocking) for _, blocking in pairs])
    assert answer.startswith("0 of 2000 wrong, preempted ")
    assert int(answer.split()[-2]) > 1000


@pytest.mark.parametrize("target", [ETHOS, NEUTRON])
def test_several_memories_while_the_npu_works(tmp_path: Path, target: str) -> None:
    """Buffers in three memories, and constants that are copied in time, beside a late NPU."""
    memories = ["dtcm=4K,npu=no", "sram=40K,slow=2", "psram=1M,slow=9", "flash=1M,read=40,copy=4,constants"]
    overlapped, blocking = compiled_pair("branches", target, chip_memories=memories)
    assert len(overlapped.memory.arenas) > 1
    assert max(overlapped_ops(overlapped.lowered.graph).values()) > 0
    answer = random_schedules(tmp_path, [(overlapped, blocking)], [inputs(blocking)])
    assert answer == "0 of 1000 wrong, preempted 0 times"

# SPDX-License-Identifier: Apache-2.0
"""Program images: the same bytes as the reference, under the sanitizers of this computer; what is damaged or foreign is refused."""

from __future__ import annotations

import re
import struct
import subprocess
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import pillion
from emitters.test_branches import TwoBranches, compiled, given, pictures
from emitters.test_c import GROUPS, group_graph
from example_graphs import samples_of
from image_programs import build_driver, kernel_numbers, run_image, status_of, write_image
from memory.test_repeats import CASES, loop
from memory.test_workspaces import Skips
from pillion.boards.toolchain import HOST_COMPILER
from pillion.compile_options import Memory, PlacementOptions, Stream
from pillion.devices.cortex_m import CORES
from pillion.emitters.c.lower import CProgram, lower
from pillion.emitters.c.npu_segments import segment_steps
from pillion.emitters.image import writer
from pillion.emitters.image.kernel_abi import kernel_abi
from pillion.emitters.image.kernel_set import (
    kernel_set_files,
    kernels_of_core,
    read_kernel_set,
    require_kernels,
    write_kernel_set,
)
from pillion.emitters.image.reader import read_image, schedule_steps
from pillion.emitters.image.writer import BRANCH, CALL, LOOP, MOVE, MOVES, STOP, image_bytes
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import Array
from pillion.ops import parse
from pillion.program import Program
from pillion.run.executor import RunOptions
from pillion.run.stream_steps import run_stream_steps
from pillion.streams.to_stream import to_stream_graph
from pillion.targets import find_target
from stateful_graphs import KINDS_OF_ENDS, QUEUE
from streams.test_hop_in_c import calls_of, net
from tiling.test_row_input import by_rows, picture, whole

pytestmark = pytest.mark.skipif(HOST_COMPILER.find() is None, reason="missing: a C compiler")

OK, MISALIGNED, NO_IMAGE, FORMAT, TRUNCATED, DAMAGED, CORE, ABI, KERNEL, LAYOUT, SCHEDULE, BOUNDS = range(12)
"""The results of pillion_image_open."""
HEADER = 24 * 4


def raw(outputs: tuple[Array, ...]) -> bytes:
    return b"".join(np.ascontiguousarray(y).tobytes() for y in outputs)


def answers(graph: Graph, samples: list[list[Array]]) -> bytes:
    """The reference's outputs of consecutive runs."""
    if not graph.states:
        return b"".join(raw(graph.reference(*sample)) for sample in samples)
    steps = run_stream_steps(graph, samples, RunOptions(stream=True), graph.reference_step)
    return b"".join(map(raw, steps))


def queue() -> CProgram:
    return lower(parse(QUEUE))


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_driver(tmp_path_factory.mktemp("driver"), [queue()])


@pytest.mark.turns(4)
@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_every_kind_of_op_gives_the_reference(group: int, tmp_path: Path) -> None:
    programs = [
        lower(group_graph(group, arithmetic)) for arithmetic in (Arithmetic.CMSIS_NN, Arithmetic.TFLITE)
    ]
    driver = build_driver(tmp_path, programs)
    for program in programs:
        samples = samples_of(program.graph)
        assert run_image(driver, write_image(tmp_path, program), samples) == answers(program.graph, samples)


@pytest.mark.parametrize("text", [QUEUE, KINDS_OF_ENDS], ids=["filled", "copied"])
def test_states_last_from_run_to_run(text: str, tmp_path: Path) -> None:
    program = lower(parse(text))
    samples = samples_of(program.graph, 5)
    got = run_image(build_driver(tmp_path, [program]), write_image(tmp_path, program), samples)
    assert got == answers(program.graph, samples)


def test_loops_carry_values(tmp_path: Path) -> None:
    programs = [lower(loop(ops)) for ops, _ in CASES.values()]
    driver = build_driver(tmp_path, programs)
    for program in programs:
        samples = samples_of(program.graph)
        assert run_image(driver, write_image(tmp_path, program), samples) == answers(program.graph, samples)


@pytest.mark.torch
@pytest.mark.parametrize(
    "memory", [{"extra": "100%"}, {"extra": "100%", "rows_in": True}], ids=["stripes", "rows in"]
)
def test_stripes_and_rows(memory: dict[str, object], tmp_path: Path) -> None:
    plain = whole("cortex-m3")
    program = by_rows(plain, extra="100%") if "rows_in" in memory else plain.within(Memory(**memory))  # type: ignore[arg-type]
    lowered = replace(program, target=plain.target).lowered
    portable = [[picture(plain, seed)] for seed in range(2)]
    image = write_image(tmp_path, lowered)
    assert lowered.feed is not None or "rows_in" not in memory
    assert run_image(build_driver(tmp_path, [lowered]), image, portable) == answers(plain.graph, portable)


@pytest.mark.torch
@pytest.mark.parametrize("target", ["imxrt700", "cortex-m55+ethos-u55-128"])
def test_segments_call_the_npu_where_they_lie(target: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    options = PlacementOptions(prefer_npu=True)
    given = (torch.randn(1, 3, 13, 11),)
    program = pillion.compile(Skips().eval(), given, target=target, placement=options, name="skips")
    portable = lower(program.graph, workspaces=program.payloads.workspaces)
    samples = samples_of(program.graph)
    got = run_image(build_driver(tmp_path, [portable]), write_image(tmp_path, portable), samples)
    assert len(segment_steps(portable)) > 1
    assert got == answers(program.graph, samples)


def test_streams_take_new_frames(tmp_path: Path) -> None:
    """From run `warm_up` on, the outputs are those of `Program.stream`; a stream that collects frames is refused."""
    graph, _ = net(1, (1, 1), "max")
    wish = Stream((("x", 1),), 2)
    program = Program(to_stream_graph(graph, wish), find_target("cortex-m3"))
    frames, portable = [[one] for one in calls_of(graph, wish, 40)], lower(program.graph)
    image = write_image(tmp_path, portable)
    got = run_image(build_driver(tmp_path, [portable]), image, frames)
    wanted = program.stream().run(frames)
    first = read_image(image).warm_up
    assert [bool(answer) for answer in wanted] == [number >= first for number in range(1, 41)]
    size = len(raw(wanted[-1]))
    assert got[(first - 1) * size :] == b"".join(map(raw, wanted))
    slow, _ = net(2, (2, 1), "flatten")
    with pytest.raises(PillionError, match="collects the frames of 2 calls"):
        image_bytes(lower(to_stream_graph(slow, Stream((("x", 2),), 1))), "cortex-m3")


def sealed(words: list[int]) -> bytes:
    """An image of these words with the right checksum."""
    body = struct.pack(f"<{len(words) - 4}I", *words[4:])
    return struct.pack("<4I", *words[:3], zlib.crc32(body)) + body


NUMBERS = {
    "magic": 0,
    "version": 1,
    "size": 2,
    "crc": 3,
    "abi": 4,
    "isas": 5,
    "alignment": 8,
    "schedule": 9,
    "reset": 11,
    "reset words": 12,
    "inputs": 15,
}


@pytest.mark.parametrize(
    ("field", "value", "status"),
    [
        ("magic", 1, NO_IMAGE),
        ("version", 2, FORMAT),
        ("size", 1 << 20, TRUNCATED),
        ("abi", 1, ABI),
        ("isas", 8, CORE),
        ("alignment", 32, LAYOUT),
        ("schedule", 0xFFFFFFFC, LAYOUT),
        ("inputs", 0x7FFFFFFF, LAYOUT),
    ],
)
def test_a_foreign_header_is_refused(
    driver: Path, tmp_path: Path, field: str, value: int, status: int
) -> None:
    image = image_bytes(queue(), "cortex-m3")
    words = list(struct.unpack(f"<{len(image) // 4}I", image))
    assert status_of(driver, image, tmp_path) == OK
    words[NUMBERS[field]] = value
    assert status_of(driver, sealed(words), tmp_path) == status
    assert status_of(driver, image[:-16], tmp_path) == TRUNCATED
    assert status_of(driver, image[:40], tmp_path) == NO_IMAGE
    assert status_of(driver, image[:-1] + bytes([image[-1] ^ 1]), tmp_path) == DAMAGED


def test_a_schedule_that_ends_within_a_step_at_the_end_of_the_image_is_refused(
    driver: Path, tmp_path: Path
) -> None:
    image = image_bytes(queue(), "cortex-m3")
    words = [*struct.unpack(f"<{len(image) // 4}I", image), 0, 0, MOVE, STOP]
    words[NUMBERS["size"]] += 16
    words[NUMBERS["reset"]] = len(image) + 8
    words[NUMBERS["reset words"]] = 2
    assert status_of(driver, sealed(words), tmp_path) == SCHEDULE


def test_a_firmware_without_the_kernel_refuses_the_image(driver: Path, tmp_path: Path) -> None:
    other = lower(group_graph(0))
    assert status_of(driver, image_bytes(other, "cortex-m3"), tmp_path) == KERNEL


def changeable_words(image: bytes) -> list[int]:
    """The words of header, buffers and schedules that a run-time can check: all but the numbers of kernels, the places of params and the
    sizes of operands."""
    words = struct.unpack(f"<{len(image) // 4}I", image)
    changed = [*range(1, 24), *range(words[14] // 4, words[14] // 4 + 8 * (words[15] + words[16]))]
    for start, count in ((words[9], words[10]), (words[11], words[12])):
        for step in schedule_steps(words, start // 4, count):
            changed += [step.at] * (step.kind != CALL) + [step.at + 1] * (step.kind in (LOOP, BRANCH))
            for at in step.operands:
                changed += [at, *range(at + 2, at + 2 + (step.depth if words[at] & MOVES else 0))]
    return changed


@pytest.mark.torch
@pytest.mark.turns(2)
@pytest.mark.parametrize("name", ["queue", "loop", "camera", "branches"])
def test_damaged_images_are_refused_or_stay_in_their_memory(name: str, tmp_path: Path) -> None:
    """Also those whose checksum is right: a state, a loop, and stripes with rows. Scratch memory holds pointers, which no operand may overwrite."""
    programs = {
        "queue": queue,
        "loop": lambda: lower(loop(CASES["read after"][0])),
        "camera": lambda: by_rows(whole("cortex-m3"), extra="100%").lowered,
        "branches": lambda: two_branches().lowered,
    }
    program = programs[name]()
    image = write_image(tmp_path, program)
    (tmp_path / "changed").write_bytes(np.array(changeable_words(image.read_bytes()), "<u4").tobytes())
    driver = build_driver(tmp_path, [program])
    command = [
        str(driver),
        str(image),
        str(tmp_path / "changed"),
        str(tmp_path / "changed"),
        "fuzz",
        "4000",
        "7",
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    refused, ran = map(int, done.stdout.split()[:-1]), int(done.stdout.split()[-1])
    assert sum(refused) + ran == 4000
    assert ran < 2000


def test_the_writer_and_the_run_time_know_the_same_steps() -> None:
    runtime = Path(writer.__file__).with_name("runtime")
    (names,) = re.findall(r"enum \{ (STOP, .*) \};", (runtime / "pillion_image_steps.h").read_text())
    *written, resolved = names.split(", ")
    assert resolved == "BOUND", "made by the run-time alone"
    assert [getattr(writer, name) for name in written] == [*range(len(written))]
    limits = dict(
        re.findall(r"#define PILLION_IMAGE_(\w+) (\d+)u", (runtime / "pillion_image.h").read_text())
    )
    assert (limits["LOOPS"], limits["BRANCHES"], limits["OPERANDS"]) == (
        *(str(writer.MOST_LOOPS), str(writer.MOST_BRANCHES)),
        str(writer.MOST_SEGMENT_OPERANDS),
    )


def two_branches() -> Program:
    return compiled(TwoBranches, "cortex-m3", io_dtype="int8")


@pytest.mark.torch
def test_images_run_the_chosen_branch_alone(tmp_path: Path) -> None:
    """One of two networks, in one of which is a branch, too; calls are bound and not."""
    program = two_branches()
    samples = [[given(program, x)] for x in pictures()]
    image = write_image(tmp_path, program.lowered)
    driver = build_driver(tmp_path, [program.lowered])
    assert run_image(driver, image, samples) == answers(program.graph, samples)
    words = struct.unpack(f"<{image.stat().st_size // 4}I", image.read_bytes())
    steps = [*schedule_steps(words, words[9] // 4, words[10])]
    branches = [step for step in steps if step.kind == BRANCH]
    ends = {step.operands[0] + 2 + words[step.at + 1] for step in branches}
    assert len(branches) == 4
    assert ends < {step.at for step in steps}, "branches end where a step begins"


def test_images_refuse_npu_calls_and_several_arenas() -> None:
    program = queue()
    with pytest.raises(PillionError, match="one arena"):
        image_bytes(
            replace(
                program, npu_calls=next(c for c in type(program.npu_calls) if c is not program.npu_calls)
            ),
            "cortex-m3",
        )


def test_a_kernel_set_is_of_one_core_and_version(tmp_path: Path) -> None:
    m55, m33 = CORES["cortex-m55"], CORES["cortex-m33"]
    numbers = kernel_numbers([queue()])
    write_kernel_set(kernel_set_files(numbers, m33), tmp_path)
    kernel_set = read_kernel_set(tmp_path / "manifest.json")
    require_kernels(kernel_set, m33, kernel_set.kernels)
    with pytest.raises(PillionError, match="missing: pillion_softmax_s8"):
        require_kernels(kernel_set, m33, [*kernel_set.kernels, "pillion_softmax_s8"])
    with pytest.raises(PillionError, match="another core"):
        require_kernels(kernel_set, m55, ["pillion_mul_s8_mve"])
    with pytest.raises(PillionError, match="another version"):
        require_kernels(replace(kernel_set, abi=1), m33, kernel_set.kernels)
    with pytest.raises(PillionError, match="does not run"):
        kernel_set_files([kernel_abi().number("pillion_mul_s8_mve")], m33)
    (tmp_path / "manifest.json").write_text('{"kernels": []}', "utf-8")
    with pytest.raises(PillionError, match="no manifest of a kernel set"):
        read_kernel_set(tmp_path)


@pytest.mark.parametrize("core", ["cortex-m33", "cortex-m55"])
def test_all_kernels_of_a_core_have_sources(core: str) -> None:
    numbers = kernels_of_core(CORES[core])
    files = kernel_set_files(numbers, CORES[core])
    for number in numbers:
        name = kernel_abi().kernels[number].name
        assert any(f" {name}(" in str(text) for path, text in files.items() if path.startswith("src/")), name
    (table,) = (str(text) for path, text in files.items() if path.endswith("pillion_kernels.c"))
    found = re.search(r"const uint(\d+)_t places\[\] = \{([^}]*)\}", table)
    assert found is not None
    assert max(map(int, re.findall(r"\d+", found[2]))) == len(numbers) < 2 ** int(found[1])

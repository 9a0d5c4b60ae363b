# SPDX-License-Identifier: Apache-2.0
"""Programs that remember: every executor gives the reference's bytes, step by step, and begins anew after a reset."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import pillion
from pillion.boards.toolchain import HOST_COMPILER
from pillion.cli.verify_output import facts_of
from pillion.emitters.pte.file_facts import facts_of as facts_of_pte
from pillion.errors import PillionError
from pillion.importers.pte import read as read_pte
from pillion.ir.numerics import Arithmetic
from pillion.ops.state_io import open_states
from pillion.option_values import Runtime
from pillion.program import Program
from pillion.run.executor import DEFAULTS, Runnable, RunOptions, RunResult, Samples
from pillion.run.executor_list import run_folder
from pillion.run.executorch import run_executorch
from pillion.run.host_executor import HostExecutor
from pillion.run.reference import ReferenceExecutor
from pillion.run.selftest_samples import run_selftest
from pillion.run.verify import STEPS, verify, verify_project
from stateful_graphs import KINDS_OF_ENDS, QUEUE, SHOWN, graph_of, program_of, same, signal

TEXTS = pytest.mark.parametrize("text", [QUEUE, KINDS_OF_ENDS, SHOWN], ids=["queue", "ends", "shown"])
has_executorch = pytest.mark.skipif(
    importlib.util.find_spec("executorch") is None, reason="pip install 'pillion[executorch]'"
)
BOARDS = {"cortex-m33": "mps2-an505", "cortex-m55": "mps3-an547"}


@TEXTS
def test_this_computer_keeps_the_state_between_calls(text: str) -> None:
    program = program_of(text)
    steps = signal(program.graph, 7)
    wanted = program.stream().run(steps)
    with program.stream("host") as stream:
        got = [*stream.run(steps[:3]), stream.step(*steps[3]), *stream.run(steps[4:]), *stream.run([])]
        assert same(got, wanted)
        stream.reset()
        assert same(stream.run(steps), wanted)


@pytest.mark.turns(6)
@pytest.mark.qemu
@TEXTS
@pytest.mark.parametrize("target", BOARDS)
def test_boards_run_a_stream_in_one_run_and_go_on(text: str, target: str) -> None:
    program = program_of(text, target)
    steps = signal(program.graph, 7)
    wanted = program.stream().run(steps)
    stream = program.stream(BOARDS[target])
    assert same([*stream.run(steps[:4]), *stream.run(steps[4:])], wanted)
    stream.reset()
    assert same([stream.step(*steps[0])], wanted[:1])
    found = program.measure(*steps[0], on=BOARDS[target])
    assert same([found.outputs], wanted[:1])
    (state,) = [region for region in found.profile.regions if region.name == "state"] if found.profile else []
    assert state.predicted == state.found == program.memory.state_bytes


def test_every_run_begins_with_reset_states() -> None:
    program = program_of(KINDS_OF_ENDS)
    steps = signal(program.graph, 3)
    for on in ("reference", "host"):
        assert same([program.run(*x, on=on) for x in steps], [program.graph.reference(*x) for x in steps])
    found = HostExecutor().run(program, steps, DEFAULTS)
    assert same([one.outputs for one in found], [program.graph.reference(*x) for x in steps])


@TEXTS
@pytest.mark.qemu
def test_all_executors_agree(text: str) -> None:
    program = program_of(text)
    found = program.verify(2)
    assert found.ok, facts_of(found)
    assert {"reference", "host", "mps2-an505"} <= {run.executor for run in found.runs if run.has_run}
    assert (found.samples, found.steps) == (2, STEPS)
    assert facts_of(found)["steps_of_each_sample"] == STEPS


def test_litert_runs_the_steps_of_a_graph_in_its_arithmetic() -> None:
    pytest.importorskip("ai_edge_litert")
    program = Program(graph_of(QUEUE).replace(arithmetic=Arithmetic.TFLITE), program_of(QUEUE).target)
    steps = signal(program.graph, 5)
    assert same(program.stream("litert").run(steps), program.stream().run(steps))


class Forgetful(HostExecutor):
    """Resets the states before the third step."""

    name = "forgetful"

    def run(self, program: Runnable, samples: Samples, options: RunOptions = DEFAULTS) -> list[RunResult]:
        return [*super().run(program, samples[:2], options), *super().run(program, samples[2:], options)]


def test_wrong_states_are_distinguished_from_wrong_ops() -> None:
    found = verify(program_of(QUEUE), executors=[ReferenceExecutor(), Forgetful()])
    (difference,) = found.differences
    assert (difference.sample, difference.op) == (2, None)
    assert "what it keeps from one to the next is not" in difference.unfound


class Rounding(HostExecutor):
    """Has another upper limit of a sum that is a state, and is seen a step later."""

    name = "rounding"

    def run(self, program: Runnable, samples: Samples, options: RunOptions = DEFAULTS) -> list[RunResult]:
        ops = tuple(
            dataclasses.replace(op, high=20) if op.name == "sum" else op  # type: ignore[call-arg]  # a sum
            for op in program.graph.ops
        )
        return super().run(program.for_graph(program.graph.replace(ops=ops)), samples, options)


def test_an_op_that_makes_a_wrong_state_is_found() -> None:
    found = verify(program_of(KINDS_OF_ENDS), executors=[ReferenceExecutor(), Rounding()])
    (difference,) = found.differences
    assert difference.op is not None
    assert difference.op.name == "sum"


def test_c_headers_declare_state_size_and_reset(tmp_path: Path) -> None:
    program = program_of(QUEUE)
    folder = program.firmware(tmp_path / "fw")
    header = (folder / "model" / "model.h").read_text("utf-8")
    assert f"#define QUEUE_STATE_BYTES {program.memory.state_bytes}\n" in header
    assert "void queue_reset(void *state);" in header
    assert "void queue_run(void *arena, void *state, void (*after_op)(uint32_t op));" in header
    assert "queue_reset(state)" in (folder / "README.md").read_text("utf-8")
    manifest = (folder / "manifest.json").read_text("utf-8")
    assert re.search(r'"state_bytes": 32\b', manifest)
    steps = signal(program.graph, 4)
    outputs = [one.outputs for one in run_folder(folder, steps, options=RunOptions(stream=True))]
    assert same(outputs, program.stream().run(steps))


@pytest.mark.qemu
def test_a_project_is_verified_on_streams(tmp_path: Path) -> None:
    found = verify_project(program_of(KINDS_OF_ENDS).firmware(tmp_path / "fw"), 1)
    assert found.ok
    assert found.steps == STEPS


@pytest.mark.turns(5)
@pytest.mark.qemu
@TEXTS
@pytest.mark.parametrize("target", BOARDS)
def test_a_device_checks_itself_on_a_stream(tmp_path: Path, text: str, target: str) -> None:
    program = program_of(text, target)
    folder = program.firmware(tmp_path / "fw", selftest=signal(program.graph, 5))
    assert not run_selftest(folder, BOARDS[target]).differs
    assert not run_selftest(folder, "host").differs
    source = folder / "model" / "model.c"
    forgetful = (
        source.read_text("utf-8")
        .replace("memset(kept + 0,", "memset(kept + 1,", 1)
        .replace("memcpy(kept + 0,", "memcpy(kept + 1,", 1)
    )
    source.write_text(forgetful, "utf-8")
    assert run_selftest(folder, BOARDS[target]).differs


TWO_STREAMS = """
#include "model/model.h"
#include <stdio.h>
#include <string.h>
static _Alignas(16) uint8_t arena[QUEUE_ARENA_BYTES];
static _Alignas(16) uint8_t states[2][QUEUE_STATE_BYTES];
int main(void) {
    queue_reset(states[0]);
    queue_reset(states[1]);
    for (int i = 0; i < 8; i++) {
        memset(arena, 0x5a, sizeof arena);
        if (fread(QUEUE_INPUT_0(arena), 1, 15, stdin) != 15) { return 1; }
        queue_run(arena, states[i % 2], NULL);
        if (fwrite(QUEUE_OUTPUT_0(arena), 1, 45, stdout) != 45) { return 1; }
    }
    return 0;
}
"""


@pytest.mark.skipif(HOST_COMPILER.find() is None, reason="missing: a C compiler")
def test_two_streams_share_an_arena(tmp_path: Path) -> None:
    program = program_of(QUEUE, "cortex-m3")
    folder = program.firmware(tmp_path / "fw")
    (folder / "main.c").write_text(TWO_STREAMS, "utf-8")
    sources = [str(p) for p in (folder / "main.c", *sorted((folder / "model").rglob("*.c")))]
    flags = [
        "-std=c11",
        "-Wall",
        "-Wextra",
        "-Wconversion",
        "-Werror",
        "-ffp-contract=off",
        f"-I{folder}",
        f"-I{folder}/model",
        f"-I{folder}/model/kernels/include",
    ]
    subprocess.run(
        [shutil.which("cc") or "cc", *flags, *sources, "-o", str(tmp_path / "two"), "-lm"], check=True
    )
    steps = signal(program.graph, 8)
    raw = b"".join(x.tobytes() for (x,) in steps)
    said = subprocess.run([str(tmp_path / "two")], input=raw, stdout=subprocess.PIPE, check=True).stdout
    apart = [program.stream().run(steps[first::2]) for first in (0, 1)]
    wanted = b"".join(np.ascontiguousarray(apart[i % 2][i // 2][0]).tobytes() for i in range(8))
    assert said == wanted


@has_executorch
@TEXTS
@pytest.mark.parametrize("runtime", ["1.4", "1.5"])
def test_executorch_keeps_the_state_in_a_memory_of_its_own(
    tmp_path: Path, text: str, runtime: Runtime
) -> None:
    program = program_of(text)
    loaded = pillion.load(program.save(tmp_path / "net.pte", runtime))
    facts = facts_of_pte(loaded.file.raw) if loaded.file else None
    assert facts is not None
    assert facts.state_bytes == program.memory.state_bytes
    steps = signal(program.graph, 6)
    wanted = program.stream().run(steps)
    assert [s.initial.tolist() for s in loaded.graph.states] == [
        s.initial.tolist() for s in program.graph.states
    ]
    assert same(loaded.stream().run(steps), wanted)
    if runtime == "1.4":
        assert same(loaded.stream("executorch").run(steps), wanted)
        assert same(
            [loaded.run(*x, on="executorch") for x in steps], [program.graph.reference(*x) for x in steps]
        )


@has_executorch
def test_executorch_does_not_go_on_with_another_programs_states() -> None:
    one, other = (program_of(text).pte() for text in (QUEUE, KINDS_OF_ENDS))
    first, second = (signal(graph_of(text), 1)[0] for text in (QUEUE, KINDS_OF_ENDS))
    run_executorch(one, first)
    with pytest.raises(PillionError, match="another program"):
        run_executorch(other, second, goes_on=True)


def test_a_bundle_has_the_answers_of_a_stream() -> None:
    program = program_of(QUEUE)
    steps = signal(program.graph, 4)
    raw = program.bundled(steps)
    wanted = program.stream().run(steps)
    assert all(np.ascontiguousarray(y).tobytes() in raw for (y,) in wanted)


def test_a_file_without_its_record_is_refused_and_not_misread() -> None:
    raw = program_of(QUEUE).pte()
    with pytest.raises(PillionError, match="keep state between runs"):
        read_pte(raw.replace(b"pillion", b"million"))


def test_programs_without_states_are_written_as_before() -> None:
    graph = open_states(graph_of(QUEUE))
    program = program_of(QUEUE).for_graph(graph)
    assert facts_of_pte(program.pte()).state_bytes == 0
    assert b"state" not in program.pte()


@TEXTS
def test_reports_list_the_states(tmp_path: Path, text: str) -> None:
    pytest.importorskip("jinja2")
    program = program_of(text)
    page = program.report(tmp_path / "report.html", measure=False).read_text("utf-8")
    assert "from run to run it remembers" in page
    assert all(state.name in page for state in program.graph.states)
    assert "next state" in page or all(program.graph.is_output(s.after) for s in program.graph.states)
    assert "state" in program._repr_html_()

# SPDX-License-Identifier: Apache-2.0
"""`<model>_hop`: new frames in, an answer out as soon as there is one; streams with a state each share an arena."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from pillion.boards.toolchain import HOST_COMPILER
from pillion.compile_options import Stream
from pillion.ir.graph import Graph
from pillion.ir.types import Array
from pillion.ir.verify import verify_graph
from pillion.program import Program
from pillion.streams.to_stream import to_stream_graph
from pillion.targets import find_target
from streams.stream_checks import signals
from streams.time_nets import Layer, TimeNet

MAIN = """\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

static _Alignas(16) uint8_t arena[NET_ARENA_BYTES];
static _Alignas(16) uint8_t states[STREAMS][NET_STATE_BYTES];

/* Frames come for each of the streams in turn; each answer is the stream's number and the output. */
int main(void) {
    static int8_t frames[FRAMES];
    memset(states, 0xa5, sizeof states);
    for (int i = 0; i < STREAMS; i++) {
        net_reset(states[i]);
    }
    for (int turn = 0; fread(frames, 1, sizeof frames, stdin) == sizeof frames; turn = (turn + 1) % STREAMS) {
        const int answered = net_hop(arena, states[turn], frames);
        putchar(answered ? '1' : '0');
        if (answered) {
            fwrite(NET_OUTPUT_0(arena), 1, OUTPUT, stdout);
        }
        memset(arena, 0x5a, sizeof arena);
    }
    return 0;
}
"""

needs_compiler = pytest.mark.skipif(HOST_COMPILER.find() is None, reason="missing: a C compiler")


def built(program: Program, folder: Path, frame_bytes: int, streams: int) -> Path:
    program.firmware(folder)
    (folder / "main.c").write_text(MAIN, "utf-8")
    output = program.graph.outputs[0].type.size_bytes
    defines = [f"-DSTREAMS={streams}", f"-DFRAMES={frame_bytes}", f"-DOUTPUT={output}"]
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-fsanitize=address,undefined"]
    includes = [f"-I{folder}/model", f"-I{folder}/model/kernels/include"]
    sources = [str(p) for p in (folder / "main.c", *sorted((folder / "model").rglob("*.c")))]
    made = folder / "hops"
    compiler = shutil.which("cc") or "cc"
    subprocess.run([compiler, *flags, *defines, *includes, *sources, "-o", str(made), "-lm"], check=True)
    return made


def net(axis: int, strides: tuple[int, ...], head: str) -> tuple[Graph, TimeNet]:
    layers = tuple(Layer("conv", 3, s, channels=5, seed=s) for s in strides)
    made = TimeNet(layers, 3, 2, axis, False, head, 3)
    return verify_graph(made.graph(26)), made


def calls_of(graph: Graph, wish: Stream, calls: int) -> list[Array]:
    """A random signal, a hop at a time."""
    axis = wish.axes[0][1]
    hop = to_stream_graph(graph, wish)
    assert hop.streaming is not None
    (held,) = signals(graph, hop.streaming, calls, 3)
    return [np.take(held, range(i * wish.hop, (i + 1) * wish.hop), axis=axis) for i in range(calls)]


@pytest.mark.turns(2)
@needs_compiler
@pytest.mark.parametrize(
    ("axis", "strides", "hop", "head", "calls_of_a_run"),
    [(1, (1, 1), 2, "mean", 1), (2, (2, 1), 1, "flatten", 2), (1, (2, 3), 2, "rows", 3)],
)
def test_c_answers_when_python_does(
    tmp_path: Path, axis: int, strides: tuple[int, ...], hop: int, head: str, calls_of_a_run: int
) -> None:
    graph, _ = net(axis, strides, "max" if head == "mean" else head)
    wish = Stream((("x", axis),), hop)
    program = Program(to_stream_graph(graph, wish), find_target("cortex-m3"))
    assert program.streaming is not None
    assert program.streaming.calls == calls_of_a_run
    frames = calls_of(graph, wish, 70)
    wanted = program.stream().run([(one,) for one in frames])
    assert [bool(answer) for answer in wanted].count(True) > 70 // calls_of_a_run - 30
    exe = built(program, tmp_path / "fw", frames[0].nbytes, 1)
    raw = b"".join(np.ascontiguousarray(one).tobytes() for one in frames)
    said = subprocess.run([str(exe)], input=raw, stdout=subprocess.PIPE, check=True).stdout
    assert said == b"".join(spoken(answer) for answer in wanted)
    for call, answer in enumerate(wanted, start=1):  # Python's answers are those of windows
        if answer and head != "rows":
            last = np.concatenate(frames[max(call - 26, 0) : call], axis=axis)
            seen = np.take(last, range(last.shape[axis] - 26, last.shape[axis]), axis=axis)
            assert np.array_equal(answer[0], graph.reference(seen)[0])


def spoken(answer: tuple[Array, ...]) -> bytes:
    return b"1" + np.ascontiguousarray(answer[0]).tobytes() if answer else b"0"


@needs_compiler
def test_streams_in_turn_answer_after_every_frame(tmp_path: Path) -> None:
    """With a stride of two: two streams in one arena, the second one a frame later, and an answer to each window."""
    graph, _ = net(1, (2, 1), "flatten")
    wish = Stream((("x", 1),), 2)
    program = Program(to_stream_graph(graph, wish), find_target("cortex-m3"))
    (signal,) = signals(graph, program.streaming, 30, 5) if program.streaming else ([],)
    hops = [signal[:, first : first + 2] for first in range(signal.shape[1] - 1)]
    exe = built(program, tmp_path / "fw", hops[0].nbytes, 2)
    raw = b"".join(np.ascontiguousarray(one).tobytes() for one in hops)
    said = subprocess.run([str(exe)], input=raw, stdout=subprocess.PIPE, check=True).stdout
    wanted = b""
    for last in range(2, signal.shape[1] + 1):
        begins = last - 26
        answer = graph.reference(signal[:, begins:last]) if begins >= 0 else ()
        wanted += spoken(answer)
    assert said == wanted


def test_steps_take_the_frames_of_a_call() -> None:
    graph, _ = net(1, (2, 1), "flatten")
    program = Program(to_stream_graph(graph, Stream((("x", 1),), 1)), find_target("cortex-m3"))
    stream = program.stream()
    frames = calls_of(graph, Stream((("x", 1),), 1), 26)
    answers = [stream.step(one) for one in frames]
    assert [bool(a) for a in answers] == [False] * 25 + [True]
    stream.reset()
    assert [bool(a) for a in stream.run([(one,) for one in frames])] == [False] * 25 + [True]
    assert not stream.step(frames[0])
    with pytest.raises(Exception, match="does not fit"):
        stream.step(np.concatenate(frames[:2], axis=1))

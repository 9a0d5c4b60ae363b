# SPDX-License-Identifier: Apache-2.0
"""Builds late_npu.c with the C of programs that run in steps, and runs random schedules on this computer."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pillion.boards.toolchain import host_compiler
from pillion.ir.types import Array
from pillion.ops import Segment
from pillion.program import Program
from pillion.run.executor import RunOptions

HERE = Path(__file__).parent
FLAGS = ("-std=c99", "-O1", "-ffp-contract=off", "-Wall", "-Wextra", "-Wconversion", "-Werror")


def random_schedules(
    folder: Path,
    pairs: Sequence[tuple[Program, Program]],
    samples: Sequence[Sequence[Sequence[Array]]],
    schedules: int = 1000,
    seed: int = 1,
) -> str:
    """Runs models together. Each pair is a program in steps and one that is not, whose outputs are wanted; one sample
    after the other, with states kept. Returns the last line of the answer."""
    image = built(folder, [stepping for stepping, _ in pairs])
    data = []
    for number, ((_, blocking), some) in enumerate(zip(pairs, samples, strict=True)):
        data.append(folder / f"samples_{number}")
        data[-1].write_bytes(_samples_with_outputs(blocking, some))
    done = subprocess.run(
        [str(image), *map(str, data), str(schedules), str(seed)], capture_output=True, text=True, timeout=300
    )
    return (done.stdout.splitlines() or [f"ended with {done.returncode}"])[-1]


def _samples_with_outputs(program: Program, samples: Sequence[Sequence[Array]]) -> bytes:
    options = RunOptions(stream=True)
    from pillion.run.host_executor import HostExecutor

    results = HostExecutor().run(program, samples, options)
    raw = b"".join(
        np.ascontiguousarray(array).tobytes()
        for sample, result in zip(samples, results, strict=True)
        for array in (*sample, *result.outputs)
    )
    return np.uint32(len(samples)).tobytes() + raw


def built(folder: Path, programs: Sequence[Program]) -> Path:
    """Links the C of the programs for this computer with the late NPU."""
    text, sources, includes = "", [str(HERE / "late_npu.c")], [f"-I{HERE}"]
    kernels: set[str] = set()
    for number, program in enumerate(programs):
        project = program.firmware(folder / f"project_{number}")
        host, stand_in = project / "host", project / "npu_stand_in"
        folders = [host] if host.exists() else [project / "model", stand_in]
        text += f'#include "{folders[0] / "model.h"}"\n' + _segments(program)
        includes += [f"-I{path}" for path in (*folders, folders[0] / "kernels" / "include")]
        sources += [str(path) for folder in folders for path in sorted(folder.glob("*.c"))]
        files = {path.name: str(path) for folder in folders for path in sorted(folder.glob("kernels/*.c"))}
        sources += [path for name, path in files.items() if name not in kernels]
        kernels |= set(files)
    models = ", ".join(_model(program) for program in programs)
    text += f"const late_model late_models[] = {{{models}}};\nconst uint32_t late_model_count = {len(programs)};\n"
    (folder / "models.c").write_text(f'#include "late_npu.h"\n\n{text}')
    image = folder / "late"
    command = [
        *host_compiler(),
        *FLAGS,
        *includes,
        str(folder / "models.c"),
        *sources,
        "-lm",
        "-o",
        str(image),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert not done.returncode, done.stderr
    return image


def _model(program: Program) -> str:
    name = program.graph.name
    start = f"start_{name}" if not program.graph.states else f"{name}_start"
    return f"{{&pillion_model_{name}, {start}, {name}_step}}"


def _segments(program: Program) -> str:
    """Returns the call-outs of a program, in place of its stand-in's."""
    name, workspaces = program.graph.name, program.payloads.workspaces
    text = ""
    if not program.graph.states:
        text += f"""
static void start_{name}(pillion_task *task, void *arena, void *state, void (*after_op)(uint32_t op)) {{
    (void)state;
    {name}_start(task, arena, after_op);
}}
"""
    parameters = "const void *const *inputs, void *const *outputs" + ", void *workspace" * bool(workspaces)
    segments = [op for op in program.graph.ops if isinstance(op, Segment)]
    for number, op in enumerate(segments):
        sizes = [", ".join(str(v.type.size_bytes) for v in values) for values in (op.activations, op.results)]
        counts = f"{len(op.activations)}, {len(op.results)}, {workspaces[number].bytes if workspaces else 0}"
        function = f"{name}_npu_segment_{number}"
        text += f"""
void {function}({parameters});
int {function}_start(pillion_task *task, {parameters});
int {function}_end(pillion_task *task, {parameters});
static void run_{function}(const void *const *inputs, void *const *outputs) {{
    {function}(inputs, outputs{", NULL" * bool(workspaces)});
}}
static const late_segment late_{function} = {{run_{function}, {counts}, {{{sizes[0]}}}, {{{sizes[1]}}}}};
int {function}_start(pillion_task *task, {parameters}) {{
    return late_start(&late_{function}, task, inputs, outputs, {"workspace" if workspaces else "NULL"});
}}
int {function}_end(pillion_task *task, {parameters}) {{
    (void)inputs;
    (void)outputs;
    {"(void)workspace;" * bool(workspaces)}
    return late_end(&late_{function}, task);
}}
"""
    return text

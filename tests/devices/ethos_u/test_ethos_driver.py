# SPDX-License-Identifier: Apache-2.0
"""The C that calls Arm's driver: what it hands over, what it does when a call fails, and that compilers for chips take it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import pillion
from ethos_streams import needs_vela
from pillion.devices.ethos_u import host_driver, payload, segment_source
from pillion.devices.ethos_u.vela import CompiledSegment
from pillion.devices.host_driver import CHANNEL
from pillion.emitters.c.manifest import read_manifest
from pillion.errors import PillionError
from pillion.ops import Segment
from pillion.ops.example_values import random_like
from pillion.program import Program
from pillion.run.executor import RunOptions
from pillion.run.npu_project import _serve_channel, run_on_npu

DRIVER = """
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
struct ethosu_driver;
int ethosu_invoke_async(struct ethosu_driver *drv, const void *custom_data_ptr, const int custom_data_size,
                        uint64_t *const base_addr, const size_t *base_addr_size, const int num_base_addr, void *user_arg);
int ethosu_wait(struct ethosu_driver *drv, bool block);
struct ethosu_driver *ethosu_reserve_driver(void);
void ethosu_release_driver(struct ethosu_driver *drv);
int ethosu_invoke_v3(struct ethosu_driver *drv, const void *custom_data_ptr, const int custom_data_size,
                     uint64_t *const base_addr, const size_t *base_addr_size, const int num_base_addr, void *user_arg);
"""
"""The driver's signatures, as its own header has them."""
X = torch.linspace(-1, 1, 3 * 23 * 19).reshape(1, 3, 23, 19)
FLAGS = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-Wconversion")


class Net(nn.Module):
    """Two segments, with a square root between them for the core."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.last = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 16, 3, 2), nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.sqrt(torch.relu(self.first(x)))
        return self.last(torch.relu(self.second(x)).mean((2, 3)))


@pytest.fixture(scope="module")
def program() -> Program:
    return pillion.compile(Net().eval(), (X,), target="cortex-m55+ethos-u55-128")


@pytest.fixture(scope="module")
def in_steps() -> Program:
    return pillion.compile(Net().eval(), (X,), target="cortex-m55+ethos-u55-128", overlap=True)


@pytest.fixture(scope="module")
def another() -> Program:
    return pillion.compile(
        nn.Conv2d(3, 5, 3).eval(), (X,), target="cortex-m55+ethos-u55-128", name="another", io_dtype="int8"
    )


def sources(program: Program, folder: Path, is_copied: bool, in_sram: bool = False) -> list[Path]:
    """The project's files for the NPU; with copies as if no input or output lay in its place."""
    program.firmware(folder / "c", force=True)
    made = [payload.parse_payload(segment.payload) for segment in program.payloads.segments]
    if is_copied or in_sram:
        everything = [frozenset(range(is_copied * (len(one.inputs) + len(one.outputs)))) for one in made]
        form = (in_sram, program.lowered.in_steps)
        for name, text in segment_source.sources(program.graph.name, made, everything, *form).items():
            (folder / "c" / "npu" / name).write_text(text)
    (folder / "ethosu_driver.h").write_text(DRIVER)
    return sorted((folder / "c" / "npu").glob("*.c"))


def includes(folder: Path) -> list[str]:
    project = folder / "c"
    return [f"-I{folder}", *(f"-I{project / name}" for name in ("model", "npu", "model/kernels/include"))]


@needs_vela
@pytest.mark.parametrize("is_copied", [False, True])
def test_c_calls_the_ethos_driver_and_reports_its_failures(
    program: Program, tmp_path: Path, is_copied: bool
) -> None:
    """A driver that checks what it is given, fails at the call that it is told to, and leaves the reference's results where Vela says that
    they lie."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler for this computer")
    files = sources(program, tmp_path, is_copied)
    (tmp_path / "main.c").write_text(_main([("c", program, is_copied)]))
    command = [compiler, *FLAGS[:-1], *includes(tmp_path), *map(str, files), str(tmp_path / "main.c")]
    subprocess.run([*command, "-o", str(tmp_path / "run")], check=True, timeout=60)
    assert subprocess.run([tmp_path / "run"], timeout=60).returncode == 0


@needs_vela
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_two_models_in_one_firmware_keep_apart_in_either_order(
    program: Program, another: Program, tmp_path: Path, order: tuple[int, int]
) -> None:
    """One of them copies its inputs and outputs, the other has them in their places. Each is a library, as CMake makes them."""
    compiler, archiver = shutil.which("gcc") or shutil.which("cc"), shutil.which("ar")
    if compiler is None or archiver is None:
        pytest.skip("no C compiler for this computer")
    models = [("first", program, False), ("second", another, True)]
    libraries = []
    for place, model, is_copied in models:
        folder = tmp_path / place
        folder.mkdir()
        for file in sources(model, folder, is_copied):
            subprocess.run(
                [compiler, *FLAGS[:-1], *includes(folder), "-c", str(file)],
                cwd=folder,
                check=True,
                timeout=60,
            )
        libraries.append(str(folder / "lib.a"))
        subprocess.run([archiver, "rc", libraries[-1], *map(str, folder.glob("*.o"))], check=True, timeout=60)
    (tmp_path / "main.c").write_text(_main([(f"{place}/c", *rest) for place, *rest in models]))
    command = [compiler, *FLAGS[:-1], f"-I{tmp_path / 'first'}", str(tmp_path / "main.c")]
    command += [libraries[n] for n in order]
    subprocess.run([*command, "-o", str(tmp_path / "run")], check=True, timeout=60)
    assert subprocess.run([tmp_path / "run"], timeout=60).returncode == 0


CMAKE = """
cmake_minimum_required(VERSION 3.13)
project(app C)
add_library(the_driver ethosu_driver.c)
target_include_directories(the_driver PUBLIC .)
set(PILLION_NPU_DRIVER the_driver)
add_subdirectory(first)
add_subdirectory(second)
"""
"""The build of a product with two models, as the guides have it."""


@pytest.mark.turns(3)
@needs_vela
@pytest.mark.skipif(not shutil.which("cmake") or not shutil.which("cc"), reason="needs cmake and cc")
def test_cmake_builds_two_models_that_answer_right_in_either_order(
    program: Program, another: Program, tmp_path: Path
) -> None:
    """Each model's own commands and weights are executed, one model after the other, twice."""
    models = {"first": program, "second": another}
    for place, model in models.items():
        model.firmware(tmp_path / place)
    for name, text in host_driver.substitute_driver().files.items():
        (tmp_path / name).write_text(text)
    answers = {place: _answer(model) for place, model in models.items()}
    orders, text = (("first", "second"), ("second", "first")), CMAKE
    for order in orders:
        name = "_".join(order)
        headers = "".join(f'#include "{place}/model/model.h"\n' for place in order)
        runs = "".join(answers[place][0] for place in order)
        main = f"#include <stdio.h>\n#include <string.h>\n{headers}int main(void) {{\n{runs}{runs}    return 0;\n}}\n"
        (tmp_path / f"{name}.c").write_text(main)
        libraries = " ".join(f"pillion_{models[place].graph.name}" for place in order)
        text += f"add_executable({name} {name}.c)\ntarget_include_directories({name} PRIVATE .)\ntarget_link_libraries({name} {libraries})\n"
    (tmp_path / "CMakeLists.txt").write_text(text)
    for command in (["cmake", "-B", "b"], ["cmake", "--build", "b"]):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    payloads = [segment.payload for model in models.values() for segment in model.payloads.segments]
    for order in orders:
        with _serve_channel(host_driver.segment_executor(payloads)) as (channel, refused):
            made = subprocess.run(
                [tmp_path / "b" / "_".join(order)],
                capture_output=True,
                timeout=60,
                check=True,
                pass_fds=[channel],
                env={CHANNEL: str(channel)},
            )
        assert not refused
        assert made.stdout == 2 * b"".join(answers[place][1] for place in order)


def _answer(program: Program) -> tuple[str, bytes]:
    """The C that runs a model on random numbers and writes its outputs, and what they are."""
    x = program.graph.inputs[0]
    name, given = program.graph.name, random_like(x)
    arena = f"{name.upper()}_ARENA_BYTES"
    wanted = b"".join(y.tobytes() for y in program.run(given))
    return (
        f"    {{\n        {_numbers('x', given.tobytes())}"
        f"        static _Alignas(32) uint8_t arena[{arena}];\n"
        f"        memcpy({name.upper()}_INPUT_0(arena), x, sizeof x);\n        {name}_run(arena, NULL);\n"
        f"        fwrite({name.upper()}_OUTPUT_0(arena), 1, {len(wanted)}, stdout);\n    }}\n",
        wanted,
    )


TURNS = """
#include <stdio.h>
#include <string.h>
#include "first/model/model.h"
#include "second/model/model.h"
DATA
static _Alignas(32) uint8_t arena[NET_ARENA_BYTES], other[ANOTHER_ARENA_BYTES];
int main(void) {
    pillion_task task, second;
    int left = 3, waits = 0;
    memcpy(NET_INPUT_0(arena), x, sizeof x);
    memcpy(ANOTHER_INPUT_0(other), y, sizeof y);
    net_start(&task, arena, NULL);
    another_start(&second, other, NULL);
    for (; left != 0; waits++) {
        left &= (left & 2) && another_step(&second) ? 1 : 3;
        left &= (left & 1) && net_step(&task) ? 2 : 3;
    }
    fwrite(NET_OUTPUT_0(arena), 1, pillion_model_net.outputs[0].bytes, stdout);
    fwrite(ANOTHER_OUTPUT_0(other), 1, pillion_model_another.outputs[0].bytes, stdout);
    return waits > 4 && net_done(&task) && another_done(&second) && pillion_npu_queue[0] == SEGMENTS && pillion_npu_queue[1] == SEGMENTS ? 0 : 1;
}
"""


@needs_vela
@pytest.mark.skipif(not shutil.which("cmake") or not shutil.which("cc"), reason="needs cmake and cc")
def test_two_models_take_turns_on_one_npu(in_steps: Program, tmp_path: Path) -> None:
    """Both run in steps in one thread. A driver that is reserved twice refuses, and the queue is one for both libraries."""
    another = pillion.compile(
        nn.Conv2d(3, 5, 3).eval(),
        (X,),
        target="cortex-m55+ethos-u55-128",
        name="another",
        io_dtype="int8",
        overlap=True,
    )
    models = {"first": in_steps, "second": another}
    for place, model in models.items():
        model.firmware(tmp_path / place)
    for name, text in host_driver.substitute_driver().files.items():
        (tmp_path / name).write_text(text)
    count = sum(len(model.payloads.segments) for model in models.values())
    inputs = [random_like(model.graph.inputs[0]) for model in models.values()]
    data = "".join(_numbers(name, x.tobytes()) for name, x in zip("xy", inputs, strict=True))
    (tmp_path / "main.c").write_text(TURNS.replace("DATA", data).replace("SEGMENTS", str(count)))
    linked = "target_link_libraries(main pillion_net pillion_another)\ntarget_include_directories(main PRIVATE .)\n"
    (tmp_path / "CMakeLists.txt").write_text(f"{CMAKE}add_executable(main main.c)\n{linked}")
    for command in (["cmake", "-B", "b"], ["cmake", "--build", "b"]):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    payloads = [segment.payload for model in models.values() for segment in model.payloads.segments]
    with _serve_channel(host_driver.segment_executor(payloads)) as (channel, refused):
        made = subprocess.run(
            [tmp_path / "b" / "main"],
            capture_output=True,
            timeout=60,
            check=False,
            pass_fds=[channel],
            env={CHANNEL: str(channel)},
        )
    assert not refused
    assert made.returncode == 0
    assert made.stdout == b"".join(
        model.run(x)[0].tobytes() for model, x in zip(models.values(), inputs, strict=True)
    )


@needs_vela
def test_shared_workspaces_need_no_memcpy(program: Program, tmp_path: Path) -> None:
    text = "".join(path.read_text() for path in sources(program, tmp_path, False))
    assert "memcpy" not in text
    assert program.lowered.copied_bytes == 0
    assert "memcpy" in "".join(path.read_text() for path in sources(program, tmp_path, True))


@needs_vela
@pytest.mark.parametrize("is_copied", [False, True])
@pytest.mark.parametrize("core", ["cortex-m55", "cortex-m33"])
def test_compilers_for_chips_take_it(program: Program, tmp_path: Path, is_copied: bool, core: str) -> None:
    compiler = shutil.which("arm-none-eabi-gcc")
    if compiler is None:
        pytest.skip("not installed: arm-none-eabi-gcc")
    files = sources(program, tmp_path, is_copied)
    for level in ("-Os", "-O2"):
        for file in files:
            command = [compiler, f"-mcpu={core}", "-mthumb", level, *FLAGS, *includes(tmp_path)]
            subprocess.run([*command, "-c", str(file), "-o", str(tmp_path / "o.o")], check=True, timeout=60)


@needs_vela
@pytest.mark.parametrize("is_copied", [False, True])
@pytest.mark.parametrize("in_sram", [False, True])
def test_compilers_for_chips_take_c_that_starts_and_awaits(
    in_steps: Program, tmp_path: Path, is_copied: bool, in_sram: bool
) -> None:
    compiler = shutil.which("arm-none-eabi-gcc")
    if compiler is None:
        pytest.skip("not installed: arm-none-eabi-gcc")
    for file in [*sources(in_steps, tmp_path, is_copied, in_sram), tmp_path / "c" / "model" / "model.c"]:
        command = [compiler, "-mcpu=cortex-m55", "-mthumb", "-O2", *FLAGS, *includes(tmp_path)]
        subprocess.run([*command, "-c", str(file), "-o", str(tmp_path / "o.o")], check=True, timeout=60)


@needs_vela
@pytest.mark.parametrize("is_copied", [False, True])
@pytest.mark.parametrize("in_sram", [False, True])
def test_c_that_starts_and_awaits_gives_the_bytes_of_the_reference(
    in_steps: Program, tmp_path: Path, is_copied: bool, in_sram: bool
) -> None:
    """The project's own C, against a driver that says twice that a segment still runs, and only then reads its inputs."""
    sources(in_steps, tmp_path, is_copied, in_sram)
    project = tmp_path / "c"
    manifest = read_manifest(project)
    x = random_like(in_steps.graph.inputs[0])
    (made,) = run_on_npu(project, manifest, [[x]], RunOptions())
    for wanted, got in zip(in_steps.run(x), made.outputs, strict=True):
        np.testing.assert_array_equal(got, wanted)


@needs_vela
@pytest.mark.parametrize(("old", "new"), [("ethosu_wait(npu, 0)", "0"), ("    task->npu = npu;\n", "")])
def test_c_that_does_not_wait_is_found(in_steps: Program, tmp_path: Path, old: str, new: str) -> None:
    sources(in_steps, tmp_path, False)
    file = tmp_path / "c" / "npu" / "npu_ethosu.c"
    assert file.read_text().count(old) == 1
    file.write_text(file.read_text().replace(old, new))
    x = random_like(in_steps.graph.inputs[0])
    project = tmp_path / "c"
    try:
        (made,) = run_on_npu(project, read_manifest(project), [[x]], RunOptions())
    except PillionError:
        return
    assert any((a != b).any() for a, b in zip(in_steps.run(x), made.outputs, strict=True))


def _numbers(name: str, data: bytes) -> str:
    return f"static const unsigned char {name}[] = {{{', '.join(map(str, data))}}};\n"


def _main(models: Sequence[tuple[str, Program, bool]]) -> str:
    """A main program with such a driver, for the projects in some folders and whether they copy. Its answer says which check failed."""
    parts = [_parts(*one) for one in models]
    headers, data, cases, calls = ("".join(one) for one in zip(*parts, strict=True))
    most = max(one.scratch_bytes for _, program, _ in models for one in _compiled(program))
    return f"""
#include <ethosu_driver.h>
#include <string.h>
{headers}
{data}
struct ethosu_driver {{ int held; }} npu;
static const void *running;
static int refused, failing, calls;
static _Alignas(32) unsigned char scratch[{most}];
unsigned char apart[2][{most}];
struct ethosu_driver *ethosu_reserve_driver(void) {{ if (refused) return NULL; npu.held++; return &npu; }}
void ethosu_release_driver(struct ethosu_driver *drv) {{ drv->held--; }}
int ethosu_invoke_v3(struct ethosu_driver *drv, const void *data, const int size, uint64_t *const base, const size_t *sizes,
                     const int bases, void *user) {{
    unsigned char *const at = (unsigned char *)(uintptr_t)base[1];
    calls++;
    if (failing) return failing;
    if (drv->held != 1 || bases != 3 || user || memcmp(data, "COP1", 4) || size % 4 || sizes[2] || at != scratch) return 1;
    if ((uintptr_t)data % 16 || base[0] % 16 || base[1] % 16) return 2;
{cases}    return 6;
}}
int main(void) {{
{calls}    return npu.held;
}}
"""


def _compiled(program: Program) -> list[CompiledSegment]:
    return [payload.parse_payload(segment.payload) for segment in program.payloads.segments]


def _parts(folder: str, program: Program, is_copied: bool) -> tuple[str, str, str, str]:
    """The headers of a model, the bytes that its segments read and make, what the driver does for them, and their calls."""
    name, made = program.graph.name, _compiled(program)
    segments = [op for op in program.graph.ops if isinstance(op, Segment)]
    dtype = program.graph.inputs[0].dtype.numpy
    x = X.numpy() if program.graph.inputs[0].shape == tuple(X.shape) else X.permute(0, 2, 3, 1).numpy()
    values = program.graph.reference_values(np.asarray(x if dtype == np.float32 else (x * 127).astype(dtype)))
    headers = f'#include "{folder}/model/npu.h"\n#include "{folder}/npu/npu_ethosu.h"\n'
    data = cases = calls = ""
    for n, (op, one) in enumerate(zip(segments, made, strict=True)):
        wanted, result = f"wanted_{name}_{n}", f"made_{name}_{n}"
        start, end = one.inputs[0].offset, one.outputs[0].offset
        data += _numbers(wanted, values[op.xs[0]].tobytes()) + _numbers(result, values[op.ys[0]].tobytes())
        cases += (
            f"    if (running == {wanted}) {{\n"
            f"        if (sizes[1] != {one.scratch_bytes} || sizes[0] != 0) return 3;\n"
            f"        if (memcmp(at + {start}, {wanted}, sizeof {wanted})) return 5;\n"
            f"        memcpy(at + {end}, {result}, sizeof {result});\n        return 0;\n    }}\n"
        )
        calls += _call(name, n, start, end, is_copied)
    return headers, data, cases, calls


def _call(name: str, number: int, x: int, y: int, is_copied: bool) -> str:
    """The calls for a segment: the driver is not there, its invocation fails, all is well. What fails leaves the result as it was."""
    places = ("apart[0]", "apart[1]") if is_copied else (f"scratch + {x}", f"scratch + {y}")
    return f"""
    {{
        running = wanted_{name}_{number};
        unsigned char *const in = {places[0]}, *const out = {places[1]};
        const void *const inputs[] = {{in}};
        void *const outputs[] = {{out}};
        memcpy(in, wanted_{name}_{number}, sizeof wanted_{name}_{number});
        refused = 1, calls = 0;
        {name}_npu_segment_{number}(inputs, outputs, scratch);
        if ({name}_npu_error != -1 || calls || npu.held) return 10;
        refused = 0, {name}_npu_error = 0, failing = -7;
        if ({int(is_copied)}) memset(out, 0x5A, sizeof made_{name}_{number});
        {name}_npu_segment_{number}(inputs, outputs, scratch);
        if ({name}_npu_error != -7 || calls != 1 || npu.held) return 11;
        for (unsigned i = 0; {int(is_copied)} && i < sizeof made_{name}_{number}; i++) if (out[i] != 0x5A) return 12;
        failing = 0, {name}_npu_error = 0;
        {name}_npu_segment_{number}(inputs, outputs, scratch);
        if ({name}_npu_error) return 20 + {name}_npu_error;
        if (memcmp(out, made_{name}_{number}, sizeof made_{name}_{number})) return 13;
    }}
"""

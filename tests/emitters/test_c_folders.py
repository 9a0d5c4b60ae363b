# SPDX-License-Identifier: Apache-2.0
"""What goes into a product lies in one folder of a C project; projects of earlier versions, all in one folder, still run."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from example_graphs import samples_of
from faulty_executors import net, program, with_segment
from nightly import part_of
from pillion.boards.host import HostModel
from pillion.emitters.c.manifest import MANIFEST, read_manifest
from pillion.executors import host_folder
from pillion.host_io.atomic_files import write_parts
from pillion.program import Program
from pillion.run.executor_list import run_project

pytestmark = pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")

SCALAR, DSP, NPU = "cortex-m0plus", "cortex-m33", "imxrt700"
TARGETS = (SCALAR, DSP, NPU)
MOVED = ("model/", "harness/", "npu_stand_in/")
"""The folders whose files lay in the project itself in earlier versions."""


def made_for(target: str) -> Program:
    return program(with_segment() if target == NPU else net(), target)


def as_earlier(folder: Path) -> Path:
    """The project as versions before the folders wrote it."""
    paths = [*read_manifest(folder).files]
    files = {path: (folder / path).read_bytes() for path in paths if path != "README.md"}
    manifest = read_manifest(folder)
    shutil.rmtree(folder)
    flat = {re.sub(f"^({'|'.join(MOVED)})", "", path): content for path, content in files.items()}
    flat["model.h"] = flat["model.h"].replace(b'"../host/', b'"host/')
    for path, content in flat.items():
        write_parts(folder / path, content)
    write_parts(folder / MANIFEST, manifest.sealed(flat).text())
    return folder


def outputs_wanted(made: Program) -> list[bytes]:
    return [y.tobytes() for y in made.graph.reference(*samples_of(made.graph, 1)[0])]


@pytest.mark.parametrize("is_earlier", [False, True])
@pytest.mark.parametrize("target", TARGETS)
def test_projects_of_both_layouts_run(target: str, is_earlier: bool, tmp_path: Path) -> None:
    """By their manifests, and without: as a folder of firmware."""
    made = made_for(target)
    folder = made.firmware(tmp_path / "fw")
    folder = as_earlier(folder) if is_earlier else folder
    assert (folder / "model.c").is_file() == is_earlier
    sample = samples_of(made.graph, 1)[0]
    assert [y.tobytes() for y in run_project(folder, sample).outputs] == outputs_wanted(made)
    with HostModel(host_folder(folder)) as model:
        assert model.run([x.tobytes() for x in sample]) == outputs_wanted(made)


@pytest.mark.qemu
@pytest.mark.parametrize("target", part_of([DSP, NPU], 2))
def test_boards_measure_both_layouts_alike(target: str, tmp_path: Path) -> None:
    made = made_for(target)
    sample = samples_of(made.graph, 1)[0]
    folder = made.firmware(tmp_path / "fw")
    now = run_project(folder, sample, "mps2-an505", profile=True)
    then = run_project(as_earlier(folder), sample, "mps2-an505", profile=True)
    assert [y.tobytes() for y in now.outputs] == outputs_wanted(made)
    assert now.profile == then.profile


@pytest.mark.parametrize("target", [SCALAR, NPU])
def test_a_project_of_earlier_versions_gives_way(target: str, tmp_path: Path) -> None:
    """All that was Pillion's goes, all that was the user's stays."""
    made = made_for(target)
    folder = as_earlier(made.firmware(tmp_path / "fw"))
    (folder / "my_app.c").write_text("mine\n")
    made.firmware(folder)
    left = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert left == {*made.files, "my_app.c"}


@pytest.mark.parametrize("target", TARGETS)
def test_the_model_folder_has_no_test_files(target: str) -> None:
    paths = [path for path in made_for(target).files if path.startswith("model/")]
    kernels = [path for path in paths if path.startswith("model/kernels/")]
    npu = {"model/npu.h"} if target == NPU else set()
    assert {*paths} - {*kernels} == npu | {
        f"model/{f}" for f in ("model.c", "model.h", "weights.c", "weights.h")
    }


def c_of_readme(folder: Path) -> str:
    (block,) = re.findall(r"^```c\n(.*?)^```$", (folder / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    return str(block)


MAIN = """
#include <stdio.h>
int main(void) {
    static char input[%d], output[%d];
    (void)fread(input, 1, sizeof input, stdin);
    infer(input, output);
    return fwrite(output, 1, sizeof output, stdout) != sizeof output;
}
"""
DRIVER = """
#include "npu.h"
#include <string.h>
void mixed_npu_segment_0(const void *const *inputs, void *const *outputs) {
    (void)inputs;
    memset(outputs[0], 1, 1);
}
"""


@pytest.mark.parametrize(
    ("compiler", "suffix", "standard"), [("cc", "c", "-std=c99"), ("c++", "cpp", "-std=c++11")]
)
def test_the_model_s_folder_alone_builds_as_the_readme_says(
    compiler: str, suffix: str, standard: str, tmp_path: Path
) -> None:
    """Copied elsewhere, with the call and the flags of the readme; a product may be C++."""
    made = made_for(SCALAR)
    folder = made.firmware(tmp_path / "fw")
    shutil.copytree(folder / "model", tmp_path / "app" / "model")
    (sample,), (output,) = samples_of(made.graph, 1)[0], outputs_wanted(made)
    app = tmp_path / "app"
    (app / f"app.{suffix}").write_text(c_of_readme(folder) + MAIN % (sample.nbytes, len(output)))
    (flags,) = re.findall(r"with `(-std=c99 [^`]*)`", (folder / "README.md").read_text())
    sources = [str(path) for place in ("model", "model/kernels") for path in (app / place).glob("*.c")]
    subprocess.run(["cc", *flags.split(), "-pedantic", "-Werror", "-c", *sources], cwd=app, check=True)
    strict = [standard, "-pedantic", "-Wall", "-Wextra", "-Werror", *flags.split()[1:]]
    objects = [f"{Path(source).stem}.o" for source in sources]
    subprocess.run([compiler, *strict, f"app.{suffix}", *objects, "-o", "app"], cwd=app, check=True)
    assert subprocess.run([app / "app"], input=sample.tobytes(), capture_output=True).stdout == output


@pytest.mark.qemu
@pytest.mark.parametrize("target", part_of([SCALAR, DSP, "cortex-m55"], 3))
def test_link_time_optimization_changes_no_byte(target: str, tmp_path: Path) -> None:
    made = made_for(target)
    board = {SCALAR: "microbit", DSP: "mps2-an505"}.get(target, "mps3-an547")
    folder = made.firmware(tmp_path / "fw")
    (folder / "input.bin").write_bytes(b"".join(x.tobytes() for x in samples_of(made.graph, 1)[0]))
    command = ["make", "-s", f"run-{board}", "OPTIMIZE=-O2 -flto"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    assert (folder / "output.bin").read_bytes() == b"".join(outputs_wanted(made))


@pytest.mark.turns(2)
@pytest.mark.skipif(not shutil.which("cmake"), reason="needs CMake")
@pytest.mark.parametrize(("suffix", "language"), part_of([("c", "C"), ("cpp", "CXX")], 2))
def test_a_driver_comes_before_the_stand_in(suffix: str, language: str, tmp_path: Path) -> None:
    """As the readme says of the library that CMake makes."""
    made_for(NPU).firmware(tmp_path / "fw")
    (tmp_path / f"app.{suffix}").write_text(DRIVER + c_of_readme(tmp_path / "fw") + MAIN % (60, 120))
    (tmp_path / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.13)\nproject(app {language})\nadd_subdirectory(fw)\nadd_executable(app app.{suffix})\n"
        "target_link_libraries(app pillion_mixed)\n"
    )
    for command in (("cmake", "-B", "b"), ("cmake", "--build", "b")):
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    symbols = subprocess.run(["nm", "b/app"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert "mixed_npu_segment_0" in symbols
    assert "mixed_npu_0_" not in symbols


@pytest.mark.parametrize("target", TARGETS)
def test_the_readme_names_every_place(target: str, tmp_path: Path) -> None:
    made = made_for(target)
    readme = str(made.files["README.md"])
    tops = {path.split("/")[0] + "/" * ("/" in path) for path in made.files}
    assert [top for top in sorted(tops - {"README.md"}) if f"`{top}`" not in readme] == []
    assert "`host/`" in readme
    assert ("`npu_stand_in/`" in readme) == (target == NPU)
    assert readme == str(made_for(target).files["README.md"])

# SPDX-License-Identifier: Apache-2.0
"""Packages of C projects: each form as its own tools take it, and what they compute."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
import zlib
from datetime import date
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

import pillion
from pillion.boards.board import BOARDS
from pillion.boards.firmware import C_FLAGS
from pillion.boards.qemu import QEMU
from pillion.boards.toolchain import ARM_COMPILER
from pillion.cli import main
from pillion.errors import PillionError
from pillion.packages import FORM_NAMES
from pillion.packages.contents import Identity
from pillion.packages.package_writer import write_package
from pillion.program import Program

pytestmark = pytest.mark.torch
SCHEMA = Path(__file__).parents[3] / "shared" / "schemas" / "PACK.xsd"


class Spotter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 8, 3, padding=1)
        self.out = torch.nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.out(torch.relu(self.conv(x)).mean((2, 3))), -1)


class Tracker(torch.nn.Module):
    """Shares its layer's kernels with `Spotter`, and remembers."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("past", torch.zeros(1, 8))
        self.layer = torch.nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.past.copy_(torch.tanh(self.layer(torch.cat((x, self.past), 1))))
        return self.past


def compiled(target: str) -> list[Program]:
    torch.manual_seed(0)
    inputs = (torch.randn(1, 1, 11, 7),), (torch.randn(1, 8),)
    nets = Spotter().eval(), Tracker().eval()
    return [pillion.compile(net, x, target=target) for net, x in zip(nets, inputs, strict=True)]


def checksum_of_zeros(program: Program) -> str:
    """What the example of a package prints."""
    zeros = [np.zeros(v.shape, v.dtype.numpy) for v in program.graph.inputs]
    outputs = program.stream().run([zeros])[0] if program.graph.states else program.run(*zeros)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    crc = 0
    for y in outputs:
        crc = zlib.crc32(np.ascontiguousarray(y).tobytes(), crc)
    return f"{crc:08x}"


@pytest.fixture(scope="module")
def programs() -> dict[str, list[Program]]:
    return {target: compiled(target) for target in ("cortex-m0", "cortex-m33")}


@pytest.fixture(scope="module")
def projects(
    programs: dict[str, list[Program]], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[Path]]:
    root = tmp_path_factory.mktemp("projects")
    return {
        target: [program.firmware(root / target / program.graph.name) for program in made]
        for target, made in programs.items()
    }


@pytest.fixture(scope="module")
def package(projects: dict[str, list[Path]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both models for Cortex-M33 in all forms."""
    folder = tmp_path_factory.mktemp("package") / "voice"
    write_package(projects["cortex-m33"], FORM_NAMES, folder, Identity("voice", "1.2.3", "Acme"))
    return folder


def run(*command: object, cwd: Path | None = None) -> str:
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


CONSUMER = """cmake_minimum_required(VERSION 3.16)
project(app C)
%s
foreach(model %s)
  add_executable(${model} ${model}.c)
  target_link_libraries(${model} PRIVATE both::both)
endforeach()
"""


@pytest.mark.parametrize("is_installed", [True, False])
def test_cmake_finds_or_fetches_the_package(
    programs: dict[str, list[Program]], projects: dict[str, list[Path]], tmp_path: Path, is_installed: bool
) -> None:
    package, app = tmp_path / "package", tmp_path / "app"
    write_package(projects["cortex-m0"], ["cmake", "platformio"], package, Identity("both"))
    names = [program.graph.name for program in programs["cortex-m0"]]
    app.mkdir()
    for name in names:
        (app / f"{name}.c").write_text((package / "examples" / f"{name}_main" / "main.c").read_text())
    how = f'include(FetchContent)\nFetchContent_Declare(both SOURCE_DIR "{package}")\nFetchContent_MakeAvailable(both)'
    if is_installed:
        run("cmake", "-S", package, "-B", tmp_path / "b", f"-DCMAKE_INSTALL_PREFIX={tmp_path / 'there'}")
        run("cmake", "--build", tmp_path / "b", "--target", "install")
        how = "find_package(both 1.0 CONFIG REQUIRED)"
    (app / "CMakeLists.txt").write_text(CONSUMER % (how, " ".join(names)))
    run("cmake", "-S", app, "-B", app / "b", f"-DCMAKE_PREFIX_PATH={tmp_path / 'there'}")
    run("cmake", "--build", app / "b")
    printed = [run(app / "b" / name) for name in names]
    assert printed == [f"{p.graph.name}: outputs {checksum_of_zeros(p)}\n" for p in programs["cortex-m0"]]


ARDUINO = """
extern "C" {
#include "semihosting.h"
}
#define HEX 16
struct Printed {
    void begin(long) {}
    void print(const char *text) { semihost_print(text); }
    void print(uint32_t number, int) {
        char text[9] = {0};
        for (int i = 7; i >= 0; i--, number >>= 4) {
            text[i] = "0123456789abcdef"[number & 15];
        }
        semihost_print(text);
    }
    void println(unsigned long) { semihost_print("\\n"); }
} Serial;
static unsigned long micros() { return 0; }
static void delay(int) {}
"""


@pytest.mark.qemu
@pytest.mark.slow
def test_sketches_run_as_arduino_builds_them(
    programs: dict[str, list[Program]], projects: dict[str, list[Path]], package: Path, tmp_path: Path
) -> None:
    """All sources into an archive, for size, with GNU's dialect, where floats fuse without the pragma; a sketch is C++."""
    board = BOARDS["mps2-an505"]
    floats = ("-mcpu=cortex-m33", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv5-sp-d16")
    harness = projects["cortex-m33"][0] / "harness"
    flags = (
        *floats,
        "-Os",
        "-DARDUINO=10819",
        "-ffunction-sections",
        "-fdata-sections",
        f"-I{package / 'src'}",
    )
    objects = []
    for source in sorted((package / "src").rglob("*.c")):
        objects.append(tmp_path / f"{len(objects)}.o")
        run(ARM_COMPILER.path(), *flags, "-std=gnu11", "-Wall", "-Wextra", "-c", source, "-o", objects[-1])
    run("arm-none-eabi-ar", "rcs", tmp_path / "voice.a", *objects)
    own = [tmp_path / f"{name}.o" for name in ("startup", "semihosting", "memory", "cortex_m")]
    for file in own:
        run(ARM_COMPILER.path(), *floats, *C_FLAGS, "-O2", "-c", harness / f"{file.stem}.c", "-o", file)
    for program in programs["cortex-m33"]:
        name = program.graph.name
        sketch = tmp_path / f"{name}.cpp"
        text = (package / "examples" / name / f"{name}.ino").read_text()
        sketch.write_text(
            f"#include <stdint.h>\n{ARDUINO}\n{text}\nint main() {{ setup(); loop(); return 0; }}\n"
        )
        done = tmp_path / name
        command = ("arm-none-eabi-g++", *flags, "-fno-exceptions", "-fno-rtti", f"-I{harness}", "-nostdlib")
        linked = ("-T", harness / "mps2-an505.ld", f"-L{harness}", "-Wl,--gc-sections")
        run(*command, *linked, sketch, *own, tmp_path / "voice.a", "-lgcc", "-o", done)
        emulator = (
            QEMU.path(),
            *board.emulator_arguments,
            "-nographic",
            "-monitor",
            "none",
            "-serial",
            "none",
        )
        printed = run(*emulator, "-semihosting-config", "enable=on,target=native", "-kernel", done)
        assert printed.startswith(f"{name}: outputs {checksum_of_zeros(program)}"), printed


def test_packs_are_valid_and_kernels_are_in_them_once(package: Path) -> None:
    xmlschema = pytest.importorskip("xmlschema")
    description = package / "Acme.voice.pdsc"
    assert f'date="{date.today()}"' in description.read_text()
    if SCHEMA.exists():
        xmlschema.validate(description, SCHEMA)
    pack = ElementTree.parse(description).getroot()
    cores = {(one.get("Dcore"), one.get("Ddsp")) for one in pack.iterfind("conditions/condition/accept")}
    assert {("Cortex-M33", "DSP"), ("Cortex-M4", None)} <= cores
    assert ("Cortex-M3", None) not in cores
    named = [
        one.get("name")
        for one in pack.iterfind("components/component/files/file")
        if one.get("category") != "include"
    ]
    assert sorted(named) == sorted(str(p.relative_to(package)) for p in (package / "src").rglob("*.[ch]"))
    with zipfile.ZipFile(package / "Acme.voice.1.2.3.pack") as archive:
        assert archive.testzip() is None
        assert {"Acme.voice.pdsc", *named} <= set(archive.namelist())
    layer = (package / "voice.clayer.yml").read_text()
    components = {one.get("Csub") for one in pack.iterfind("components/component")} - {"Kernels"}
    assert all(f"Machine Learning:Pillion:{name}\n" in layer for name in components)


def test_the_zephyr_module_is_for_cores_with_its_instructions(package: Path, tmp_path: Path) -> None:
    kconfiglib = pytest.importorskip("kconfiglib")
    for core, has_dsp, allowed in (("M33", "y", 2), ("M33", "n", 0), ("M4", "n", 2), ("M3", "y", 0)):
        symbols = [
            f"config CPU_CORTEX_{name}\n\tbool\n\tdefault {'y' if name == core else 'n'}\n"
            for name in ("M3", "M4", "M33")
        ]
        symbols.append(f"config ARMV8_M_DSP\n\tbool\n\tdefault {has_dsp}\n")
        root = tmp_path / "Kconfig"
        root.write_text("".join(symbols) + f'source "{package / "zephyr" / "Kconfig"}"\n')
        options = kconfiglib.Kconfig(root, warn_to_stderr=False)
        assert options.syms["PILLION_VOICE"].visibility == allowed, (core, has_dsp)
    module = (package / "zephyr" / "module.yml").read_text()
    assert "cmake: zephyr\n" in module
    assert "kconfig: zephyr/Kconfig\n" in module
    sources = (package / "zephyr" / "CMakeLists.txt").read_text()
    assert all(f"${{package}}/{p.relative_to(package)}" in sources for p in (package / "src").rglob("*.c"))
    for model in ("spotter", "tracker"):
        sample = (package / "samples" / model / "sample.yaml").read_text()
        assert f"{model}: outputs" in sample
        assert "mps2/an521/cpu0" in sample


def test_library_manifests_have_the_required_keys(package: Path) -> None:
    lines = (package / "library.properties").read_text().splitlines()
    properties = dict(line.split("=", 1) for line in lines)
    required = {
        "name",
        "version",
        "author",
        "maintainer",
        "sentence",
        "paragraph",
        "category",
        "url",
        "architectures",
    }
    assert required <= properties.keys()
    assert properties["dot_a_linkage"] == "true"
    library = json.loads((package / "library.json").read_text())
    assert (library["name"], library["version"], library["build"]["libArchive"]) == ("voice", "1.2.3", True)
    for example in library["examples"]:
        assert all((package / example["base"] / file).is_file() for file in example["files"])


def test_a_package_is_written_anew_and_never_over_other_files(
    projects: dict[str, list[Path]], tmp_path: Path
) -> None:
    (first, second), (other, _) = projects["cortex-m33"], projects["cortex-m0"]
    out = tmp_path / "out"
    write_package([first, second], ["cmake", "zephyr"], out, Identity())
    again = write_package([first], ["cmake"], out, Identity())
    assert again.identity.name == "spotter"
    assert not (out / "zephyr").exists()
    assert not (out / "src" / "tracker").exists()
    (out / "mine.txt").write_text("of the user")
    (out / "CMakeLists.txt").write_text("changed")
    with pytest.raises(PillionError, match="CMakeLists"):
        write_package([first], ["cmake"], out, Identity())
    write_package([first], ["cmake"], out, Identity(), force=True)
    assert (out / "mine.txt").read_text() == "of the user"
    for folders, forms, identity, words in (
        ([first], ["cmake"], Identity(name="a b"), "--name a b"),
        ([first], ["cmake"], Identity(version="1.0"), "--version 1.0"),
        ([first], ["cmake"], Identity(vendor="../x"), "--vendor"),
        ([first], ["make"], Identity(), "--package make"),
        ([first, first], ["cmake"], Identity(), "called `spotter`"),
        ([first, other], ["cmake"], Identity(), "called `spotter`"),
        ([projects["cortex-m0"][1], first], ["cmake"], Identity(), "cannot share"),
        ([tmp_path], ["cmake"], Identity(), "not a project"),
    ):
        with pytest.raises(PillionError, match=words):
            write_package(folders, forms, tmp_path / "refused", identity)
    assert not (tmp_path / "refused").exists()
    with pytest.raises(PillionError, match="not written by Pillion"):
        write_package([first], ["cmake"], first, Identity())


def test_a_package_has_every_form_and_names_that_stay_apart(
    projects: dict[str, list[Path]], package: Path, tmp_path: Path
) -> None:
    readme = (package / "README.md").read_text()
    assert [line.split("**")[1] for line in readme.splitlines() if line.startswith("- **")] == [
        *("CMake", "CMSIS-Toolbox", "Zephyr", "Arduino", "PlatformIO")
    ]
    for name, words in (("kernels", "folders of the kernels"), ("SPOTTER", "are called")):
        named = tmp_path / name
        shutil.copytree(projects["cortex-m33"][0], named)
        manifest = json.loads((named / "manifest.json").read_text())
        (named / "manifest.json").write_text(json.dumps({**manifest, "model": name}))
        with pytest.raises(PillionError, match=words):
            write_package([projects["cortex-m33"][0], named], ["cmake"], tmp_path / "out", Identity())


def test_projects_of_npus_call_the_driver(tmp_path: Path) -> None:
    pytest.importorskip("ethosu.vela")
    torch.manual_seed(0)
    net, x = torch.nn.Sequential(torch.nn.Conv2d(4, 8, 3), torch.nn.ReLU()), torch.randn(1, 4, 9, 9)
    program = pillion.compile(net.eval(), (x,), target="cortex-m55+ethos-u55-128")
    project = program.firmware(tmp_path / "project")
    write_package([project], ["cmake", "zephyr"], tmp_path / "package", Identity("npu_net"))
    folder = tmp_path / "package" / "src" / program.graph.name
    assert "ethosu_invoke_v3" in (folder / "npu_ethosu.c").read_text()
    assert not list(folder.glob("*reference*"))
    assert "ARM_ETHOS_U" in (tmp_path / "package" / "zephyr" / "Kconfig").read_text()


def test_the_command_line_makes_packages(
    projects: dict[str, list[Path]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["pillion", *map(str, arguments)])
        try:
            main()
        except SystemExit as end:
            return int(end.code or 0), *capsys.readouterr()
        return 0, *capsys.readouterr()

    code, out, _ = call(
        "package", projects["cortex-m0"][0], "--package", "cmake", "-o", tmp_path / "p", "--json"
    )
    assert (code, json.loads(out)["name"]) == (0, "spotter")
    compile = ("compile", "ds_cnn", "-t", "cortex-m0", "-q", "--package")
    code, _, err = call(*compile, "cmake", "-o", tmp_path / "net.pte")
    assert code == 2
    assert "packages hold C projects" in err
    assert call(*compile, "cmake", "-o", tmp_path / "fw", "--json")[0] == 0
    assert (tmp_path / "fw" / "package" / "CMakeLists.txt").is_file()
    assert call(*compile, "zephyr", "-o", tmp_path / "fw", "--json")[0] == 0
    assert not (tmp_path / "fw" / "package" / "CMakeLists.txt").exists()


RTOS = SCHEMA.parents[1] / "rtos" / "freertos"
PORTS = {
    "mps2-an385": ("ARM_CM3", ("-mcpu=cortex-m3", "-mfloat-abi=soft")),
    "mps2-an505": ("ARM_CM33_NTZ/non_secure", ("-mcpu=cortex-m33", "-mfloat-abi=hard", "-mfpu=fpv5-sp-d16")),
    "mps3-an547": ("ARM_CM55_NTZ/non_secure", ("-mcpu=cortex-m55", "-mfloat-abi=hard")),
}


@pytest.mark.qemu
@pytest.mark.slow
@pytest.mark.skipif(not RTOS.exists(), reason="FreeRTOS is not beside the project")
@pytest.mark.parametrize("name", list(PORTS))
def test_two_models_share_an_arena_in_tasks_that_are_interrupted(tmp_path: Path, name: str) -> None:
    """10,000 times in the middle of a run, by a task that uses the same registers."""
    board, (port, core) = BOARDS[name], PORTS[name]
    programs = compiled(board.core)
    folders = [program.firmware(tmp_path / program.graph.name) for program in programs]
    package = tmp_path / "package"
    write_package(folders, ["cmake"], package, Identity("tasks"))
    own = Path(__file__).parents[1] / "data" / "packages"
    kernel = RTOS / "portable" / "GCC" / port
    harness = folders[0] / "harness"
    folders_of_headers = (own, RTOS / "include", kernel, harness, package / "src")
    flags = (*core, "-mthumb", "-O2", "-ffp-contract=off", "-ffunction-sections", "-fdata-sections")
    defines = ("-DINTERRUPTIONS=10000", f"-DCONFIG_MVE={int(name == 'mps3-an547')}")
    sources = [own / "freertos.c", *(RTOS / f"{part}.c" for part in ("tasks", "queue", "list"))]
    sources += [RTOS / "portable" / "MemMang" / "heap_4.c", *kernel.glob("port*.c")]
    sources += [harness / f"{part}.c" for part in ("startup", "semihosting", "memory", "cortex_m")]
    sources += sorted((package / "src").rglob("*.c"))
    linked = ("-nostdlib", "-T", harness / f"{name}.ld", f"-L{harness}", "-Wl,--gc-sections", "-lgcc")
    headers = [f"-I{folder}" for folder in folders_of_headers]
    run(ARM_COMPILER.path(), *flags, *defines, *headers, *sources, *linked, "-o", tmp_path / "tasks")
    emulator = (QEMU.path(), *board.emulator_arguments, "-nographic", "-monitor", "none", "-serial", "none")
    counted = ("-icount", "shift=5", "-semihosting-config", "enable=on,target=native")
    words = run(*emulator, *counted, "-kernel", tmp_path / "tasks").split()
    facts = [(words[i], words[i + 1]) for i in range(0, len(words), 2)]
    for program, (who, runs, wrong) in zip(programs, (facts[:3], facts[3:]), strict=True):
        assert who == (program.graph.name, checksum_of_zeros(program))
        assert int(runs[1], 16) > 100
        assert wrong == ("wrong", "00000000")

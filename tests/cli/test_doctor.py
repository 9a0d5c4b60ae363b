# SPDX-License-Identifier: Apache-2.0
"""`pillion doctor` and `--version`: what is there, what it enables, and nothing started that should not be."""

from __future__ import annotations

import re
import sys
from email.message import Message
from importlib import metadata
from pathlib import Path

import pytest
from shell import Call

from pillion import __version__
from pillion.boards.toolchain import ARM_COMPILER, CXX, HOST_COMPILER, QEMU
from pillion.cli import environment
from pillion.cli.environment import EXTRAS, FOR_DEVELOPERS, TOOLS, printed_version, satisfies_requirement

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("C compiler", "Arm compiler", "QEMU", "C++ compiler")


def program(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_doctor_json_has_the_installed_versions(
    pillion: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "arm-none-eabi-gcc", 'echo "arm-none-eabi-gcc (15:12.2.rel1-1) 12.2.1 20221205"')
    program(tmp_path, "qemu-system-arm", 'echo "QEMU emulator version 9.8.7 (Debian 1:7.2)"')
    monkeypatch.setenv("PATH", str(tmp_path))
    facts = pillion("doctor", "--json").facts
    found = {one["name"]: one for one in facts["found"]}
    assert facts["pillion"] == __version__
    assert facts["python"] == sys.version.split()[0]
    assert found["Arm compiler"]["version"] == "12.2.1"
    assert found["Arm compiler"]["where"] == str(tmp_path / "arm-none-eabi-gcc")
    assert (found["QEMU"]["version"], found["QEMU"]["ready"]) == ("9.8.7", True)
    assert (found["C compiler"]["version"], found["C compiler"]["ready"]) == (None, False)
    assert all(found[name]["version"] for name in ("torch", "torchao", "numpy"))
    assert all(one["enables"] for one in facts["found"])


def test_without_any_tool_each_is_named_with_the_ways_to_it(
    pillion: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    answer = pillion("doctor")
    assert answer.code == 0
    assert answer.err == ""
    lines = answer.out.splitlines()
    for name, tool in zip(PROGRAMS, (HOST_COMPILER, ARM_COMPILER, QEMU, CXX), strict=True):
        assert any(re.match(rf" +no +{re.escape(name)} ", line) for line in lines)
        for system in ("Debian, Ubuntu", "macOS", "conda"):
            assert any(line.split() == f"{system} {tool.ways[system]}".split() for line in lines), system
    assert "compiling to C, .pte and .tflite needs only the packages" in answer.out


@pytest.mark.parametrize("entry", [".", "", "bin"])
def test_doctor_starts_no_program_of_the_working_directory(
    entry: str, pillion: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    for folder in (tmp_path, tmp_path / "bin"):
        for tool, _ in TOOLS.values():
            for name in tool.names:
                program(folder, name, f"/usr/bin/touch {tmp_path}/started; echo 1.2.3")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", entry)
    monkeypatch.setenv("CC", "./cc")
    found = {one["name"]: one for one in pillion("doctor", "--json").facts["found"]}
    assert all(found[name]["version"] is None for name in PROGRAMS)
    assert not (tmp_path / "started").exists()


def test_apples_offer_of_a_compiler_is_none(
    pillion: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    monkeypatch.setattr(environment.sys, "platform", "darwin")
    monkeypatch.setattr(environment, "printed_version", lambda path: started.append(path) or "1.0")
    monkeypatch.setattr(environment.shutil, "which", lambda name, path: f"/usr/bin/{name}")
    monkeypatch.setattr(environment.os.path, "isdir", lambda path: False)
    assert [one["version"] for one in pillion("doctor", "--json").facts["found"] if one["kind"] == "program"]
    assert started == []


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("echo 'gcc (Debian 12.2.0-14) 12.2.0'", "12.2.0"),
        ("echo 'Apple clang version 15.0.0 (clang-1500.3.9.4)'", "15.0.0"),
        ("echo no numbers", ""),
        ("echo 1.2.3; exit 1", ""),
        ("cat", ""),
        ("printf '\\377\\376 4.5\\n'", "4.5"),
        ("exec sleep 30", ""),
    ],
)
def test_versions_as_programs_say_them(
    text: str, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "SECONDS", 1.0)
    assert printed_version(str(program(tmp_path, "tool", text))) == version


@pytest.mark.parametrize(
    ("version", "wanted", "does"),
    [
        *(("1.4.1", "==1.4.1", True), ("1.4.2", "==1.4.1", False), ("2.13.0+cpu", ">=2.10", True)),
        *(("2.9", ">=2.10", False), ("1.26", "<2,>=1.20", True), ("2.0", "<2,>=1.20", False)),
        *(("1.4.0", "==1.4", True), ("1.1rc1", "~=1.0", True), ("", ">=1", False)),
    ],
)
def test_versions_that_are_asked_for(version: str, wanted: str, does: bool) -> None:
    assert satisfies_requirement(version, wanted) == does


def test_an_extra_of_another_version_is_not_ready(pillion: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    declared = {"executorch": {"numpy": "==0.1"}, "odd": {"no-such-package": ">=1", "numpy": ""}}
    monkeypatch.setattr(environment, "_declared_extras", lambda: declared)
    found = {one["name"]: one for one in pillion("doctor", "--json").facts["found"]}
    assert "and ==0.1 is asked for" in found["extra executorch"]["lacks"]
    assert found["extra odd"]["lacks"] == "no-such-package is missing"
    text = pillion("doctor").out
    assert "pip install 'pillion[odd]'" in text
    assert "now: no-such-package is missing" in text


def test_every_extra_has_words() -> None:
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    section = text.partition("[project.optional-dependencies]\n")[2].partition("\n[")[0]
    extras = re.findall(r"^([\w-]+) = \[", section, re.MULTILINE)
    assert {"litert", "executorch", "dev"} <= set(extras)
    assert set(extras) - FOR_DEVELOPERS - set(EXTRAS) == set()


def test_extras_skip_requirements_of_other_python_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    about = Message()
    about["Provides-Extra"] = "sweep"
    for line in ("torch>=2.10", "optuna>=5; extra == 'sweep'"):
        about["Requires-Dist"] = line
    conditions = {
        "old": "python_version < '3.0'",
        "plan9": "sys_platform == 'plan9'",
        "here": "os_name != 'x'",
    }
    for name, condition in conditions.items():
        about["Requires-Dist"] = f"{name}; ({condition}) and extra == 'sweep'"
    monkeypatch.setattr(metadata, "metadata", lambda name: about)
    assert environment._declared_extras() == {"sweep": {"optuna": ">=5", "here": ""}}


def test_doctor_lists_the_extras_of_the_package() -> None:
    assert {"executorch", "litert"} <= set(environment._declared_extras())
    assert not FOR_DEVELOPERS & set(environment._declared_extras())


def test_version_option_lists_the_tools(
    pillion: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "qemu-system-arm", "echo QEMU emulator version 9.8.7")
    monkeypatch.setenv("PATH", str(tmp_path))
    answer = pillion("--version")
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[0] == f"pillion {__version__}"
    assert lines[1].startswith("Python 3.")
    assert {"QEMU 9.8.7", "no C compiler"} <= set(lines)
    assert any(line.startswith("torch 2.") for line in lines)

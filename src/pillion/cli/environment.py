# SPDX-License-Identifier: Apache-2.0
"""The tools and packages that Pillion can use, the features that each enables, and how to install them.

Package metadata is read; no package is imported. Only programs in `TOOLS` are started, with `--version`, and
only from absolute folders on the PATH."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pillion
from pillion.boards.build import cache_folder
from pillion.boards.toolchain import ARM_COMPILER, CXX, HOST_COMPILER, QEMU, Tool
from pillion.registry import installed_plugins, installed_version

SECONDS = 5.0
"""Time limit for a program to print its version."""

TOOLS: Mapping[str, tuple[Tool, str]] = {
    "C compiler": (HOST_COMPILER, "run the generated C on this computer (--on host), and verify it"),
    "Arm compiler": (ARM_COMPILER, "build the generated C for emulated boards (with QEMU)"),
    "QEMU": (QEMU, "run on emulated boards (--on mps3-an547), count instructions (--profile)"),
    "C++ compiler": (CXX, "run .pte programs in ExecuTorch (with the extra executorch)"),
}
"""Programs, each with the features that it enables."""

NEEDED = {
    "torch": "read models of PyTorch: compile, explain, train",
    "torchao": "quantize them",
    "numpy": "the exact reference (--on reference)",
}
"""Required packages, each with the features that it enables."""

EXTRAS = {
    "executorch": "run .pte programs in ExecuTorch's own runtime (--on executorch)",
    "litert": "run .tflite models and NPU segments in LiteRT (--on litert)",
    "report": "write a program as a page to look at (pillion report)",
    "data": "read images, for --calibrate and --data",
    "onnx": "compile .onnx files",
    "ethos-u": "compile segments for Arm's Ethos-U with its own compiler, and run what comes out",
    "board": "run programs on boards at a serial port or a debug probe (--on serial:PORT)",
    "sweep": "compile many variants and compare them (pillion sweep)",
    "docs": "build the documentation as a site",
}
"""Optional extras, each with the features that it enables. Other declared extras are listed without a text."""
FOR_DEVELOPERS = frozenset({"dev"})
"""Extras that users do not need."""

SDKS = sorted(Path(pillion.__file__).parent.glob("devices/*/sdk.json"))
"""SDK descriptions of NPU vendors, one per device folder that has one."""


@dataclass(frozen=True)
class FoundTool:
    """An optional item: its purpose, the installed version, and how to install it."""

    name: str
    kind: str
    """`package`, `program` or `extra`."""
    enables: str
    version: str | None = None
    """The installed version; None if it is missing."""
    where: str = ""
    lacks: str = ""
    """The problem with an installed but unsuitable item."""
    ways: Mapping[str, str] = field(default_factory=dict)
    """Installation commands by operating system."""

    @property
    def is_ready(self) -> bool:
        """Whether the item is installed and suitable."""
        return self.version is not None and not self.lacks


def optional_tools() -> list[FoundTool]:
    """Lists every item that Pillion can use, installed or not."""
    return [*_required_tools(), *_check_all_programs(), *_check_extras(), *_check_sdks()]


def system_facts() -> dict[str, str]:
    """Returns the versions of Pillion, Python and plug-ins, the system, and the build cache folder."""
    return {
        "pillion": pillion.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "installed_in": str(Path(pillion.__file__).parent),
        "python_program": sys.executable,
        "cache": str(cache_folder()),
        "plugins": ", ".join(installed_plugins()) or "none",
        **(
            {"cc": f"{chosen} (the variable CC, used for the C compiler)"}
            if (chosen := os.environ.get("CC"))
            else {}
        ),
    }


def versions() -> Iterator[str]:
    """Yields the lines of `pillion --version`."""
    facts = system_facts()
    yield f"pillion {facts['pillion']}"
    yield f"Python {facts['python']} on {facts['system']}"
    for tool in optional_tools():
        if tool.kind == "extra" and tool.version:
            yield from tool.version.split(", ")
        else:
            yield f"{tool.name} {tool.version}" if tool.version else f"no {tool.name}"


def _required_tools() -> Iterator[FoundTool]:
    for name, enables in NEEDED.items():
        yield FoundTool(
            name, "package", enables, installed_version(name), ways={"pip": "pip install pillion"}
        )


def _check_all_programs() -> list[FoundTool]:
    """Checks all programs concurrently, because each takes a moment to print its version."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor() as threads:
        return list(threads.map(_check_program, TOOLS))


def _check_program(name: str) -> FoundTool:
    tool, enables = TOOLS[name]
    path = _path_of(tool)
    if path is None:
        return FoundTool(name, "program", enables, ways=tool.ways)
    version_text = printed_version(path)
    lacks = "" if version_text else "it does not say its version"
    return FoundTool(name, "program", enables, version_text or "unknown", path, lacks, tool.ways)


def _path_of(tool: Tool) -> str | None:
    """Returns the absolute path of a program, unless it is in a relative PATH folder or is macOS's installer stub."""
    folders = [f for f in os.environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(f)]
    path = next((p for n in tool.names if (p := shutil.which(n, path=os.pathsep.join(folders)))), None)
    return None if path and _is_macos_stub(path) else path


def _is_macos_stub(path: str) -> bool:
    """Whether the path is a macOS stub that opens an installer window instead of compiling."""
    developer = ("/Library/Developer/CommandLineTools", "/Applications/Xcode.app")
    return (
        sys.platform == "darwin" and path.startswith("/usr/bin/") and not any(map(os.path.isdir, developer))
    )


def printed_version(path: str) -> str:
    """Returns the version that a program prints, or an empty string."""
    try:
        done = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            cwd="/",
            env={**os.environ, "LC_ALL": "C"},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    first = next(iter(done.stdout.splitlines()), "")
    numbers = re.findall(r"\d+(?:\.\d+)+", re.sub(r"\(.*?\)", "", first))
    return numbers[-1] if numbers and done.returncode == 0 else ""


def _check_extras() -> Iterator[FoundTool]:
    """Yields each extra that the installed package declares, with the version of its first package."""
    for extra, requirements in _declared_extras().items():
        versions = {name: installed_version(name) for name in requirements}
        missing = [name for name, version in versions.items() if version is None]
        wrong = [
            f"{name} {version}, and {requirements[name]} is asked for"
            for name, version in versions.items()
            if version is not None and not satisfies_requirement(version, requirements[name])
        ]
        there = ", ".join(f"{name} {version}" for name, version in versions.items() if version is not None)
        lacks = "; ".join([*wrong, *(f"{name} is missing" for name in missing if there)])
        commands = {"pip": f"pip install 'pillion[{extra}]'"}
        yield FoundTool(
            f"extra {extra}", "extra", EXTRAS.get(extra, ""), there or None, lacks=lacks, ways=commands
        )


def _declared_extras() -> dict[str, dict[str, str]]:
    """Returns, for each extra, the packages and version requirements that apply to this system."""
    from importlib import metadata

    from packaging.requirements import Requirement

    try:
        about = metadata.metadata("pillion")
    except metadata.PackageNotFoundError:
        return {}
    requirements = [Requirement(line) for line in about.get_all("Requires-Dist") or []]
    extras = [extra for extra in about.get_all("Provides-Extra") or [] if extra not in FOR_DEVELOPERS]
    return {
        extra: {
            requirement.name: str(requirement.specifier)
            for requirement in requirements
            if requirement.marker
            and requirement.marker.evaluate({"extra": extra})
            and not requirement.marker.evaluate({"extra": ""})
        }
        for extra in extras
    }


def _check_sdks() -> Iterator[FoundTool]:
    for file in SDKS:
        facts = json.loads(file.read_text("utf-8"))
        package = facts["package"]
        version = (
            None if importlib.util.find_spec(package) is None else installed_version(package) or "unknown"
        )
        yield FoundTool(
            facts["name"], "package", facts["enables"], version, ways={facts["from"]: facts["way"]}
        )


def satisfies_requirement(version: str, wanted: str) -> bool:
    """Whether an installed version satisfies a requirement; `1.4.0+cpu` satisfies `==1.4`."""
    from packaging.specifiers import SpecifierSet
    from packaging.version import InvalidVersion

    try:
        return SpecifierSet(wanted).contains(version, prereleases=True)
    except InvalidVersion:
        return False

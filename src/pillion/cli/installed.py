# SPDX-License-Identifier: Apache-2.0
"""What is installed beside Pillion, what each thing enables, and how to get the rest.

Packages are asked for by what their installers left behind, and never imported. Of programs, only those of `TOOLS` are started, with
`--version` and nothing else, and only from folders that the PATH names in full: what lies in the working directory is left alone."""

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

SECONDS = 5.0
"""How long a program may take to say its version."""

TOOLS: Mapping[str, tuple[Tool, str]] = {
    "C compiler": (HOST_COMPILER, "run the generated C on this computer (--on host), and verify it"),
    "Arm compiler": (ARM_COMPILER, "build the generated C for emulated boards (with QEMU)"),
    "QEMU": (QEMU, "run on emulated boards (--on mps3-an547), count instructions (--profile)"),
    "C++ compiler": (CXX, "run .pte programs in ExecuTorch (with the extra executorch)"),
}
"""Programs, each with what it enables."""

NEEDED = {
    "torch": "read models of PyTorch: compile, explain, train",
    "torchao": "quantize them",
    "numpy": "the exact reference (--on reference)",
}
"""Packages that come with Pillion, each with what it enables."""

EXTRAS = {
    "executorch": "run .pte programs in ExecuTorch's own runtime (--on executorch)",
    "litert": "run .tflite models and NPU segments in LiteRT (--on litert)",
    "report": "write a program as a page to look at (pillion report)",
    "data": "read images, for --calibrate and --data",
    "ethos-u": "compile segments for Arm's Ethos-U with its own compiler, and run what comes out",
    "sweep": "compile many variants and compare them (pillion sweep)",
    "docs": "build the documentation as a site",
}
"""Extras of the package, each with what it enables; one that has no words here is shown all the same."""
FOR_DEVELOPERS = frozenset({"dev"})
"""Extras that users have no need of."""

SDKS = sorted(Path(pillion.__file__).parent.glob("devices/*/sdk.json"))
"""What the vendors of NPUs have for them: a file in the folder of each that has something."""


@dataclass(frozen=True)
class Found:
    """One thing that may be installed: what it is for, what is there, and how to get it."""

    name: str
    kind: str
    """`package`, `program` or `extra`."""
    enables: str
    version: str | None = None
    """The version that is there; None where it is missing."""
    where: str = ""
    lacks: str = ""
    """What is wrong with it, where it is there and not as it should be."""
    ways: Mapping[str, str] = field(default_factory=dict)
    """How to get it, by system."""

    @property
    def is_ready(self) -> bool:
        """Whether it is there, and what it should be."""
        return self.version is not None and not self.lacks


def installed() -> list[Found]:
    """Lists everything that Pillion can use, whether it is there or not."""
    return [*_needed(), *_programs(), *_extras(), *_sdks()]


def surroundings() -> dict[str, str]:
    """Gives what the rest stands on: versions of Pillion and Python, the system, and where built files are kept."""
    return {
        "pillion": pillion.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "installed_in": str(Path(pillion.__file__).parent),
        "python_program": sys.executable,
        "cache": str(cache_folder()),
        **(
            {"cc": f"{chosen} (the variable CC, used for the C compiler)"}
            if (chosen := os.environ.get("CC"))
            else {}
        ),
    }


def versions() -> Iterator[str]:
    """Gives the lines of `pillion --version`: Pillion's own, and those of all that it uses."""
    facts = surroundings()
    yield f"pillion {facts['pillion']}"
    yield f"Python {facts['python']} on {facts['system']}"
    for one in installed():
        if one.kind == "extra" and one.version:
            yield from one.version.split(", ")
        else:
            yield f"{one.name} {one.version}" if one.version else f"no {one.name}"


def _needed() -> Iterator[Found]:
    for name, enables in NEEDED.items():
        yield Found(name, "package", enables, _version(name), ways={"pip": "pip install pillion"})


def _programs() -> list[Found]:
    """All at once: each takes a moment to say its version."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor() as threads:
        return list(threads.map(_program, TOOLS))


def _program(name: str) -> Found:
    tool, enables = TOOLS[name]
    path = _path_of(tool)
    if path is None:
        return Found(name, "program", enables, ways=tool.ways)
    said = said_version(path)
    lacks = "" if said else "it does not say its version"
    return Found(name, "program", enables, said or "unknown", path, lacks, tool.ways)


def _path_of(tool: Tool) -> str | None:
    """Where a program is, if that is in a folder named in full, and more than macOS's offer to install it."""
    folders = [f for f in os.environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(f)]
    path = next((p for n in tool.names if (p := shutil.which(n, path=os.pathsep.join(folders)))), None)
    return None if path and _is_apples_offer(path) else path


def _is_apples_offer(path: str) -> bool:
    """Apple ships compilers that are none: started, they open a window that offers to install some."""
    developer = ("/Library/Developer/CommandLineTools", "/Applications/Xcode.app")
    return (
        sys.platform == "darwin" and path.startswith("/usr/bin/") and not any(map(os.path.isdir, developer))
    )


def said_version(path: str) -> str:
    """Gives the version that a program says it has, or nothing."""
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


def _extras() -> Iterator[Found]:
    """Each extra that the installed package declares, as one: its version is that of its first package."""
    for extra, wanted in _declared().items():
        versions = {name: _version(name) for name in wanted}
        missing = [name for name, version in versions.items() if version is None]
        wrong = [
            f"{name} {version}, and {wanted[name]} is asked for"
            for name, version in versions.items()
            if version is not None and not fits(version, wanted[name])
        ]
        there = ", ".join(f"{name} {version}" for name, version in versions.items() if version is not None)
        lacks = "; ".join([*wrong, *(f"{name} is missing" for name in missing if there)])
        ways = {"pip": f"pip install 'pillion[{extra}]'"}
        yield Found(f"extra {extra}", "extra", EXTRAS.get(extra, ""), there or None, lacks=lacks, ways=ways)


def _declared() -> dict[str, dict[str, str]]:
    """Extra → package → the versions that it asks for, as the installed package says."""
    from importlib import metadata

    try:
        lines = metadata.requires("pillion") or []
    except metadata.PackageNotFoundError:
        lines = []
    found: dict[str, dict[str, str]] = {}
    for line in lines:
        requirement, _, condition = line.partition(";")
        extra = re.search(r"extra\s*==\s*['\"]([\w.-]+)['\"]", condition)
        name = re.match(r"\s*([\w.-]+)(?:\[[^\]]*\])?\s*(.*)", requirement)
        if extra and name and extra[1] not in FOR_DEVELOPERS:
            found.setdefault(extra[1], {})[name[1]] = name[2].strip(" ()")
    return found


def _sdks() -> Iterator[Found]:
    for file in SDKS:
        facts = json.loads(file.read_text("utf-8"))
        package = facts["package"]
        version = None if importlib.util.find_spec(package) is None else _version(package) or "unknown"
        yield Found(facts["name"], "package", facts["enables"], version, ways={facts["from"]: facts["way"]})


def _version(package: str) -> str | None:
    from importlib import metadata  # it takes as long as the rest of this file

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def fits(version: str, wanted: str) -> bool:
    """Whether a version is one that is asked for, as far as `==`, `>=` and `<` say."""
    for one in wanted.split(","):
        match = re.fullmatch(r"\s*(==|>=|<)\s*([\d.]+)\s*", one)
        if match is None:
            continue
        here, there = _numbers(version), _numbers(match[2])
        if not {"==": here == there, ">=": here >= there, "<": here < there}[match[1]]:
            return False
    return True


def _numbers(version: str) -> list[int]:
    """The numbers of a version, without what is behind them and without zeros at the end."""
    start = re.match(r"[\d.]*", version)
    numbers = [int(part) for part in (start[0] if start else "").split(".") if part]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return numbers

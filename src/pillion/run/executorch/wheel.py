# SPDX-License-Identifier: Apache-2.0
"""Finds the installed ExecuTorch without importing it, and builds the plug-in against its headers."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from pillion.boards.build import Compiler, Sources, compile_objects, link_objects
from pillion.boards.toolchain import CXX
from pillion.errors import PillionError
from pillion.option_values import Runtime

VERSIONS = get_args(Runtime)
"""The versions whose headers the plug-in uses."""
FLAGS = ("-std=c++17", "-O3", "-fPIC", "-Wall", "-DC10_USING_CUSTOM_GENERATED_MACROS")
LIBRARY = "libpillion_executorch.so"
_SOURCES = ("plugin.cpp", "convolve.cpp", "elementwise.cpp", "pool.cpp", "movement.cpp")


@dataclass(frozen=True)
class Wheel:
    """An installed ExecuTorch."""

    folder: Path
    version: str

    @property
    def runtime(self) -> Runtime:
        """The version whose operators the runtime has."""
        for known in VERSIONS:
            if self.version.startswith(f"{known}."):
                return known
        raise PillionError(
            f"ExecuTorch {self.version} is not one that Pillion knows",
            rule=f"the version is {' or '.join(VERSIONS)}",
            here=str(self.folder),
            help="pip install 'pillion[executorch]'",
        )

    @property
    def module(self) -> str:
        """The name of the runtime's Python module."""
        return "extension.pybindings." + ("_portable_lib" if self.runtime == "1.4" else "_C")

    @property
    def libraries(self) -> list[Path]:
        """The shared objects that together contain the runtime."""
        names = (
            f"{self.module.replace('.', '/')}.*.so",
            "lib/libexecutorch.so",
            "backends/qualcomm/libqnn*.so",
        )
        return [path for name in names for path in sorted(self.folder.glob(name))]


def find_wheel() -> Wheel:
    """Returns the installed ExecuTorch; raises with the install command if it is missing."""
    spec = importlib.util.find_spec("executorch")
    if spec is None or not spec.submodule_search_locations:
        raise PillionError(
            "ExecuTorch is not installed",
            rule=f"running a .pte on this computer takes ExecuTorch {' or '.join(VERSIONS)}",
            here="no package `executorch` in this environment",
            help="pip install 'pillion[executorch]'",
        )
    # The search also finds a folder of this name in the working directory.
    folders = [Path(location) for location in spec.submodule_search_locations]
    folder = next((f for f in folders if (f / "include").is_dir()), folders[0])
    wheel = Wheel(folder, importlib.metadata.version("executorch"))
    _check_wheel(wheel)
    return wheel


def _check_wheel(wheel: Wheel) -> None:
    if not wheel.libraries or platform.system() != "Linux":
        raise PillionError(
            "operators cannot be put into this ExecuTorch",
            rule="a wheel for Linux, with its shared libraries",
            here=f"{wheel.folder} on {platform.system()}",
            help="run the program elsewhere: --on host",
        )


def build_plugin(wheel: Wheel) -> Path:
    """Returns the plug-in, built or cached."""
    include = wheel.folder / "include"
    paths = (include, include / "executorch" / "runtime" / "core" / "portable_type" / "c10")
    flags = (
        *FLAGS,
        *(word for path in paths for word in ("-isystem", str(path))),
        f"-DWHEEL={wheel.version.split('+')[0]}",
        f"-DRUNTIME_MINOR={wheel.runtime.partition('.')[2]}",
    )
    folder = Path(__file__).parent / "plugin"
    headers = tuple(path.name for path in sorted(folder.glob("*.h")))
    compiler = (CXX.path(),)
    objects = compile_objects(Compiler(compiler, flags), Sources(folder, _SOURCES, headers))
    return link_objects(Compiler(compiler, ("-shared",)), objects, folder, (), LIBRARY)

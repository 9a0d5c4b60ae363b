# SPDX-License-Identifier: Apache-2.0
"""The installed ExecuTorch: found without importing it, and the plug-in built against its headers."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
from dataclasses import dataclass
from pathlib import Path

from pillion.boards.build import Compiler, Sources, compile_objects, link
from pillion.boards.toolchain import CXX
from pillion.errors import PillionError

VERSION = "1.4"
"""The version whose headers the plug-in is written for."""
FLAGS = ("-std=c++17", "-O3", "-fPIC", "-Wall", "-DC10_USING_CUSTOM_GENERATED_MACROS")
LIBRARY = "libpillion_executorch.so"
_SOURCES = ("plugin.cpp", "convolve.cpp", "elementwise.cpp", "pool.cpp", "movement.cpp")


@dataclass(frozen=True)
class Wheel:
    """The place where an installed ExecuTorch lies."""

    folder: Path
    version: str

    @property
    def libraries(self) -> list[Path]:
        """The shared objects that together hold the runtime: what one of them lacks another has."""
        found = sorted(self.folder.glob("extension/pybindings/_portable_lib*.so"))
        return [*found, *self.folder.glob("backends/qualcomm/libqnn_executorch_backend.so")]


def find_wheel() -> Wheel:
    """Finds the installed ExecuTorch, or raises an error that says how to get it."""
    found = importlib.util.find_spec("executorch")
    if found is None or not found.submodule_search_locations:
        raise PillionError(
            "ExecuTorch is not installed",
            rule=f"running a .pte on this computer takes ExecuTorch {VERSION}",
            here="no package `executorch` in this environment",
            help="pip install 'pillion[executorch]'",
        )
    # A folder of this name in the working directory is found as well, and is not it.
    folders = [Path(location) for location in found.submodule_search_locations]
    folder = next((f for f in folders if (f / "include").is_dir()), folders[0])
    wheel = Wheel(folder, importlib.metadata.version("executorch"))
    _check(wheel)
    return wheel


def _check(wheel: Wheel) -> None:
    if not wheel.version.startswith(f"{VERSION}."):
        raise PillionError(
            f"ExecuTorch {wheel.version} is not the one that Pillion knows",
            rule=f"the version is {VERSION}",
            here=str(wheel.folder),
            help="pip install 'pillion[executorch]'",
        )
    if not wheel.libraries or platform.system() != "Linux":
        raise PillionError(
            "operators cannot be put into this ExecuTorch",
            rule="a wheel for Linux, with its shared libraries",
            here=f"{wheel.folder} on {platform.system()}",
            help="run the program elsewhere: --on host",
        )


def build_plugin(wheel: Wheel) -> Path:
    """Compiles the plug-in when it is first needed, and keeps it in the cache."""
    include = wheel.folder / "include"
    paths = (include, include / "executorch" / "runtime" / "core" / "portable_type" / "c10")
    flags = (
        *FLAGS,
        *(word for path in paths for word in ("-isystem", str(path))),
        f"-DWHEEL={wheel.version.split('+')[0]}",
    )
    folder = Path(__file__).parent / "plugin"
    headers = tuple(path.name for path in sorted(folder.glob("*.h")))
    compiler = (CXX.path(),)
    objects = compile_objects(Compiler(compiler, flags), Sources(folder, _SOURCES, headers))
    return link(Compiler(compiler, ("-shared",)), objects, folder, (), LIBRARY)

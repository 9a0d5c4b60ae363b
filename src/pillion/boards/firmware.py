# SPDX-License-Identifier: Apache-2.0
"""A firmware folder: which of its C files are the model, the kernels, and the harness around them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from pillion.boards.board import firmware_files
from pillion.boards.build import Sources
from pillion.errors import PillionError

# For every C file of a firmware, on every machine. Fused multiply-add would make floats differ between
# machines.
C_FLAGS = (
    "-std=c99",
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-Werror",
    "-ffunction-sections",
    "-fdata-sections",
    "-ffp-contract=off",
    "-Ikernels/include",
)
_HOST_ONLY = ("host.c",)
_MOST_NAMES = 8


@dataclass(frozen=True)
class Firmware:
    """The sources of a firmware folder. Kernels do not see model.h, so their objects serve every model."""

    folder: Path
    model: Sources
    kernels: Sources
    harness: Sources


def read_firmware(folder: Path, files: Collection[str] | None = None) -> Firmware:
    """Look through a firmware folder. Where the `files` of the firmware are known, others may lie beside them."""
    folder = folder.absolute()
    present = files if files is not None else _found(folder)
    wanted = {"model.c", "model.h", "weights.c", *(name for name in present if name.endswith((".c", ".h")))}
    names = sorted(name for name in wanted if name in present and (folder / name).exists())
    missing = sorted(wanted - set(names))
    missing += ["kernels"] * (not any(name.startswith("kernels/") for name in names))
    if missing:
        raise PillionError(
            f"{folder} is not a firmware folder",
            rule="it holds model.c, model.h, weights.c and kernels/",
            here="missing: " + ", ".join(missing[:_MOST_NAMES]),
            help="write one with: pillion compile -m MODEL --target TARGET -o FOLDER/",
        )
    ours = firmware_files()
    sources = _in(names, "", ".c")
    kernel_headers = tuple(name for name in names if name.startswith("kernels/") and name.endswith(".h"))
    headers = (*_in(names, "", ".h"), *kernel_headers)
    harness = tuple(name for name in sources if name in ours and name not in _HOST_ONLY)
    return Firmware(
        folder,
        Sources(folder, tuple(name for name in sources if name not in ours), headers),
        Sources(folder, _in(names, "kernels/", ".c"), kernel_headers),
        Sources(folder, harness, headers),
    )


def _found(folder: Path) -> list[str]:
    """The C files and headers where firmware has them."""
    return [
        path.relative_to(folder).as_posix()
        for pattern in ("*", "kernels/**/*")
        for path in folder.glob(pattern)
    ]


def _in(names: Collection[str], folder: str, suffix: str) -> tuple[str, ...]:
    """The names in a folder itself."""
    return tuple(
        name
        for name in names
        if name.startswith(folder) and "/" not in name[len(folder) :] and name.endswith(suffix)
    )

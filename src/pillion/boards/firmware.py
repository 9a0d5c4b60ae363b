# SPDX-License-Identifier: Apache-2.0
"""A firmware folder: which of its C files are the model, the kernels, and the harness around them."""

from __future__ import annotations

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


@dataclass(frozen=True)
class Firmware:
    """The sources of a firmware folder. Kernels do not see model.h, so their objects serve every model."""

    folder: Path
    model: Sources
    kernels: Sources
    harness: Sources


def read_firmware(folder: Path) -> Firmware:
    """Look through a firmware folder."""
    folder = folder.absolute()
    missing = [
        name for name in ("model.c", "model.h", "weights.c", "kernels") if not (folder / name).exists()
    ]
    if missing:
        raise PillionError(
            f"{folder} is not a firmware folder",
            rule="it holds model.c, model.h, weights.c and kernels/",
            here="missing: " + ", ".join(missing),
            help="write one with: pillion compile -m MODEL --target TARGET -o FOLDER/",
        )
    ours = firmware_files()
    sources = _names(folder, "*.c")
    kernel_headers = _names(folder, "kernels/**/*.h")
    headers = (*_names(folder, "*.h"), *kernel_headers)
    harness = tuple(name for name in sources if name in ours and name not in _HOST_ONLY)
    return Firmware(
        folder,
        Sources(folder, tuple(name for name in sources if name not in ours), headers),
        Sources(folder, _names(folder, "kernels/*.c"), kernel_headers),
        Sources(folder, harness, headers),
    )


def _names(folder: Path, pattern: str) -> tuple[str, ...]:
    return tuple(sorted(path.relative_to(folder).as_posix() for path in folder.glob(pattern)))

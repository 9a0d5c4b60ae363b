# SPDX-License-Identifier: Apache-2.0
"""Where the files of a C project lie: in folders by what they are for or, in projects of earlier versions, all in one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

MODEL_FOLDER = "model"
"""The folder that a product takes: the model, its weights and its kernels."""
STAND_IN_FOLDER = "npu_stand_in"
"""The folder of what computes the NPU's segments where there is no NPU, with the kernels that only this needs."""
NPU_FOLDER = "npu"
"""The folder of what calls the NPU's driver on the chip, in the place of the stand-in."""
HARNESS_FOLDER = "harness"
"""The folder of the program around the model: it reads input.bin and writes output.bin, on boards and on this computer."""
SELFTEST_FOLDER = "selftest"
"""The folder of what a device may check itself with: a function that a product may take, and a program around it."""
HOST_FOLDER = "host"
"""The folder of the whole model for other processors, if the core's kernels are special to it."""
KERNEL_FOLDER = "kernels"
"""The folder of kernels within each of the folders above, and the folder of their headers within that."""
KERNEL_HEADERS = f"{KERNEL_FOLDER}/include"


@dataclass(frozen=True)
class Layout:
    """The folders of a project, from the project; `.` is the project itself."""

    model: str
    stand_in: str
    harness: str

    def path(self, folder: str, name: str) -> str:
        """The path of a file from the project."""
        return name if folder == "." else f"{folder}/{name}"


FOLDERS = Layout(MODEL_FOLDER, STAND_IN_FOLDER, HARNESS_FOLDER)
FLAT = Layout(".", ".", ".")
"""Of earlier versions, and of the variant for other processors within a project."""


def layout_of(paths: Collection[str]) -> Layout:
    """The layout of a project that has these files."""
    return FLAT if "model.c" in paths and f"{MODEL_FOLDER}/model.c" not in paths else FOLDERS


def host_folder(project: Path) -> Path:
    """Where a project keeps the C for other processors than its core: a folder of it, or the project itself."""
    return project / HOST_FOLDER if (project / HOST_FOLDER / "model.c").is_file() else project

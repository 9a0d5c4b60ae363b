# SPDX-License-Identifier: Apache-2.0
"""The folders of a C project, by purpose; projects of earlier versions have all files in one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

MODEL_FOLDER = "model"
"""The folder for the product: the model, its weights and its kernels."""
STAND_IN_FOLDER = "npu_stand_in"
"""The folder of the NPU's stand-in, which computes its segments on the core, with the kernels that only it
needs."""
NPU_FOLDER = "npu"
"""The folder of the calls of the NPU's driver on the chip, which replaces the stand-in."""
HARNESS_FOLDER = "harness"
"""The folder of the program around the model: it reads input.bin and writes output.bin, on boards and on this
computer."""
SELFTEST_FOLDER = "selftest"
"""The folder of the self-test of a device: a function for the product, and a program around it."""
SERIAL_FOLDER = "serial"
"""The folder of the program that a computer drives over a serial line, and of its port to a chip."""
HOST_FOLDER = "host"
"""The folder of the complete model for other processors, if the core's kernels are specific to it."""
KERNEL_FOLDER = "kernels"
"""The folder of kernels within each of the folders above, with a folder of their headers."""
KERNEL_HEADERS = f"{KERNEL_FOLDER}/include"


@dataclass(frozen=True)
class ProjectLayout:
    """The folders of a project, relative to it; `.` is the project itself."""

    model: str
    stand_in: str
    harness: str

    def path(self, folder: str, name: str) -> str:
        """Returns the path of a file relative to the project."""
        return name if folder == "." else f"{folder}/{name}"


FOLDERS = ProjectLayout(MODEL_FOLDER, STAND_IN_FOLDER, HARNESS_FOLDER)
FLAT = ProjectLayout(".", ".", ".")
"""The layout of earlier versions, and of the host variant within a project."""


def layout_of(paths: Collection[str]) -> ProjectLayout:
    """Returns the layout of a project with these files."""
    return FLAT if "model.c" in paths and f"{MODEL_FOLDER}/model.c" not in paths else FOLDERS


def host_folder(project: Path) -> Path:
    """Returns the folder of the C for other processors than the core: a subfolder, or the project itself."""
    return project / HOST_FOLDER if (project / HOST_FOLDER / "model.c").is_file() else project

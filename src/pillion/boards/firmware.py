# SPDX-License-Identifier: Apache-2.0
"""Classifies the files of a firmware folder: model, NPU stand-in, harness."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from pillion.boards.board import firmware_files
from pillion.boards.build import Sources
from pillion.boards.project_layout import (
    HARNESS_FOLDER,
    KERNEL_FOLDER,
    KERNEL_HEADERS,
    MODEL_FOLDER,
    STAND_IN_FOLDER,
    ProjectLayout,
    layout_of,
)
from pillion.errors import PillionError

# For every C file of a firmware. Fused multiply-add would make floats differ between
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
)
_HOST_ONLY = frozenset({"host.c"})
_MOST_NAMES = 8


@dataclass(frozen=True)
class Firmware:
    """The sources of a firmware folder. Kernels do not include model.h, so their objects serve every
    model."""

    folder: Path
    header: Path
    model: Sources
    kernels: Sources
    stand_ins: tuple[Sources, ...]
    harness: Sources

    @property
    def inference(self) -> tuple[Sources, ...]:
        """All sources except the harness."""
        return (self.model, *self.stand_ins, self.kernels)


def read_firmware(folder: Path, files: Collection[str] | None = None) -> Firmware:
    """Returns the sources of a firmware folder. If its `files` are given, others in the folder are
    ignored."""
    folder = folder.absolute()
    present = files if files is not None else _find_c_files(folder)
    layout = layout_of(present)
    return _FirmwareFiles(folder, layout, _firmware_file_names(folder, present, layout)).firmware()


def _firmware_file_names(folder: Path, present: Collection[str], layout: ProjectLayout) -> list[str]:
    """Returns the C files and headers of a firmware; raises if one is missing."""
    needed = {layout.path(layout.model, name) for name in ("model.c", "model.h", "weights.c")}
    candidates = needed | {name for name in present if name.endswith((".c", ".h"))}
    names = sorted(name for name in candidates if name in present and (folder / name).exists())
    missing = sorted(candidates - set(names))
    kernels = layout.path(layout.model, KERNEL_FOLDER)
    missing += [kernels] * (not any(name.startswith(f"{kernels}/") for name in names))
    if missing:
        raise PillionError(
            f"{folder} is not a firmware folder",
            rule="it holds model.c, model.h, weights.c and kernels/, in model/ or all in one folder",
            here="missing: " + ", ".join(missing[:_MOST_NAMES]),
            help="write one with: pillion compile MODEL --target TARGET -o FOLDER/",
        )
    return names


@dataclass(frozen=True)
class _FirmwareFiles:
    """The C files and headers of a firmware, to be classified."""

    folder: Path
    layout: ProjectLayout
    names: list[str]

    def firmware(self) -> Firmware:
        """Returns the classified sources."""
        model, stand_in = self.layout.model, self.layout.stand_in
        apart = () if stand_in == model else (self._program(stand_in), self._kernel_sources(stand_in))
        return Firmware(
            folder=self.folder,
            header=self.folder / model / "model.h",
            model=self._program(model),
            kernels=self._kernel_sources(model),
            stand_ins=tuple(sources for sources in apart if sources.files),
            harness=self._harness_sources(),
        )

    def _program(self, folder: str) -> Sources:
        """Returns the C files directly in a folder, except the harness's."""
        files = _names_in_folder(self._files_in_folder(folder), "", ".c")
        return self._sources(folder, [name for name in files if name not in _harness_names()])

    def _harness_sources(self) -> Sources:
        """Returns the program for boards around the model."""
        folder = self.layout.harness
        files = _names_in_folder(self._files_in_folder(folder), "", ".c")
        ours = _harness_names() - _HOST_ONLY
        return self._sources(folder, [name for name in files if name in ours])

    def _sources(self, subfolder: str, files: Sequence[str]) -> Sources:
        """Returns C files with the headers of their folder, the model and the kernels."""
        model = self._path_to_model_folder(subfolder)
        headers = [
            *_names_in_folder(self._files_in_folder(subfolder), "", ".h"),
            *self._kernel_headers(subfolder),
        ]
        if model != ".":
            headers += [
                f"{model}/{name}"
                for name in _names_in_folder(self._files_in_folder(self.layout.model), "", ".h")
            ]
        includes = [model] * (model != ".") + [os.path.normpath(f"{model}/{KERNEL_HEADERS}")]
        return Sources(self.folder / subfolder, tuple(files), tuple(headers), tuple(includes))

    def _kernel_sources(self, folder: str) -> Sources:
        """Returns the kernels in a folder, which include only headers of kernels."""
        files = _names_in_folder(self._files_in_folder(folder), f"{KERNEL_FOLDER}/", ".c")
        includes = (os.path.normpath(f"{self._path_to_model_folder(folder)}/{KERNEL_HEADERS}"),)
        return Sources(self.folder / folder, tuple(files), tuple(self._kernel_headers(folder)), includes)

    def _kernel_headers(self, location: str) -> list[str]:
        """Returns the headers of kernels in a folder, and the headers of the model's kernels."""
        folders = dict.fromkeys((location, self.layout.model))
        return [
            os.path.normpath(f"{os.path.relpath(folder, location)}/{name}")
            for folder in folders
            for name in self._files_in_folder(folder)
            if name.startswith(f"{KERNEL_FOLDER}/") and name.endswith(".h")
        ]

    def _path_to_model_folder(self, folder: str) -> str:
        """Returns the relative path from a folder to the model's."""
        return os.path.relpath(self.layout.model, folder)

    def _files_in_folder(self, folder: str) -> list[str]:
        """Returns the names of files within a folder, relative to it."""
        prefix = "" if folder == "." else f"{folder}/"
        return [name.removeprefix(prefix) for name in self.names if name.startswith(prefix)]


def _harness_names() -> frozenset[str]:
    """Returns the names of the harness's files, which earlier versions stored in the project's main folder."""
    prefix = f"{HARNESS_FOLDER}/"
    return frozenset(name.removeprefix(prefix) for name in firmware_files() if name.startswith(prefix))


def _find_c_files(folder: Path) -> list[str]:
    """Returns the C files and headers in a firmware's folders."""
    prefixes = ("", *(f"{prefix}/" for prefix in (MODEL_FOLDER, STAND_IN_FOLDER, HARNESS_FOLDER)))
    return [
        path.relative_to(folder).as_posix()
        for prefix in prefixes
        for pattern in ("*", f"{KERNEL_FOLDER}/**/*")
        for path in folder.glob(prefix + pattern)
    ]


def _names_in_folder(names: Collection[str], folder: str, suffix: str) -> list[str]:
    """Returns the names directly in a folder."""
    return [
        name
        for name in names
        if name.startswith(folder) and "/" not in name[len(folder) :] and name.endswith(suffix)
    ]

# SPDX-License-Identifier: Apache-2.0
"""The flash of a C project, linked for an emulated board of its core."""

from __future__ import annotations

from collections.abc import Mapping

from pillion.boards.toolchain import ARM_COMPILER
from pillion.emitters.c.manifest import read_manifest
from pillion.host_io.atomic_files import Content
from pillion.ir.flash_choice import FlashSize
from pillion.run.emulated_board import board_of, firmware_sizes
from pillion.run.project_folder import temporary_project


def linked_size(files: Mapping[str, Content]) -> FlashSize | None:
    """Returns the flash of a project for a core alone; None without the cross compiler."""
    if ARM_COMPILER.find() is None:
        return None
    with temporary_project(files) as folder:
        manifest = read_manifest(folder)
        sizes = firmware_sizes(folder, manifest, board_of(manifest), must_fit=False)
    return FlashSize(sizes.constants, sizes.flash - sizes.constants)

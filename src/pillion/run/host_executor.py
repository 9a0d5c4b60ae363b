# SPDX-License-Identifier: Apache-2.0
"""Runs the generated C on this computer, in a child process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from pillion.boards.host import HostModel
from pillion.boards.project_layout import HOST_FOLDER
from pillion.boards.toolchain import compiler_view_of_processor, host_compiler
from pillion.emitters.c.manifest import Manifest, read_manifest
from pillion.emitters.c.project import native_files
from pillion.host_io.atomic_files import Content
from pillion.ir.types import Array
from pillion.ir.verdict import Verdict
from pillion.run.executor import (
    DEFAULTS,
    HOST,
    Runnable,
    RunOptions,
    RunResult,
    Samples,
    require_open_segments,
    verdict_of_checks,
)
from pillion.run.project_folder import manifest_mismatch_error, outputs_from_bytes, temporary_project


class HostExecutor:
    """Runs the generated C on this computer."""

    name = HOST

    def judge(self, program: Runnable) -> Verdict:
        """Returns whether a C compiler exists."""
        return verdict_of_checks("host.compiler", host_compiler, lambda: require_open_segments(program))

    def run(self, program: Runnable, samples: Samples, options: RunOptions = DEFAULTS) -> list[RunResult]:
        """Runs each sample in a project in a temporary folder."""
        with temporary_project(files_for_host(program, options)) as folder:
            return run_on_host(folder, read_manifest(folder), samples, options)


def files_for_host(program: Runnable, options: RunOptions = DEFAULTS) -> Mapping[str, Content]:
    """Returns the C project for this computer: the product's, or with `native` one with vector kernels if the
    processor has them."""
    if options.native and compiler_view_of_processor(host_compiler()).has_vectors:
        return native_files(program.graph, program.target.name)
    return program.files


def run_on_host(folder: Path, manifest: Manifest, samples: Samples, options: RunOptions) -> list[RunResult]:
    """Runs a C project in a folder; one process runs all samples."""
    with start_host_model(folder, manifest, options) as model:
        return run_on_model(manifest, model, samples, options)


def run_on_model(
    manifest: Manifest, model: HostModel, samples: Samples, options: RunOptions
) -> list[RunResult]:
    """Runs samples in a started process."""
    answers = model.run_many([input_bytes(sample) for sample in samples], stream=options.stream)
    return [RunResult(outputs_from_bytes(manifest, raw)) for raw in answers]


def start_host_model(folder: Path, manifest: Manifest, options: RunOptions) -> HostModel:
    """Starts the process of a C project."""
    firmware, files = _host_variant(folder, manifest)
    model = HostModel(firmware, native=options.native, timeout=options.timeout, files=files)
    _require_same_io_sizes(manifest, model)
    return model


def input_bytes(sample: Sequence[Array]) -> list[bytes]:
    """Returns the bytes of each input of a sample."""
    return [np.ascontiguousarray(x).tobytes() for x in sample]


def _host_variant(folder: Path, manifest: Manifest) -> tuple[Path, list[str]]:
    """Returns the host variant of a project if it has one, and its files."""
    prefix = f"{HOST_FOLDER}/" if f"{HOST_FOLDER}/model.c" in manifest.files else ""
    return folder / prefix, [path.removeprefix(prefix) for path in manifest.files if path.startswith(prefix)]


def _require_same_io_sizes(manifest: Manifest, model: HostModel) -> None:
    """Raises if the sizes of the C's inputs and outputs differ from the manifest's."""
    says = [[b.bytes for b in buffers] for buffers in (manifest.inputs, manifest.outputs)]
    does = [[p.bytes for p in host_buffers] for host_buffers in (model.inputs, model.outputs)]
    if says != does:
        words = [f"bytes of inputs {b[0]}, of outputs {b[1]}" for b in (says, does)]
        raise manifest_mismatch_error(manifest, *words)

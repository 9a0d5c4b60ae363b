# SPDX-License-Identifier: Apache-2.0
"""The generated C, compiled for this computer, in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from pillion.boards.host import HostModel
from pillion.boards.layout import HOST_FOLDER
from pillion.boards.toolchain import host_compiler, processor
from pillion.emitters.c.manifest import Manifest, read_manifest
from pillion.emitters.c.project import native_files
from pillion.ir.types import Array
from pillion.ir.verdict import Verdict
from pillion.outside.files import Content
from pillion.run.executor import HOST, USUAL, Runnable, RunOptions, RunResult, Samples, judged, want_open
from pillion.run.project import not_its_manifest, outputs_of, temporary_project


class Host:
    """Runs the generated C on this computer."""

    name = HOST

    def judge(self, program: Runnable) -> Verdict:
        """Says whether a C compiler is there."""
        return judged("host.compiler", host_compiler, lambda: want_open(program))

    def run(self, program: Runnable, samples: Samples, options: RunOptions = USUAL) -> list[RunResult]:
        """Runs each sample, in a project in a folder that goes away again."""
        with temporary_project(files_for_host(program, options)) as folder:
            return run_on_host(folder, read_manifest(folder), samples, options)


def files_for_host(program: Runnable, options: RunOptions = USUAL) -> Mapping[str, Content]:
    """Gives the C project that runs a program on this computer: that of the product or, where all of this processor may be used, one with
    kernels for its vectors, if it has those."""
    if options.native and processor(host_compiler()).has_vectors:
        return native_files(program.graph, program.target.name)
    return program.files


def run_on_host(folder: Path, manifest: Manifest, samples: Samples, options: RunOptions) -> list[RunResult]:
    """Runs a C project that lies in a folder. One process runs all samples."""
    with host_model(folder, manifest, options) as model:
        return run_on_model(manifest, model, samples, options)


def run_on_model(
    manifest: Manifest, model: HostModel, samples: Samples, options: RunOptions
) -> list[RunResult]:
    """Runs samples in a process that has started."""
    results = []
    for sample in samples:
        results.append(RunResult(outputs_of(manifest, model.run(bytes_of(sample)))))
        if manifest.states and not options.stream:
            model.reset()
    return results


def host_model(folder: Path, manifest: Manifest, options: RunOptions) -> HostModel:
    """Starts the process that runs a C project."""
    firmware, files = _for_host(folder, manifest)
    model = HostModel(firmware, native=options.native, timeout=options.timeout, files=files)
    _want_same_places(manifest, model)
    return model


def bytes_of(sample: Sequence[Array]) -> list[bytes]:
    """Gives the bytes of each input of a sample."""
    return [np.ascontiguousarray(x).tobytes() for x in sample]


def _for_host(folder: Path, manifest: Manifest) -> tuple[Path, list[str]]:
    """The variant of a project for other processors than its core, where it has one, and the files of that."""
    prefix = f"{HOST_FOLDER}/" if f"{HOST_FOLDER}/model.c" in manifest.files else ""
    return folder / prefix, [path.removeprefix(prefix) for path in manifest.files if path.startswith(prefix)]


def _want_same_places(manifest: Manifest, model: HostModel) -> None:
    """Raises where the C takes and gives other numbers of bytes than the manifest says."""
    says = [[b.bytes for b in buffers] for buffers in (manifest.inputs, manifest.outputs)]
    does = [[p.bytes for p in places] for places in (model.inputs, model.outputs)]
    if says != does:
        words = [f"bytes of inputs {b[0]}, of outputs {b[1]}" for b in (says, does)]
        raise not_its_manifest(manifest, *words)

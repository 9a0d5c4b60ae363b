# SPDX-License-Identifier: Apache-2.0
"""Inputs and outputs of a program, in memory or in a C project."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pillion.data.sample import InputSpec
from pillion.emitters.c.manifest import ManifestBuffer, read_manifest
from pillion.partition import inline_segments
from pillion.program import Program


@dataclass(frozen=True)
class ProgramIo:
    """The inputs and outputs of a program, with its name and target."""

    model: str
    target: str
    inputs: tuple[InputSpec, ...]
    outputs: tuple[InputSpec, ...]
    macs: int
    ops: int


def program_io(program: Program | str | Path) -> ProgramIo:
    """Returns the inputs and outputs of a program, or of the C project in a folder."""
    if isinstance(program, Program):
        graph = program.graph
        return ProgramIo(
            graph.name,
            program.target.name,
            tuple(map(InputSpec.of, graph.inputs)),
            tuple(map(InputSpec.of, graph.outputs)),
            graph.macs,
            len(inline_segments(graph).ops),
        )
    manifest = read_manifest(Path(program))
    return ProgramIo(
        manifest.model,
        manifest.target,
        _specs_of_buffers(manifest.inputs),
        _specs_of_buffers(manifest.outputs),
        manifest.macs,
        len(manifest.ops),
    )


def _specs_of_buffers(buffers: Sequence[ManifestBuffer]) -> tuple[InputSpec, ...]:
    return tuple(InputSpec(b.name, b.shape, b.dtype, b.scale, b.zero_point or 0) for b in buffers)

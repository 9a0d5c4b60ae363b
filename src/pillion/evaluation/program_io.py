# SPDX-License-Identifier: Apache-2.0
"""Inputs and outputs of a program, in memory or in a C project."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pillion.data.sample import Array, InputSpec
from pillion.emitters.c.manifest import ManifestBuffer, read_manifest
from pillion.ir.stream_io import Streaming
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
    has_states: bool = False
    streaming: Streaming | None = None

    def quantized(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """Returns the inputs of a run as the program takes them."""
        return tuple(spec.quantized(x) for spec, x in zip(self.inputs, inputs, strict=True))

    def dequantized(self, outputs: Sequence[Array]) -> tuple[Array, ...]:
        """Returns the outputs of a run as real numbers."""
        return tuple(spec.dequantized(y) for spec, y in zip(self.outputs, outputs, strict=True))

    def real_inputs(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """Returns the inputs of a run as real numbers."""
        return tuple(spec.dequantized(x) for spec, x in zip(self.inputs, inputs, strict=True))


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
            bool(graph.states),
            graph.streaming,
        )
    manifest = read_manifest(Path(program))
    return ProgramIo(
        manifest.model,
        manifest.target,
        _specs_of_buffers(manifest.inputs),
        _specs_of_buffers(manifest.outputs),
        manifest.macs,
        len(manifest.ops),
        bool(manifest.states),
        manifest.stream,
    )


def _specs_of_buffers(buffers: Sequence[ManifestBuffer]) -> tuple[InputSpec, ...]:
    return tuple(InputSpec(b.name, b.shape, b.dtype, b.scale, b.zero_point or 0) for b in buffers)

# SPDX-License-Identifier: Apache-2.0
"""What goes into a program and comes out of it, whether it is at hand or lies in a folder as C."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pillion.data.sample import Wanted
from pillion.emitters.c.manifest import Buffer, read_manifest
from pillion.ir.types import DType, PerTensor, Value
from pillion.place import inline_segments
from pillion.program import Program


@dataclass(frozen=True)
class Borders:
    """The inputs and outputs of a program, with its name and its target."""

    model: str
    target: str
    inputs: tuple[Wanted, ...]
    outputs: tuple[Wanted, ...]
    macs: int
    ops: int


def borders_of(program: Program | str | Path) -> Borders:
    """Gives the borders of a program, or of the C project in a folder."""
    if isinstance(program, Program):
        graph = program.graph
        return Borders(
            graph.name,
            program.target.name,
            _of_values(graph.inputs),
            _of_values(graph.outputs),
            graph.macs,
            len(inline_segments(graph).ops),
        )
    manifest = read_manifest(Path(program))
    return Borders(
        manifest.model,
        manifest.target,
        _of_buffers(manifest.inputs),
        _of_buffers(manifest.outputs),
        manifest.macs,
        len(manifest.ops),
    )


def _of_values(values: Sequence[Value]) -> tuple[Wanted, ...]:
    return tuple(_wanted(v.name, v.shape, v.dtype, v.type.quant) for v in values)


def _wanted(name: str, shape: tuple[int, ...], dtype: DType, quant: object) -> Wanted:
    match quant:
        case PerTensor(scale, zero_point):
            return Wanted(name, shape, dtype, scale, zero_point)
        case _:
            return Wanted(name, shape, dtype)


def _of_buffers(buffers: Sequence[Buffer]) -> tuple[Wanted, ...]:
    return tuple(Wanted(b.name, b.shape, b.dtype, b.scale, b.zero_point or 0) for b in buffers)

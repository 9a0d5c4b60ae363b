# SPDX-License-Identifier: Apache-2.0
"""Reads ExecuTorch programs as graphs: Pillion's own from their embedded record, others from their kernel
calls. Files are untrusted: every violation of the format becomes one error."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pillion.errors import PillionError
from pillion.host_io.atomic_files import read_whole
from pillion.importers.pte.container import Container
from pillion.importers.pte.embedded_graph import delegate_payloads, recorded_graph
from pillion.ir.graph import Graph
from pillion.ir.types import Value
from pillion.schemas.flatbuffer import MalformedError
from pillion.schemas.pte import PILLION_BACKEND, Tensor


@dataclass(frozen=True)
class ReadProgram:
    """The contents of a `.pte` file: a graph and facts on its target."""

    graph: Graph
    raw: bytes
    core: str | None
    """The core that it was compiled for, if the file records it."""
    is_recorded: bool
    """Whether the graph is the recorded one; otherwise it was reconstructed from kernel calls."""
    input_orders: tuple[tuple[int, ...], ...]
    """The dim order of each input: the logical axis of each axis in memory, which is the graph's."""
    output_orders: tuple[tuple[int, ...], ...]
    payloads: tuple[bytes, ...] = ()
    """The payloads of the delegate calls, in order."""


def read(source: str | os.PathLike[str] | bytes) -> ReadProgram:
    """Returns the int8 program in a `.pte` file, or in its bytes."""
    raw, name = (
        (source, "program")
        if isinstance(source, bytes)
        else (read_whole(Path(source), ".pte"), Path(source).stem)
    )
    try:
        return _read_program(Container(raw, name))
    except MalformedError as error:
        raise PillionError(
            f"`{name}` is not a valid ExecuTorch program",
            rule=str(error),
            here="bytes in memory" if isinstance(source, bytes) else str(source),
            help="is the file complete, and of this kind?",
        ) from None


def delegates_in(file: str | os.PathLike[str]) -> list[tuple[str, bytes]]:
    """Returns the names of the delegates of a `.pte` file with their payloads; empty if it is damaged."""
    try:
        container = Container(read_whole(Path(file), ".pte"), Path(file).stem)
        return [(str(delegate.id), container.payload(delegate)) for delegate in container.plan.delegates]
    except MalformedError:
        return []


def _read_program(container: Container) -> ReadProgram:
    record = container.record
    if any(delegate.id == PILLION_BACKEND for delegate in container.plan.delegates):
        raise PillionError(
            f"`{container.name}` has no graph",
            rule="a .pte of --kernels pillion holds program images: kernel calls of its core, and not the model",
            here=f"delegates for {PILLION_BACKEND}, compiled for {record.core if record else 'an unknown core'}",
            help="name the model, with --target; `pillion show`, `run` and `verify` take the file",
        )
    is_recorded = record is not None and record.is_whole
    if record is not None and is_recorded:
        graph = recorded_graph(container, record.graph)
    else:
        from pillion.importers.pte.foreign_program import graph_of

        graph = graph_of(container)
    plan = container.plan
    return ReadProgram(
        graph,
        container.raw,
        record.core if record else None,
        is_recorded,
        _dim_orders(container, plan.inputs, graph.inputs),
        _dim_orders(container, plan.outputs, graph.outputs),
        tuple(delegate_payloads(container)),
    )


def _dim_orders(
    container: Container, numbers: Sequence[int], values: Sequence[Value]
) -> tuple[tuple[int, ...], ...]:
    """Returns the dim orders of inputs or outputs."""
    orders = []
    for number, value in zip(numbers, values, strict=True):
        entry = container.plan.values[number].val if 0 <= number < len(container.plan.values) else None
        order = tuple(entry.dim_order) if isinstance(entry, Tensor) else ()
        if sorted(order) != list(range(value.type.rank)):
            raise MalformedError(f"value {number} is no tensor of {value.type.rank} axes")
        orders.append(order)
    return tuple(orders)


__all__ = ["ReadProgram", "delegates_in", "read"]

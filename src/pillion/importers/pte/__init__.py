# SPDX-License-Identifier: Apache-2.0
"""ExecuTorch programs become graphs: our own by the record that they carry, all others by their kernel calls. The files
are not trusted: what is not as the format says ends in one error."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pillion.errors import PillionError
from pillion.importers.pte.container import Container
from pillion.importers.pte.recorded import delegate_payloads, recorded_graph
from pillion.ir.graph import Graph
from pillion.ir.types import Value
from pillion.outside.files import read_whole
from pillion.schemas.flatbuffer import MalformedError
from pillion.schemas.pte import Tensor


@dataclass(frozen=True)
class ReadProgram:
    """What a `.pte` file holds: a graph, and what the file says of its target."""

    graph: Graph
    raw: bytes
    core: str | None
    """The core that it was compiled for, where the file says so."""
    is_recorded: bool
    """Whether the graph is the very one that Pillion wrote the file from; else it was made from the kernel calls."""
    input_orders: tuple[tuple[int, ...], ...]
    """The logical axis of the program's tensor, for each input and each of its axes in memory, which are the graph's."""
    output_orders: tuple[tuple[int, ...], ...]
    payloads: tuple[bytes, ...] = ()
    """What the delegates are handed, in the order of their calls."""


def read(source: str | os.PathLike[str] | bytes) -> ReadProgram:
    """Reads the int8 program in a `.pte` file, or in its bytes."""
    raw, name = (
        (source, "program")
        if isinstance(source, bytes)
        else (read_whole(Path(source), ".pte"), Path(source).stem)
    )
    try:
        return _program(Container(raw, name))
    except MalformedError as error:
        raise PillionError(
            f"`{name}` is not a valid ExecuTorch program",
            rule=str(error),
            here="bytes in memory" if isinstance(source, bytes) else str(source),
            help="is the file complete, and of this kind?",
        ) from None


def _program(container: Container) -> ReadProgram:
    record = container.record
    is_recorded = record is not None and record.is_whole
    if record is not None and is_recorded:
        graph = recorded_graph(container, record.graph)
    else:
        from pillion.importers.pte.program import graph_of

        graph = graph_of(container)
    plan = container.plan
    return ReadProgram(
        graph,
        container.raw,
        record.core if record else None,
        is_recorded,
        _orders(container, plan.inputs, graph.inputs),
        _orders(container, plan.outputs, graph.outputs),
        tuple(delegate_payloads(container)),
    )


def _orders(
    container: Container, numbers: Sequence[int], values: Sequence[Value]
) -> tuple[tuple[int, ...], ...]:
    return tuple(_order(container, number, value) for number, value in zip(numbers, values, strict=True))


def _order(container: Container, number: int, value: Value) -> tuple[int, ...]:
    """Of the axes of an input or output, which is the graph's value."""
    held = container.plan.values[number].val if 0 <= number < len(container.plan.values) else None
    order = tuple(held.dim_order) if isinstance(held, Tensor) else ()
    if sorted(order) != list(range(value.type.rank)):
        raise MalformedError(f"value {number} is no tensor of {value.type.rank} axes")
    return order


__all__ = ["ReadProgram", "read"]

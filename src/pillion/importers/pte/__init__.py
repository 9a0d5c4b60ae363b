# SPDX-License-Identifier: Apache-2.0
"""ExecuTorch programs become graphs: our own by the record that they carry, all others by their kernel calls. The files
are not trusted: what is not as the format says ends in one error."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from pillion.errors import PillionError
from pillion.importers.pte.container import Container
from pillion.importers.pte.recorded import recorded_graph
from pillion.ir.graph import Graph
from pillion.schemas.flatbuffer import MalformedError


@dataclass(frozen=True)
class ReadProgram:
    """What a `.pte` file holds."""

    graph: Graph
    raw: bytes
    core: str | None
    """The core that it was compiled for, where the file says so."""
    is_recorded: bool
    """Whether the graph is the very one that Pillion wrote the file from; else it was made from the kernel calls."""


def read(source: str | os.PathLike[str] | bytes) -> ReadProgram:
    """The int8 program in a `.pte` file, or in its bytes."""
    raw, name = (
        (source, "program") if isinstance(source, bytes) else (_content(Path(source)), Path(source).stem)
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
    if record and record.is_whole:
        graph = recorded_graph(container, record.skeleton)
        return ReadProgram(graph, container.raw, record.core, True)
    from pillion.importers.pte.program import graph_of

    return ReadProgram(graph_of(container), container.raw, record.core if record else None, False)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise PillionError(
            f"`{path}` cannot be read",
            rule="the path of a .pte file",
            here=f"{error.strerror or error}, in {Path.cwd()}",
            help="look at the path, and whether you may read the file",
        ) from None


__all__ = ["ReadProgram", "read"]

# SPDX-License-Identifier: Apache-2.0
"""What Vela answers: a command stream, its constants, the memory that it works in, and where inputs and outputs lie there."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from pillion.devices.ethos_u.stream import Interpreter
from pillion.devices.ethos_u.stream.errors import StreamError
from pillion.devices.ethos_u.stream.operations import Range
from pillion.errors import PillionError
from pillion.ir.types import Array
from pillion.ir.workspace import Workspace
from pillion.outside.arrays import UNREADABLE

RANK = 6
"""Vela gives every shape six axes."""


@dataclass(frozen=True)
class Port:
    """An input or output: its shape, the bytes of an element, and where it lies."""

    shape: tuple[int, ...]
    element_bytes: int
    region: int
    offset: int

    @property
    def place(self) -> Range:
        """The bytes that it takes in its region."""
        return Range(self.region, self.offset, math.prod(self.shape) * self.element_bytes)


@dataclass(frozen=True)
class Compiled:
    """A segment as an Ethos-U runs it."""

    version: str
    """Of Vela."""
    commands: bytes
    """What the driver is handed."""
    constants: bytes
    scratch_bytes: int
    """The memory that inputs, outputs and everything between them lie in."""
    fast_bytes: int
    """The buffer close to the NPU, where weights and activations are not in SRAM."""
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    estimates: Mapping[str, str]
    """Vela's own summary: cycles and bytes, as it writes them."""

    @property
    def cycles(self) -> int:
        """Vela's estimate, for the system that it was told of."""
        return int(float(self.estimates.get("cycles_total", "0")))

    @property
    def workspace(self) -> Workspace:
        """The scratch memory, and where inputs and outputs lie in it."""
        inputs, outputs = (tuple(port.offset for port in ports) for ports in (self.inputs, self.outputs))
        return Workspace(self.scratch_bytes, inputs, outputs)

    @cached_property
    def why_not_executed(self) -> str:
        """Says why the interpreter does not know the NPU that this is for; empty where it does."""
        try:
            return "" if self.interpreter.stream else "there are no commands"
        except StreamError as error:
            return f"{error.what} ({error.here})"

    @cached_property
    def interpreter(self) -> Interpreter:
        """What runs the stream on this computer."""
        sizes = {1: self.scratch_bytes, **({2: self.fast_bytes} if self.fast_bytes else {})}
        return Interpreter(self.commands, self.constants, sizes)

    def run(self, *inputs: Array) -> tuple[bytes, ...]:
        """Gives the bytes of the outputs that the stream computes. Every input is written before each run: outputs may lie over inputs."""
        given = {port.place: data.tobytes() for port, data in zip(self.inputs, inputs, strict=True)}
        return self.interpreter.run(given, tuple(port.place for port in self.outputs))


def read(folder: Path, name: str, version: str) -> Compiled:
    """Reads what Vela left in a folder for a model of this name. Nothing is unpickled."""
    try:
        with np.load(folder / f"{name}_vela.npz", allow_pickle=False) as arrays:
            return Compiled(
                version=version,
                commands=arrays["cmd_data"].tobytes(),
                constants=arrays["weight_data"].tobytes(),
                scratch_bytes=int(arrays["scratch_size"]),
                fast_bytes=int(arrays["scratch_fast_size"]),
                inputs=_ports(arrays, "input"),
                outputs=_ports(arrays, "output"),
                estimates=_estimates(folder, name),
            )
    except (*UNREADABLE, KeyError, TypeError, OverflowError) as error:
        raise PillionError(
            "Vela left something that cannot be read",
            rule="an .npz with command stream, weights, scratch size, inputs and outputs",
            here=f"Vela {version}: {error}",
            help="pip install 'pillion[ethos-u]' installs the version that was tried",
        ) from None


def _ports(arrays: Mapping[str, Array], which: str) -> tuple[Port, ...]:
    columns = (arrays[f"{which}_{part}"] for part in ("shape", "elem_size", "region", "offset"))
    return tuple(
        Port(tuple(map(int, shape)), int(size), int(region), int(offset))
        for shape, size, region, offset in zip(*columns, strict=True)
    )


def _estimates(folder: Path, name: str) -> dict[str, str]:
    for path in sorted(folder.glob(f"{name}_summary_*.csv")):
        rows = list(csv.DictReader(io.StringIO(path.read_text("utf-8", "replace"))))
        return dict(rows[-1]) if rows else {}
    return {}

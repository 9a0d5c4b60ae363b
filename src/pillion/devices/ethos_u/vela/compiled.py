# SPDX-License-Identifier: Apache-2.0
"""Vela's output: the command stream, its constants, its scratch memory, and the places of inputs and outputs
there."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from pillion.devices.ethos_u.stream import StreamInterpreter
from pillion.devices.ethos_u.stream.operations import Range
from pillion.devices.ethos_u.stream.stream_errors import StreamError
from pillion.errors import PillionError
from pillion.host_io.npy_files import UNREADABLE
from pillion.ir.types import Array
from pillion.ir.workspace import Workspace

RANK = 6
"""The number of axes of every shape in Vela's output."""


@dataclass(frozen=True)
class VelaPort:
    """An input or output: its shape, its element size in bytes, and its place."""

    shape: tuple[int, ...]
    element_bytes: int
    region: int
    offset: int

    @property
    def place(self) -> Range:
        """The bytes of the port in its region."""
        return Range(self.region, self.offset, math.prod(self.shape) * self.element_bytes)


@dataclass(frozen=True)
class CompiledSegment:
    """A segment as an Ethos-U runs it."""

    version: str
    """The version of Vela."""
    commands: bytes
    """The command stream with the driver's header."""
    constants: bytes
    scratch_bytes: int
    """The memory for inputs, outputs and intermediate tensors."""
    fast_bytes: int
    """The NPU's own buffer, if weights and activations are not in SRAM."""
    inputs: tuple[VelaPort, ...]
    outputs: tuple[VelaPort, ...]
    estimates: Mapping[str, str]
    """Vela's summary: cycles and bytes, as text."""

    @property
    def cycles(self) -> int:
        """Vela's estimate for the system in its settings."""
        return int(float(self.estimates.get("cycles_total", "0")))

    @property
    def workspace(self) -> Workspace:
        """The scratch memory and the offsets of inputs and outputs in it."""
        inputs, outputs = (tuple(port.offset for port in ports) for ports in (self.inputs, self.outputs))
        return Workspace(self.scratch_bytes, inputs, outputs)

    @cached_property
    def why_not_executed(self) -> str:
        """The reason why the interpreter cannot run the command stream; empty if it can."""
        try:
            return "" if self.interpreter.stream else "there are no commands"
        except StreamError as error:
            return f"{error.what} ({error.here})"

    @cached_property
    def interpreter(self) -> StreamInterpreter:
        """The interpreter of the command stream on this computer."""
        sizes = {1: self.scratch_bytes, **({2: self.fast_bytes} if self.fast_bytes else {})}
        return StreamInterpreter(self.commands, self.constants, sizes)

    def run(self, *inputs: Array) -> tuple[bytes, ...]:
        """Returns the bytes of the outputs. All inputs are written before each run, because outputs may
        overlap them."""
        contents = {port.place: data.tobytes() for port, data in zip(self.inputs, inputs, strict=True)}
        return self.interpreter.run(contents, tuple(port.place for port in self.outputs))


def read_vela_output(folder: Path, name: str, version: str) -> CompiledSegment:
    """Returns Vela's output for the model of this name in a folder. Nothing is unpickled."""
    try:
        with np.load(folder / f"{name}_vela.npz", allow_pickle=False) as arrays:
            return CompiledSegment(
                version=version,
                commands=arrays["cmd_data"].tobytes(),
                constants=arrays["weight_data"].tobytes(),
                scratch_bytes=int(arrays["scratch_size"]),
                fast_bytes=int(arrays["scratch_fast_size"]),
                inputs=_read_ports(arrays, "input"),
                outputs=_read_ports(arrays, "output"),
                estimates=_read_estimates(folder, name),
            )
    except (*UNREADABLE, KeyError, TypeError, OverflowError) as error:
        raise PillionError(
            "Vela left something that cannot be read",
            rule="an .npz with command stream, weights, scratch size, inputs and outputs",
            here=f"Vela {version}: {error}",
            help="pip install 'pillion[ethos-u]' installs the version that was tried",
        ) from None


def _read_ports(arrays: Mapping[str, Array], which: str) -> tuple[VelaPort, ...]:
    columns = (arrays[f"{which}_{part}"] for part in ("shape", "elem_size", "region", "offset"))
    return tuple(
        VelaPort(tuple(map(int, shape)), int(size), int(region), int(offset))
        for shape, size, region, offset in zip(*columns, strict=True)
    )


def _read_estimates(folder: Path, name: str) -> dict[str, str]:
    for path in sorted(folder.glob(f"{name}_summary_*.csv")):
        rows = list(csv.DictReader(io.StringIO(path.read_text("utf-8", "replace"))))
        return dict(rows[-1]) if rows else {}
    return {}

# SPDX-License-Identifier: Apache-2.0
"""Reads TensorFlow Lite files as graphs. Files are untrusted: every violation of the format becomes one
error."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from pillion.errors import PillionError
from pillion.host_io.atomic_files import read_whole
from pillion.importers.tflite.buffers import resolve_buffers
from pillion.importers.tflite.file_diagnosis import explained_error
from pillion.importers.tflite.float_files import computes_in_float, is_hybrid, is_partly_float
from pillion.importers.tflite.loop_analysis import subgraphs_of_loops
from pillion.importers.tflite.model import TfliteReader
from pillion.importers.tflite.table import ROWS, ops_of
from pillion.importers.tflite.uint8 import Uint8Boundary
from pillion.importers.tflite.variables import CODES, Key, assigned_values, initializer_subgraphs
from pillion.importers.tflite.while_loops import all_ops
from pillion.ir.graph import Graph, clean_name, model_name
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import Array
from pillion.ir.verify import verify_graph
from pillion.schemas import tflite
from pillion.schemas.flatbuffer import MalformedError, read_root_table

READ = (*ROWS, *CODES)
"""The supported operators, on int8."""
NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class OpenedTflite:
    """An opened file, parsed but not converted."""

    model: tflite.Model
    name: str
    place: str
    raw: bytes
    """The file's bytes, to run it unchanged."""
    compiled: Mapping[str, str] = field(default_factory=dict)
    """Custom operators that contain NPU code, and its vendor."""

    @property
    def computes_in_float(self) -> bool:
        """Whether the model is to be quantized."""
        return computes_in_float(self.model)

    @property
    def has_float_parts(self) -> bool:
        """Whether some operators of an int8 file are to be quantized: no int8 form reads them."""
        if not is_partly_float(self.model):
            return False
        try:
            self.graph()
        except PillionError:
            return True
        return False

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Converts violations of the format into errors that name the file."""
        try:
            yield
        except MalformedError as error:
            raise _malformed_file_error(self.name, self.place, error) from None

    @property
    def is_hybrid(self) -> bool:
        """Whether a float model has 8-bit weights."""
        return is_hybrid(self.model)

    def graph(self) -> Graph:
        """Returns the int8 model in the arithmetic of LiteRT's reference kernels."""
        with self.reading():
            try:
                return _read_graph(self.model, model_name(self.name))
            except PillionError as error:
                raise explained_error(self.model, self.name, error, READ, self.compiled) from None


def open_file(source: str | os.PathLike[str] | bytes, compiled: Mapping[str, str] = NONE) -> OpenedTflite:
    """Opens a `.tflite` file, or its bytes. `compiled` maps custom operators with NPU code to its vendor."""
    if isinstance(source, bytes):
        raw, name, location = source, "model", "bytes in memory"
    else:
        raw, name, location = read_whole(Path(source), ".tflite"), Path(source).stem, str(source)
    try:
        model = read_root_table(tflite.Model, raw, tflite.IDENTIFIER)
        resolve_buffers(model, raw)
        return OpenedTflite(model, name, location, raw, compiled)
    except MalformedError as error:
        raise _malformed_file_error(name, location, error) from None


def _malformed_file_error(name: str, location: str, error: MalformedError) -> PillionError:
    return PillionError(
        f"`{name}` is not a valid TensorFlow Lite file",
        rule=str(error),
        here=location,
        help="is the file complete, and of this kind?",
    )


def read(source: str | os.PathLike[str] | bytes, compiled: Mapping[str, str] = NONE) -> Graph:
    """Returns the int8 model in a `.tflite` file, or in its bytes, in the arithmetic of LiteRT's reference
    kernels. `compiled` maps custom operators with NPU code to its vendor."""
    return open_file(source, compiled).graph()


ONE_SIGNATURE = (
    "convert one function at a time: tf.lite.TFLiteConverter.from_concrete_functions([module.run.get_concrete_function()], module), "
    "and compile each file"
)
"""The advice for a file with several signatures."""


def _read_graph(model: tflite.Model, name: str) -> Graph:
    if model.version != tflite.VERSION:
        raise MalformedError(f"the schema version is {tflite.VERSION}, found {model.version}")
    if not model.subgraphs:
        raise MalformedError("there is no subgraph")
    main = model.subgraphs[0]
    first = initializer_subgraphs(model, main) | subgraphs_of_loops(model)
    others = [s for number, s in enumerate(model.subgraphs) if number and number not in first]
    if others:  # `explained` describes them
        raise PillionError(
            f"`{name}` has {len(model.subgraphs)} subgraphs",
            rule="a model is one subgraph, and what CALL_ONCE and loops run",
            here=", ".join(clean_name(s.name) if s.name else "(no name)" for s in others[:8]),
            help=ONE_SIGNATURE,
        )
    reader = TfliteReader(model, main)
    boundary = Uint8Boundary(reader)
    inputs = boundary.inputs()
    ops = [*boundary.input_conversions(), *all_ops(reader, ops_of)]
    outputs, last = boundary.converted_outputs()
    if any(value.is_constant for value in inputs):
        raise MalformedError("an input of the model has data")
    initial: dict[Key, Array] = {}
    for number in reader.variables.called:
        initializer = TfliteReader(model, model.subgraphs[number])
        if initializer.subgraph.inputs or initializer.subgraph.outputs:
            raise MalformedError("the subgraph of CALL_ONCE has inputs or outputs")
        initial |= assigned_values(initializer.variables, all_ops(initializer, ops_of))
    states = reader.variables.states(initial)
    return verify_graph(
        Graph(name, inputs, (*ops, *last), outputs, Arithmetic.TFLITE, states).without_dead_ops()
    )


__all__ = ["OpenedTflite", "open_file", "read"]

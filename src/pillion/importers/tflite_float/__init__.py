# SPDX-License-Identifier: Apache-2.0
"""Reads float TensorFlow Lite files as PyTorch programs, which are quantized like others. 16-bit weights, and
8-bit weights with a scale (dynamic-range quantization), are dequantized."""

from __future__ import annotations

from torch import Tensor, nn
from torch.export import ExportedProgram

from pillion.errors import PillionError
from pillion.importers.tflite import ONE_SIGNATURE, OpenedTflite
from pillion.importers.tflite.file_diagnosis import (
    Diagnosis,
    compiled_already,
    control_flow,
    unknown_operators,
)
from pillion.importers.tflite.loop_analysis import subgraphs_of_loops
from pillion.importers.tflite_float.float_module import ROWS, FloatModule, check_shapes, random_inputs
from pillion.importers.tflite_float.reader import FloatReader
from pillion.importers.torch.buffers_as_states import StatefulModule, as_stateful
from pillion.importers.torch.file_operators import export_file_module


def float_module(opened: OpenedTflite) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Returns the module of a file, and example inputs."""
    _require_supported_operators(opened)
    with opened.reading():
        module = FloatModule(FloatReader(opened.model, opened.model.subgraphs[0]))
        check_shapes(module)
        return module, random_inputs(module.inputs)


def _require_supported_operators(opened: OpenedTflite) -> None:
    """Raises one error for all unsupported operators, and for several subgraphs."""
    survey = Diagnosis(opened.model, opened.name, ROWS, opened.compiled)
    for kind in (compiled_already, control_flow, unknown_operators):
        if finding := kind(survey):
            raise PillionError(finding.what, rule=finding.rule, here=finding.here, help=finding.help)
    if len({*range(1, len(opened.model.subgraphs))} - subgraphs_of_loops(opened.model)):
        raise PillionError(
            f"`{opened.name}` has {len(opened.model.subgraphs)} subgraphs",
            rule="a model in float is one subgraph, and what its loops run",
            here=opened.place,
            help=f"convert the model without variables; where it has several signatures, {ONE_SIGNATURE}",
        )


def float_program(opened: OpenedTflite) -> tuple[ExportedProgram | StatefulModule, tuple[Tensor, ...]]:
    """Returns the exported program of a file, or its module if it has states, and example inputs. Each node's
    source line is its operator number."""
    module, inputs = float_module(opened)
    stateful = as_stateful(module, inputs)
    if stateful is None:
        return export_file_module(module, inputs, f"{opened.name}.tflite"), inputs
    stateful.exported = export_file_module(stateful, (*inputs, *stateful.first), f"{opened.name}.tflite")
    return stateful, inputs


__all__ = ["captured", "float_module", "float_program"]

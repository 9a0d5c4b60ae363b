# SPDX-License-Identifier: Apache-2.0
"""Extracts the payload from the result of NXP's converter, a TFLite file with one custom operator for the
segment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from pillion.devices.neutron.converter.microcode import payload_version
from pillion.devices.neutron.converter.payload import DevicePayload, Port, check_payload
from pillion.errors import PillionError
from pillion.schemas import tflite
from pillion.schemas.flatbuffer import MalformedError, read_root_table

T = TypeVar("T")

NEUTRON_GRAPH = "NeutronGraph"
BLOCKS = 3
"""The operator's last inputs: microcode, weights, kernels."""


def boundary_names(model: bytes) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the names of a TFLite file's inputs and outputs."""
    graph = _only_subgraph(_parse_tflite(model))
    return tuple(_tensor_name(graph, t) for t in graph.inputs), tuple(
        _tensor_name(graph, t) for t in graph.outputs
    )


def extract_payload(model: bytes, inputs: Sequence[str], outputs: Sequence[str]) -> DevicePayload:
    """Returns the payload in the converter's result; the segment's inputs and outputs are matched by name."""
    file = _parse_tflite(model)
    graph = _only_subgraph(file)
    operator = _only_operator(file, graph)
    if len(operator.inputs) < BLOCKS or len(operator.outputs) < 2:
        raise unexpected_result_error(
            f"{NEUTRON_GRAPH} has data, microcode, weights and kernels, a result and scratch memory",
            f"{len(operator.inputs)} inputs and {len(operator.outputs)} outputs",
        )
    data_outputs, version = _data_outputs(graph, operator)
    microcode, weights, kernels = (_tensor_data(file, graph, tensor) for tensor in operator.inputs[-BLOCKS:])
    payload = DevicePayload(
        inputs=_match_ports(graph, _data_inputs(graph, operator), inputs, "input"),
        outputs=_match_ports(graph, data_outputs, outputs, "output"),
        arguments=len(inputs),
        version=version,
        microcode=microcode,
        weights=weights,
        kernels=kernels,
    )
    _require_all_outputs(payload, outputs)
    check_payload(payload)
    return payload


@dataclass(frozen=True)
class ConvertedOperator:
    """An operator in a converter's result; the payload of a NeutronGraph, None for operators left to the CPU."""

    name: str
    payload: DevicePayload | None
    scratch_tensor_bytes: int = 0
    """The size of the scratch tensor, which the microcode's header repeats."""


def converted_operators(model: bytes) -> tuple[ConvertedOperator, ...]:
    """Returns all operators of a converter's result, in order of execution."""
    file = _parse_tflite(model)
    graph = _only_subgraph(file)
    return tuple(_converted_operator(file, graph, operator) for operator in graph.operators)


def _converted_operator(
    file: tflite.Model, graph: tflite.SubGraph, operator: tflite.Operator
) -> ConvertedOperator:
    name = _operator_name(file, operator)
    if name != NEUTRON_GRAPH:
        return ConvertedOperator(name, None)
    if len(operator.inputs) < BLOCKS or len(operator.outputs) < 2:
        rule = f"{NEUTRON_GRAPH} has microcode, weights and kernels, a result and scratch memory"
        raise unexpected_result_error(rule, f"{len(operator.inputs)} and {len(operator.outputs)} tensors")
    microcode, weights, kernels = (_tensor_data(file, graph, tensor) for tensor in operator.inputs[-BLOCKS:])
    inputs = len(operator.inputs) - BLOCKS
    version = payload_version(microcode, inputs, len(operator.outputs))
    outputs = len(operator.outputs) - (3 if version else 1)
    payload = DevicePayload(
        tuple(map(Port, range(inputs))),
        tuple(map(Port, range(outputs))),
        *(inputs, version, microcode, weights, kernels),
    )
    check_payload(payload)
    scratch = _checked_item(graph.tensors, operator.outputs[-1], "tensor")
    return ConvertedOperator(name, payload, math.prod(scratch.shape))


def unexpected_result_error(rule: str, here: str) -> PillionError:
    """Returns the error for an unusable result of the converter."""
    return PillionError(
        "NXP's converter returned something that cannot become a payload",
        rule=rule,
        here=here,
        help="--keep-on-cpu keeps ops away from the NPU; `--intermediates` keeps the segment's file",
    )


def _parse_tflite(model: bytes) -> tflite.Model:
    try:
        return read_root_table(tflite.Model, model, tflite.IDENTIFIER)
    except (MalformedError, RecursionError) as error:
        raise unexpected_result_error("a TFLite file", str(error)) from None


def _only_subgraph(file: tflite.Model) -> tflite.SubGraph:
    if len(file.subgraphs) != 1:
        raise unexpected_result_error("one subgraph", str(len(file.subgraphs)))
    return file.subgraphs[0]


def _only_operator(file: tflite.Model, graph: tflite.SubGraph) -> tflite.Operator:
    """Returns the NeutronGraph; raises if the converter left no operator, or left some unconverted."""
    names = [_operator_name(file, operator) for operator in graph.operators]
    if names != [NEUTRON_GRAPH]:
        description = f"{names.count(NEUTRON_GRAPH)} of {len(names)} operators: {', '.join(names) or 'none'}"
        raise unexpected_result_error(f"exactly one operator, a {NEUTRON_GRAPH}", description)
    return graph.operators[0]


def _operator_name(file: tflite.Model, operator: tflite.Operator) -> str:
    code = _checked_item(file.operator_codes, operator.opcode_index, "operator code")
    return code.custom_code or _checked_item(tflite.OPERATORS, code.number, "operator")


def _data_inputs(graph: tflite.SubGraph, operator: tflite.Operator) -> list[int]:
    """Returns all inputs except the blocks; each must be an input of the graph exactly once."""
    data = operator.inputs[:-BLOCKS]
    for tensor in data:
        if graph.inputs.count(tensor) != 1:
            raise unexpected_result_error(
                f"`{_tensor_name(graph, tensor)}` is an input of the graph once",
                f"{graph.inputs.count(tensor)} times",
            )
    return data


def _data_outputs(graph: tflite.SubGraph, operator: tflite.Operator) -> tuple[list[int], int]:
    """Returns the results and the payload version. Scratch memory follows the results; version 1 also has
    profile and debug outputs."""
    rest = operator.outputs[:-1]
    return (rest[:-2], 1) if len(graph.outputs) == len(rest) - 2 else (rest, 0)


def _match_ports(
    graph: tflite.SubGraph, tensors: list[int], names: Sequence[str], what: str
) -> tuple[Port, ...]:
    """Returns the index of each tensor in the segment: the converter may reorder or drop some."""
    ports = []
    for tensor in tensors:
        name = _tensor_name(graph, tensor)
        if name not in names:
            raise unexpected_result_error(
                f"every {what} of {NEUTRON_GRAPH} is one of the segment's: {', '.join(names)}", f"`{name}`"
            )
        ports.append(Port(names.index(name)))
    return tuple(ports)


def _require_all_outputs(payload: DevicePayload, outputs: Sequence[str]) -> None:
    """Raises if the NPU does not write an output of the segment."""
    missing = [
        name for number, name in enumerate(outputs) if number not in {port.index for port in payload.outputs}
    ]
    if missing:
        raise unexpected_result_error("all outputs of the segment are made", f"missing: {', '.join(missing)}")


def _tensor_name(graph: tflite.SubGraph, tensor: int) -> str:
    return _checked_item(graph.tensors, tensor, "tensor").name


def _tensor_data(file: tflite.Model, graph: tflite.SubGraph, tensor: int) -> bytes:
    """Returns constant data; empty if the tensor has none."""
    data = _checked_item(file.buffers, _checked_item(graph.tensors, tensor, "tensor").buffer, "buffer").data
    return b"" if data is None else data.tobytes()


def _checked_item(items: Sequence[T], number: int, what: str) -> T:
    if not 0 <= number < len(items):
        raise unexpected_result_error(f"{what} {number} exists", f"there are {len(items)}")
    return items[number]

# SPDX-License-Identifier: Apache-2.0
"""Compiles partitions of ExecuTorch programs to program images, as a backend of ExecuTorch."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from torch.export import ExportedProgram

from pillion.compile_options import CompileOptions
from pillion.compiler import compile_graph, in_arithmetic
from pillion.importers.torch.edge_program import aten_module, use_memory_order
from pillion.importers.torch.fx_nodes import SOURCE_NODE
from pillion.importers.torch.quantize.converted_program import canonicalize_converted, refuse_float_nodes
from pillion.importers.torch.to_graph import import_program
from pillion.ir.graph import c_identifier
from pillion.ir.op import Op
from pillion.ir.types import real_name
from pillion.ops import Segment
from pillion.program import Program
from pillion.program_files import delegate_data
from pillion.targets import find_target

OPTIONS = "pillion"
"""Key of the compile spec that holds target and options."""
QUANTIZED, REAL = "_q", "_f"
"""Suffixes that distinguish values at partition borders from their nodes."""


def compile_spec(target: str, options: Mapping[str, Any]) -> CompileSpec:
    """Returns target and options as ExecuTorch passes them to a backend."""
    return CompileSpec(OPTIONS, json.dumps({"target": target, **options}).encode())


class PillionBackend(BackendDetails):  # type: ignore[no-untyped-call]  # ExecuTorch's registration of subclasses
    """The delegate `PillionBackend`, whose data is a program image, with the code of its NPU segments."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        """Compiles a partition; called by ExecuTorch."""
        (spec,) = (one for one in compile_specs if one.key == OPTIONS)
        options = json.loads(spec.value)
        program, sources = compile_partition(edge_program, options.pop("target"), options)
        handles = {node.name: node.meta.get("debug_handle") for node in edge_program.graph.nodes}
        by_step = {step: _known(map(handles.get, names)) for step, names in sources.items()}
        by_step = {step: found for step, found in by_step.items() if found}
        return PreprocessResult(processed_bytes=delegate_data(program), debug_handle_map=by_step)


def compile_partition(
    exported: ExportedProgram, target: str, options: Mapping[str, Any]
) -> tuple[Program, dict[int, list[str]]]:
    """Returns the program of a partition, and the names of the partition's nodes that each of its steps computes: several in
    an NPU segment."""
    module = aten_module(exported)
    use_memory_order(module)
    canonicalize_converted(module)
    refuse_float_nodes(module, "partition")
    chosen = CompileOptions().with_keywords(options)
    graph = in_arithmetic(import_program(module, chosen.name or "partition"), chosen.arithmetic)
    program = compile_graph(graph, find_target(target), chosen)
    nodes = {c_identifier(n.name): n.meta[SOURCE_NODE] for n in module.graph.nodes if SOURCE_NODE in n.meta}
    found = {step.index: _source_names(step.choice.op, nodes) for step in program.lowered.steps}
    return program, {step: names for step, names in found.items() if names}


def _source_names(op: Op, nodes: Mapping[str, str]) -> list[str]:
    computing = op.body.ops if isinstance(op, Segment) else (op,)
    return [nodes[name] for one in computing if (name := _node_name(one.name)) in nodes]


def _known(handles: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(handle for handle in handles if handle is not None))


def _node_name(value: str) -> str:
    """Returns the name of the node that a value is named after."""
    return real_name(value.removesuffix(QUANTIZED).removesuffix(REAL))

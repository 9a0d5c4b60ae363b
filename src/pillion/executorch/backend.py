# SPDX-License-Identifier: Apache-2.0
"""Compiles partitions of ExecuTorch programs to program images: what ExecuTorch calls a backend."""

from __future__ import annotations

import json
from collections.abc import Mapping
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
from pillion.ir.types import real_name
from pillion.program import Program
from pillion.targets import find_target

OPTIONS = "pillion"
"""Key of the compile spec that holds target and options."""
QUANTIZED, REAL = "_q", "_f"
"""What names of values at borders add to names of nodes."""


def compile_spec(target: str, options: Mapping[str, Any]) -> CompileSpec:
    """Returns target and options as ExecuTorch passes them to a backend."""
    return CompileSpec(OPTIONS, json.dumps({"target": target, **options}).encode())


class PillionBackend(BackendDetails):  # type: ignore[no-untyped-call]  # ExecuTorch's registration of subclasses
    """The delegate `PillionBackend`, whose data is a program image."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        """Compiles a partition; called by ExecuTorch."""
        (spec,) = (one for one in compile_specs if one.key == OPTIONS)
        options = json.loads(spec.value)
        program, sources = compile_partition(edge_program, options.pop("target"), options)
        handles = {node.name: node.meta.get("debug_handle") for node in edge_program.graph.nodes}
        by_step = {
            step: (handle,) for step, name in sources.items() if (handle := handles.get(name)) is not None
        }
        return PreprocessResult(processed_bytes=program.image(), debug_handle_map=by_step)


def compile_partition(
    exported: ExportedProgram, target: str, options: Mapping[str, Any]
) -> tuple[Program, dict[int, str]]:
    """Returns the program of a partition, and the name of the partition's node that each of its steps computes."""
    module = aten_module(exported)
    use_memory_order(module)
    canonicalize_converted(module)
    refuse_float_nodes(module, "partition")
    chosen = CompileOptions().with_keywords(options)
    graph = in_arithmetic(import_program(module, chosen.name or "partition"), chosen.arithmetic)
    program = compile_graph(graph, find_target(target), chosen)
    nodes = {c_identifier(n.name): n.meta[SOURCE_NODE] for n in module.graph.nodes if SOURCE_NODE in n.meta}
    found = {step.index: nodes.get(_node_name(step.choice.op.name), "") for step in program.lowered.steps}
    return program, {step: name for step, name in found.items() if name}


def _node_name(value: str) -> str:
    """Returns the name of the node that a value is named after."""
    return real_name(value.removesuffix(QUANTIZED).removesuffix(REAL))

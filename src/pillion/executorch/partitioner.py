# SPDX-License-Identifier: Apache-2.0
"""Divides ExecuTorch programs between Pillion's delegate and other backends or kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import torch
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.backend.utils import tag_constant_data
from executorch.exir.tracer import _default_decomposition_table
from torch.export import ExportedProgram
from torch.fx import Node

from pillion.compile_options import CompileOptions
from pillion.errors import PillionError
from pillion.executorch.backend import PillionBackend, compile_spec
from pillion.executorch.islands import Division, divide
from pillion.importers.torch.fx_nodes import CONVOLUTIONS
from pillion.importers.torch.quantize.annotate import FloatOp
from pillion.targets import find_target

NOT_FOR_PARTITIONS = ("loading", "quantize", "stream", "io")
"""The option records that concern whole models."""


class PillionPartitioner(Partitioner):
    """Gives the parts of a converted program that Pillion compiles to the delegate `PillionBackend`. The rest stays for
    other partitioners and ExecuTorch's kernels; `float_ops` lists it, each call with the reason. On a target with an NPU the
    delegate runs what is placed there by the NPU's own delegate, which is in the firmware.

    `options` are those of `pillion.compile` that concern the program's form and memory, such as `optimize="size"`."""

    def __init__(self, target: str, **options: Any) -> None:
        super().__init__()
        find_target(target)
        _refuse_options(options)
        self._spec_of_parts = DelegationSpec(PillionBackend.__name__, [compile_spec(target, options)])
        self._divisions: WeakKeyDictionary[ExportedProgram, Division] = WeakKeyDictionary()
        self._tensors: dict[str, Any] = {}
        self.float_ops: list[FloatOp] = []

    def ops_to_not_decompose(
        self, ep: ExportedProgram
    ) -> tuple[list[torch._ops.OpOverload], Callable[[Node], bool]]:
        """Returns the operators that a partition takes undecomposed. ExecuTorch calls this, and shows the program
        with the values of its tensors here."""
        if not any(isinstance(node.target, torch._ops.OpOverload) for node in ep.graph.nodes):
            return [], lambda _: False
        self._tensors.update(ep.state_dict)
        division = self._division(ep)
        targets = {node.target for part in division.parts for node in part}
        return [op for op in _decomposed() if op in targets], lambda node: node.name in division.taken

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tags the nodes of each partition; called by ExecuTorch."""
        division = self._division(exported_program)
        self.float_ops = division.left
        tags = {}
        for number, part in enumerate(division.parts):
            tags[f"pillion_{number}"] = self._spec_of_parts
            for node in part:
                node.meta["delegation_tag"] = f"pillion_{number}"
        tag_constant_data(exported_program)
        return PartitionResult(exported_program, tags)

    def _division(self, exported: ExportedProgram) -> Division:
        if exported not in self._divisions:
            self._divisions[exported] = divide(exported, self._tensors)
        return self._divisions[exported]


def _decomposed() -> Iterator[torch._ops.OpOverload]:
    """Yields the operators that ExecuTorch would decompose. It is left to decompose convolutions, which lose nothing."""
    return (op for op in _default_decomposition_table() if op not in CONVOLUTIONS)


def _refuse_options(options: Mapping[str, Any]) -> None:
    """Raises for options that no partition has."""
    chosen, default = CompileOptions().with_keywords(options), CompileOptions()
    names = [name for name in NOT_FOR_PARTITIONS if getattr(chosen, name) != getattr(default, name)]
    if names:
        raise PillionError(
            "these options concern whole models",
            rule="a partition has the scales, inputs and outputs that its program gives it",
            here=", ".join(names),
            help="leave them out, or pillion.compile the converted program as a whole",
        )

# SPDX-License-Identifier: Apache-2.0
"""Modules that were read from files: inputs have the file's names, and the source line of a node is the number of its operator."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.fx import Node

from pillion.importers.torch.export import export
from pillion.ir.graph import UniqueNames, c_identifier, clean_name

PREFIX = "operator_"
"""The prefix of the operators' module names, before number and name."""
_NUMBER = re.compile(rf"{PREFIX}(\d+)_(\w+)")


def operator_module_name(number: int, name: str) -> str:
    """Returns the module name of an operator of a file."""
    return c_identifier(clean_name(f"{PREFIX}{number}_{name}"))


def named_inputs(compute: Callable[..., Any], names: Iterable[str]) -> Callable[..., Any]:
    """Returns a function that calls `compute`, with arguments of a file's names: torch.export names the inputs by them."""
    fresh, kind = UniqueNames(), inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(fresh.fresh(c_identifier(name)), kind) for name in names]

    def forward(*given: Tensor) -> Any:
        return compute(*given)

    forward.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # inspect looks for it
    return forward


def export_file_module(module: nn.Module, inputs: tuple[Tensor, ...], file: str) -> ExportedProgram:
    """Returns the exported program of a module whose operators have names of this form."""
    exported = export(module, inputs)
    stem, _, suffix = file.rpartition(".")
    for node in exported.graph.nodes:
        _set_source_operator(node, f"{clean_name(stem)}.{suffix}")
    return exported


def _set_source_operator(node: Node, file: str) -> None:
    """Sets a node's stack trace to its operator in the file."""
    stack = node.meta.get("nn_module_stack") or {}
    matches = [m for entry in stack.values() if (m := _NUMBER.search(str(entry[0])))]
    node.meta.pop("stack_trace", None)
    if matches:
        node.meta["stack_trace"] = f'File "{file}", line {matches[-1][1]}, in {matches[-1][2]}'

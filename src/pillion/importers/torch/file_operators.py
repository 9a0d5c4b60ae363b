# SPDX-License-Identifier: Apache-2.0
"""Modules that were read from files: the source line of each node is the number of its operator in the file."""

from __future__ import annotations

import re

from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.fx import Node

from pillion.importers.torch.export import export
from pillion.ir.graph import c_identifier, clean_name

PREFIX = "operator_"
"""The prefix of the operators' module names, before number and kind."""
_NUMBER = re.compile(rf"{PREFIX}(\d+)_(\w+)")


def operator_module_name(number: int, kind: str) -> str:
    """Returns the module name of an operator of a file."""
    return f"{PREFIX}{number}_{c_identifier(kind)}"


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

# SPDX-License-Identifier: Apache-2.0
"""What is read off the operators of an exported program: where they come from, and their arguments."""

from __future__ import annotations

import operator

import pytest
import torch
from torch import nn

from pillion.importers.torch.fx_nodes import argument_of, module_of

pytestmark = pytest.mark.torch


def test_operators_know_the_module_that_they_were_recorded_in() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.Sequential(nn.ReLU(), nn.Sigmoid())).eval()
    graph = torch.export.export(model, (torch.zeros(1, 3, 2, 2),)).module().graph
    assert [
        module_of(node) for node in graph.find_nodes(op="call_function", target=torch.ops.aten.conv2d.default)
    ] == ["0"]
    found = [module_of(node) for node in graph.nodes if node.op == "call_function"]
    assert found[-3:] == ["0", "1.0", "1.1"]


def test_arguments_that_an_operator_has_not_have_their_default() -> None:
    """Later versions of an operator have more of them, and functions of Python have no schema."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    relu = graph.call_function(torch.ops.aten.relu.default, (x,))
    softmax = graph.call_function(torch.ops.aten.softmax.int, (x,), {"dim": 2})
    item = graph.call_function(operator.getitem, (x,))
    assert [argument_of(node, 0) for node in (relu, softmax, item)] == [x, x, x]
    assert [argument_of(node, 1, "none") for node in (relu, softmax, item)] == ["none", 2, "none"]
    assert argument_of(softmax, 2, "none") is None

# SPDX-License-Identifier: Apache-2.0
"""Where an operator comes from, in the user's own words."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from pillion.quantize import module_of

pytestmark = pytest.mark.torch


def test_operators_know_the_module_that_they_were_recorded_in() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.Sequential(nn.ReLU(), nn.Sigmoid())).eval()
    graph = torch.export.export(model, (torch.zeros(1, 3, 2, 2),)).module().graph
    assert [
        module_of(node) for node in graph.find_nodes(op="call_function", target=torch.ops.aten.conv2d.default)
    ] == ["0"]
    found = [module_of(node) for node in graph.nodes if node.op == "call_function"]
    assert found[-3:] == ["0", "1.0", "1.1"]

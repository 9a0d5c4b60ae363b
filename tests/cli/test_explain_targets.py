# SPDX-License-Identifier: Apache-2.0
"""`pillion explain` with several targets: who runs each op on each of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from shell import Call

NET = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 16, 3)

    def forward(self, x):
        return torch.sqrt(torch.relu(self.conv(x)))


def example_inputs():
    return (torch.linspace(-1, 1, 3 * 33 * 31).reshape(1, 3, 33, 31),)
"""


@pytest.fixture
def net(tmp_path: Path) -> str:
    (tmp_path / "net.py").write_text(NET)
    return f"{tmp_path / 'net.py'}:Net"


def test_targets_are_side_by_side(pillion: Call, net: str) -> None:
    facts = pillion("explain", "-m", net, "-t", "imxrt700", "-t", "cortex-m55", "--json").facts
    assert [row["target"] for row in facts["targets"]] == ["imxrt700", "cortex-m55"]
    assert [row["ops_on_npu"] > 0 for row in facts["targets"]] == [True, False]
    assert [row["arithmetic_on_npu"] for row in facts["targets"]] == ["tflite", None]
    ops = {row["kind"]: row for row in facts["ops"]}
    assert (ops["conv2d"]["imxrt700"], ops["conv2d"]["cortex-m55"]) == ("npu", "cpu")
    assert ops["lut"]["imxrt700"] == "cpu: lut.function, sqrt"


def test_a_clock_goes_with_one_target(pillion: Call, net: str) -> None:
    answer = pillion("explain", "-m", net, "-t", "imxrt700", "-t", "cortex-m55", "--clock", "100MHz")
    assert answer.code == 2
    assert "times are for one chip" in answer.err

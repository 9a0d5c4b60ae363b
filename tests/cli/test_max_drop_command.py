# SPDX-License-Identifier: Apache-2.0
"""`pillion compile --max-drop`: 16 bits where a metric of labelled data needs them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from shell import Call, refused

NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.first, self.last = nn.Linear(12, 24), nn.Linear(24, 5)

    def forward(self, x):
        return self.last(torch.relu(self.first(x))) * 0.1 + x.sum(1, keepdim=True)

def example_inputs():
    return (torch.zeros(1, 12),)
"""
COMPILE = ("compile", "net.py:Net", "-t", "cortex-m55", "-q", "-o", "fw/", "--json")


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model with calibration data, and labels that it answers in float."""
    (tmp_path / "net.py").write_text(NET)
    monkeypatch.chdir(tmp_path)
    names: dict[str, type[torch.nn.Module]] = {}
    exec(NET, names)
    x = torch.randn(200, 12, generator=torch.Generator().manual_seed(7))
    with torch.no_grad():
        labels = names["Net"]().eval()(x).argmax(1)
    np.save("train.npy", x[:80].numpy())
    np.savez("test.npz", x=x[80:].numpy(), y=labels[80:].numpy())
    np.save("x.npy", x[80:].numpy())
    np.save("labels.npy", labels[80:].numpy())


@pytest.mark.nightly
def test_tensors_get_16_bits_until_the_metric_is_kept(data: None, pillion: Call) -> None:
    wish = ("--calibrate", "train.npy", "--max-drop", "5%", "--data", "test.npz")
    facts = pillion(*COMPILE, *wish).facts
    assert "of 120 samples" in facts["metric"]
    assert facts["chosen"]
    again = pillion(*COMPILE, *wish[:-1], "x.npy", "--labels", "labels.npy", "--metric", "top1", "--force")
    assert again.facts["metric"] == facts["metric"]
    measured = pillion("eval", "fw/", "-d", "test.npz", "--json").facts
    assert f"top1 {measured['metrics'][0]['int8']:.4f}," in facts["metric"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--max-drop", "1%"), "--max-drop goes with --data"),
        (("--data", "test.npz"), "--max-drop 0.5% --data test.npz"),
        (("--max-drop", "some", "--data", "test.npz"), "--max-drop 0.5%"),
        (("--max-drop", "1%", "--data", "none.npz"), "none.npz"),
        (("--labels", "labels.npy"), "go with --data"),
        (("--max-drop", "1%", "--data", "test.npz", "--precision", "int16"), "chosen twice"),
        (("--max-drop", "1%", "--data", "x.npy"), "labels"),
    ],
)
def test_half_of_a_wish_is_refused(data: None, pillion: Call, options: tuple[str, ...], said: str) -> None:
    refused(pillion(*COMPILE, *options), said)

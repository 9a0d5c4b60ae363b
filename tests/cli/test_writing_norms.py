# SPDX-License-Identifier: Apache-2.0
"""Writing a form that is coarser than C says so, in a line like all others of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from pillion.cli import app

pytestmark = pytest.mark.torch

NET = """
import torch


def Net():
    return torch.nn.LayerNorm(8).eval()


def example_inputs():
    return (torch.linspace(-1, 1, 24).reshape(3, 8),)
"""


def test_a_pte_of_a_norm_is_told_of_in_a_line(tmp_path: Path) -> None:
    net, out = tmp_path / "net.py", tmp_path / "net.pte"
    net.write_text(NET)
    command = ["compile", "-m", f"{net}:Net", "-t", "cortex-m33", "-q", "-o", str(out)]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0
    told = [line for line in done.output.splitlines() if "norms" in line]
    assert told == [
        "warning: .pte: norms are made of ops of 8 bits there, and one exact op in C (docs/guide/quantization.md)"
    ]
    assert "PillionWarning" not in done.output

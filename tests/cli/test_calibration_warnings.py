# SPDX-License-Identifier: Apache-2.0
"""What the command line says of calibration data of which nothing useful follows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from shell import Call

pytestmark = pytest.mark.torch

NET = "import torch\nfrom torch import nn\n\n\ndef net():\n    return nn.Linear(3, 4), (torch.randn(1, 3),)\n"


@pytest.mark.parametrize(
    ("value", "words"), [(0.0, "nothing but zeros"), (1e30, "1e+30"), (1e-30, "too small")]
)
def test_useless_calibration_data_print_one_warning(
    value: float, words: str, tmp_path: Path, pillion: Call
) -> None:
    (tmp_path / "net.py").write_text(NET)
    np.save(tmp_path / "x.npy", np.full((5, 3), value, np.float32))
    answer = pillion(
        *("compile", "-m", f"{tmp_path}/net.py:net", "-t", "cortex-m33", "-q"),
        *("-o", tmp_path / "net.pte", "--calibrate", tmp_path / "x.npy"),
    )
    assert answer.code == 0
    (line,) = [line for line in answer.err.splitlines() if "calibration saw" in line]
    assert line.startswith("warning: calibration saw")
    assert words in line
    assert "in input `" in line


def test_data_that_are_no_numbers_are_refused(tmp_path: Path, pillion: Call) -> None:
    (tmp_path / "net.py").write_text(NET)
    np.save(tmp_path / "x.npy", np.array([[1, 2, 3], [4, np.nan, 6]], np.float32))
    answer = pillion(
        *("compile", "-m", f"{tmp_path}/net.py:net", "-t", "cortex-m33", "-q"),
        *("-o", tmp_path / "net.pte", "--calibrate", tmp_path / "x.npy"),
    )
    assert answer.code == 2
    assert "sample 2 of" in answer.err
    assert not (tmp_path / "net.pte").exists()

# SPDX-License-Identifier: Apache-2.0
"""Calibration data that does not fit by itself is fitted: `pillion compile --calibrate photos/ --fit crop --mean 0.5`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from shell import Call, refused

NET = """
import torch
from torch import nn

def Net():
    torch.manual_seed(0)
    return nn.Conv2d(3, 2, 3)

def example_inputs():
    return (torch.zeros(1, 3, 6, 6),)
"""


@pytest.fixture
def photo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """An image that is too large, in a folder beside a model."""
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(0, 256, (6, 10, 3), dtype=np.uint8)
    (tmp_path / "photos").mkdir()
    image.fromarray(pixels).save(tmp_path / "photos" / "a.png")
    (tmp_path / "net.py").write_text(NET)
    monkeypatch.chdir(tmp_path)
    return pixels


def test_photos_are_fitted_and_normalized(photo: np.ndarray, tmp_path: Path, pillion: Call) -> None:
    compile_ = ("compile", "net.py:Net", "-t", "cortex-m33", "-q")
    refused(pillion(*compile_, "--calibrate", "photos/", "-o", "a.pte"), "--fit crop")
    fit = ("--fit", "crop", "--mean", "0.5", "--std", "0.25,0.5,1")
    assert pillion(*compile_, "--calibrate", "photos/", *fit, "-o", "a.pte").code == 0
    middle = ((photo[:, 2:8] / np.float32(255)).astype(np.float32) - np.float32(0.5)) / np.float32(
        [0.25, 0.5, 1]
    )
    np.save("x.npy", middle.astype(np.float32).transpose(2, 0, 1)[None])
    assert pillion(*compile_, "--calibrate", "x.npy", "-o", "b.pte").code == 0
    assert (tmp_path / "a.pte").read_bytes() == (tmp_path / "b.pte").read_bytes()


@pytest.mark.nightly
def test_explain_report_and_verify_take_fit(photo: np.ndarray, tmp_path: Path, pillion: Call) -> None:
    given = ("net.py:Net", "-t", "cortex-m33", "--calibrate", "photos/")
    for command in ("explain", "report", "verify"):
        more = ("--json", "-q") if command == "verify" else ("--json",)
        refused(pillion(command, *given, *more), "--fit crop")
        assert pillion(command, *given, *more, "--fit", "crop").code == 0
    shown = ("report", "net.py:Net", "-t", "cortex-m33", "--data", "photos/", "--no-measure", "--json")
    assert pillion(*shown, "--fit", "crop").code == 0
    assert pillion("compile", *given, "-q", "--fit", "crop", "-o", "a.pte").code == 0
    refused(pillion("verify", "a.pte", "--fit", "crop"), "--fit goes with models that are compiled now")


def test_there_must_be_data_to_fit(photo: np.ndarray, pillion: Call) -> None:
    answer = pillion("compile", "net.py:Net", "-t", "cortex-m33", "-q", "--mean", "0.5", "-o", "a.pte")
    refused(answer, "no data to fit", "--mean goes with --calibrate")

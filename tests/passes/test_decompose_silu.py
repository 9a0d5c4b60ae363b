# SPDX-License-Identifier: Apache-2.0
"""SiLU for NPUs and files that have sigmoids and products: every level, on many scales."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import pillion
from passes.test_sum_hard_sigmoids import LEVELS, function_of
from pillion.ir.numerics import Arithmetic
from pillion.ir.verify import verify_graph
from pillion.ops import Function
from pillion.ops.example_values import value
from pillion.passes import decompose_silu


def test_no_level_is_off_by_more_than_one_step() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        scale = float(np.float32(10 ** rng.uniform(-3, 0)))
        x = value("x", LEVELS.shape, scale, int(rng.integers(-128, 0)))
        highest = scale * (127 - x.zero_point)
        y = value("y", LEVELS.shape, float(np.float32((highest + 0.28) / 255)), -126)
        graph = function_of(x, y, Function.SILU)
        parts = verify_graph(decompose_silu(graph)).replace(arithmetic=Arithmetic.TFLITE)
        assert [op.kind for op in parts] == ["lut", "mul"]
        wanted, found = (g.reference(LEVELS)[0].astype(int) for g in (graph, parts))
        assert abs(wanted - found).max() <= 1


@pytest.fixture
def net() -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    layers = (nn.Conv2d(3, 16, 3), nn.SiLU(), nn.Conv2d(16, 16, 3), nn.Hardsigmoid())
    return nn.Sequential(*layers).eval(), torch.randn(1, 3, 12, 12)


def test_tflite_files_and_arithmetic_have_it(net: tuple[nn.Module, torch.Tensor], tmp_path: Path) -> None:
    file = tmp_path / "net.tflite"
    pillion.compile(*net, target="cortex-m33").save(file)
    for program in (
        pillion.compile(*net, target="cortex-m33", arithmetic="tflite"),
        pillion.compile(file, target="cortex-m33"),
    ):
        found = program.verify(1)
        assert found.ok
        assert "litert" in {run.executor for run in found.runs if run.has_run}

# SPDX-License-Identifier: Apache-2.0
"""Bundled programs on emulated cores: the program in the bundle, run by ExecuTorch with its real kernels, answers what the bundle says."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import pillion
from judge.beyond import BOTH
from judge.machine import CORES, RUNTIMES, Core, judged, missing
from pillion.emitters.pte import Runtime
from pillion.schemas import bundled
from pillion.schemas.flatbuffer import read_root_table

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing())]


class Small(nn.Module):
    """Two inputs of odd sizes, two results."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.conv, self.linear = nn.Conv2d(3, 7, 3, stride=2), nn.Linear(7, 5)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        seen = self.conv(x).relu().mean((2, 3))
        return self.linear(seen) + y, seen


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("core", BOTH)
def test_the_real_kernels_give_what_the_bundle_expects(core: Core, runtime: Runtime) -> None:
    examples = (torch.randn(1, 3, 11, 9), torch.randn(1, 5))
    program = pillion.compile(Small().eval(), examples, target=CORES[core])
    random = np.random.default_rng(8)
    samples = [
        [random.standard_normal(shape).astype(np.float32) for shape in ((1, 3, 11, 9), (1, 5))]
        for _ in range(3)
    ]
    held = read_root_table(bundled.BundledProgram, program.bundled(samples, runtime), bundled.IDENTIFIER)
    (suite,) = held.method_test_suites
    answer = judged(bytes(held.program), program.graph.outputs, samples, core, runtime)
    assert answer.ok, answer.complaint
    assert len(suite.test_cases) == len(answer.outputs) == 3
    for case, sample, outputs in zip(suite.test_cases, samples, answer.outputs, strict=True):
        assert [bytes(v.val.data) for v in case.inputs] == [x.tobytes() for x in sample]
        assert [bytes(v.val.data) for v in case.expected_outputs] == [y.tobytes() for y in outputs]

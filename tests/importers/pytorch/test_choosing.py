# SPDX-License-Identifier: Apache-2.0
"""Nets that compare, choose, and look up by numbers: they compile, and answer what the float model answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import pillion
from importers.pytorch.choosing_nets import CASES, net


def flat(results: Any) -> list[torch.Tensor]:
    return list(results) if isinstance(results, (tuple, list)) else [results]


@pytest.mark.parametrize("name", CASES)
def test_nets_as_people_write_them(name: str) -> None:
    case = CASES[name]
    module, inputs = net(case)
    with torch.no_grad():
        wanted = flat(module(*inputs))
    program = pillion.compile(module, inputs, target="cortex-m33", name="net")
    for real, got in zip(wanted, program.run(*inputs), strict=True):
        assert tuple(real.shape) == got.shape
        if real.is_floating_point():
            assert got.dtype == np.float32
            noise = float(((real - torch.from_numpy(got)) ** 2).sum())
            signal = float((real**2).sum())
            assert 10 * np.log10(signal / max(noise, 1e-30)) >= case.decibels
        else:
            assert got.dtype == (np.bool_ if real.dtype == torch.bool else np.int32)
            assert float((real.numpy() == got).mean()) >= case.agreement

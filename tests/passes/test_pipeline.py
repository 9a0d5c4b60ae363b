# SPDX-License-Identifier: Apache-2.0
"""`pillion passes` lists what runs: each pass of a compilation is a step of the list, in its order."""

from __future__ import annotations

import pytest
import torch

import pillion
from pillion.pass_pipeline import all_steps, describe_passes
from pillion.targets import npu_targets


class Sums(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (torch.relu(x) * 0.5 + x).sum(2)


@pytest.mark.parametrize(
    ("target", "options", "among"),
    [
        ("cortex-m3", {"io_dtype": "int8"}, "int8_io"),
        ("cortex-m3", {"stream": "x:1", "hop": 2}, "to_stream_graph"),
        *((chip.name, {}, "canonicalize_multipliers") for chip in npu_targets()[:1]),
    ],
)
def test_passes_run_as_they_are_listed(target: str, options: dict[str, object], among: str) -> None:
    ran: list[str] = []
    x = torch.linspace(-1, 1, 10 * 3).reshape(1, 10, 3)
    pillion.compile(Sums(), (x,), target=target, watch=lambda name, _: ran.append(name), **options)
    ran = [name for name in ran if name not in ("import", "place")]
    listed = iter([step.name for step in all_steps()])
    assert [name for name in ran if name not in listed] == []  # each one stands behind the one before it
    assert among in ran


def test_every_pass_is_described() -> None:
    rows = describe_passes()
    assert all(row["summary"].endswith(".") and len(row["summary"]) > 20 for row in rows)
    assert {"always", "--stream", "--io-dtype int8", "targets with an NPU"} <= {row["when"] for row in rows}

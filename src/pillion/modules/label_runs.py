# SPDX-License-Identifier: Apache-2.0
"""Run lengths of maps of classes, which are shorter to send and quicker to look through than pixels."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from pillion.modules.arguments import require


@torch.library.custom_op("pillion::run_lengths", mutates_args=())
def run_lengths(labels: Tensor, most: int) -> Tensor:
    """Returns the first runs [rows, most, 2] of equal labels [rows, number], each as label and length."""
    runs = labels.new_zeros(len(labels), most, 2)
    for row, found in zip(labels, runs, strict=True):
        pairs = torch.stack(torch.unique_consecutive(row, return_counts=True), -1)[:most]
        found[: len(pairs)] = pairs
    return runs


@run_lengths.register_fake
def _(labels: Tensor, most: int) -> Tensor:
    return labels.new_empty(len(labels), most, 2)


RUN_LENGTHS: Any = torch.ops.pillion.run_lengths.default
"""The operator in exported programs."""


class RunLengths(nn.Module):
    """Finds the first `most` runs of equal labels, line by line over a picture; drops later runs. Behind the last
    run, labels and lengths are 0. The lengths of a whole picture add up to its pixels."""

    def __init__(self, most: int) -> None:
        super().__init__()
        require(most >= 1, self, "most is the number of runs, 1 or more", most)
        self.most = most

    def forward(self, labels: Tensor) -> Tensor:
        """Returns runs [batch, most, 2], each as label and length, of whole numbers [batch, ...], such as the results
        of `argmax`."""
        rule = "labels are whole numbers, as those of argmax"
        require(not labels.is_floating_point(), self, rule, str(labels.dtype))
        runs: Tensor = RUN_LENGTHS(labels.flatten(1).long(), self.most)
        return runs

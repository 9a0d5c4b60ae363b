# SPDX-License-Identifier: Apache-2.0
"""Labels of sequences: PyTorch's answers are those of a loop, and the compiled ones of the same scores."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor

import pillion
from pillion import PillionError
from pillion.modules import CtcDecoder


def labels_by_loop(scores: Tensor, blank: int) -> list[list[int]]:
    """Best paths without repetitions and blanks."""
    best = [[int(row.argmax()) for row in one] for one in scores]
    return [[label for label, _ in itertools.groupby(one) if label != blank] for one in best]


@pytest.mark.parametrize(
    ("batch", "frames", "classes", "blank"), [(1, 53, 5, 0), (2, 31, 3, 2), (1, 1, 2, 1)]
)
@pytest.mark.parametrize("target", ["cortex-m33", "cortex-m55"])
def test_labels_follow_the_best_path(batch: int, frames: int, classes: int, blank: int, target: str) -> None:
    generator = torch.Generator().manual_seed(frames)
    levels = torch.randint(-120, 120, (batch, frames, classes), generator=generator)
    levels[:, frames // 3 : frames // 2, classes - 1] = 127  # a long label
    scores = levels / 127.0
    module = CtcDecoder(blank).eval()
    program = pillion.compile(module, (scores,), target=target, calibrate=[(scores,)], progress=False)
    found, counts = program.run(scores.numpy(), on="host")
    wanted = [[label for label in row if label != blank] for row in found.tolist()]
    assert wanted == labels_by_loop(scores, blank)
    assert counts.tolist() == [len(row) for row in wanted]
    for ours, theirs in zip((found, counts), module(scores), strict=True):
        assert np.array_equal(ours, theirs.numpy())


def test_blank_is_a_class() -> None:
    with pytest.raises(PillionError, match="blank is the number of a class"):
        CtcDecoder(-1)

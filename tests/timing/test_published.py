# SPDX-License-Identifier: Apache-2.0
"""The estimates lie where the docs say, beside what others measured on silicon."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))

from time_page import Published, published

ROWS = published()


@pytest.mark.parametrize("one", ROWS, ids=[one.row["what"] for one in ROWS])
def test_measurements_of_the_same_kernels_lie_within_the_band(one: Published) -> None:
    within = one.row["cycles"] in one.estimated
    assert within == one.row["comparable"], "the docs say which one lies outside"


def test_middles_are_as_far_off_as_the_guide_says() -> None:
    off = {
        core: [one.off for one in ROWS if one.row["core"] == core] for core in ("cortex-m55", "cortex-m85")
    }
    assert [round(f(off["cortex-m55"]), 2) for f in (min, max)] == [-0.2, 0.21]
    assert [round(f(off["cortex-m85"]), 2) for f in (min, max)] == [0.26, 0.43]


def test_a_core_is_never_faster_than_its_best_case() -> None:
    assert all(0 < one.estimated.low < one.estimated.high < 4 * one.estimated.low for one in ROWS)

# SPDX-License-Identifier: Apache-2.0
"""The estimates lie where the docs say, beside what others measured on silicon."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))

from time_page import NETS, SILICON, Published, own_milliseconds, published

ROWS = published()


@pytest.mark.parametrize("one", ROWS, ids=[f"{one.row['what']}, {one.row['chip']}" for one in ROWS])
def test_measurements_of_the_same_kernels_lie_within_the_band(one: Published) -> None:
    assert one.row["cycles"] in one.estimated


@pytest.mark.parametrize(
    ("core", "least", "most"),
    [
        ("cortex-m4", -0.16, -0.02),
        ("cortex-m33", -0.03, 0.04),
        ("cortex-m55", -0.2, 0.21),
        ("cortex-m85", 0.26, 0.43),
    ],
)
def test_middles_are_as_far_off_as_the_guide_says(core: str, least: float, most: float) -> None:
    off = [one.off for one in ROWS if one.row["core"] == core]
    assert [round(f(off), 2) for f in (min, max)] == [least, most]


def test_a_core_is_never_faster_than_its_best_case() -> None:
    assert all(0 < one.estimated.low < one.estimated.high < 4 * one.estimated.low for one in ROWS)


def test_both_records_have_the_same_measurements() -> None:
    """MLPerf Tiny's results by microTVM with CMSIS-NN are compared with the same kernels and with Pillion's."""
    record = json.loads(SILICON.read_text("utf-8"))
    names = {
        "ic": "image classification",
        "kws": "keyword spotting",
        "vww": "visual wake words",
        "ad": "anomaly detection",
    }
    ours = {(one.row["chip"], one.row["what"].rpartition(", ")[2]): one.row["cycles"] for one in ROWS}
    rows = [row for row in record["published"] if row["engine"] == "microTVM, CMSIS-NN"]
    assert len(rows) == 2
    for row in rows:
        cycles = {net: ms * row["clock_hz"] / 1e3 for net, ms in row["ms"].items()}
        assert cycles == pytest.approx({net: ours[row["chip"], names[net]] for net in NETS})


def test_programs_were_counted_on_each_core() -> None:
    record = json.loads(SILICON.read_text("utf-8"))
    for row in record["published"]:
        for net in NETS:
            own = own_milliseconds(row, record["counted"], net)
            assert 0 < own.low < own.high
            assert "counted on" in record["counted"][row["core"]][net]["basis"]

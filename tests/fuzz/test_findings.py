# SPDX-License-Identifier: Apache-2.0
"""Programs that once went wrong, as the hunt printed them. A file is called `HUNT.what-it-shows.txt`."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from fuzz.hunt import HUNTS
from pillion.ir.verify import verify_graph
from pillion.ops import parse

FOUND = sorted((Path(__file__).parent / "findings").glob("*.txt"))


def marked(path: Path) -> object:
    missing = importlib.util.find_spec("executorch") is None
    needs = {
        "cortex": [pytest.mark.qemu],
        "executorch": [pytest.mark.skipif(missing, reason="pip install 'pillion[executorch]'")],
    }
    return pytest.param(path, id=path.stem, marks=needs.get(path.stem.split("-")[0], []))


@pytest.mark.turns(3)
@pytest.mark.parametrize("path", [marked(path) for path in FOUND])
def test_earlier_findings_stay_correct(path: Path) -> None:
    hunt = HUNTS[path.name.split(".")[0]]
    hunt.holds(verify_graph(parse(path.read_text("utf-8"))))

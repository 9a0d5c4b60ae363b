# SPDX-License-Identifier: Apache-2.0
"""docs/mutants.md, from the record of the last campaign: benchmarks/mutants.json."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

RECORD = Path(__file__).resolve().parents[1] / "benchmarks" / "mutants.json"
Table = Callable[[list[str], list[list[str]]], str]

INTRO = """# Do the tests notice?

Random faults of one line are planted in a copy of the project: changed comparisons, operators and constants, conditions that are left
out, arguments that changed places, calls and statements that are gone; in Python by its syntax tree, in C by its tokens. Each is
judged by the tests of its part that run on one day (rows of slow tests take turns), for a minute at most. Faults that do not compile do not count, nor is what only people read (messages, docstrings)
changed.

**{killed} of {faults} are noticed ({percent:.1f} %); {same} others change nothing that a program computes, which leaves {rest:.1f} %.** `make mutants` draws and judges them again (seed {seed}); the record is
`benchmarks/mutants.json`. It was made at commit `{commit}`: lines below may have changed since.
"""

SURVIVORS = """## What was not noticed

Each with the reason why that is right. Those without one are not noticed by the tests that were asked; tests of other folders, or of
other days, may notice them.
"""


def mutants_page(table: Table) -> str:
    """The whole page. Raises if the campaign was not made for this version: each release has one of its own."""
    record: dict[str, Any] = json.loads(RECORD.read_text("utf-8"))
    if record["version"] != version("pillion"):
        raise SystemExit(
            f"error: benchmarks/mutants.json is of version {record['version']}, the project of {version('pillion')}\n"
            "  help  make mutants draws and judges the faults again (an hour)"
        )
    parts = record["parts"]
    faults, killed = (sum(p[key] for p in parts.values()) for key in ("faults", "killed"))
    same = sum(bool(s["reason"]) for s in record["survivors"])
    intro = INTRO.format(
        killed=killed,
        faults=faults,
        percent=100 * killed / faults,
        same=same,
        rest=100 * killed / (faults - same),
        seed=record["seed"],
        commit=record["commit"][:8],
    )
    counts = [[name, str(p["faults"]), str(p["killed"])] for name, p in sorted(parts.items())]
    survivors = [
        [f"`{s['path']}`", f"`{s['was']}`", f"`{s['became']}`", s["reason"]] for s in record["survivors"]
    ]
    return "\n".join(
        [
            intro,
            table(["part", "faults", "noticed"], counts),
            SURVIVORS,
            table(["file", "line", "became", "why"], survivors),
        ]
    )

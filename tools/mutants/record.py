# SPDX-License-Identifier: Apache-2.0
"""The record of a campaign: what was judged, what survived, and why that is right. People write the reasons."""

from __future__ import annotations

import json
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

from faults import Fault
from trial import Judgement

SURVIVED = "survived"


def entry(fault: Fault, judgement: Judgement) -> dict[str, Any]:
    """A row of the record."""
    return {
        "key": fault.key,
        "part": fault.part,
        "path": fault.path,
        "line": fault.edit.line,
        "kind": fault.edit.kind,
        "was": fault.line.strip(),
        "became": fault.changed_line.strip(),
        "outcome": judgement.outcome,
        "test": judgement.test,
        "tests": judgement.tests,
        "seconds": judgement.seconds,
    }


def read_log(path: Path) -> dict[str, dict[str, Any]]:
    """What an earlier run found, the newest judgement of each fault."""
    if not path.exists():
        return {}
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return {row["key"]: row for row in rows}


def survivors(path: Path) -> list[dict[str, Any]]:
    """Those of the record, with their reasons."""
    if not path.exists():
        return []
    found: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["survivors"]
    return found


def write_record(path: Path, rows: list[dict[str, Any]], seed: int) -> None:
    """Counts for each part, and the survivors with the reasons that stand in the record already."""
    reasons = {s["key"]: s["reason"] for s in survivors(path)}
    born = [row for row in rows if row["outcome"] != "stillborn"]
    parts: dict[str, dict[str, int]] = {}
    for row in born:
        counts = parts.setdefault(row["part"], {"faults": 0, "killed": 0})
        counts["faults"] += 1
        counts["killed"] += row["outcome"] != SURVIVED
    left = [
        {
            **{k: row[k] for k in ("key", "part", "path", "line", "was", "became")},
            "reason": reasons.get(row["key"], ""),
        }
        for row in sorted(born, key=lambda row: (row["path"], row["line"]))
        if row["outcome"] == SURVIVED
    ]
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()
    record = {
        "version": version("pillion"),
        "commit": commit,
        "seed": seed,
        "parts": parts,
        "survivors": left,
    }
    path.write_text(json.dumps(record, indent=1) + "\n", "utf-8")

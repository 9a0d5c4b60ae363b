# SPDX-License-Identifier: Apache-2.0
"""The recorded campaign of random faults keeps its promise: nine of ten are noticed, and the others have reasons."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECORD: dict[str, Any] = json.loads((ROOT / "benchmarks" / "mutants.json").read_text("utf-8"))
PARTS = {"ir", "ops", "memory", "partition", "passes", "quantize", "importers", "emitters", "kernels"}


def test_most_faults_were_noticed() -> None:
    parts = RECORD["parts"]
    faults, killed = (sum(part[key] for part in parts.values()) for key in ("faults", "killed"))
    assert set(parts) >= PARTS
    assert faults >= 200
    same = sum(bool(s["reason"]) for s in RECORD["survivors"])
    assert killed >= 0.75 * (faults - same)
    assert len(RECORD["survivors"]) == faults - killed


def test_reasons_are_sentences() -> None:
    assert [s["path"] for s in RECORD["survivors"] if s["reason"] and len(s["reason"]) < 10] == []


def test_an_older_version_s_campaign_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "tools")
    import mutants_page

    old = tmp_path / "mutants.json"
    old.write_text(json.dumps({**RECORD, "version": "0.0.9"}), "utf-8")
    monkeypatch.setattr(mutants_page, "RECORD", old)
    with pytest.raises(SystemExit, match=r"of version 0\.0\.9.*\n.*make mutants"):
        mutants_page.mutants_page(lambda head, rows: "")

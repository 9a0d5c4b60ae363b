# SPDX-License-Identifier: Apache-2.0
"""The example of the guide, run as it stands there; and what the command says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from small_sweeps import FAST, INT8, Here, int8_file, sweep_file

from pillion.cli import main

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "sweep.md"
BLOCK = re.compile(r"^```(?:python|toml)\n# (\S+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
@pytest.mark.qemu
@pytest.mark.nightly
def test_the_example_of_the_guide(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    for name, text in BLOCK.findall(GUIDE.read_text("utf-8")):
        (tmp_path / name).write_text(text)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.py", "sweep.toml"]
    sweep = [sys.executable, "-m", "pillion", "sweep", str(tmp_path / "sweep.toml")]
    done = subprocess.run([*sweep, "--json"], capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert (facts["variants"], facts["failed"]) == (8, 0)
    for row in facts["table"]:
        assert row["top1"] > 0.7
        assert row["left_out"] == ""
        assert row["instructions"] > 1000
        assert row["flash_bytes"] > row["constant_bytes"]
    written = {path.name for path in (tmp_path / "sweep.sweep").iterdir()}
    assert {"table.csv", "table.json", "pareto.svg", "pareto.png", "jobs"} <= written
    found = subprocess.run(
        [*sweep, "--search", "6", "--json"], capture_output=True, text=True, env=os.environ
    )
    assert found.returncode == 0, found.stderr
    best = [row for row in json.loads(found.stdout)["table"] if row["best"]]
    assert best
    assert all(row["ram_bytes"] <= 2048 and row["instructions"] <= 40_000 for row in best)


Said = tuple[int, str, str]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Here:
    """Workers that are this process, in place of child processes."""
    workers = Here()
    monkeypatch.setattr("pillion.sweep.local_workers.local_workers", lambda *where: workers.opened())
    return workers


def say(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: object) -> Said:
    monkeypatch.setattr(sys, "argv", ["pillion", "sweep", *map(str, arguments)])
    capsys.readouterr()
    try:
        main()
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    return code, *capsys.readouterr()


def test_a_sweep_is_shown_in_a_table(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    int8_file(tmp_path)
    text = INT8.replace("[options]", "[options]\nonly_npu = [false, true]") + FAST + "artefacts = []\n"
    file = sweep_file(tmp_path, text)
    code, out, err = say(monkeypatch, capsys, file)
    assert (code, err) == (0, "")
    assert "cortex-m0plus+int8" in out
    assert "72 variants, 36 failed" in out
    assert "4 variants failed (variant 2): `cortex-m0plus+int8` has no NPU" in out
    assert str(tmp_path / "sweep.sweep") in out
    code, again, _ = say(monkeypatch, capsys, file, "--dry-run")
    assert code == 0
    assert [again.count(f"  {state}\n") for state in ("done", "failed", "to do")] == [36, 36, 0]
    assert len(here.did) == 72


def test_exit_codes(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    int8_file(tmp_path)
    search = "[search]\nminimize = 'macs'\nat_most = { ram_bytes = 1 }\n"
    file = sweep_file(tmp_path, INT8 + FAST + "artefacts = []\n" + search)
    code, out, _ = say(monkeypatch, capsys, file, "--search", 3)
    assert code == 1
    assert "none within the limits" in out
    code, out, _ = say(monkeypatch, capsys, sweep_file(tmp_path, INT8 + "only_npu = true\n" + FAST))
    assert code == 1
    assert "36 variants, 36 failed" in out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--search", 3), "does not say what to search for"),
        (("--search", 0), "0 trials are no search"),
        (("--scheduler", "tcp://x:1", "--workers", 2), "--workers is for this computer"),
        (("-o", "/proc/nowhere"), "cannot be written"),
    ],
)
def test_invalid_options_are_refused(
    options: tuple[object, ...],
    words: str,
    here: Here,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    int8_file(tmp_path)
    code, out, err = say(monkeypatch, capsys, sweep_file(tmp_path, INT8 + FAST), *options)
    assert (code, out) == (2, "")
    assert words in err
    assert here.did == []


def test_without_the_extra_one_message_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    int8_file(tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    code, _, err = say(monkeypatch, capsys, sweep_file(tmp_path, INT8 + FAST))
    assert code == 2
    assert "pip install 'pillion[sweep]'" in err
    assert not (tmp_path / "sweep.sweep").exists()

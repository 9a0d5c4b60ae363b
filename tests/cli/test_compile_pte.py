# SPDX-License-Identifier: Apache-2.0
"""`pillion compile -o x.pte` and `-o x.tflite`: what is said about the file."""

from __future__ import annotations

from pathlib import Path

import pytest
from shell import Call

from pillion.emitters.pte.file_facts import facts_of

NET = Path(__file__).with_name("small_net.py")


@pytest.mark.torch
def test_the_summary_is_that_of_the_file(tmp_path: Path, pillion: Call) -> None:
    said = {}
    for runtime in ("1.4", "1.5"):
        path = tmp_path / f"{runtime}.pte"
        words = ("-m", f"{NET}:Net", "-t", "cortex-m33", "-q", "-o", path, "--runtime", runtime, "--json")
        said[runtime] = pillion("compile", *words).facts
        facts = facts_of(path.read_bytes())
        assert said[runtime]["file_bytes"] == path.stat().st_size
        assert said[runtime]["arena_bytes"] == facts.arena_bytes > 0
        assert (said[runtime]["kernel_calls"], said[runtime]["delegate_calls"]) == (facts.kernel_calls, 0)
        assert said[runtime]["runtime"] == f"ExecuTorch {runtime}"
        assert all("::" in operator for operator in said[runtime]["operators"])
    assert (tmp_path / "1.4.pte").read_bytes() != (tmp_path / "1.5.pte").read_bytes()


@pytest.mark.torch
def test_of_a_tflite_file_its_size_is_said(tmp_path: Path, pillion: Call) -> None:
    path = tmp_path / "net.tflite"
    said = pillion("compile", "-m", f"{NET}:Net", "-t", "cortex-m33", "-q", "-o", path, "--json").facts
    assert said["file_bytes"] == path.stat().st_size
    assert "arena_bytes" not in said


def test_unknown_runtimes_are_refused_before_any_work(tmp_path: Path, pillion: Call) -> None:
    answer = pillion(
        "compile", "-m", "ds_cnn", "-t", "cortex-m33", "-q", "-o", tmp_path / "x.pte", "--runtime", "2"
    )
    assert answer.code == 2
    assert "1.4, 1.5" in answer.err
    assert not list(tmp_path.iterdir())

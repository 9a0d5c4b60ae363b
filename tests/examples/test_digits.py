# SPDX-License-Identifier: Apache-2.0
"""The example of digits in its short form: real data, trained and quantized both ways, compiled, on emulated boards."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "digits"


@pytest.mark.turns(20)
@pytest.mark.slow
def test_digits(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    for file in FOLDER.glob("*.py"):  # a test may have imported a file of the same name from elsewhere
        monkeypatch.delitem(sys.modules, file.stem, raising=False)
    import digits
    import forms

    rows = {(row.network, row.target, row.way): row for row in digits.main(["--quick"])}
    assert len(rows) == 8
    assert capsys.readouterr().out.count("| imxrt700 |") == 4
    for row in rows.values():
        assert row.board_same_bytes == row.board_images == (3 if forms.has_boards() else 0)
    for target in digits.TARGETS:
        small = [rows["small", target, way] for way in ("PTQ", "QAT")]
        ptq, qat = (rows["unbalanced stack", target, way] for way in ("PTQ", "QAT"))
        assert all(row.float_accuracy > 0.95 for row in rows.values()), rows
        assert all(row.compiled_accuracy > 0.95 and row.same_class > 0.98 for row in small), rows
        assert qat.compiled_accuracy > ptq.compiled_accuracy + 0.01, rows
        assert qat.compiled_accuracy > qat.float_accuracy - 0.05, rows
        assert qat.same_class > 0.95, rows

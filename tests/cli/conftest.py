# SPDX-License-Identifier: Apache-2.0
"""The command line, called in this process as a shell would call it."""

from __future__ import annotations

import sys

import pytest
from shell import Answer, Call

from pillion.cli import main


@pytest.fixture
def pillion(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    def call(*arguments: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["pillion", *map(str, arguments)])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        return Answer(code, *capsys.readouterr())

    return call

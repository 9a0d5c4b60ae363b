# SPDX-License-Identifier: Apache-2.0
"""Names from files and command lines are shown by a terminal, and never obeyed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from shell import Call

from pillion.cli import console
from pillion.errors import PillionError, escape_controls

HOSTILE = "a\x1b]0;b\x07\x9bc\u202ed\re"
SPELLED = r"a\x1b]0;b\x07\x9bc\u202ed\re"
COMMANDS = (
    ["compile", HOSTILE, "-t", "cortex-m33"],
    ["compile", f"{HOSTILE}.tflite", "-t", "cortex-m33"],
    ["compile", f"{HOSTILE}.py:Net", "-t", "cortex-m33"],
    ["compile", "ds_cnn", "-t", HOSTILE],
    ["run", f"{HOSTILE}.pte"],
    ["run", "damaged.tflite", "--on", HOSTILE],
    ["eval", "small.tflite", "-t", "cortex-m33", "-d", HOSTILE],
    ["eval", "small.tflite", "-t", "cortex-m33", "-d", f"{HOSTILE}.npz"],
    ["sweep", "sweep.toml"],
    ["sweep", f"{HOSTILE}.toml"],
    ["ops", "--device", HOSTILE],
    [HOSTILE],
    ["compile", f"--{HOSTILE}"],
)


@pytest.mark.parametrize("command", COMMANDS, ids=range(len(COMMANDS)))
def test_no_command_lets_a_name_speak_to_the_terminal(
    command: list[str], pillion: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "damaged.tflite").write_bytes(b"\x1b\x07")
    (tmp_path / f"{HOSTILE}.tflite").write_bytes(b"\x1b\x07")
    np.savez(tmp_path / f"{HOSTILE}.npz", **{HOSTILE: np.zeros(3)})
    (tmp_path / "sweep.toml").write_text(
        '[[model]]\nsource = "ds_cnn"\n[options]\ntarget = "a\\u001b]0;b\\u0007\\u009bc\\u202ed\\re"\n'
    )
    answer = pillion(*command)
    assert answer.code == 2
    assert answer.err
    assert not set(answer.out + answer.err) & set("\x1b\x07\x9b\u202e\r")


def test_control_characters_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    assert escape_controls(HOSTILE) == SPELLED
    assert escape_controls("größe/模型 → ×\n\tx") == "größe/模型 → ×\n\tx"
    error = PillionError(HOSTILE, rule=HOSTILE, here=f"1\n{HOSTILE}", help="")
    assert str(error) == f"{SPELLED}\n  rule  {SPELLED}\n  here  1\n        {SPELLED}"
    assert error.what == HOSTILE
    console.print_facts({"name": HOSTILE, "rows": [{"op": HOSTILE}]}, as_json=False)
    console.warn(HOSTILE)
    said = capsys.readouterr()
    assert said.out == f"name  {SPELLED}\nrows:\nop\n{SPELLED}\n"
    assert said.err == f"warning: {SPELLED}\n"

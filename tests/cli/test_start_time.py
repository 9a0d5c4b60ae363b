# SPDX-License-Identifier: Apache-2.0
"""The first answer of every command comes at once: what takes long to import is not imported for it. `make bench` has the seconds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nightly import part_of

TORCH = {"torch", "torchao", "executorch", "ai_edge_litert", "sympy"}
ALL = TORCH | {"numpy", "rich.console", "flatbuffers", "pillion.compiler", "pillion.program"}
COMPILER = TORCH | {"rich.console", "pillion.compiler", "pillion.program", "pillion.emitters.pte.lower"}
"""What lists of targets and ops do without: they need the rules of the NPUs, and with them numpy."""

FIRST_ANSWERS: dict[str, tuple[int, set[str]]] = {
    "--help": (0, ALL),
    "--version": (0, ALL),
    "compile --help": (0, ALL),
    "train --help": (0, ALL),
    "run --help": (0, ALL),
    "verify --help": (0, ALL),
    "explain --help": (0, ALL),
    "models": (0, ALL),
    "models --json": (0, ALL),
    "doctor": (0, ALL),
    "doctor --json": (0, ALL),
    "new": (2, ALL),
    "targets": (0, COMPILER),
    "ops": (0, COMPILER),
    "ops --device neutron": (0, COMPILER),
    "ops --device nothing": (2, COMPILER),
    "nothing": (2, ALL),
    "compile": (2, ALL),
    "compile --nothing": (2, ALL),
    "compile -m ds_cn -t cortex-m33 -q -o out": (2, ALL),
    "compile -m gone.py:Net -t cortex-m33 -q -o out": (2, ALL),
    "compile -m gone.tflite -t cortex-m33 -o out": (2, ALL),
    "compile -m ds_cnn -t cortex-m33 -q --optimize both -o out": (2, ALL),
    "compile -m ds_cnn -t cortex-m33 -q --input-size big -o out": (2, ALL),
    "compile -m ds_cnn -t cortex-m34 -q -o out": (2, COMPILER),
    "compile -m ds_cnn -t cortex-m33 -o out": (2, COMPILER),
    "compile -m ds_cnn -t cortex-m33 -q --calibrate gone -o out": (2, COMPILER),
    "compile -m ds_cnn -t cortex-m33 -q -o out.onnx": (2, COMPILER),
    "explain -m ds_cnn -t cortex-m34": (2, COMPILER),
    "train gone.py:train -t cortex-m34 -o out": (2, COMPILER),
    "run gone": (2, COMPILER),
    "run gone.pte": (2, ALL),
    "run gone --on nothing": (2, ALL),
    "verify": (2, ALL),
    "verify gone.pte": (2, ALL),
}
"""Each with its exit code and what is not imported for it."""

PROGRAM = """
import json, sys
from pillion.cli import main
code = 0
try:
    main()
except SystemExit as end:
    code = end.code or 0
print(json.dumps([code, sorted(set(sys.modules))]), file=sys.__stdout__)
"""


@pytest.mark.turns(11)
@pytest.mark.parametrize("command", part_of(FIRST_ANSWERS, 3))
def test_light_commands_import_no_heavy_modules(command: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *command.split()], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    code, modules = json.loads(done.stdout.splitlines()[-1])
    wanted, without = FIRST_ANSWERS[command]
    assert (code, without & set(modules)) == (wanted, set())
    assert code == 0 or done.stderr.strip()
    assert list(tmp_path.iterdir()) == []

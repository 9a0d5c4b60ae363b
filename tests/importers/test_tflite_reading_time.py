# SPDX-License-Identifier: Apache-2.0
"""An int8 file becomes a project without torch, in about a second of one processor."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from net_file import NetFile, same_padding_conv

MOST_SECONDS = 3.0
"""Of one processor: 1.0 was measured, on a computer that did other things too."""
PROGRAM = """
import json, sys, time
from pillion.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print(json.dumps([time.process_time(), sorted(sys.modules)]), file=sys.__stdout__)
"""


@pytest.mark.turns(3)
def test_no_torch_is_imported_and_it_is_quick(tmp_path: Path) -> None:
    net = NetFile(1)
    x = net.input(1, 32, 32, 3)
    for channels in (16, 32, 64, 64):
        x = same_padding_conv(net, x, channels)
    file = tmp_path / "kws.tflite"
    file.write_bytes(net.bytes(x))
    command = ["compile", "-m", str(file), "-t", "cortex-m33", "-o", str(tmp_path / "fw")]
    done = subprocess.run([sys.executable, "-c", PROGRAM, *command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    seconds, modules = json.loads(done.stdout.splitlines()[-1])
    assert {"torch", "torchao", "executorch", "ai_edge_litert"} & set(modules) == set()
    assert seconds < MOST_SECONDS
    assert (tmp_path / "fw").is_dir()

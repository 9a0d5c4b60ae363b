# SPDX-License-Identifier: Apache-2.0
"""The generated pages describe the checkout that their generator lies in, whichever one is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = "import make_docs\nprint(make_docs.help_of('targets'))\nprint(make_docs.ops_page())"


@pytest.mark.turns(5)
def test_another_checkout_describes_itself(tmp_path: Path) -> None:
    for folder in ("src", "tools", "kernels"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    changed = {
        "cli/list_commands.py": ("List the chips", "Name the chips"),
        "ops/softmax.py": ('    """', '    """Well. '),
    }
    for name, (old, new) in changed.items():
        path = tmp_path / "src" / "pillion" / name
        path.write_text(path.read_text("utf-8").replace(old, new), "utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", PAGE],
        cwd=tmp_path / "tools",
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Name the chips and cores" in done.stdout
    assert "Well. " in done.stdout

# SPDX-License-Identifier: Apache-2.0
"""Plug-ins as users have them: the package in examples/plugin is installed, and processes of their own load it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugin"
SOURCE = Path(__file__).parents[2] / "src"


def python(folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs Python with the packages of a folder installed."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (folder, SOURCE)))}
    return subprocess.run(
        [sys.executable, *map(str, arguments)], env=environment, capture_output=True, text=True, cwd=folder
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    copy = shutil.copytree(EXAMPLE, folder / "source")
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check")
    made = python(folder, "-m", "pip", "install", *options, "--target", folder / "site", copy)
    assert made.returncode == 0, made.stderr
    return folder / "site"


@pytest.mark.turns(10)
def test_a_model_with_an_op_of_a_plugin_has_the_bytes_of_its_reference(installed: Path) -> None:
    made = python(installed, EXAMPLE / "pulse.py")
    assert (made.returncode, made.stdout) == (0, "2 median filters, 0 bytes differ\n"), made.stderr


@pytest.mark.turns(5)
def test_commands_list_targets_and_ops_of_plugins(installed: Path) -> None:
    listed = {
        words: python(installed, "-m", "pillion", *words.split()).stdout
        for words in ("targets", "ops", "ops --pytorch", "doctor")
    }
    assert "pulse-belt" in listed["targets"]
    assert "median3" in listed["ops"]
    assert "median::median3" in listed["ops --pytorch"]
    assert "pillion-median 1.0" in listed["doctor"]
    asked = "import pillion; print('pulse-belt' in pillion.REGISTRY.targets, pillion.REGISTRY.plugins)"
    assert python(installed, "-c", asked).stdout == "True ['pillion-median 1.0']\n"


FAILING = {
    "raises": ("def register(registry): registry.add_target(None)", "AttributeError"),
    "takes a name that is taken": (
        "from pillion.targets import find_target\n"
        "def register(registry): registry.add_target(find_target('cortex-m3'))",
        "PillionError: there is a target `cortex-m3+int8` already",
    ),
    "is not there": ("", "AttributeError"),
}


@pytest.mark.turns(3)
@pytest.mark.parametrize("why", FAILING)
def test_a_plugin_that_fails_is_named(why: str, tmp_path: Path) -> None:
    code, here = FAILING[why]
    (tmp_path / "broken.py").write_text(code)
    record = tmp_path / "broken_belt-2.5.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-belt\nVersion: 2.5\n")
    (record / "entry_points.txt").write_text("[pillion.plugins]\nbelt = broken:register\n")
    ran = python(tmp_path, "-m", "pillion", "targets")
    assert ran.returncode == 2
    for words in (
        "the plug-in `belt` cannot be loaded",
        "broken-belt 2.5",
        here,
        "pip uninstall broken-belt",
    ):
        assert words in ran.stderr

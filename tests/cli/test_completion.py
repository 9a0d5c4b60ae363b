# SPDX-License-Identifier: Apache-2.0
"""Shells complete commands, options and their values: by the protocol that shells speak, and in bash itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pillion import zoo
from pillion.boards.board import BOARDS
from pillion.devices.cortex_m import CORES
from pillion.targets import TARGETS

ASK = "import sys; from pillion.cli import main; sys.argv = ['pillion']; main()"


def completed(line: str, folder: Path) -> list[str]:
    """What a shell is told of a line whose last word is not finished."""
    words = line.split(" ")
    environment = {
        **os.environ,
        "_PILLION_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-c", ASK], env=environment, cwd=folder, capture_output=True, text=True
    )
    assert done.stderr == ""
    return done.stdout.split()


MODELS = [name for model in zoo.MODELS.values() for name in (model.name, *model.aliases)]
BARE_TARGETS = [name.removesuffix("+int8") for name in TARGETS]


@pytest.mark.turns(17)
@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("pillion ver", ["verify"]),
        ("pillion compile --cal", ["--calibrate"]),
        ("pillion compile -m ", MODELS),
        ("pillion compile --model mobilenet_v2", ["mobilenet_v2"]),
        ("pillion compile ", MODELS),
        ("pillion explain mobilenet_v2", ["mobilenet_v2"]),
        ("pillion compile nets/", ["nets/deep/", "nets/net.py", "nets/net.tflite"]),
        ("pillion verify nets/deep/", ["nets/deep/net.pte"]),
        ("pillion train loop.py:train nets/n", ["nets/net.py", "nets/net.tflite"]),
        ("pillion compile -m nets/", ["nets/deep/", "nets/net.py", "nets/net.tflite"]),
        ("pillion compile -m ds_cnn -t ", BARE_TARGETS),
        ("pillion verify -t cortex-m55+", ["cortex-m55+int8", "cortex-m55+nomve", "cortex-m55+nomve+int8"]),
        ("pillion explain -t imx", ["imxrt700", "imxrt700cm"]),
        ("pillion run fw --on ", ["reference", "host", *BOARDS]),
        ("pillion run fw --on mps3", ["mps3-an547"]),
        ("pillion run nets/deep/", ["nets/deep/net.pte"]),
        ("pillion ops --device neutron-n", ["neutron-n3-64", "neutron-n1-16"]),
        ("pillion ops --device cortex-m", list(CORES)),
        ("pillion compile --optimize ", ["speed", "size"]),
        ("pillion compile --io-layout n", ["nchw", "nhwc"]),
        ("pillion compile --io-dtype i", ["int8", "int16"]),
        ("pillion compile --runtime ", ["1.4", "1.5"]),
        ("pillion compile -m no-such-model", []),
    ],
)
def test_the_protocol(line: str, values: list[str], tmp_path: Path) -> None:
    (tmp_path / "nets" / "deep").mkdir(parents=True)
    for name in ("net.py", "net.tflite", "net.txt", ".hidden.py", "deep/net.pte", "deep/net.c"):
        (tmp_path / "nets" / name).touch()
    found = completed(line, tmp_path)
    assert set(values) <= set(found)
    typed = line.split(" ")[-1]
    assert all(value.startswith(typed) for value in found)
    if typed and "ops" not in line:
        assert sorted(found) == sorted(values)


def test_completing_a_missing_folder_is_no_error(tmp_path: Path) -> None:
    assert completed("pillion compile -m gone/away/", tmp_path) == []


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """An environment in which `pillion` is that of this checkout, with a home of its own."""
    if shutil.which("bash") is None:
        pytest.skip("no bash")
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "pillion"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m pillion "$@"\n')
    program.chmod(0o755)
    path = os.pathsep.join([str(program.parent), os.environ["PATH"]])
    return {**os.environ, "HOME": str(tmp_path), "PATH": path, "SHELL": "/bin/bash"}


def test_bash_completes_after_the_installation(shell: dict[str, str], tmp_path: Path) -> None:
    install = subprocess.run(
        ["pillion", "--install-completion", "bash"],
        env={**shell, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
        capture_output=True,
        text=True,
    )
    assert install.returncode == 0, install.stderr
    assert "bash completion installed" in install.stdout
    press_tab = (
        "source ~/.bashrc; COMP_WORDS=(pillion compile -m mobilenet_v3_); COMP_CWORD=3;"
        '_pillion_completion pillion; echo "${COMPREPLY[@]}"; complete -p pillion'
    )
    done = subprocess.run(["bash", "-c", press_tab], env=shell, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == "mobilenet_v3_small"
    assert "_pillion_completion pillion" in done.stdout


@pytest.mark.turns(2)
@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_scripts_for_shells_are_shown(name: str, shell: dict[str, str]) -> None:
    done = subprocess.run(
        ["pillion", "--show-completion", name],
        env={**shell, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "_PILLION_COMPLETE" in done.stdout

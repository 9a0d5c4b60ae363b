# SPDX-License-Identifier: Apache-2.0
"""`.pte` files on the command line: our own and ExecuTorch's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from shell import Call

NET = Path(__file__).with_name("small_net.py")
FOREIGN = Path(__file__).parents[1] / "importers" / "foreign" / "res_m55.pte"


@pytest.fixture
def file(tmp_path: Path, pillion: Call) -> Path:
    path = tmp_path / "net.pte"
    assert pillion("compile", "-m", f"{NET}:Net", "-t", "cortex-m33", "-q", "-o", path).code == 0
    return path


@pytest.mark.slow
@pytest.mark.torch
def test_our_own_run_explain_and_become_firmware(file: Path, tmp_path: Path, pillion: Call) -> None:
    outputs = [tmp_path / "a.npy", tmp_path / "b.npy"]
    for on, path in zip(("reference", "host"), outputs, strict=True):
        assert pillion("run", file, "--on", on, "-o", path).code == 0
    np.testing.assert_array_equal(*map(np.load, outputs))
    assert pillion("explain", "-m", file, "-t", "imxrt700", "--json").facts["ops"]
    folder = tmp_path / "firmware"
    assert pillion("compile", "-m", file, "-t", "cortex-m33", "-o", folder).code == 0
    assert pillion("run", folder, "-o", outputs[1]).code == 0
    np.testing.assert_array_equal(*map(np.load, outputs))


@pytest.mark.slow
@pytest.mark.torch
def test_a_board_with_another_core_is_refused_in_one_line(file: Path, pillion: Call) -> None:
    answer = pillion("run", file, "--on", "mps3-an547")
    assert answer.code == 2
    assert (
        answer.err.splitlines()[0]
        == f"error: {file} was compiled for cortex-m33, and mps3-an547 has a cortex-m55"
    )


def test_programs_of_others(tmp_path: Path, pillion: Call) -> None:
    facts = pillion("run", FOREIGN, "--on", "reference", "--json").facts
    assert facts["outputs"][0]["shape"] == [1, 5]
    rows = pillion("explain", "-m", FOREIGN, "-t", "cortex-m4", "--json").facts["ops"]
    assert {"conv2d", "depthwise_conv2d", "linear", "softmax"} <= {row["kind"] for row in rows}
    folder = tmp_path / "firmware"
    assert pillion("compile", "-m", FOREIGN, "-t", "cortex-m4", "-o", folder).code == 0
    assert (folder / "model/model.c").is_file()


def test_instructions_are_counted_on_boards_only(pillion: Call) -> None:
    for on in ("reference", "executorch", "host"):
        assert pillion("run", FOREIGN, "--on", on, "--profile").code == 2


def test_no_program(tmp_path: Path, pillion: Call) -> None:
    for name, content in (
        ("empty.pte", b""),
        ("text.pte", b"hello, world" * 9),
        ("cut.pte", FOREIGN.read_bytes()[:999]),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        for command in (("run", path), ("explain", "-m", path, "-t", "cortex-m4")):
            answer = pillion(*command)
            assert answer.code == 2
            assert answer.err.startswith("error: ")
            assert "Traceback" not in answer.err
    assert pillion("run", tmp_path / "none.pte").code == 2

# SPDX-License-Identifier: Apache-2.0
"""`pillion verify` on files and folders: what it prints, and how it ends."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import numpy as np
import pytest
from shell import Call

from faulty_executors import net, program, with_segment
from pillion import compiled_program as programs
from pillion.emitters.pte import emit
from pillion.emitters.segments import host_delegate_payloads
from pillion.errors import PillionError
from pillion.host_io.atomic_files import Content, content_chunks
from pillion.run import verify as verifying

pytestmark = pytest.mark.slow


@pytest.fixture
def pte(tmp_path: Path) -> Path:
    """A small program for a core that no board has."""
    path = tmp_path / "net.pte"
    sound = program(net(), "cortex-m0plus")
    path.write_bytes(emit(sound.graph, sound.target.core, payloads=host_delegate_payloads(sound.graph)))
    return path


def rows(facts: dict[str, list[dict[str, object]]]) -> dict[object, dict[str, object]]:
    return {row["executor"]: row for row in facts["executors"]}


def test_a_file_is_verified_for_its_own_core(pte: Path, pillion: Call) -> None:
    facts = pillion("verify", pte, "--json", "--samples", 2).facts
    assert facts["target"] == "cortex-m0plus+int8"
    found = rows(facts)
    assert found["reference"]["ran"]
    assert found["host"]["ran"]
    assert "cortex-m0plus" in str(found["board"]["note"])
    assert found["executorch"]["ran"] == (importlib.util.find_spec("executorch") is not None)
    assert {pair["bytes_different"] for pair in facts["pairs"]} == {0}


def test_verify_lists_skipped_executors(pte: Path, pillion: Call) -> None:
    answer = pillion("verify", pte, "--samples", 1)
    assert answer.code == 0
    assert re.search(r"^litert +– +– +– +skipped: .*--target imxrt700", answer.out, re.MULTILINE)
    assert "give the same bytes" in answer.out


def test_inputs_may_be_given(pte: Path, tmp_path: Path, pillion: Call) -> None:
    np.save(tmp_path / "x.npy", np.zeros((1, 5, 4, 3), np.float32))
    assert pillion("verify", pte, "--input", tmp_path / "x.npy", "--json").facts["samples"] == 1
    np.save(tmp_path / "x.npy", np.zeros(7, np.float32))
    refused = pillion("verify", pte, "--input", tmp_path / "x.npy")
    assert refused.code == 2
    assert "does not fit" in refused.err


def test_a_difference_is_explained_and_ends_in_exit_code_1(
    pte: Path, monkeypatch: pytest.MonkeyPatch, pillion: Call
) -> None:
    true_files = programs.project_files

    def files(*arguments: object) -> dict[str, Content]:
        made = true_files(*arguments)  # type: ignore[arg-type]  # passed on
        place = next(path for path in ("host/weights.c", "model/weights.c") if path in made)
        weights = b"".join(content_chunks(made[place])).decode()
        made[place] = re.sub(r"(_op2_bias\[\d+\] = {\s*)-?\d+", r"\g<1>7777", weights)
        return made

    monkeypatch.setattr(programs, "project_files", files)
    answer = pillion("verify", pte, "--samples", 1)
    assert answer.code == 1
    assert re.search(r"host differs first at depthwise_conv2d `.*second", answer.out)
    assert "accumulator" in answer.out
    assert "rounded half up" in answer.out
    facts = json.loads(pillion("verify", pte, "--samples", 1, "--json").out)
    (found,) = facts["differences"]
    assert found["steps"][-1]["value"] == found["reference"] != found["got"]


def test_a_file_that_was_changed_is_verified_by_its_calls(pte: Path, pillion: Call) -> None:
    bias = next(v for v in net().constants if v.name == "last_bias").constant.tobytes()
    pte.write_bytes(pte.read_bytes().replace(bias[:4], (123456).to_bytes(4, "little"), 1))
    answer = pillion("verify", pte, "--samples", 1)
    assert answer.code == 0
    assert "was changed after Pillion wrote it" in answer.err


@pytest.mark.qemu
@pytest.mark.nightly
def test_another_core_may_be_asked_for(tmp_path: Path, pillion: Call) -> None:
    sound, path = program(with_segment(), "imxrt700"), tmp_path / "net.pte"
    path.write_bytes(emit(sound.graph, sound.target.core, payloads=host_delegate_payloads(sound.graph)))
    assert rows(pillion("verify", path, "--json").facts)["mps2-an505"]["ran"]
    assert rows(pillion("verify", path, "--json", "-t", "cortex-m55").facts)["mps3-an547"]["ran"]


@pytest.mark.qemu
def test_a_project_is_verified_on_its_board(tmp_path: Path, pillion: Call) -> None:
    folder = program(net(), "cortex-m33").firmware(tmp_path / "fw")
    assert set(rows(pillion("verify", folder, "--json", "--samples", 1).facts)) == {"host", "mps2-an505"}


@pytest.mark.turns(3)
@pytest.mark.qemu
@pytest.mark.parametrize(("target", "board"), [("cortex-m0plus", "microbit"), ("cortex-m85", "mps3-an547")])
def test_a_project_for_a_core_without_a_board_is_verified_on_one_that_runs_it(
    target: str, board: str, tmp_path: Path, pillion: Call
) -> None:
    folder = program(net(), target).firmware(tmp_path / "fw")
    facts = pillion("verify", folder, "--json", "--samples", 1).facts
    assert {name for name, row in rows(facts).items() if row["ran"]} == {"host", board}


def test_verify_without_a_second_executor_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pillion: Call
) -> None:
    def no_board(on: str) -> None:
        if on != "host":
            raise PillionError("no emulator was found", rule="", here="", help="sudo apt-get install qemu")

    monkeypatch.setattr(verifying, "require_tools", no_board)
    answer = pillion("verify", program(net(), "cortex-m0plus").firmware(tmp_path / "fw"), "--samples", 1)
    assert answer.code == 2
    assert "error: there is nothing to compare `net` with" in answer.err
    for part in ("rule", "here  host ran; no emulator was found", "help  sudo apt-get install qemu"):
        assert part in answer.err


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ([], "a program has to be named"),
        (["x.pte", "-m", "ds_cnn"], "x.pte and ds_cnn are two models"),
        (["-m", "ds_cnn"], "no chip or core"),
        (["missing.pte"], "cannot be read"),
        (["missing"], "missing"),
    ],
)
def test_invalid_arguments_are_refused(arguments: list[str], what: str, pillion: Call) -> None:
    answer = pillion("verify", *arguments)
    assert answer.code == 2
    assert what in answer.err
    assert "help" in answer.err


@pytest.mark.turns(3)
@pytest.mark.slow
@pytest.mark.parametrize("name", ["acts_m55", "bmm_m55", "mlp_m33"])
def test_programs_of_executorchs_own_flow(name: str, pillion: Call) -> None:
    path = Path(__file__).parents[1] / "importers" / "foreign" / f"{name}.pte"
    assert "--target" in pillion("verify", path).err
    found = rows(pillion("verify", path, "-t", "cortex-m0plus", "--json").facts)
    assert found["host"]["ran"]
    assert found["executorch"]["ran"] == (importlib.util.find_spec("executorch") is not None)

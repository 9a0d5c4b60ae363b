# SPDX-License-Identifier: Apache-2.0
"""The commands as a newcomer types them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from shell import Call, refused

from nightly import part_of
from pillion.ops import ALL_OPS
from pillion.targets import TARGETS
from pillion.zoo import MODELS

NET = Path(__file__).with_name("small_net.py")


@pytest.fixture
def project(tmp_path: Path, pillion: Call) -> Path:
    folder = tmp_path / "project"
    assert pillion("compile", "-m", f"{NET}:Net", "-t", "cortex-m33", "-q", "-o", folder).code == 0
    return folder


@pytest.mark.parametrize(
    "command", ["", "compile", "run", "explain", "verify", "train", "targets", "models", "ops"]
)
def test_every_command_explains_itself(command: str, pillion: Call) -> None:
    answer = pillion(*([command] if command else []), "--help")
    assert answer.code == 0
    assert "Usage: pillion" in answer.out


def test_help_comes_without_torch() -> None:
    program = "import sys; from pillion.cli import main\nsys.argv[1:] = ['--help']\ntry: main()\nexcept SystemExit: pass\n"
    check = program + "assert not {'torch', 'numpy', 'rich.live'} & set(sys.modules), 'slow imports'"
    subprocess.run([sys.executable, "-c", check], check=True, stdout=subprocess.DEVNULL)


def test_ops_are_known_by_line_and_module(project: Path, pillion: Call) -> None:
    conv = next(line for line in (project / "model/model.c").read_text().splitlines() if ": conv2d " in line)
    assert conv.endswith("small_net.py:15 conv */")
    rows = pillion(
        "explain", f"{Path(__file__).parent / 'small_net.py'}:Net", "-t", "cortex-m33", "--json"
    ).facts
    assert {"small_net.py:15 conv", "small_net.py:16 linear"} <= {op["source"] for op in rows["ops"]}


def test_reference_executor_refuses_a_c_project(project: Path, pillion: Call, tmp_path: Path) -> None:
    data = tmp_path / "x.npz"
    np.savez(data, x=np.zeros((1, 3, 9, 7), np.float32), y=[0])
    for command in (["run", project, "--on", "reference"], ["eval", project, "-d", data, "--on", "litert"]):
        answer = pillion(*command)
        refused(answer, "a C project does not run on", "--on host")


def test_a_program_has_the_name_that_is_given(pillion: Call, tmp_path: Path) -> None:
    net = f"{Path(__file__).parent / 'small_net.py'}:Net"
    facts = pillion(
        "compile", net, "-t", "cortex-m33", "-q", "--name", "my net", "-o", tmp_path / "fw", "--json"
    ).facts
    assert facts["model"] == "my_net"
    assert "my_net_run(" in (tmp_path / "fw/model/model.h").read_text()


@pytest.mark.turns(2)
def test_compile_and_run(project: Path, tmp_path: Path, pillion: Call) -> None:
    x, y = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(x, np.random.default_rng(1).standard_normal((1, 3, 9, 7)).astype(np.float32))
    facts = pillion("run", project, "--input", x, "--output", y, "--json").facts
    assert facts["on"] == "host"
    assert facts["outputs"][0]["shape"] == list(np.load(y).shape) == [1, 5]


@pytest.mark.turns(2)
@pytest.mark.qemu
def test_the_board_gives_the_bytes_of_this_computer(project: Path, tmp_path: Path, pillion: Call) -> None:
    x, here, there = (tmp_path / name for name in ("x.npy", "here.npy", "there.npy"))
    np.save(x, np.random.default_rng(1).standard_normal((1, 3, 9, 7)).astype(np.float32))
    assert pillion("run", project, "-i", x, "-o", here).code == 0
    board = pillion("run", project, "-i", x, "-o", there, "--on", "mps2-an505", "--profile", "--json").facts
    assert here.read_bytes() == there.read_bytes()
    assert all(region["predicted"] == region["found"] for region in board["regions"])
    assert board["instructions"] == sum(op["instructions"] for op in board["ops"])
    assert all(op["why"] for op in board["ops"])
    assert {op["source"].partition(" ")[2] for op in board["ops"] if op["macs"]} == {"conv", "linear"}
    text = pillion("run", project, "-i", x, "--on", "mps2-an505", "--profile").out
    assert "instructions" in text
    assert "conv2d" in text


def test_a_wrong_input_is_refused(project: Path, tmp_path: Path, pillion: Call) -> None:
    np.save(tmp_path / "x.npy", np.zeros((1, 3, 9, 8), np.float32))
    answer = pillion("run", project, "--input", tmp_path / "x.npy")
    assert answer.code == 2
    assert "float32[1, 3, 9, 7]" in answer.err


def test_int8_in_and_out_channels_last(tmp_path: Path, pillion: Call) -> None:
    facts = pillion(
        *("compile", "-m", f"{NET}:Net", "-t", "cortex-m55+int8", "-q", "-o", tmp_path / "out"),
        *("--io-dtype", "int8", "--io-layout", "nhwc", "--json"),
    ).facts
    assert "int8[1, 9, 7, 3]" in facts["inputs"][0]
    assert "int8[1, 5]" in facts["outputs"][0]
    assert facts["ops"] > 3


def test_two_compilations_give_the_same_bytes(tmp_path: Path, pillion: Call) -> None:
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        assert pillion("compile", "-m", f"{NET}:Net", "-t", "imxrt700", "-q", "-o", folder).code == 0
    first, second = ({p.relative_to(f): p.read_bytes() for p in f.rglob("*") if p.is_file()} for f in folders)
    assert first == second
    assert len(first) > 10


@pytest.mark.turns(2)
@pytest.mark.parametrize("name", part_of(["9 my-net v1", "pillion", "Größe", "int", "main"], 3))
def test_any_name_is_good_for_a_model(name: str, tmp_path: Path, pillion: Call) -> None:
    """C wants identifiers, and has some of its own."""
    model, folder = tmp_path / f"{name}.tflite", tmp_path / "project"
    assert pillion("compile", "-m", f"{NET}:Net", "-t", "imxrt700", "-q", "-o", model).code == 0
    assert pillion("compile", "-m", model, "-t", "imxrt700", "-o", folder).code == 0
    assert pillion("run", folder).code == 0


def test_explain_has_the_time_line_of_both_units(pillion: Call) -> None:
    facts = pillion("explain", "-m", f"{NET}:Net", "-t", "imxrt700", "--overlap", "--json").facts
    assert "cycles instead of" in facts["overlap"]
    assert {row["unit"] for row in facts["timeline"]} == {"npu", "cpu"}
    assert any(row["critical"] for row in facts["timeline"])


def test_explain_has_a_row_for_every_op(pillion: Call) -> None:
    facts = pillion(
        "explain", "-m", f"{NET}:Net", "-t", "imxrt700", "--keep-on-cpu", "softmax", "--json"
    ).facts
    units = {row["kind"]: row["unit"] for row in facts["ops"]}
    assert units["conv2d"] == "npu"
    assert units["softmax"] == "cpu"
    assert facts["ops_on_npu"] + facts["ops_on_cpu"] == len(facts["ops"])
    softmax = next(row for row in facts["ops"] if row["kind"] == "softmax")
    assert (softmax["rule"], softmax["got"]) == ("user.keep_on_cpu", "softmax")
    assert all(row["because"] for row in facts["ops"])


def test_explain_and_compile_name_widths_alike(tmp_path: Path, pillion: Call) -> None:
    """Tensors of 16 bits that the user named, layers of 4 bits, and weights that samples rounded."""
    drawn = np.random.default_rng(0).standard_normal((8, 3, 9, 7)).cumsum(axis=2).astype(np.float32)
    np.savez(tmp_path / "data.npz", drawn)
    for options, wanted in (
        (("--precision", "int16"), {"tensors_of_16_bits", "layers_of_fitted_weights"}),
        (("--max-flash", "1M"), {"layers_of_4_bits", "flash_bytes", "layers_by_damage"}),
    ):
        common = (f"{NET}:Net", "-t", "cortex-m55", "--calibrate", tmp_path / "data.npz", *options, "--json")
        explained = pillion("explain", *common).facts
        assert wanted <= explained.keys(), explained.keys()
        for suffix in ("", ".plm"):
            output = tmp_path / f"{options[0].strip('-')}{suffix}"
            compiled = pillion("compile", "-q", *common, "-o", output).facts
            assert {key: explained[key] for key in wanted} == {key: compiled.get(key) for key in wanted}


def test_explain_on_a_chip_without_an_npu_names_the_kernels(pillion: Call) -> None:
    text = pillion("explain", "-m", f"{NET}:Net", "-t", "cortex-m55").out
    assert "conv2d" in text
    assert "_mve" in text


def test_only_npu_lists_the_refused_ops(pillion: Call, tmp_path: Path) -> None:
    kept = ("--only-npu", "--keep-on-cpu", "conv2d")
    answer = pillion("compile", "-m", f"{NET}:Net", "-t", "imxrt700", "-q", *kept, "-o", tmp_path / "out")
    assert answer.code == 2
    assert "user.keep_on_cpu" in answer.err
    assert not (tmp_path / "out").exists()


def test_intermediates(tmp_path: Path, pillion: Call) -> None:
    kept = tmp_path / "kept"
    for name in ("net.pte", "net.tflite"):
        out = tmp_path / name
        assert pillion("compile", "-m", f"{NET}:Net", "-t", "imxrt700", "-q", "-o", out, "-i", kept).code == 0
        assert out.stat().st_size > 1000
    names = {p.name for p in kept.iterdir()}
    assert any(name.endswith(".tflite") for name in names)
    assert {"ledger.json", "memory.json"} <= names
    assert len(json.loads((kept / "ledger.json").read_text())) > 4


def test_the_chip_with_too_little_memory_is_named(tmp_path: Path, pillion: Call) -> None:
    answer = pillion("compile", "-m", f"{NET}:wide", "-t", "mcxn947", "-q", "-o", tmp_path / "out", "--json")
    assert answer.facts["sram_bytes_needed_at_least"] > answer.facts["sram_bytes_of_chip"] == 524_288
    assert "--keep-on-cpu leaves weights in flash" in answer.err


def test_lists(pillion: Call) -> None:
    assert {row["name"] for row in pillion("targets", "--json").facts} == set(TARGETS)
    assert [row["name"] for row in pillion("models", "--json").facts] == list(MODELS)
    assert [row["op"] for row in pillion("ops", "--json").facts] == [op.kind for op in ALL_OPS]


@pytest.mark.parametrize("device", ["neutron", "neutron-n1-16", "mcxn947"])
def test_rules_of_an_npu(device: str, pillion: Call) -> None:
    rows = pillion("ops", "--device", device, "--json").facts
    assert any(row["op"] == "conv2d" and row["rule"] == "kernel" for row in rows)
    assert all(row["wants"] and row["source"] for row in rows)


@pytest.mark.parametrize("device", ["cortex-m0plus", "cortex-m33+int8", "cortex-m55"])
def test_kernels_of_a_core(device: str, pillion: Call) -> None:
    rows = pillion("ops", "--device", device, "--json").facts
    assert [row["op"] for row in rows] == [op.kind for op in ALL_OPS]
    assert all(row["kernels"] for row in rows)


def test_a_closed_pipe_is_no_error() -> None:
    done = subprocess.run(
        f"{sys.executable} -m pillion ops --device neutron | head -1",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith("op")
    assert "Traceback" not in done.stderr


@pytest.mark.turns(4)
def test_files_of_the_user_stay_and_edited_ones_ask_for_force(project: Path, pillion: Call) -> None:
    again = ("compile", "-m", f"{NET}:Net", "-t", "cortex-m33", "-q", "-o", project)
    (project / "my_app.c").write_text("int main(void) { return my_board(); }")
    (project / "src").mkdir()
    (project / "src" / "notes.txt").write_text("mine")
    assert pillion(*again).code == 0
    assert (project / "src" / "notes.txt").read_text() == "mine"
    assert pillion("run", project).code == 0
    assert subprocess.run(["make", "-s", "host"], cwd=project, capture_output=True).returncode == 0
    changed = (project / "model/model.c").read_text() + "/* mine */\n"
    (project / "model/model.c").write_text(changed)
    assert pillion("run", project).code == 0
    refused = pillion(*again)
    assert refused.code == 2
    assert "here  model/model.c: changed\n" in refused.err
    assert (project / "model/model.c").read_text() == changed
    assert pillion(*again, "--force").code == 0
    assert (project / "model/model.c").read_text() != changed
    assert (project / "my_app.c").is_file()
    assert (project / "build" / "host" / "firmware").is_file()


@pytest.mark.turns(2)
@pytest.mark.parametrize("statement", ["*(volatile int *volatile)arena = *(int *volatile)0;", "for (;;) { }"])
def test_c_that_does_not_come_back_is_an_error(statement: str, project: Path, pillion: Call) -> None:
    source = project / "host" / "model.c"
    text = source.read_text()
    body = text.index("{", text.index("void net_run(")) + 1
    source.write_text(f"{text[:body]} {statement} {text[body:]}")
    answer = pillion("run", project, "--timeout", "1")
    assert answer.code == 2
    assert answer.err.splitlines()[0].startswith("error: net ")
    assert "in op 0 of " in answer.err
    if "for" not in statement:  # it would take the minute that `verify` gives
        assert pillion("verify", project, "--samples", "1").code == 1

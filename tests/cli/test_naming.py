# SPDX-License-Identifier: Apache-2.0
"""A model is named by itself, `pillion compile ds_cnn …`, or with `-m`: never twice, never not at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from shell import Call, refused

TARGET = ("-t", "cortex-m33")
NAMED_ONCE = [
    ("compile", (*TARGET, "-q", "-o", "out/")),
    ("explain", TARGET),
    ("report", (*TARGET, "-o", "page.html")),
    ("verify", (*TARGET, "-q")),
    ("eval", (*TARGET, "-d", "data.npz")),
    ("compare", (*TARGET, "-d", "data.npz")),
]
TINY = """
import torch
from torch import nn

def Net():
    torch.manual_seed(0)
    return nn.Linear(3, 2)

def example_inputs():
    return (torch.zeros(1, 3),)
"""


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file of a model, in which commands are typed."""
    (tmp_path / "tiny.py").write_text(TINY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("command", "options"), [*NAMED_ONCE, ("train", ("-t", "x", "-o", "out/"))])
def test_two_names_are_refused(command: str, options: tuple[str, ...], pillion: Call, tiny: Path) -> None:
    loop = ("loop.py:train",) if command == "train" else ()
    answer = pillion(command, *loop, "ds_cnn", "-m", "resnet8", *options)
    refused(answer, "ds_cnn and resnet8 are two models", "ds_cnn --model resnet8", "leave one of them out")
    assert [path.name for path in tiny.iterdir()] == ["tiny.py"]


@pytest.mark.parametrize(("command", "options"), NAMED_ONCE)
@pytest.mark.parametrize("empty", [(), ("",), ("-m", "")])
def test_no_name_is_refused(
    command: str, options: tuple[str, ...], empty: tuple[str, ...], pillion: Call, tiny: Path
) -> None:
    refused(pillion(command, *empty, *options), "has to be named", "with --model")


@pytest.mark.parametrize(("command", "options"), NAMED_ONCE)
def test_model_as_argument_or_option_is_equivalent(
    command: str, options: tuple[str, ...], pillion: Call, tiny: Path
) -> None:
    by_itself = pillion(command, "no-such-model", *options)
    assert by_itself == pillion(command, "--model", "no-such-model", *options)
    assert by_itself == pillion(command, *options, "no-such-model")
    refused(by_itself)


def test_the_same_bytes_are_compiled(pillion: Call, tiny: Path) -> None:
    for name, typed in (("a", ("tiny.py:Net",)), ("b", ("-m", "tiny.py:Net"))):
        assert pillion("compile", *typed, *TARGET, "-q", "-o", f"{name}.pte").code == 0
    assert (tiny / "a.pte").read_bytes() == (tiny / "b.pte").read_bytes()
    assert "linear_f" in pillion("explain", "tiny.py:Net", *TARGET).out
    # an int8 file is a model, too
    assert pillion("compile", "a.pte", *TARGET, "-o", "fw/").code == 0
    assert (tiny / "fw" / "manifest.json").exists()


@pytest.mark.turns(12)
def test_verify_tells_models_from_programs(pillion: Call, tiny: Path) -> None:
    facts = pillion("verify", "tiny.py:Net", *TARGET, "-q", "--samples", 1, "--json").facts
    assert facts["target"] == "cortex-m33+int8"
    refused(pillion("verify", "tiny.py:Net"), "no chip or core", "--target")
    refused(pillion("verify", "resnet8"), "no chip or core", "--target")
    refused(pillion("verify", "gone.tflite"), "cannot be read")
    refused(pillion("verify", "gone_fw/"), "not a project")
    (tiny / "resnet8").mkdir()  # a folder of that name is a program, not the network of the zoo
    refused(pillion("verify", "resnet8"), "resnet8/manifest.json")
    assert pillion("compile", "tiny.py:Net", *TARGET, "-q", "-o", "fw/").code == 0
    refused(pillion("verify", "fw/", *TARGET), "fw is compiled already", "--target")

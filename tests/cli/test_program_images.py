# SPDX-License-Identifier: Apache-2.0
"""Program images on the command line: `compile -o x.plm`, `kernels`, `show`, `run`."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest
from shell import Call, refused

from pillion.emitters.image.reader import read_image

NET = Path(__file__).with_name("small_net.py")
COMPILE = ("compile", "-m", f"{NET}:Net", "-t", "cortex-m33", "-q")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("images")


@pytest.mark.torch
def test_an_image_is_for_a_kernel_set_or_refused(folder: Path, pillion: Call) -> None:
    image, kernels = folder / "net.plm", folder / "kernels"
    said = pillion(*COMPILE, "-o", image, "--json").facts
    shown = pillion("show", image, "--json").facts
    assert shown["core"] == "cortex-m33"
    assert said["file_bytes"] == image.stat().st_size == shown["file_bytes"]
    assert said["kernels"] == shown["kernels"]
    written = pillion("kernels", "--for", image, "--core", "cortex-m33", "-o", kernels, "--json").facts
    assert written["kernels"] == len(shown["kernels"])
    again = folder / "again.plm"
    pillion(*COMPILE, "--kernels", kernels / "manifest.json", "-o", again, "--json")
    assert again.read_bytes() == image.read_bytes()
    everything = folder / "all"
    assert (
        pillion("kernels", "--all", "--core", "cortex-m55", "-o", everything, "--json").facts["kernels"] > 100
    )
    other = (*COMPILE[:4], "cortex-m55", "-q", "--kernels", kernels)
    refused(pillion(*other, "-o", folder / "other.plm"), "another core", "--target cortex-m33")
    refused(pillion(*COMPILE, "--kernels", kernels, "-o", folder / "c"), "program images", ".plm")
    refused(pillion(*COMPILE, "--selftest", NET, "-o", image), "self-test")


@pytest.mark.torch
@pytest.mark.qemu
@pytest.mark.slow
def test_run_gives_the_bytes_of_the_project(tmp_path: Path, pillion: Call) -> None:
    image, project = tmp_path / "net.plm", tmp_path / "project"
    pillion(*COMPILE, "-o", image, "--json")
    pillion(*COMPILE, "-o", project, "--json")
    (wanted,) = read_image(image).inputs
    np.save(tmp_path / "x.npy", np.random.default_rng(1).standard_normal(wanted.shape).astype(np.float32))
    outputs = [tmp_path / "image.npy", tmp_path / "project.npy"]
    ran = pillion("run", image, "-i", tmp_path / "x.npy", "-o", outputs[0], "--json").facts
    assert ran["on"] == "mps2-an505"
    pillion("run", project, "-i", tmp_path / "x.npy", "-o", outputs[1], "--json")
    assert outputs[0].read_bytes() == outputs[1].read_bytes()


@pytest.mark.torch
def test_a_pte_holds_images_for_a_runtime_with_the_delegate(folder: Path, pillion: Call) -> None:
    pte, image, kernels = folder / "net.pte", folder / "same.plm", folder / "delegate"
    said = pillion(*COMPILE, "--kernels", "pillion", "-o", pte, "--json").facts
    pillion(*COMPILE, "--kernels", "pillion", "-o", image, "--json")
    assert (said["kernel_calls"], said["delegate_calls"], "operators" in said) == (0, 1, False)
    shown = pillion("show", pte, "--json").facts
    assert shown == pillion("show", image, "--json").facts
    assert said["arena_bytes"] == shown["arena_bytes"]
    command = ("kernels", "--for", pte, "--core", "cortex-m33", "-o", kernels)
    pillion(*command, "--delegate", "--json")
    assert {"PillionBackend.cpp", "CMakeLists.txt"} <= {path.name for path in kernels.iterdir()}
    again = folder / "again.pte"
    pillion(*COMPILE, "--kernels", kernels / "manifest.json", "-o", again, "--json")
    assert again.read_bytes() == pte.read_bytes()
    other = (*COMPILE[:4], "cortex-m55", "-q", "--kernels", kernels)
    refused(pillion(*other, "-o", folder / "other.pte"), "another core", "--target cortex-m33")
    default, named = folder / "plain.pte", folder / "named.pte"
    pillion(*COMPILE, "-o", default, "--json")
    pillion(*COMPILE, "--kernels", "cortex_m", "-o", named, "--json")
    assert default.read_bytes() == named.read_bytes()
    refused(pillion("run", pte, "--on", "executorch"), "does not run on executorch", "--on mps2-an505")
    (wanted,) = read_image(image).inputs
    np.savez(folder / "x.npz", np.zeros((2, *wanted.shape), np.float32))
    pillion(*COMPILE, "--kernels", "pillion", "--selftest", folder / "x.npz", "-o", again, "--json")
    assert pte.read_bytes() in again.with_suffix(".bpte").read_bytes()
    refused(pillion("show", default), "no program image", "--kernels pillion")
    refused(pillion("show", default.parent), "a folder", "--profile")
    refused(pillion(*COMPILE, "--kernels", "cortex_m", "-o", image), "says nothing about")
    refused(pillion(*COMPILE, "--kernels", "cortex", "-o", pte), "no kernels `cortex`", "pillion, or the")
    refused(pillion("verify", pte, "--seed", 7), "its own inputs", "MODEL")
    refused(pillion("compile", "-m", pte, "-t", "cortex-m55", "-o", folder / "c"), "has no graph", "images")


@pytest.mark.torch
@pytest.mark.qemu
@pytest.mark.slow
def test_a_pte_with_an_image_runs_on_a_board(tmp_path: Path, pillion: Call) -> None:
    outputs = [tmp_path / "pte.npy", tmp_path / "plm.npy"]
    for form, output in zip(("net.pte", "net.plm"), outputs, strict=True):
        pillion(*COMPILE, "--kernels", "pillion", "-o", tmp_path / form, "--json")
        ran = pillion("run", tmp_path / form, "-o", output, "--json").facts
        assert ran["on"] == "mps2-an505"
    assert outputs[0].read_bytes() == outputs[1].read_bytes()
    said = pillion("verify", tmp_path / "net.pte", "--json").facts
    assert [row["different"] for row in said["executors"]] == ["0", "0"]
    right = read_image(tmp_path / "net.plm")
    wrong = bytearray(right.content.replace(f"{right.checksums[0]:08x}".encode(), b"00000000"))
    wrong[12:16] = zlib.crc32(wrong[16:]).to_bytes(4, "little")
    (tmp_path / "wrong.plm").write_bytes(wrong)
    (tmp_path / "wrong.pte").write_bytes((tmp_path / "net.pte").read_bytes().replace(right.content, wrong))
    hostile = bytearray(right.content.replace(f"{right.checksums[0]:08x}".encode(), b"no hexa!"))
    hostile[12:16] = zlib.crc32(hostile[16:]).to_bytes(4, "little")
    (tmp_path / "hostile.plm").write_bytes(hostile)
    refused(pillion("verify", tmp_path / "hostile.plm"), "no program image", "damaged")
    for form, code in (("net.plm", 0), ("wrong.plm", 1), ("wrong.pte", 1)):
        assert pillion("verify", tmp_path / form, "--json").code == code
    npu = tmp_path / "npu.pte"
    pillion(*COMPILE[:4], "imxrt700", "-q", "--kernels", "pillion", "-o", npu, "--json")
    refused(pillion("run", npu), "does not run on an emulated board", "delegates")


@pytest.mark.torch
@pytest.mark.qemu
@pytest.mark.slow
def test_a_report_shows_the_calls_of_an_image(folder: Path, pillion: Call) -> None:
    image, page = folder / "reported.plm", folder / "image.html"
    pillion(*COMPILE, "-o", image, "--json")
    said = pillion("report", image, "-o", page, "--json").facts
    text = page.read_text()
    calls = said["calls"]
    assert [call["what"] for call in calls if call["what"] not in text] == []
    assert sum(said["instructions"][call["op"]] for call in calls) == said["measured"]["instructions"] > 0
    arena = said["arena"]
    assert arena["peak"]["bytes"] <= arena["arena_bytes"] == read_image(image).arena_bytes
    ends = [one["offset"] + one["bytes"] for one in arena["residents"]]
    assert max(ends) <= arena["arena_bytes"]
    assert {r["what"] for r in arena["residents"]} >= {
        "input",
        "output",
    }
    quick = pillion("report", image, "--no-measure", "--json").facts
    assert (quick["instructions"], quick["measured"]["instructions"]) == ([], None)
    refused(pillion("report", image, "-o", page, "--data", NET), "compiled already", "--data")
    refused(pillion("report", image, "-o", page, "--optimize", "size"), "compiled already", "--optimize")
    npu = folder / "npu.plm"
    pillion(*COMPILE[:4], "imxrt700", "-q", "-o", npu, "--json")
    refused(pillion("verify", npu), "no reference", "1 segments", "verify MODEL -t TARGET")
    assert "NPU segment 0" in {call["what"] for call in pillion("report", npu, "--json").facts["calls"]}


@pytest.mark.torch
def test_images_without_kernel_calls_are_valid(tmp_path: Path, pillion: Call) -> None:
    (tmp_path / "flat.py").write_text(
        "import torch\n\n\ndef flat():\n    return torch.nn.Flatten(), (torch.randn(1, 3, 4),)\n"
    )
    image, page = tmp_path / "flat.plm", tmp_path / "flat.html"
    command = ("compile", "-m", f"{tmp_path / 'flat.py'}:flat", "-t", "cortex-m33", "-q")
    pillion(*command, "--io-dtype", "int8", "-o", image, "--json")
    assert read_image(image).calls == ()
    facts = pillion("report", image, "-o", page, "--no-measure", "--json").facts
    assert [call["what"] for call in facts["calls"]] == ["nothing"]
    assert "nothing" in page.read_text()


def test_wrong_uses_are_refused(tmp_path: Path, pillion: Call) -> None:
    broken = tmp_path / "broken.plm"
    broken.write_bytes(b"PLM1" + bytes(200))
    for command in (
        ("show", broken),
        ("run", broken),
        ("verify", broken),
        ("report", broken, "-o", tmp_path / "r.html"),
        ("kernels", "--for", broken, "--core", "cortex-m33", "-o", tmp_path / "k"),
    ):
        refused(pillion(*command), "no program image", "format 0")
    refused(
        pillion("compile", "-m", broken, "-t", "cortex-m55", "-o", tmp_path / "c"),
        "name the model",
        "`verify`",
    )
    refused(
        pillion("kernels", "--core", "cortex-m33", "-o", tmp_path / "k"),
        "--for once for each image, or --all",
    )
    refused(pillion("kernels", "--all", "--core", "cortex-a5", "-o", tmp_path / "k"), "--core")

# SPDX-License-Identifier: Apache-2.0
"""`pillion eval` and `pillion compare`, as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from shell import Call, refused

NET = str(Path(__file__).with_name("small_net.py")) + ":Net"
TARGET = ("-t", "cortex-m55")
RNG = np.random.default_rng(0)
X = RNG.standard_normal((20, 3, 9, 7)).astype(np.float32)

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "x.npz"
    np.savez(path, x=X, y=np.arange(20) % 5)
    return path


@pytest.fixture
def project(pillion: Call, data: Path, tmp_path: Path) -> Path:
    answer = pillion("compile", "-m", NET, *TARGET, "-q", "--calibrate", data, "-o", tmp_path / "fw")
    assert answer.code == 0, answer.err
    return tmp_path / "fw"


def test_a_model_is_evaluated_beside_itself_in_float(pillion: Call, data: Path) -> None:
    answer = pillion(
        "eval", NET, *TARGET, "--calibrate", data, "--data", data, "--agree", "reference", "--json"
    )
    facts = answer.facts
    (top1,) = facts["metrics"]
    assert top1["metric"] == "top1"
    assert top1["difference"] == pytest.approx(top1["int8"] - top1["float"])
    assert facts["same_answer_as_float"] >= 0.9
    assert facts["samples"] == 20
    assert sum(map(sum, facts["confusion"])) == 20
    assert facts["agreement"] == [
        {"executor": "reference", "samples": 3, "same": 3, "bytes_different": 0, "skipped": ""}
    ]


def test_a_project_is_evaluated_on_images(pillion: Call, project: Path, tmp_path: Path) -> None:
    for name in ("0", "3"):
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(3):
            pixels = RNG.integers(0, 255, (9, 7, 3), np.uint8)
            Image.fromarray(pixels).save(tmp_path / "images" / name / f"{number}.png")
    answer = pillion("eval", project, "-d", tmp_path / "images", "--mean", "0.5", "--std", "0.5")
    assert answer.code == 0, answer.err
    assert "samples per second" in answer.out
    assert answer.out.splitlines()[-3].startswith("label \\ answer")


def test_calibration_data_is_normalized_as_the_data_is(pillion: Call, tmp_path: Path) -> None:
    (tmp_path / "images" / "1").mkdir(parents=True)
    for number in range(4):
        pixels = RNG.integers(0, 255, (9, 7, 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / "images" / "1" / f"{number}.png")
    images = tmp_path / "images"
    call = (
        "compare",
        NET,
        *TARGET,
        "--calibrate",
        images,
        "-d",
        images,
        "--mean",
        "0.5",
        "--std",
        "0.1",
        "--json",
    )
    facts = pillion(*call).facts
    assert facts["output_signal_to_noise_db"] > 30
    (image,) = [layer for layer in facts["layers"] if layer["name"] == "x"]
    assert image["signal_to_noise_db"] > 40  # nothing is cut off


def test_gates_end_with_one_and_say_which(pillion: Call, project: Path, data: Path) -> None:
    call = ("eval", project, "-d", data, "--json", "--max-ram", "1M", "--min-accuracy", "1")
    answer = pillion(*call)
    assert answer.code == 1
    gates = {gate["gate"]: gate for gate in json.loads(answer.out)["gates"]}
    assert gates["--max-ram"]["ok"]
    assert not gates["--min-accuracy"]["ok"]
    assert gates["--min-accuracy"]["found"] == json.loads(answer.out)["metrics"][0]["int8"]
    assert pillion(*call[:-1], "0").code == 0


def test_limits_of_costs_need_no_data(pillion: Call, project: Path) -> None:
    answer = pillion("eval", project, "--max-ram", "1", "--json")
    assert answer.code == 1
    (gate,) = json.loads(answer.out)["gates"]
    assert gate["found"] == json.loads(answer.out)["ram_bytes"]
    assert pillion("eval", project, "--max-ram", "1M").code == 0
    refused(pillion("eval", project), "no data to evaluate", "-d test.npz")
    refused(pillion("eval", project, "--max-ram", "1M", "--metric", "top1"), "no data to evaluate")
    refused(pillion("eval", project, "--max-ram", "1M", "--min-accuracy", "0.9"), "no data to evaluate")


@pytest.mark.qemu
def test_flash_and_instructions_are_measured_for_their_gates(
    pillion: Call, project: Path, data: Path
) -> None:
    answer = pillion(
        "eval", project, "-d", data, "--max-flash", "1M", "--max-instructions", "1", "--limit", 2
    )
    assert answer.code == 1
    rows = {line.split()[0]: line.split()[-1] for line in answer.out.splitlines() if line.startswith("--max")}
    assert rows == {"--max-flash": "yes", "--max-instructions": "no"}


def test_a_metric_of_the_users_and_its_limit(
    pillion: Call, project: Path, data: Path, tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text("def first(outputs, labels):\n    return (labels == 0).mean()\n")
    answer = pillion(
        "eval", project, "-d", data, "--metric", f"{tmp_path}/own.py:first", "--limit", 10, "--json"
    )
    assert answer.facts["metrics"] == [{"metric": "first", "int8": 0.2}]


def test_layers_are_compared(pillion: Call, data: Path, tmp_path: Path) -> None:
    call = ("compare", NET, *TARGET, "--calibrate", data, "-d", data)
    facts = pillion(*call, "--json", "-o", tmp_path / "layers.svg").facts
    assert facts["samples"] == 8
    assert {"x", "relu_default", "mean", "linear", "softmax"} == {layer["name"] for layer in facts["layers"]}
    assert (tmp_path / "layers.svg").read_text().startswith("<svg")
    shown = pillion(*call)
    assert "█" in shown.out
    assert "  help  " in shown.out


def test_two_programs_are_compared(pillion: Call, project: Path, data: Path, tmp_path: Path) -> None:
    pillion("compile", "-m", NET, "-t", "cortex-m33", "-q", "--calibrate", data, "-o", tmp_path / "n.pte")
    facts = pillion("compare", project, tmp_path / "n.pte", "-d", data, "--no-measure", "--json").facts
    rows = {row["what"]: row for row in facts["changes"]}
    assert rows["ram bytes"]["change"] == rows["ram bytes"]["second"] - rows["ram bytes"]["first"]
    assert rows["top1"]["change"] == 0
    assert facts["same_answer"] == 1


def test_unusable_data_is_refused(pillion: Call, project: Path, data: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "labels.npz", x=X, y=np.arange(20))
    np.savez(tmp_path / "nan.npz", x=X * np.nan, y=np.arange(20) % 5)
    (tmp_path / "empty").mkdir()
    refused(pillion("eval", project, "-d", tmp_path / "none.npz"), "no data at", "no such path")
    refused(pillion("eval", project, "-d", tmp_path / "empty"), "a folder with nothing")
    refused(pillion("eval", project, "-d", tmp_path / "labels.npz"), "sample 6 of", "0 to 4")
    refused(pillion("eval", project, "-d", tmp_path / "nan.npz"), "not finite", "nan")
    refused(pillion("eval", project, "-d", data, "--metric", "acc"), "no metric acc")
    gated = ("eval", project, "-d", data, "--metric", "top2", "--min-accuracy", "0.5")
    refused(pillion(*gated), "no accuracy was measured", "--metric top2")
    refused(pillion("eval", project, "-d", data, "--max-ram", "lots"), "--max-ram 256K")
    refused(pillion("eval", project, "-d", data, "--on", "hots"), "hots")
    refused(pillion("eval", project, "-d", data, "--float", project), "no model in float")
    refused(pillion("eval", project, "-d", data, "--calibrate", data), "compiled already", "--calibrate")
    refused(pillion("eval", NET, "-d", data), "no chip or core", "--target")
    refused(pillion("eval", tmp_path / "none", "-d", data, *TARGET), "none")
    refused(pillion("eval", project, "-d", data, "--classes", "a,,b"), "--classes")
    refused(pillion("eval", project, "-d", data, "--std", "x"), "--std x")


def test_invalid_comparisons_are_refused(pillion: Call, project: Path, data: Path, tmp_path: Path) -> None:
    refused(pillion("compare", project), "without data", "--data")
    refused(pillion("compare", project, "-d", data, "--float", NET), "layers", "C project")
    refused(pillion("compare", NET, *TARGET, "-d", data, "-o", tmp_path / "x.png"), "-o x.svg")
    refused(pillion("compare", project, project, "-o", tmp_path / "x.svg"), "two programs")
    pillion("compile", "-m", NET, *TARGET, "-q", "--calibrate", data, "-o", tmp_path / "n.pte")
    refused(pillion("compare", tmp_path / "n.pte", "-d", data), "--float")
    (tmp_path / "file").write_text("")
    refused(
        pillion("compare", tmp_path / "n.pte", "-d", data, "--float", NET, "-o", tmp_path / "file" / "x.svg"),
        "cannot be written",
    )


def test_a_camera_stands_before_the_model(pillion: Call, tmp_path: Path) -> None:
    camera = Path(__file__).with_name("camera.py")
    steps = ("--preprocess", f"{camera}:camera")
    for name in ("0", "3"):
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(3):
            pixels = RNG.integers(0, 255, (12, 9, 3), np.uint8)
            Image.fromarray(pixels).save(tmp_path / "images" / name / f"{number}.png")
    images = tmp_path / "images"
    answer = pillion("eval", NET, *TARGET, *steps, "--calibrate", images, "-d", images, "--json")
    assert answer.facts["same_answer_as_float"] >= 0.8
    assert answer.facts["samples"] == 6
    answer = pillion(
        "compile", "-m", NET, *TARGET, *steps, "-q", "--calibrate", images, "-o", tmp_path / "fw"
    )
    assert answer.code == 0, answer.err
    (picture,) = json.loads((tmp_path / "fw" / "manifest.json").read_text())["inputs"]
    assert (picture["dtype"], picture["shape"]) == ("uint8", [1, 3, 12, 9])
    for spec, words in (
        (f"{camera}:number", "camera.py has no function"),
        (camera, "names a module, a function"),
    ):
        output = ("-q", "-o", tmp_path / "none")
        refused(pillion("compile", "-m", NET, *TARGET, "--preprocess", spec, *output), words)

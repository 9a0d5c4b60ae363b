# SPDX-License-Identifier: Apache-2.0
"""Jobs: known by contents, done in a worker, whatever happens to them."""

from __future__ import annotations

import dataclasses
import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from small_sweeps import FAST, INT8, NET, int8_file, labelled, plan_of

import pillion
from pillion.errors import PillionError
from pillion.run.executor_list import run_project
from pillion.sweep import fingerprint, job_worker
from pillion.sweep.jobs import Job
from pillion.sweep.variants import all_jobs

ONE = '[[model]]\nsource = "net.py:Net"\n[options]\ntarget = "cortex-m33"\n'


def only_job(folder: Path, text: str, net: str = NET) -> Job:
    (job,) = all_jobs(plan_of(folder, text, net))
    return job


def test_the_key_is_that_of_the_contents(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    key = only_job(here, ONE).key
    assert only_job(there, ONE).key == key
    assert only_job(there, ONE.replace("]]\n", "]]\nname = 'other'\n", 1)).key == key
    assert only_job(there, ONE, NET + "\n").key != key
    assert only_job(there, ONE + "optimize = 'size'\n").key != key
    assert only_job(there, ONE + FAST).key != key


def test_job_keys_depend_on_imported_modules(tmp_path: Path) -> None:
    net = "from layers import Layer\nimport sizes.all\n" + NET
    (tmp_path / "sizes").mkdir()
    for name in ("layers.py", "sizes/__init__.py", "sizes/all.py"):
        (tmp_path / name).write_text("import other\nLayer = 1\n")
    (tmp_path / "other.py").write_text("")
    keys = {only_job(tmp_path, ONE, net).key}
    for number, name in enumerate(("layers.py", "other.py", "sizes/all.py"), 2):
        (tmp_path / name).write_text("Layer = 22\n")
        keys.add(only_job(tmp_path, ONE, net).key)
        assert len(keys) == number
    (tmp_path / "unused.py").write_text("Layer = 22\n")
    assert only_job(tmp_path, ONE, net).key in keys


def test_the_key_knows_the_data_the_weights_and_files_that_are_named(tmp_path: Path) -> None:
    (tmp_path / "samples").mkdir()
    for name in ("w.npz", "samples/a.npz", "more.bin"):
        (tmp_path / name).write_bytes(b"1")
    text = ONE.replace("]]\n", "]]\nweights = 'w.npz'\nfiles = ['more.bin']\n", 1) + "calibrate = 'samples'\n"
    keys = {only_job(tmp_path, text).key}
    for number, name in enumerate(("w.npz", "samples/a.npz", "more.bin"), 2):
        (tmp_path / name).write_bytes(b"22")
        keys.add(only_job(tmp_path, text).key)
        assert len(keys) == number


def test_the_key_knows_pillion_and_the_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = only_job(tmp_path, ONE)
    assert pillion.__version__ in job.pillion
    assert "torch-" in job.pillion
    assert dataclasses.replace(job, pillion="another").key != job.key
    assert dataclasses.replace(job, tools="another").key != job.key
    assert only_job(tmp_path, ONE + FAST).tools == ""


def test_missing_files_are_refused_before_the_first_job(tmp_path: Path) -> None:
    with pytest.raises(PillionError, match=r"gone\.npz is not there"):
        only_job(tmp_path, ONE + "calibrate = 'gone.npz'\n")


def test_a_job_gives_figures_and_files(tmp_path: Path) -> None:
    done = job_worker.run_job(only_job(tmp_path, ONE + FAST + "artefacts = ['c', 'pte', 'tflite']\n"))
    figures = done.result.figures
    assert figures is not None
    assert sorted(done.files) == ["net.pte", "net.tflite", "net_c.zip"]
    (tmp_path / "net.pte").write_bytes(done.files["net.pte"])
    assert pillion.load(tmp_path / "net.pte").memory.arena_bytes == figures.arena_bytes == figures.ram_bytes
    assert (figures.instructions, figures.flash_bytes, figures.stack_bytes) == (None, None, None)
    with zipfile.ZipFile(io.BytesIO(done.files["net_c.zip"])) as archive:
        archive.extractall(tmp_path / "c")
    x = np.zeros((1, 1, 7, 5), np.float32)
    (found,) = run_project(tmp_path / "c", [x]).outputs
    assert found.tobytes() == pillion.load(tmp_path / "net.pte").run(x)[0].tobytes()


def test_a_job_done_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    job = only_job(tmp_path, ONE + FAST)
    first = job_worker.run_job(job)
    job_worker._MODELS.clear()
    assert job_worker.run_job(job).files == first.files


@pytest.mark.qemu
def test_a_job_is_measured_on_the_emulated_board(tmp_path: Path) -> None:
    int8_file(tmp_path)
    text = '[[model]]\nsource = "small.tflite"\n[options]\ntarget = ["cortex-m33", "cortex-m85"]\n'
    measured, unmeasured = (job_worker.run_job(job).result for job in all_jobs(plan_of(tmp_path, text)))
    figures = measured.figures
    assert figures is not None
    assert figures.instructions
    assert figures.stack_bytes
    assert figures.flash_bytes
    assert figures.flash_bytes > figures.constant_bytes
    assert measured.left_out == {}
    assert unmeasured.figures is not None
    assert unmeasured.figures.instructions is None
    assert unmeasured.left_out == {"flash, instructions": "no emulated board has a cortex-m85"}


def test_without_tools_instructions_are_left_out_with_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    int8_file(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    fingerprint.tools_hash.cache_clear()
    try:
        job = only_job(tmp_path, '[[model]]\nsource = "small.tflite"\n[options]\ntarget = "cortex-m33"\n')
        result = job_worker.run_job(job).result
    finally:
        fingerprint.tools_hash.cache_clear()
    assert result.figures is not None
    assert result.figures.instructions is None
    assert (
        "arm-none-eabi-gcc" in result.left_out["instructions"]
        or "Cortex-M" in result.left_out["instructions"]
    )


def test_arguments_reach_factory_inputs_calibration_and_data(tmp_path: Path) -> None:
    text = (
        '[[model]]\nsource = "net.py:Net"\narguments = { width = 6, side = 9 }\n'
        '[options]\ntarget = "cortex-m33"\ncalibrate = "net.py:samples"\n'
        '[measure]\ninstructions = false\nartefacts = ["pte"]\ndata = "net.py:test"\nmetrics = ["top1", "net.py:spread"]\n'
    )
    done = job_worker.run_job(only_job(tmp_path, text))
    assert done.result.failure is None
    assert set(done.result.metrics) == {"top1", "spread"}
    (tmp_path / "net.pte").write_bytes(done.files["net.pte"])
    program = pillion.load(tmp_path / "net.pte")
    assert program.graph.inputs[0].shape == (1, 1, 9, 5)
    namespace: dict[str, object] = {}
    exec(NET, namespace)
    images, labels = namespace["test"](9)  # type: ignore[operator]  # a function of the file above
    right = [
        program.run(image[np.newaxis])[0].argmax() == label
        for image, label in zip(images, labels, strict=True)
    ]
    assert done.result.metrics["top1"] == sum(right) / 11


def test_accuracy_on_files_with_a_limit(tmp_path: Path) -> None:
    labelled(tmp_path)
    text = ONE + FAST + "data = 'data.npz'\nlimit = 4\nartefacts = []\n"
    result = job_worker.run_job(only_job(tmp_path, text)).result
    assert result.metrics["top1"] in (0, 0.25, 0.5, 0.75, 1)


@pytest.mark.parametrize(
    ("model", "net", "what", "is_lasting"),
    [
        ("arguments = { widht = 3 }", NET, "takes no argument `widht`", True),
        ("source = 'net.py:Nett'", NET, "has no Nett", True),
        ("arguments = { width = -1 }", NET, "raised ", True),
        ("", "raise SystemExit(3)", "raised SystemExit", True),
        ("", "def Net(:", "raised SyntaxError", True),
        ("input_size = 32", NET, "--input-size goes with models of the zoo", True),
        ("only_npu = true", NET, "has no NPU", True),
    ],
)
def test_failures_are_results(model: str, net: str, what: str, is_lasting: bool, tmp_path: Path) -> None:
    source = "" if model.startswith("source") else "source = 'net.py:Net'\n"
    text = f"[[model]]\nname = 'n'\n{source}{model}\n[options]\ntarget = 'cortex-m33'\n{FAST}"
    done = job_worker.run_job(only_job(tmp_path, text, net))
    assert done.result.failure is not None
    assert what in done.result.failure.what
    assert done.result.failure.help
    assert done.result.failure.is_lasting == is_lasting
    assert done.files == {}


def test_an_error_of_ours_is_an_accident(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(job: Job) -> None:
        raise ZeroDivisionError("of the compiler")

    monkeypatch.setattr(job_worker, "compile_job", broken)
    done = job_worker.run_job(only_job(tmp_path, ONE + FAST))
    assert done.result.failure is not None
    assert not done.result.failure.is_lasting
    assert "ZeroDivisionError" in done.result.failure.what
    assert "Traceback" in done.log


def test_printed_text_goes_to_the_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    done = job_worker.run_job(only_job(tmp_path, ONE + FAST, "print('hello')\n" + NET))
    assert done.log == "hello\n"
    assert capfd.readouterr().out == ""


def test_two_folders_may_have_helpers_of_one_name(tmp_path: Path) -> None:
    net = "from helper import WIDTH\n" + NET.replace("width=4", "width=WIDTH")
    arenas = []
    for width in (2, 9):
        folder = tmp_path / str(width)
        folder.mkdir()
        (folder / "helper.py").write_text(f"WIDTH = {width}\n")
        result = job_worker.run_job(only_job(folder, ONE + FAST, net)).result
        assert result.figures is not None
        arenas.append(result.figures.macs)
    assert arenas[0] < arenas[1]
    assert "helper" not in sys.modules


def test_a_worker_of_another_version_is_no_result(tmp_path: Path) -> None:
    job = dataclasses.replace(only_job(tmp_path, ONE + FAST), pillion="0.0.1")
    with pytest.raises(PillionError, match="another Pillion"):
        job_worker.run_job(job)


def test_files_that_change_while_the_sweep_runs_are_noticed(tmp_path: Path) -> None:
    job = only_job(tmp_path, ONE + FAST)
    (tmp_path / "net.py").write_text(NET + "# changed\n")
    with pytest.raises(PillionError, match="is not what it was"):
        job_worker.run_job(job)
    (tmp_path / "net.py").unlink()
    with pytest.raises(PillionError, match="is not what it was"):
        job_worker.run_job(job)


def test_a_module_that_takes_long_is_made_once(tmp_path: Path) -> None:
    net = NET.replace("super().__init__()", "super().__init__(); print('made')", 1)
    jobs = all_jobs(plan_of(tmp_path, ONE.replace('"cortex-m33"', '["cortex-m33", "cortex-m4"]') + FAST, net))
    job_worker._MODELS.clear()
    assert [job_worker.run_job(job).log for job in jobs] == ["made\n", ""]


def test_int8_files_need_no_torch(tmp_path: Path) -> None:
    int8_file(tmp_path)
    plan_of(tmp_path, INT8 + FAST)
    code = (
        "import sys\nfrom pathlib import Path\nfrom pillion.sweep import job_worker\n"
        "from pillion.sweep.sweep_file import read_plan\nfrom pillion.sweep.variants import all_jobs\n"
        f"done = job_worker.run_job(all_jobs(read_plan(Path({str(tmp_path / 'sweep.toml')!r})))[0])\n"
        "assert done.result.figures and not {'torch', 'distributed', 'optuna', 'matplotlib'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ)


PRECISION = """
precision = ["int8", "mixed", "int16"]
min_quality = "45dB"
calibrate = "net.py:samples"
[measure]
data = "net.py:test"
metrics = ["quality", "top1"]
artefacts = ["c"]
"""


@pytest.mark.qemu
def test_precision_is_an_axis_with_its_quality_and_costs(tmp_path: Path) -> None:
    """`min_quality` is for the variants that choose: the others neither fail nor are done twice."""
    net = NET.replace("def samples(side=7):\n", "def samples(side=7):\n    torch.manual_seed(2)\n").replace(
        "range(3)", "range(24)"
    )
    plan = plan_of(tmp_path, ONE + PRECISION, net)
    jobs = all_jobs(plan)
    assert [job.option("min_quality") for job in jobs] == [None, "45dB", None]
    results = [job_worker.run_job(job).result for job in jobs]
    assert [result.failure for result in results] == [None] * 3
    quality, instructions, ram, flash = (
        [result.value(name) or 0 for result in results]
        for name in ("quality", "instructions", "ram_bytes", "flash_bytes")
    )
    assert quality[0] < 45 <= quality[2]
    assert quality[0] < quality[1] <= quality[2]
    assert ram[0] <= ram[1] <= ram[2]
    assert min(instructions) > 0
    assert min(flash) > 0
    assert all(0 <= (result.value("top1") or 0) <= 1 for result in results)


def test_int8_files_have_no_float_model_to_compare_with(tmp_path: Path) -> None:
    int8_file(tmp_path)
    np.savez(tmp_path / "x.npz", x=np.zeros((2, 1, 3, 5, 2), np.float32))
    text = '[[model]]\nsource = "small.tflite"\n[options]\ntarget = "cortex-m33"\n'
    job = only_job(tmp_path, text + '[measure]\ninstructions = false\ndata = "x.npz"\nmetrics = "quality"\n')
    result = job_worker.run_job(job).result
    assert result.failure is None
    assert "quality" in result.left_out

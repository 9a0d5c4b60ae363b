# SPDX-License-Identifier: Apache-2.0
"""Self-tests: samples that fit or do not, functions that find the first wrong op and element, and bundles that ExecuTorch reads."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from shell import Call
from small_net import Net, example_inputs
from torch import Tensor, nn

import pillion as package
from nightly import in_turn, part_of
from pillion import PillionError, Program
from pillion.emitters.c import selftest_source as c_selftest
from pillion.emitters.c.project import project_files
from pillion.run.executor_list import run_folder
from pillion.run.selftest_samples import run_selftest, samples_of

NET = f"{Path(__file__).with_name('small_net.py')}:Net"
BOARDS = {"cortex-m33": "mps2-an505", "cortex-m55": "mps3-an547"}


class TwoInputs(nn.Module):
    """Two inputs of odd shapes, and two outputs."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.a, self.b = nn.Linear(7, 5), nn.Linear(3, 5)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        z = self.a(x).relu() + self.b(y)
        return z, z.sigmoid()


def two_inputs(target: str, io_dtype: str = "float32") -> Program:
    examples = (torch.randn(2, 7), torch.randn(2, 3))
    return package.compile(TwoInputs(), examples, target=target, io_dtype=io_dtype, name="two")  # type: ignore[arg-type]  # a word of few


def random(count: int) -> list[list[np.ndarray]]:
    rng = np.random.default_rng(5)
    return [
        [rng.standard_normal(shape).astype(np.float32) for shape in ((2, 7), (2, 3))] for _ in range(count)
    ]


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    """Two images for the small net."""
    file = tmp_path / "samples.npz"
    np.savez(file, np.random.default_rng(2).standard_normal((2, 3, 9, 7)).astype(np.float32))
    return file


def plant(folder: Path, array: str, index: int, change: int) -> None:
    """Changes one number of an array in a project's weights.c."""
    file = folder / "model" / "weights.c"
    text = file.read_text("utf-8")
    found = re.search(rf"const \w+ {array}\[\d+\] = \{{\n(.*?)\n\}};", text, re.DOTALL)
    assert found is not None, re.findall(r"const \w+ (\w+)\[", text)
    numbers = found[1].replace("\n", " ").split(",")
    numbers[index] = f" {int(numbers[index]) + change}"
    file.write_text(text[: found.start(1)] + ",".join(numbers) + text[found.end(1) :], "utf-8")


@pytest.mark.turns(4)
@pytest.mark.qemu
@pytest.mark.parametrize("target", part_of(BOARDS, 2))
def test_a_wrong_number_is_found_with_op_and_element(
    pillion: Call, tmp_path: Path, samples: Path, target: str
) -> None:
    folder, board = tmp_path / "fw", BOARDS[target]
    made = pillion(
        "compile", "-m", NET, "-t", target, "-q", "-o", folder, "--selftest", samples, "--json"
    ).facts
    assert made["selftest"] == "2 samples, finds the op and the element"
    for on in ("host", board):
        answer = pillion("run", folder, "--on", on, "--selftest", "--json")
        assert answer.facts == {"on": on, "selftest": "all ops are as they shall be"}
    program = package.compile(Net(), example_inputs(), target=target, name="net")
    conv = next(i for i, op in enumerate(program.graph.ops) if op.kind == "conv2d")
    plant(folder, array_of(folder, conv), 0, 1 << 20)
    answer = pillion("run", folder, "--on", board, "--selftest", "--json")
    assert answer.code == 1
    outcome = run_selftest(folder, board)
    assert (outcome.differs, outcome.op) == (True, conv)
    found = first_difference(program, conv, tmp_path / "part", samples, board)
    assert (outcome.sample, outcome.element) == found
    assert outcome.op_name.startswith("conv2d ")
    assert "differs" in answer.out


def first_difference(program: Program, op: int, folder: Path, samples: Path, board: str) -> tuple[int, int]:
    """Sample and element by another way: the program ends with the op, and its outputs are compared on this computer."""
    graph = program.graph
    part = program.for_graph(graph.replace(outputs=graph.ops[op].results).without_dead_ops())
    part.firmware(folder)
    plant(folder, array_of(folder, op), 0, 1 << 20)
    for number, sample in enumerate(samples_of(graph, samples)):
        (found,) = run_folder(folder, [sample], board)[0].outputs
        (wanted,) = part.graph.reference(*sample)
        if (found != wanted).any():
            return number, int(np.flatnonzero(found.ravel() != wanted.ravel())[0])
    raise AssertionError("the planted number changes nothing")


def array_of(folder: Path, op: int) -> str:
    """The first array of 32-bit numbers that an op reads: sums, biases and packed weights."""
    header = (folder / "model" / "weights.h").read_text("utf-8")
    return str(re.findall(rf"int32_t (\w+_op{op}_\w+)\[", header)[0])


@pytest.mark.turns(3)
@pytest.mark.qemu
@pytest.mark.parametrize(("target", "io_dtype"), in_turn(BOARDS, ["float32", "int8"]))
def test_several_inputs_and_outputs_float_and_int8(tmp_path: Path, target: str, io_dtype: str) -> None:
    program = two_inputs(target, io_dtype)
    given = random(3)
    if io_dtype == "int8":
        given = [[(40 * x).clip(-128, 127).astype(np.int8) for x in sample] for sample in given]
    folder = program.firmware(tmp_path / "fw", selftest=given)
    assert not run_selftest(folder, BOARDS[target]).differs
    assert not run_selftest(folder, "host").differs
    # The expected bytes are among those that are compared: one that is wrong is found in its sample and op.
    test = program.selftest(given)
    last = test.results[-1]
    assert last.at is not None
    wrong = test.kept.copy()
    wrong[2, last.at + last.value.type.size_bytes - 1] ^= 1
    planted = c_selftest.SelfTest(test.results, test.inputs, wrong, test.checks)
    files = project_files(program.lowered, program.target.name, test=planted)
    (folder / "selftest" / "selftest.c").write_bytes(bytes(files["selftest/selftest.c"]))  # type: ignore[arg-type]  # no text that is made while it is written
    outcome = run_selftest(folder, BOARDS[target])
    assert (outcome.differs, outcome.sample, outcome.op) == (True, 2, last.op)
    assert outcome.element == last.value.type.elements - 1


@pytest.mark.qemu
def test_results_that_are_too_many_are_known_by_their_checksums(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(c_selftest, "MOST_ELEMENT_BYTES", 100)
    program = two_inputs("cortex-m33")
    test = program.selftest(random(2))
    assert [result.at is None for result in test.results] == [
        not any(program.lowered.graph.is_output(v) for v in op.results) for op in program.lowered.graph.ops
    ]
    folder = program.firmware(tmp_path / "fw", selftest=random(2))
    assert not run_selftest(folder, "mps2-an505").differs
    linear = next(i for i, op in enumerate(program.graph.ops) if op.kind == "linear")
    plant(folder, array_of(folder, linear), 0, 1 << 20)
    outcome = run_selftest(folder, "mps2-an505")
    assert (outcome.op, outcome.element) == (linear, None)


@pytest.mark.nightly
def test_selftests_run_the_reference_of_npu_segments(tmp_path: Path, samples: Path) -> None:
    program = package.compile(Net(), example_inputs(), target="imxrt700")
    assert any(op.kind == "segment" for op in program.graph.ops)
    folder = program.firmware(tmp_path / "fw", selftest=samples)
    assert not run_selftest(folder, "host").differs


@pytest.mark.turns(4)
@pytest.mark.qemu
def test_make_runs_it(tmp_path: Path, samples: Path) -> None:
    program = package.compile(Net(), example_inputs(), target="cortex-m33", name="net")
    folder = program.firmware(tmp_path / "fw", selftest=samples)
    for goal in ("selftest-host", "selftest-mps2-an505"):
        made = subprocess.run(["make", "-s", "-C", folder, goal], capture_output=True, text=True, check=True)
        assert made.stdout.endswith('{"selftest": 0}\n')
    assert "net_selftest(arena, &where)" in (folder / "README.md").read_text("utf-8")
    program.firmware(folder)
    assert not (folder / "selftest").exists(), "compiled again without one, it goes"
    made = subprocess.run(
        ["make", "-C", folder, "selftest-host"], capture_output=True, text=True, check=False
    )
    assert made.returncode == 2
    assert "there is no self-test" in made.stderr
    with pytest.raises(PillionError, match="has no self-test"):
        run_selftest(folder)


def test_samples_may_be_named_stacked_or_single(tmp_path: Path) -> None:
    graph = two_inputs("cortex-m33").graph
    x, y = np.ones((6, 7)), np.zeros((6, 3), np.float32)
    x[2] = 0.1
    np.savez(tmp_path / "named.npz", **{graph.inputs[1].name: y, graph.inputs[0].name: x})
    np.savez(tmp_path / "ordered.npz", x, y)
    for name in ("named.npz", "ordered.npz"):
        found = samples_of(graph, tmp_path / name)
        assert [[a.shape for a in sample] for sample in found] == 3 * [[(2, 7), (2, 3)]]
        assert found[1][0][0, 0] == np.float32(0.1)
        assert found[1][0].dtype == np.float32
    single = package.compile(Net(), example_inputs(), target="cortex-m33").graph
    np.save(tmp_path / "one.npy", np.ones((3, 9, 7), np.float32))
    assert samples_of(single, tmp_path / "one.npy")[0][0].shape == (1, 3, 9, 7)
    assert len(samples_of(single, [np.ones((1, 3, 9, 7), np.float32)])) == 1


WRONG = {
    "another shape": (np.ones((2, 3, 9, 8), np.float32), "samples of [3, 9, 7]"),
    "no samples": (np.ones((0, 3, 9, 7), np.float32), "samples of [3, 9, 7]"),
    "not numbers": (np.array(["x"]), "numbers"),
    "NaN": (np.full((1, 3, 9, 7), np.nan, np.float32), "every number is finite"),
    "beyond float32": (np.full((1, 3, 9, 7), 1e300), "all elements are finite"),
    "complex": (np.ones((1, 3, 9, 7), np.complex64), "numbers"),
    "pickled": (np.array([{}], object), "an .npy or .npz file of numbers"),
    "too many": (np.zeros((10_001, 3, 9, 7), np.int8), "at most 10,000 samples"),
}


@pytest.mark.turns(4)
@pytest.mark.parametrize("case", WRONG)
def test_samples_that_do_not_fit_are_refused(pillion: Call, tmp_path: Path, case: str) -> None:
    array, words = WRONG[case]
    np.savez(tmp_path / "x.npz", array)
    for output in ("fw", "fw.pte"):
        answer = pillion(
            "compile",
            "-m",
            NET,
            "-t",
            "cortex-m33",
            "-q",
            "-o",
            tmp_path / output,
            "--selftest",
            tmp_path / "x.npz",
        )
        assert answer.code == 2, answer.out
        assert words in answer.err
        assert not list(tmp_path.glob("fw*"))


@pytest.mark.parametrize("content", [None, b"", b"PK\x03\x04 no zip"])
def test_unusable_sample_files_are_refused(pillion: Call, tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "x.npz"
    if content is not None:
        file.write_bytes(content)
    answer = pillion(
        "compile", "-m", NET, "-t", "cortex-m33", "-q", "-o", tmp_path / "fw", "--selftest", file
    )
    assert answer.code == 2
    assert "Traceback" not in answer.err
    assert not (tmp_path / "fw").exists()


def test_int8_borders_take_whole_numbers_only(tmp_path: Path) -> None:
    graph = two_inputs("cortex-m33", "int8").graph
    for x in (np.full((2, 7), 128), np.full((2, 7), 0.5), np.full((2, 7), -129, np.int64)):
        np.savez(tmp_path / "x.npz", x, np.zeros((2, 3), np.int8))
        with pytest.raises(PillionError, match="does not fit") as raised:
            samples_of(graph, tmp_path / "x.npz")
        assert "int8" in raised.value.rule
    np.savez(tmp_path / "x.npz", np.full((2, 7), -128), np.zeros((2, 3), np.uint8))
    assert samples_of(graph, tmp_path / "x.npz")[0][0].dtype == np.int8


def test_the_size_is_bounded(tmp_path: Path) -> None:
    program = package.compile("ds_cnn", target="cortex-m33")
    x = np.zeros((1, 1, 49, 10), np.float32)
    with pytest.raises(PillionError, match="takes") as raised:
        program.firmware(tmp_path / "fw", selftest=[[x]] * 9_000)
    assert "at most 8,388,608 bytes" in raised.value.rule
    fewer = int(raised.value.help.split()[0].replace(",", ""))
    assert 0 < fewer < 9_000
    assert c_selftest.size_of(program.lowered.graph, fewer).bytes <= c_selftest.MOST_BYTES
    with pytest.raises(PillionError):
        c_selftest.size_of(program.lowered.graph, fewer + 1)
    with pytest.raises(PillionError, match="no sample"):
        program.firmware(tmp_path / "fw", selftest=[])
    assert not (tmp_path / "fw").exists()


def test_selftests_of_other_formats_and_executors_are_refused(
    pillion: Call, tmp_path: Path, samples: Path
) -> None:
    answer = pillion(
        "compile", "-m", NET, "-t", "cortex-m33", "-q", "-o", tmp_path / "x.tflite", "--selftest", samples
    )
    assert (answer.code, "cannot hold a self-test" in answer.err) == (2, True)
    for options, words in (
        (("--on", "reference"), "only the C of a project"),
        (("--on", "nowhere"), "is not known"),
        (("--profile", "--on", "mps2-an505"), "goes alone"),
        (("--on", "host", "--timeout", "0"), "is no time limit"),
    ):
        answer = pillion("run", tmp_path, "--selftest", *options)
        assert (answer.code, words in answer.err) == (2, True), answer.err


JUDGE = """
import sys, pathlib
from pillion.run.executorch.runtime import host
runtime = host()
raw = pathlib.Path(sys.argv[1]).read_bytes()
runtime.library.pillion_set_helium(int(sys.argv[2]))
bundle = runtime.module._load_bundled_program_from_buffer(raw)
for number in range(int(sys.argv[3])):
    bundle.verify_result_with_bundled_expected_output("forward", number, 0.0, 0.0)
print("equal")
"""


def judged(file: Path, samples: int, helium: bool) -> str:
    """What ExecuTorch's own runtime says of a bundle."""
    command = [sys.executable, "-c", JUDGE, str(file), str(int(helium)), str(samples)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "equal" if done.returncode == 0 and done.stdout.endswith("equal\n") else done.stdout + done.stderr


@pytest.mark.turns(11)
@pytest.mark.parametrize(("target", "options"), part_of([("cortex-m55", ()), ("cortex-m33", ("--io-layout", "nhwc")), ("cortex-m33", ("--io-dtype", "int8"))], 3))  # fmt: skip
def test_the_real_runtime_runs_the_bundle(
    pillion: Call, tmp_path: Path, target: str, options: tuple[str, ...]
) -> None:
    x = np.random.default_rng(3).standard_normal((2, 3, 9, 7))
    x = x.transpose(0, 2, 3, 1) if "nhwc" in options else x
    x = (x * 40).clip(-128, 127).astype(np.int8) if "int8" in options else x.astype(np.float32)
    np.savez(tmp_path / "x.npz", x)
    file = tmp_path / "net.pte"
    made = pillion(
        "compile",
        "-m",
        NET,
        "-t",
        target,
        "-q",
        "-o",
        file,
        "--selftest",
        tmp_path / "x.npz",
        *options,
        "--json",
    ).facts
    bundle = file.with_suffix(".bpte")
    assert made["selftest"] == str(bundle)
    assert judged(bundle, 2, target == "cortex-m55") == "equal"
    raw = bundle.read_bytes()
    assert raw[4:8] == b"BP08"
    assert raw.index(file.read_bytes()) % 32 == 0
    if options:
        return
    # One expected number that is wrong, in the second sample.
    program = package.load(file)
    outputs = program.run(x[1:])[0].tobytes()
    assert raw.count(outputs) == 1
    at = raw.index(outputs)
    wrong = bytearray(raw)
    wrong[at + 3] ^= 0x40
    bundle.write_bytes(wrong)
    assert judged(bundle, 1, True) == "equal"
    assert judged(bundle, 2, True) != "equal"


@pytest.mark.nightly
def test_executorch_s_own_reader_reads_the_bundle(tmp_path: Path) -> None:
    program = two_inputs("cortex-m33")
    file = program.save(tmp_path / "two.pte", selftest=random(3))
    read = (
        "import sys, pathlib, torch\n"
        "from executorch.devtools.bundled_program.serialize import deserialize_from_flatbuffer_to_bundled_program as read\n"
        "bundle = read(pathlib.Path(sys.argv[1]).read_bytes())\n"
        "assert bundle.program == pathlib.Path(sys.argv[2]).read_bytes()\n"
        "suite, = bundle.method_test_suites\n"
        "cases = suite.test_cases\n"
        "print(suite.method_name, len(cases), [v.val.sizes for v in cases[0].inputs], [len(v.val.data) for v in cases[2].expected_outputs])"
    )
    command = [sys.executable, "-c", read, str(tmp_path / "two.bpte"), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "forward 3 [[2, 7], [2, 3]] [40, 40]"

# SPDX-License-Identifier: Apache-2.0
"""All executors agree on good programs; a planted fault is found at the op and the element where it lies."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

import pillion
from faulty_executors import Faulty, net, program, tampered, with_segment
from pillion import compiled_program as programs
from pillion.boards.toolchain import Tool
from pillion.cli.verify_output import difference_lines, facts_of
from pillion.devices.payloads import Payloads
from pillion.emitters.pte import emit
from pillion.errors import PillionError
from pillion.host_io.atomic_files import Content, content_chunks
from pillion.importers.pte import read
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import Array
from pillion.ir.verdict import Verdict
from pillion.ops import parse
from pillion.run import executor_list, litert
from pillion.run.emulated_board import EmulatedBoard
from pillion.run.executor import DEFAULTS, Outputs, Runnable, RunOptions, RunResult, Samples
from pillion.run.executorch import ExecuTorchExecutor
from pillion.run.host_executor import HostExecutor
from pillion.run.litert import LiteRtExecutor
from pillion.run.reference import ReferenceExecutor
from pillion.run.rounding_trace import rounding_steps
from pillion.run.verify import Difference, Verification, verify, verify_project

has_executorch = pytest.mark.skipif(
    importlib.util.find_spec("executorch") is None, reason="pip install 'pillion[executorch]'"
)
has_litert = pytest.mark.skipif(
    importlib.util.find_spec("ai_edge_litert") is None, reason="pip install 'pillion[litert]'"
)


def only_difference(found: Verification) -> Difference:
    assert not found.ok
    (difference,) = found.differences
    return difference


@pytest.mark.parametrize(
    ("constant", "op"), [("first_bias", "first"), ("second_bias", "second"), ("last_bias", "last")]
)
def test_a_tampered_constant_is_found_where_it_is_used(constant: str, op: str) -> None:
    executor = Faulty(lambda graph: tampered(graph, constant, 20_000))
    found = only_difference(verify(program(net()), executors=[ReferenceExecutor(), executor]))
    assert found.op is not None
    assert (found.op.name, found.value.name, found.index[-1]) == (op, op, 0)
    assert found.steps[0].name.startswith("accumulator")
    assert found.steps[-1].value == found.wanted != found.got


def test_the_first_difference_has_index_and_values() -> None:
    graph, bad = net(), tampered(net(), "second_bias", 20_000)
    result = verify(
        program(graph),
        samples=1,
        executors=[ReferenceExecutor(), Faulty(lambda g: tampered(g, "second_bias", 20_000))],
    )
    found, sample = only_difference(result), pillion.run.verify.random_samples(graph, 1, 0)[0]
    wanted, got = (
        next(array for value, array in g.reference_values(*sample).items() if value.name == "second")
        for g in (graph, bad)
    )
    assert found.index == tuple(int(i) for i in np.argwhere(wanted != got)[0])
    assert (found.wanted, found.got) == (wanted[found.index], got[found.index])
    assert found.elements == np.count_nonzero(wanted != got)


def test_inside_a_segment_the_op_is_one_of_the_segment() -> None:
    executor = Faulty(lambda graph: tampered(graph, "second_bias", 20_000))
    found = only_difference(verify(program(with_segment()), executors=[ReferenceExecutor(), executor]))
    assert found.op is not None
    assert (found.op.name, found.op.kind) == ("second", "depthwise_conv2d")
    assert found.steps[-1].value == found.wanted


def test_rounding_steps_follow_the_arithmetic() -> None:
    graph = net()
    op = graph.ops[5]
    operands = [v.constant if v.is_constant else np.zeros(v.shape, np.int8) for v in op.operands]
    for arithmetic in Arithmetic:
        result = op.reference(arithmetic, *operands)
        for index in np.ndindex(*result.shape):
            assert rounding_steps(op, arithmetic, operands, index)[-1].value == result[index]
    assert "double precision" in rounding_steps(op, Arithmetic.TFLITE, operands, (0, 0))[1].name
    assert not rounding_steps(graph.ops[0], Arithmetic.CMSIS_NN, [], (0,))


def tamper_with_c(monkeypatch: pytest.MonkeyPatch, array: str) -> None:
    """From now on the generated C has another first number in this array."""
    true_files = programs.project_files

    def files(*arguments: object) -> dict[str, Content]:
        made = true_files(*arguments)  # type: ignore[arg-type]  # passed on
        place = next(path for path in ("host/weights.c", "model/weights.c") if path in made)
        weights = b"".join(content_chunks(made[place])).decode()
        made[place] = re.sub(rf"({array}\[\d+\] = {{\s*)-?\d+", r"\g<1>7777", weights)
        return made

    monkeypatch.setattr(programs, "project_files", files)


def test_a_fault_in_the_generated_c_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    tamper_with_c(monkeypatch, "net_op2_bias")
    found = only_difference(verify(program(net()), executors=[ReferenceExecutor(), HostExecutor()]))
    assert found.op is not None
    assert (found.executor, found.op.name, found.index[-1]) == ("host", "second", 0)
    assert "host differs first at depthwise_conv2d `second`" in difference_lines(found)


@pytest.mark.slow
def test_all_that_is_installed_agrees() -> None:
    for graph, target in ((net(), "cortex-m0plus"), (with_segment(), "imxrt700")):
        found = pillion.verify(
            program(graph, target),
            2,
            executors=[ReferenceExecutor(), HostExecutor(), ExecuTorchExecutor(), LiteRtExecutor()],
        )
        ran = [run for run in found.runs if run.has_run]
        assert found.ok
        assert len(found.pairs) == len(ran) * (len(ran) - 1) / 2
        assert not any(pair.bytes_different for pair in found.pairs)


@pytest.mark.turns(3)
@pytest.mark.qemu
@pytest.mark.parametrize("target", ["cortex-m33", "cortex-m55", "imxrt700"])
def test_the_board_agrees(target: str) -> None:
    graph = with_segment() if target == "imxrt700" else net()
    assert verify(
        program(graph, target),
        2,
        executors=[ReferenceExecutor(), EmulatedBoard(program(graph, target).target.board)],
    ).ok


@has_executorch
def test_a_file_that_was_changed_is_named_as_a_whole() -> None:
    sound = program(net())
    written = emit(sound.graph, sound.target.core)
    bias = next(v for v in sound.graph.constants if v.name == "last_bias").constant.tobytes()
    changed = written.replace(bias[:4], (123456).to_bytes(4, "little"), 1)
    assert changed != written
    loaded = dataclasses.replace(sound, file=dataclasses.replace(read(written), raw=changed))
    found = only_difference(verify(loaded, executors=[ReferenceExecutor(), ExecuTorchExecutor()]))
    assert found.op is None
    assert "file has been changed" in difference_lines(found)


class Overwriting:
    """Destroys the shortcut while the depthwise convolution runs, as a wrong memory plan would."""

    name = "overwriting"

    def judge(self, program: Runnable) -> Verdict:
        return Verdict("faulty", True, "", "")

    def run(self, program: Runnable, samples: Samples, options: RunOptions = DEFAULTS) -> list[RunResult]:
        return [RunResult(self.one(program.graph, sample)) for sample in samples]

    def one(self, graph: Graph, sample: Sequence[Array]) -> Outputs:
        values = {v.name: v for v in graph.values.values()}
        if "second" not in values:
            return graph.reference(*sample)
        made = graph.reference_values(*sample)
        ruined = {values["first"]: made[values["first"]] ^ np.int8(64)}
        if "total" in values:
            add = graph.producers[values["total"]]
            rest = graph.reference_values(
                *sample,
                instead={add: lambda a, b: add.reference(graph.arithmetic, ruined[values["first"]], b)},
            )
            return tuple(rest[v] for v in graph.outputs)
        return tuple(ruined.get(v, made[v]) for v in graph.outputs)


def test_a_value_that_is_overwritten_is_told_from_a_wrong_result() -> None:
    found = only_difference(verify(program(net()), executors=[ReferenceExecutor(), Overwriting()]))
    assert found.op is not None
    assert (found.op.name, found.value.name) == ("second", "first")
    assert "overwritten" in difference_lines(found)


def test_missing_executors_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", "")
    found = program(net(), "cortex-m0plus").verify(1)
    rows = {row["executor"]: row for row in facts_of(found)["executors"]}
    assert set(rows) == {"reference", "host", "board", "executorch", "litert", "npu"}
    assert "apt-get install" in rows["host"]["note"]
    assert "cortex-m0plus" in rows["board"]["note"]
    assert "pip install 'pillion[executorch]'" in rows["executorch"]["note"]
    assert "pip install 'pillion[litert]'" in rows["litert"]["note"]
    assert "no op runs on an NPU" in rows["npu"]["note"]
    assert not found.ok
    assert "nothing to compare" in facts_of(found)["verdict"]


class Failing(Faulty):
    def run(self, program: Runnable, samples: Samples, options: RunOptions = DEFAULTS) -> list[RunResult]:
        raise PillionError(
            "the model did not finish", rule="a run ends", here="no end", help="give more time"
        )


def test_failing_executors_fail_the_verification() -> None:
    found = verify(
        program(net()), executors=[ReferenceExecutor(), Failing(lambda g: g), Faulty(lambda g: g, "good")]
    )
    assert not found.ok
    assert [run.executor for run in found.runs if run.failed] == ["faulty"]
    assert "did not finish" in facts_of(found)["verdict"]


def test_other_shapes_are_a_failure() -> None:
    def longer(graph: Graph) -> Graph:
        return graph.replace(outputs=(graph.ops[0].results[0],))

    found = verify(program(net()), executors=[ReferenceExecutor(), Faulty(longer)])
    assert "other outputs" in str(found.runs[1].failed)


def test_inputs_take_the_place_of_random_ones() -> None:
    x = np.zeros((1, 5, 4, 3), np.float32)
    executors = [ReferenceExecutor(), Faulty(lambda graph: graph, "same")]
    assert verify(program(net()), inputs=[x], executors=executors).samples == 1
    with pytest.raises(PillionError, match="does not fit"):
        verify(program(net()), inputs=[x[0]], executors=executors)


def test_random_samples_reach_beyond_the_range_of_int8() -> None:
    graph = net()
    (x,) = pillion.run.verify.random_samples(graph, 1, 0)[0]
    quantized = graph.ops[0].reference(graph.arithmetic, x)
    assert 0 < np.mean((quantized == -128) | (quantized == 127)) < 0.3


def test_a_project_on_this_computer_alone_is_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor_list, "QEMU", Tool("emulator", ("no-such-program",), "qemu"))
    found = verify_project(program(net()).firmware(tmp_path / "fw"), 2)
    assert [(run.executor, run.has_run) for run in found.runs] == [("host", True), ("microbit", False)]
    assert found.nothing_compared
    assert not found.ok


@pytest.mark.qemu
def test_a_project_is_the_same_on_the_board(tmp_path: Path) -> None:
    assert verify_project(program(net(), "cortex-m33").firmware(tmp_path / "fw"), 2).ok


@has_litert
def test_litert_runs_all_of_a_graph_in_its_own_arithmetic() -> None:
    graph = net().replace(arithmetic=Arithmetic.TFLITE)
    found = verify(program(graph), 2, executors=[ReferenceExecutor(), LiteRtExecutor()])
    assert [run.executor for run in found.runs if run.has_run] == ["reference", "litert"]
    assert found.ok


REREAD = """graph g arithmetic=tflite
input x: int8[1, 4, 9, 9] @(0.1, 100)
input r: int8[1] @(0.0625, -128)
const c: int8[1, 1, 1, 9] @(0.0078125, 0) = [36, 34, -108, 108, 82, 60, -8, 0, 24]
h: int8[1, 4, 9, 9] @(0.2, 100) = mul(a=x, b=x) low=-128 high=127
s: int8[1, 4, 9, 9] @(0.00390625, -128) = softmax(x=h)
m: int8[3, 108] @(0.00390625, -128) = reshape(x=s)
a: int8[3, 108] @(1024.0, 127) = add(a=m, b=r) low=-128 high=127
p: int8[1, 4, 9, 9] @(0.5, 5) = prelu(x=s, slope=c)
e: float32[3, 108] = dequantize(x=a)
output e
output p
"""


@has_litert
def test_a_tensor_that_is_reshaped_and_read_again_is_not_overwritten() -> None:
    """LiteRT's own memory plan lets the addition take the place of what the prelu reads."""
    found = verify(program(parse(REREAD)), 2, executors=[ReferenceExecutor(), LiteRtExecutor()])
    assert [run.executor for run in found.runs if run.has_run] == ["reference", "litert"]
    assert found.ok


def test_the_npus_kernel_selection_lies_beside_the_program(tmp_path: Path) -> None:
    made = program(with_segment(), "imxrt700")
    assert made.save(tmp_path / "plain.pte").exists()
    (segment,) = made.payloads.segments
    vars(made)["payloads"] = Payloads(
        (segment,), converter="sdk 3.0", firmware_files={"neutron_kernel_selection.c": "/* add, conv */\n"}
    )
    made.save(tmp_path / "net.pte")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "net.pte",
        "net_neutron_kernel_selection.c",
        "plain.pte",
    ]
    assert (tmp_path / "net_neutron_kernel_selection.c").read_text() == "/* add, conv */\n"


@has_litert
def test_a_segment_that_litert_computes_otherwise_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    true_interpreter = litert._open_interpreter
    monkeypatch.setattr(
        litert, "_open_interpreter", lambda body: true_interpreter(tampered(body, "second_bias", 20_000))
    )
    found = only_difference(
        verify(program(with_segment(), "imxrt700"), executors=[ReferenceExecutor(), LiteRtExecutor()])
    )
    assert found.op is not None
    assert (found.executor, found.op.name) == ("litert", "second")


class OnlyWhole(Faulty):
    """Refuses parts of the net."""

    def run(self, program: Runnable, samples: Samples, options: RunOptions = DEFAULTS) -> list[RunResult]:
        if len(program.graph.ops) < len(net().ops):
            raise PillionError("too short", rule="six ops", here="less", help="more ops")
        return super().run(program, samples)


def test_a_search_that_fails_does_not_hide_the_difference() -> None:
    executor = OnlyWhole(lambda graph: tampered(graph, "last_bias", 20_000))
    found = only_difference(verify(program(net()), executors=[ReferenceExecutor(), executor]))
    assert found.op is None
    assert "too short" in difference_lines(found)


def test_own_inputs_need_no_list_and_are_not_the_number_of_samples() -> None:
    x = np.ones((1, 3, 5, 7), np.float32)
    made = pillion.compile(torch.nn.Conv2d(3, 2, 3).eval(), torch.from_numpy(x), target="cortex-m3")
    listed, alone = made.verify(inputs=[x]), made.verify(inputs=torch.from_numpy(x))
    assert listed.ok
    assert alone.ok
    assert listed.samples == alone.samples == 1
    for wrong in (x, torch.from_numpy(x), 2.5):
        with pytest.raises(PillionError, match="the number of samples is not a number"):
            made.verify(wrong)

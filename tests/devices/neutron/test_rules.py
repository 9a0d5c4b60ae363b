# SPDX-License-Identifier: Apache-2.0
"""Every rule of the NPU accepts and refuses, at its limit and one past it; and all rules as one text."""

from __future__ import annotations

from typing import Any

import pytest

from devices.neutron.rule_cases import (
    ACCEPTED,
    LIMITS,
    RULES,
    Q,
    conv,
    dot,
    lut,
    pair,
    softmax,
    value,
    with_types,
)
from pillion.devices.device import Device
from pillion.devices.neutron import N1_16, N3_64
from pillion.emitters.tflite import emit
from pillion.ir.graph import Graph
from pillion.ir.op import Op, op, operand, result
from pillion.ir.types import DType, TensorType, Value
from pillion.ir.verdict import Verdict, all_ok, failed_rules
from pillion.ops import ALL_OPS, Add, Function, Quantize

CASES = {**LIMITS, **RULES}
UNSUPPORTED = [cls for cls in ALL_OPS if cls not in N3_64.ops]


def refusals(op: Op, npu: Device = N3_64) -> list[str]:
    return [verdict.rule for verdict in failed_rules(npu.judge(op))]


@pytest.mark.parametrize("name", CASES)
def test_a_rule_accepts_and_refuses(name: str) -> None:
    accepted, refused = CASES[name]
    assert refusals(accepted) == []
    assert refusals(refused) == [name.split()[0]]


@pytest.mark.parametrize("kind", ACCEPTED)
def test_shapes_that_tflite_has_not(kind: str) -> None:
    assert f"{kind}.shape" in refusals(with_types(ACCEPTED[kind], shape=(2, 0, 3, 4)))


@pytest.mark.parametrize("rank", [8, 9])
def test_the_rank_of_any_tensor(rank: int) -> None:
    shape = (2,) * rank
    assert ("add.shape" in refusals(pair(Add, shape, shape))) == (rank == 9)


def test_every_rule_has_a_case() -> None:
    tested = {name.split()[0] for name in CASES} | {f"{kind}.shape" for kind in ACCEPTED}
    rules = {f"{rule.op.kind}.{rule.name}" for rule in N3_64.rules}
    assert rules == tested


def test_every_op_of_the_npu_has_a_case() -> None:
    assert {cls.kind for cls in N3_64.ops} == set(ACCEPTED)


@pytest.mark.parametrize("cls", UNSUPPORTED, ids=lambda cls: cls.kind)
def test_ops_that_the_npu_has_not_are_refused(cls: type[Op]) -> None:
    for example in cls.examples():
        assert refusals(example) == [f"{cls.kind}.supported"]


def test_an_unknown_op_is_refused_by_the_supported_rule() -> None:
    @op("unheard_of")
    class UnheardOf(Op):
        """Of no device."""

        x: Value = operand()
        y: Value = result()

    (verdict,) = N3_64.judge(UnheardOf(x=value("x", (1,)), y=value("y", (1,))))
    assert str(verdict) == "unheard_of.supported: wants an op that neutron-n3-64 supports, got unheard_of"


@pytest.mark.parametrize("npu", [N3_64, N1_16], ids=lambda npu: npu.name)
def test_verdicts_name_wanted_and_found_values(npu: Device) -> None:
    examples = [example for cls in ALL_OPS for example in cls.examples()]
    for example in (*examples, *(case for both in CASES.values() for case in both)):
        for verdict in npu.judge(example):
            assert isinstance(verdict, Verdict)
            assert isinstance(verdict.ok, bool)
            assert verdict.rule.startswith(f"{example.kind}.")
            assert verdict.wanted
            assert verdict.got


@pytest.mark.parametrize("cls", [op for op in ALL_OPS if op in N3_64.ops], ids=lambda cls: cls.kind)
def test_real_numbers_are_refused_without_a_crash(cls: type[Op]) -> None:
    for example in cls.examples():
        verdicts = N3_64.judge(with_types(example, dtype=DType.FLOAT32, quant=None))
        assert f"{cls.kind}.dtype" in [v.rule for v in failed_rules(verdicts)]


@pytest.mark.parametrize("cls", ALL_OPS, ids=lambda cls: cls.kind)
def test_accepted_ops_have_a_tflite_form(cls: type[Op]) -> None:
    accepted = [example for example in cls.examples() if all_ok(N3_64.judge(example))]
    for example in (*accepted, *(case[0] for name, case in CASES.items() if name.startswith(f"{cls.kind}."))):
        assert emit(Graph("one", example.activations, (example,), example.results))


@pytest.mark.parametrize("function", [f for f in Function if f is not Function.TABLE])
def test_functions(function: Function) -> None:
    """The table of functions that the converter has, written out."""
    taken = {"abs", "exp", "hardswish", "leaky_relu", "log", "neg", "rsqrt", "sigmoid", "tanh"}
    refused = function.value not in taken
    assert ("lut.function" in refusals(lut(function))) == refused


def test_all_rules_are_judged_not_only_the_first_that_fails() -> None:
    assert refusals(softmax(5000, 3000)) == ["softmax.channels", "softmax.rows", "softmax.elements"]


def test_channels_count_in_blocks_of_a_pipeline() -> None:
    """8 multiply-accumulates at a time on the larger NPU, 4 on the smaller one."""
    assert refusals(dot(conv, 65529)) == ["conv2d.dot_product"]
    assert refusals(dot(conv, 65532), N1_16) == []
    assert refusals(dot(conv, 65533), N1_16) == ["conv2d.dot_product"]


def test_padding_is_not_bounded_by_the_kernel() -> None:
    assert refusals(conv(padding=(9, 8, 7, 6))) == []


def test_conversions_stay_on_the_cpu() -> None:
    x = Value("x", TensorType((2,), DType.FLOAT32))
    assert refusals(Quantize(x=x, y=Value("y", TensorType((2,), DType.INT8, Q)))) == ["quantize.supported"]


def test_the_rules_as_text(golden: Any) -> None:
    rules = sorted(N3_64.rules, key=lambda rule: (rule.op.kind, rule.name))
    lines = [f"{rule.op.kind}.{rule.name}: {rule.wants} ({rule.source})" for rule in rules]
    golden.check("devices/neutron/n3_64.txt", "\n".join(lines) + "\n")

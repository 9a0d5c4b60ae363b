# SPDX-License-Identifier: Apache-2.0
"""What `explain` says would move an op to the NPU does so: the changed op is valid, and the NPU takes it."""

from __future__ import annotations

import pytest

from devices.neutron.rule_cases import LIMITS, RULES, clamp, conv, depthwise, lut, pair, softmax, with_types
from pillion.devices.neutron import N3_64
from pillion.devices.neutron.fixits import FIXITS
from pillion.ir.op import Op
from pillion.ir.types import DType, PerTensor
from pillion.ir.verdict import Verdict, all_ok, failed_rules
from pillion.ops import ALL_OPS, Add, Function
from pillion.partition.what_if import find_what_if, smallest_change

CASES = {**LIMITS, **RULES}


def words(op: Op) -> str:
    return smallest_change(op, N3_64, N3_64.judge(op))


@pytest.mark.parametrize("name", CASES)
def test_a_flip_is_accepted_when_judged_again(name: str) -> None:
    op = CASES[name][1]
    flip = find_what_if(op, N3_64, N3_64.judge(op))
    assert flip, f"no change to {op} is known"
    assert flip.words
    assert all_ok(N3_64.judge(flip.op))
    flip.op.check()
    inferred, y = flip.op.infer(), flip.op.results[0]
    assert (inferred.shape, inferred.dtype) == (y.shape, y.dtype)


def test_every_rule_that_can_fail_has_a_change() -> None:
    """But shapes that TFLite has not: nothing smaller than another model helps."""
    assert {rule.name for rule in N3_64.rules} - {"shape"} <= {name for name, *_ in FIXITS}


@pytest.mark.parametrize("cls", [cls for cls in ALL_OPS if cls in N3_64.ops], ids=lambda cls: cls.kind)
def test_flips_of_examples_are_accepted(cls: type[Op]) -> None:
    for op in cls.examples():
        verdicts = N3_64.judge(op)
        flip = find_what_if(op, N3_64, verdicts)
        assert bool(flip) <= bool(failed_rules(verdicts))
        if flip:
            flip.op.check()
            assert all_ok(N3_64.judge(flip.op))


@pytest.mark.parametrize(
    ("op", "wanted"),
    [
        (conv((1, 5, 5, 6), groups=2), "groups 2 → 1"),
        (depthwise(multiplier=2), "output channels 6 → 3, as many as input channels"),
        (softmax(1, 2041), "channels 2041 → 2040"),
        (softmax(5000, 3000), "channels 3000 → 2040 and rows 5000 → 257"),
        (softmax(4097, 3), "rows 4097 → 4096"),
        (softmax(481, 1090), "rows 481 → 480"),
        (conv((1, 1, 1, 65529), kernel=(1, 1)), "input channels 65529 → 65528"),
        (conv((1, 4098, 2, 1), kernel=(1, 1), stride=(4097, 2)), "stride (4097, 2) → (4096, 2)"),
        (lut(Function.GELU), "gelu → hardswish in the model (and train again)"),
        (lut(Function.SOFTPLUS), ""),
    ],
)
def test_words(op: Op, wanted: str) -> None:
    assert words(op) == wanted


def test_several_rules_need_several_changes() -> None:
    op = conv((1, 4099, 4, 6), kernel=(4097, 1), groups=2, stride=(4097, 1))
    assert words(op) == "kernel (4097, 1) → (4096, 1) and stride (4097, 1) → (4096, 1) and groups 2 → 1"


def test_the_user_s_own_wish_is_named_first() -> None:
    op = conv()
    kept = Verdict("user.keep_on_cpu", False, "an op that no --keep-on-cpu names", "conv*")
    assert smallest_change(op, N3_64, (kept, *N3_64.judge(op))) == "leave out --keep-on-cpu"


def sum_of_scale(halvings: int) -> Op:
    return pair(Add, quant=PerTensor(2.0**-halvings))


@pytest.mark.parametrize("steps", range(1, 6))
def test_a_result_becomes_no_coarser_than_it_must(steps: int) -> None:
    """So many halvings past the limit, as many doublings are asked for."""
    finest = max(n for n in range(1, 30) if all_ok(N3_64.judge(sum_of_scale(n))))
    found = words(sum_of_scale(finest + steps))
    assert found.startswith(f"a result of scale {2.0 ** -(finest + steps):g} → {2.0**-finest:g} ")


def test_an_effective_clamp_has_no_fixit() -> None:
    assert words(clamp(-20, 60)) == ""


@pytest.mark.parametrize("cls", [cls for cls in ALL_OPS if cls not in N3_64.ops], ids=lambda cls: cls.kind)
def test_ops_that_the_npu_has_not_cannot_be_changed(cls: type[Op]) -> None:
    assert {words(op) for op in cls.examples()} == {""}


def test_real_numbers_are_quantized() -> None:
    assert words(with_types(lut(Function.TANH), dtype=DType.FLOAT32, quant=None)).startswith(
        "int8 (quantize the model)"
    )

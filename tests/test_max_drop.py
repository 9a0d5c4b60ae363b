# SPDX-License-Identifier: Apache-2.0
"""`--max-drop`: tensors get 16 bits until a metric of labelled samples is as good as wished."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import pillion
from pillion.boards.toolchain import Tool
from pillion.errors import PillionError
from pillion.evaluation.metric_goal import MetricGoal
from pillion.ir.precision_choice import MetricChange, PrecisionChoice


class Fine(nn.Module):
    """Classes that differ by little beside a large common part, which steps of 8 bits blur."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 24, 3), nn.Linear(24, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns five scores."""
        y = torch.relu(self.second(torch.relu(self.first(x))))
        return self.last(y.mean((2, 3))) * 0.5 + x.mean((1, 2, 3)).reshape(-1, 1)


@cache
def module() -> Fine:
    torch.manual_seed(3)
    return Fine().eval()


@cache
def samples(count: int = 120) -> tuple[np.ndarray, np.ndarray]:
    """Returns inputs and the classes that the float model answers."""
    x = torch.randn(count, 3, 7, 6, generator=torch.Generator().manual_seed(7))
    with torch.no_grad():
        return x.numpy(), module()(x).argmax(1).numpy()


CALIBRATE = [torch.randn(1, 3, 7, 6, generator=torch.Generator().manual_seed(100 + n)) for n in range(32)]


def compiled(goal: MetricGoal, **options: Any) -> pillion.Program:
    return pillion.compile(
        module(), (CALIBRATE[0],), target="cortex-m55", calibrate=CALIBRATE, metric=goal, **options
    )


def choice_of(program: pillion.Program) -> PrecisionChoice:
    assert program.precision is not None
    return program.precision


@cache
def chosen() -> pillion.Program:
    return compiled(MetricGoal(samples(), "0.5%"))


def test_the_metric_of_the_program_is_that_of_the_choice() -> None:
    program, (before, after, everywhere) = chosen(), choice_of(chosen()).metrics
    assert before.drop > 0.005 >= after.drop
    assert after.in_float == 1
    assert pillion.evaluate(program, samples()).metrics["top1"] == after.found
    assert 0 < len(choice_of(program).tensors) <= choice_of(program).candidates
    assert everywhere.is_ok
    assert "top1" in program.explain()


@pytest.mark.nightly
def test_bounds_that_contradict_are_named_with_ways_out_that_work() -> None:
    many = samples(500)
    with pytest.raises(PillionError) as error:
        compiled(MetricGoal(many, "0.2%"), max_time="+0%")
    assert "--max-drop 0.2%" in error.value.what
    drop, _, time = error.value.help.removeprefix("--max-drop ").partition(", or --max-time ")
    loose = choice_of(compiled(MetricGoal(many, drop), max_time="+0%"))
    slow = choice_of(compiled(MetricGoal(many, "0.2%"), max_time=time))
    assert all(choice.metrics[1].is_ok for choice in (loose, slow))
    assert all(verdict.ok for verdict in (*loose.verdicts, *slow.verdicts))


@pytest.mark.nightly
def test_a_drop_that_16_bits_everywhere_have_is_refused_with_one_that_works() -> None:
    with pytest.raises(PillionError) as error:
        compiled(MetricGoal(samples(500), "0%"))
    drop = error.value.help.removeprefix("--max-drop ").partition(". ")[0]
    assert choice_of(compiled(MetricGoal(samples(500), drop))).metrics[1].is_ok


@pytest.mark.nightly
def test_quality_and_metric_hold_together() -> None:
    best = choice_of(chosen()).everywhere
    choice = choice_of(compiled(MetricGoal(samples(), "0.5%"), min_quality=f"{best - 1:.1f}dB"))
    assert choice.after >= best - 1
    assert choice.metrics[1].is_ok


@pytest.mark.nightly
def test_weights_of_4_bits_keep_the_metric_or_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Constants alone count, as without the compiler: kernels for 4 bits are larger than what they save here."""
    monkeypatch.setattr("pillion.run.flash_size.ARM_COMPILER", Tool("none", ("no-such-compiler",), "", ""))
    size = chosen().constant_bytes + chosen().lowered.params_bytes
    with pytest.raises(PillionError) as error:
        compiled(MetricGoal(samples(), "0.5%"), max_flash=size - 700)
    assert f"--max-flash {size - 700} and --max-drop 0.5%" in error.value.what
    limit = int(error.value.help.removeprefix("--max-flash ").partition(",")[0])
    assert compiled(MetricGoal(samples(), "0.5%"), max_flash=limit).flash.bytes <= limit
    program = compiled(MetricGoal(samples(), "5%"), max_flash=size - 700)
    assert program.four_bits is not None
    assert program.four_bits.layers
    found = choice_of(program).metrics[1]
    assert found.is_ok
    assert pillion.evaluate(program, samples()).metrics["top1"] == found.found


@pytest.mark.parametrize(
    ("name", "in_float", "found", "drop"),
    [
        ("top1", 0.9, 0.88, 0.02),
        ("auc", 0.9, 0.91, -0.01),
        ("mse", 2.0, 2.2, 0.1),
        ("score", 50.0, 40.0, 0.2),
        ("score", 0.0, 0.0, 0.0),
        ("top1", 0.9, 0.9, 0.0),
    ],
)
def test_shares_drop_by_points_and_other_numbers_by_parts(
    name: str, in_float: float, found: float, drop: float
) -> None:
    change = MetricChange(name, in_float, found, 0.01, 100)
    assert change.drop == pytest.approx(drop)
    assert "-0.00" not in change.text


def test_a_bound_finer_than_a_sample_is_said() -> None:
    assert "1.00 points" in MetricChange("top1", 1, 1, 0.005, 100).note
    assert MetricChange("top1", 1, 1, 0.005, 200).note == ""


@pytest.mark.parametrize(
    "options",
    [{"precision": "int16"}, {"int16": ("last",)}],
)
def test_named_tensors_exclude_the_search(options: dict[str, Any]) -> None:
    with pytest.raises(PillionError, match="chosen twice"):
        compiled(MetricGoal(samples(), "0.5%"), **options)


def test_the_name_of_a_metric_alone_is_refused() -> None:
    with pytest.raises(PillionError, match=r"MetricGoal\(data, '0.5%', 'top1'\)"):
        compiled("top1")  # type: ignore[arg-type]


def test_a_model_that_is_quantized_already_has_no_choice() -> None:
    trained = pillion.prepare_qat(module(), (torch.randn(4, 3, 7, 6),), "cortex-m55")
    trained(torch.randn(4, 3, 7, 6))
    with pytest.raises(PillionError, match="prepared for training"):
        pillion.compile(
            trained.eval(), (CALIBRATE[0],), target="cortex-m55", metric=MetricGoal(samples(), "0.5%")
        )

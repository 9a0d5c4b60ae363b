# SPDX-License-Identifier: Apache-2.0
"""Reports say in a sentence what tensors of 16 bits gain and cost."""

from __future__ import annotations

from pillion.ir.precision_choice import ChosenTensor, PlanCost, PrecisionChoice


def test_all_costs_of_a_tensor_are_named() -> None:
    tensors = ChosenTensor("stem", 3.25, 50.0, 1024, -96), ChosenTensor("head", 9.0, -10.0, 0, 0)
    cost = PlanCost(1000.0, 5000, 8000)
    choice = PrecisionChoice(35.0, 30.0, 40.0, 50.0, tensors, 7, cost, cost, cost, "8 samples")
    assert choice.text.endswith(
        "stem (+3.2 dB, +5.0 %, +1,024 bytes of RAM, -96 bytes of flash), head (+9.0 dB, -1.0 %)"
    )

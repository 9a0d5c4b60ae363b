# SPDX-License-Identifier: Apache-2.0
"""The gate on the quality of quantization: its record, and small networks measured again."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from nightly import part_of
from pillion import zoo

ROOT = Path(__file__).parents[1]
LARGE = {"mobilenet_v2", "unet", "yolo_two_heads"}
"""They may be missing in the record."""
RECORD = json.loads((ROOT / "benchmarks" / "quality.json").read_text())


def loaded(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"gate_{Path(path).stem}", ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_each_network_is_recorded_and_within_the_gate_or_has_a_reason() -> None:
    page, gate = loaded("tools/quality_page.py"), loaded("benchmarks/quality.py")
    known = {*gate.TRAINED, *zoo.MODELS, *gate.EXAMPLES, *gate.RECURRENT, *gate.STATEFUL}
    assert known - set(RECORD) <= LARGE | set(gate.TRAINED)
    assert set(RECORD) <= known
    below = {name for name, figures in RECORD.items() if page.needs_reason(name, figures)}
    assert below == page.REASONS.keys()


def test_networks_that_miss_the_goal_of_16_bits_have_a_reason() -> None:
    page = loaded("tools/quality_page.py")
    record = json.loads(page.PRECISION_RECORD.read_text())
    assert page.MISSED.keys() == {name for name, one in record.items() if not page.reaches_goal(one)}


def test_a_refused_quality_has_the_figures_of_the_one_that_was_named() -> None:
    page = loaded("tools/quality_page.py")
    narrow = {"db": 20.0, "instructions": 1000, "wide": 0, "of": 8}
    mixed = {"db": 30.5, "instructions": 1250, "wide": 4, "of": 8, "refused": "…", "min_quality": "29.5dB"}
    assert page.against_int8(mixed, narrow) == "30.5 · 4 of 8 · 1.25 × (at 29.5dB)"
    one = {"int8": narrow, "mixed": mixed, "nearest": mixed | {"db": 31.4}}
    assert page.reaches_goal(one)
    assert not page.reaches_goal({**one, "nearest": mixed | {"db": 31.6}})
    dear = {**one, "mixed": mixed | {"instructions": 1301}}
    assert not page.reaches_goal(dear)
    assert page.reaches_goal(dear | {"bounded": mixed | {"instructions": 1300}})
    assert not page.reaches_goal(dear | {"bounded": mixed | {"db": 30.3}})


def test_models_that_remember_are_within_the_gate_after_240_steps() -> None:
    page, gate = loaded("tools/quality_page.py"), loaded("benchmarks/quality.py")
    assert all(page.passes(name, RECORD[name]) for name in gate.STATEFUL)


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("a, trained", {"ours": 39.9}),
        ("a", {"ours": 38.9}),
        ("a, trained", {"same_class": {"ours": 0.93, "plain": 0.97}}),
        ("a", {"at_end": {"ours": 38.9, "xnnpack": 40.0}}),
        ("a", {"ours": 24.9, "plain": 25.0, "at_end": {"ours": 40.0}}),
    ],
)
def test_the_gate_judges_decibels_agreement_and_the_last_steps(name: str, changed: dict[str, object]) -> None:
    page = loaded("tools/quality_page.py")
    figures = {"ours": 40.0, "plain": 40.0}
    assert page.passes(name, figures)
    assert not page.passes(name, {**figures, **changed})


@pytest.mark.slow
@pytest.mark.parametrize("name", part_of(["digits, small", "linear_bn", "integrator, 240 steps"], 2))
def test_small_networks_are_as_good_as_recorded(name: str) -> None:
    pytest.importorskip("executorch.backends.xnnpack")
    gate = loaded("benchmarks/quality.py")
    found = gate.measure(name)
    assert loaded("tools/quality_page.py").passes(name, found)
    for way in RECORD[name].keys() & set(gate.WAYS):
        assert found[way] == pytest.approx(RECORD[name][way], abs=0.5)

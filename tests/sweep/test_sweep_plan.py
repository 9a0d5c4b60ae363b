# SPDX-License-Identifier: Apache-2.0
"""Sweep files: what they may say, and what is said of those that say something else."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_sweeps import plan_of, sweep_file

from pillion.errors import PillionError
from pillion.evaluation.gates import parse_count
from pillion.option_parsers import parse_bytes
from pillion.sweep.axes import AxisRange
from pillion.sweep.sweep_file import read_plan
from pillion.sweep.toml_tables import number_of
from pillion.sweep.variants import all_variants, count_variants

MODEL = '[[model]]\nsource = "net.py:Net"\n'
OPTIONS = '[options]\ntarget = "cortex-m33"\n'


def test_every_combination_is_a_variant(tmp_path: Path) -> None:
    plan = plan_of(
        tmp_path,
        MODEL
        + "arguments = { width = [2, 3], bias = [true, false] }\n"
        + '[[model]]\nsource = "conv_bn_relu"\ninput_size = [9, "8x11"]\n'
        + '[options]\ntarget = ["cortex-m33", "imxrt700"]\noptimize = ["speed", "size"]\n',
    )
    variants = all_variants(plan)
    assert count_variants(plan) == len(variants) == 2 * 2 * 2 * 2 + 2 * 2 * 2
    first, last = variants[0], variants[-1]
    assert first[0].name == "net"
    assert first[0].source == f"{tmp_path}/net.py:Net"
    assert first[1] == {
        "arguments.width": 2,
        "arguments.bias": True,
        "target": "cortex-m33+int8",
        "optimize": "speed",
    }
    assert last[0].source == "conv_bn_relu"
    assert last[1] == {"input_size": (8, 11), "target": "imxrt700", "optimize": "size"}


def test_a_model_has_options_of_its_own(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, MODEL + 'target = ["cortex-m4", "cortex-m7"]\n' + OPTIONS)
    assert [values["target"] for _, values in all_variants(plan)] == ["cortex-m4+int8", "cortex-m7+int8"]


def test_numbers_of_a_range() -> None:
    assert AxisRange(2, 9, 3).values == (2, 5, 8)
    assert AxisRange(0.1, 0.4, 0.1).values == (0.1, 0.2, 0.3, 0.4)
    assert [type(one) for one in AxisRange(1, 2, 1).values] == [int, int]


def test_lists_in_lists_are_values(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, MODEL + "arguments = { channels = [[4, 8], [16]] }\n" + OPTIONS)
    assert [values["arguments.channels"] for _, values in all_variants(plan)] == [(4, 8), (16,)]


@pytest.mark.parametrize(
    ("text", "number"),
    [("256 KB", 262_144), ("256K", 262_144), ("1.5MB", 1_572_864), ("2 m", 2_097_152), (7, 7), ("12", 12)],
)
def test_sizes_are_multiples_of_1024(text: object, number: float) -> None:
    assert number_of(text, is_size=True) == number
    assert isinstance(text, int) or parse_bytes(str(text)) == number


@pytest.mark.parametrize(
    ("text", "number"), [("256K", 256_000), ("20 M", 20_000_000), ("1.5G", 1_500_000_000), (0.5, 0.5)]
)
def test_counts_are_multiples_of_1000(text: object, number: float) -> None:
    assert number_of(text) == number
    assert isinstance(text, float) or parse_count("--max-instructions", str(text)) == number


@pytest.mark.parametrize("text", ["", "KB", "-1 KB", "1 TB", "1e9", True, None, [], float("inf"), "9" * 400])
def test_other_things_are_none(text: object) -> None:
    assert number_of(text) is None
    assert number_of(text, is_size=True) is None


def test_the_unit_of_a_limit_follows_its_figure(tmp_path: Path) -> None:
    goal = "[search]\nminimize = 'macs'\nat_most = { ram_bytes = '2K', instructions = '2K' }\n"
    search = plan_of(tmp_path, MODEL + OPTIONS + goal).search
    assert search is not None
    assert search.at_most == {"ram_bytes": 2048, "instructions": 2000}


REFUSED = {
    "a misspelt table": ("[[modell]]\n", "did you mean", "model"),
    "a misspelt key": (MODEL + "wieghts = 'w.npz'\n" + OPTIONS, "did you mean `weights`?", "wieghts"),
    "a misspelt option": (MODEL + OPTIONS + "optimise = 'size'\n", "did you mean `optimize`?", "[options]"),
    "a misspelt key of measure": (
        MODEL + OPTIONS + "[measure]\nartifacts = []\n",
        "`artefacts`",
        "[measure]",
    ),
    "a misspelt key of search": (MODEL + OPTIONS + "[search]\nminimise = 'macs'\n", "`minimize`", "[search]"),
    "a misspelt figure": (
        MODEL + OPTIONS + "[search]\nminimize = 'instruction'\n",
        "did you mean `instructions`?",
        "figures: ram_bytes",
    ),
    "a goal that is no name": (
        MODEL + OPTIONS + "[search]\nmaximize = true\n",
        "one of these",
        "maximize: True",
    ),
    "goals that are no names": (
        MODEL + OPTIONS + "[search]\nminimize = ['macs', 3]\n",
        "one of these",
        "minimize: 3",
    ),
    "a misspelt target": (MODEL + "[options]\ntarget = 'cortex-m34'\n", "did you mean", "cortex-m34"),
    "no model": (OPTIONS, "[[model]]", "no model"),
    "no target": (MODEL, "[options]", "no target"),
    "no source": ("[[model]]\nname = 'x'\n" + OPTIONS, "source", "[[model]] 1"),
    "a wrong type": ("[[model]]\nsource = 3\n" + OPTIONS, "a text", "a whole number: 3"),
    "an empty axis": (MODEL + "arguments = { width = [] }\n" + OPTIONS, "leave `width` out", "width = []"),
    "a value twice": (
        MODEL + "[options]\ntarget = ['cortex-m33', 'cortex-m33+int8']\n",
        "leave one",
        "twice",
    ),
    "two models of a name": (MODEL + MODEL + OPTIONS, "name", "two models are called net"),
    "a range upside down": (
        MODEL + "arguments = { width = { low = 3, high = 2 } }\n" + OPTIONS,
        "turn them round",
        "low = 3, high = 2",
    ),
    "a step of nearly nothing": (
        MODEL + "arguments = { width = { low = 0, high = 1, step = 1e-300 } }\n" + OPTIONS,
        "larger step",
        "100,000",
    ),
    "a range of nan": (
        MODEL + "arguments = { width = { low = nan, high = 1 } }\n" + OPTIONS,
        "turn them round",
        "low = nan",
    ),
    "arguments for a zoo model": (
        '[[model]]\nsource = "ds_cnn"\narguments = { width = 1 }\n' + OPTIONS,
        "leave [model.arguments] out",
        "ds_cnn",
    ),
    "a date": (MODEL + "arguments = { width = 2026-01-01 }\n" + OPTIONS, "width = [1, 2]", "datetime"),
    "metrics without data": (MODEL + OPTIONS + "[measure]\nmetrics = 'top1'\n", "data", "without data"),
    "an unknown metric": (
        MODEL + OPTIONS + "[measure]\ndata = 'd.npz'\nmetrics = 'topp'\n",
        "--metric top1",
        "topp",
    ),
    "a limit of nothing": (
        MODEL + OPTIONS + "[measure]\ndata = 'd.npz'\nlimit = 0\n",
        "leave it out",
        "limit = 0",
    ),
    "a limit that is none": (
        MODEL + OPTIONS + "[search]\nminimize = 'macs'\nat_most = { ram_bytes = 'much' }\n",
        '"256K"',
        "much",
    ),
    "no goal": (MODEL + OPTIONS + "[search]\n", "minimize", "no goal"),
    "a goal that is not measured": (
        MODEL + OPTIONS + "[measure]\ninstructions = false\n[search]\nminimize = 'instructions'\n",
        "instructions = true",
        "not measured",
    ),
    "no TOML": ("[[model]\n", "correct the file", "line 1"),
    "a thousand brackets": ("a = " + "[" * 100_000, "correct the file", "TOML"),
    "a table in the place of models": ("[model]\n" + OPTIONS, "a list", "a table"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_invalid_sweep_files_are_refused(case: str, tmp_path: Path) -> None:
    text, help, words = REFUSED[case]
    with pytest.raises(PillionError) as caught:
        read_plan(sweep_file(tmp_path, text))
    assert help in caught.value.help
    assert words in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PillionError, match="no file of this name"):
        read_plan(tmp_path / "nothing.toml")


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(PillionError, match="are the most"):
        read_plan(sweep_file(tmp_path, "#" * (1 << 20) + "\n"))


def test_a_range_without_steps_is_for_searches(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, MODEL + "arguments = { width = { low = 1, high = 9 } }\n" + OPTIONS)
    with pytest.raises(PillionError, match="a range has a step") as caught:
        count_variants(plan)
    assert "--search" in caught.value.help


def test_too_many_variants_are_counted_not_made(tmp_path: Path) -> None:
    axes = ", ".join(f"a{i} = {{ low = 1, high = 90000, step = 1 }}" for i in range(5))
    plan = plan_of(tmp_path, MODEL + f"arguments = {{ {axes} }}\n" + OPTIONS)
    with pytest.raises(PillionError, match="5,904,900,000,000,000,000,000,000 variants"):
        all_variants(plan)

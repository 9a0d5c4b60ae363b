# SPDX-License-Identifier: Apache-2.0
"""The page as text: one file, nothing from elsewhere, and names that stay names."""

from __future__ import annotations

import builtins
import dataclasses
import json
import re
import subprocess
import sys
import zipfile
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import hostile
import numpy as np
import pytest

import faulty_executors
from pillion.emitters.c.kernel_costs import core_cycles
from pillion.errors import PillionError
from pillion.ir.types import Value
from pillion.partition import all_on_cpu
from pillion.program import Program
from pillion.report.collect import collect
from pillion.report.page import render, script_data_json
from pillion.report.pictures.arena_picture import draw_arena, format_size, tick_sizes
from pillion.report.pictures.network import draw_network
from pillion.report.report_facts import ArenaFacts, Facts, PeakFacts, ResidentFacts, TimeFacts
from pillion.report.report_options import ReportOptions
from pillion.targets import find_target

pytestmark = pytest.mark.torch
ROOT = Path(__file__).parents[2]


class Seen(HTMLParser):
    """Elements, ids and links of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.script: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] == "script":
            self.script.append(data)

    def all(self, name: str) -> list[str]:
        return [value or "" for key, value in self.attributes if key == name]


def test_links_lead_somewhere_on_the_page(npu_page: Path) -> None:
    seen = Seen(npu_page.read_text("utf-8"))
    ids = seen.all("id")
    assert len(ids) == len(set(ids))
    links = seen.all("href")
    assert links
    assert {link for link in links if link[1:] not in ids} == set()
    assert {link[0] for link in links} == {"#"}


def test_the_report_page_loads_no_other_file(npu_page: Path) -> None:
    page = npu_page.read_text("utf-8")
    seen = Seen(page)
    assert not seen.all("src")
    assert not {"link", "iframe", "img", "object", "base"} & set(seen.tags)
    assert not re.findall(r"(?:https?:)?//[\w.]+\.\w+|url\(|@import", page.replace("\n// ", ""))
    assert "default-src 'none'" in page


@pytest.mark.parametrize("which", ["on_npu", "on_cpu"])
def test_every_op_is_there_with_its_reasons(which: str, request: pytest.FixtureRequest) -> None:
    program: Program = request.getfixturevalue(which)
    facts = collect(program, ReportOptions(measure=False))
    seen = Seen(render(facts))
    assert [i for i in seen.all("id") if i.startswith("op-")] == [f"op-{op.number}" for op in facts.ops]
    held = json.loads(next(text for text in seen.script if text.startswith("{")))
    assert [op["because"] for op in held["ops"]] == [op.because for op in facts.ops]
    assert [op["flip"] for op in held["ops"]] == [op.flip for op in facts.ops]
    assert [len(op["rules"]) for op in held["ops"]] == [len(op.rules) for op in facts.ops]


def test_the_same_program_has_the_same_page(on_npu: Program) -> None:
    pages = [render(collect(on_npu, ReportOptions(measure=False))) for _ in range(2)]
    assert pages[0] == pages[1]


def test_names_from_a_model_stay_names() -> None:
    rng = np.random.default_rng(0)
    data = [rng.standard_normal((1, 5, 4, 3))]
    program = hostile.program()
    page = render(collect(program, ReportOptions(data, measure=False, command=hostile.NAMES[0])))
    page.encode()  # halves of characters would not go into a file
    seen = Seen(page)
    assert seen.tags.count("script") == 2
    assert not {"img", "b"} & set(seen.tags)
    assert not [name for name, _ in seen.attributes if name.startswith("on")]
    assert "49" not in re.findall(r"\{\{.*?\}\}|>49<", page)
    assert page.count("</script>") == 2
    assert not set(script_data_json(collect(program, ReportOptions(measure=False)))) & set("<>&\u2028\u2029")
    assert "onerror" not in "".join(re.findall(r"<[^>]*>", program._repr_html_()))
    assert hostile.NAMES[3] in program._repr_html_()


def long_names() -> Program:
    """A program whose tensors have the names of a file of TensorFlow's."""
    graph = faulty_executors.net()
    longest = "functional_1/batch_normalization/FusedBatchNormV3;functional_1/conv2d/BiasAdd/ReadVariableOp/resource"
    names = {
        v: Value(f"model/layer_{i}/Relu;{longest * 3}{i}", v.type, v.data)
        for i, v in enumerate(graph.values.values())
    }
    target = find_target("cortex-m33")
    graph = graph.substitute(names)
    return Program(graph, target, all_on_cpu(graph, core_cycles(target.core), ""))


def test_long_names_are_shown_shortened_and_told_whole() -> None:
    page = render(collect(long_names(), ReportOptions(measure=False)))
    seen = Seen(page)
    shown = re.sub(r"<(script|title)\b.*?</\1>|<[^>]*>", " ", page, flags=re.DOTALL)
    assert not re.search(r"\S{100}", re.sub(r"[0-9a-f]{64}", "", shown))
    assert re.search(r"model/layer_\d+/Relu", shown)
    assert any(len(title) > 300 for title in seen.all("title"))


@pytest.mark.parametrize(
    ("there", "db", "words", "not_said"),
    [
        (10**6, 40.0, "Fits cortex-m55+int8: ", "Bad quality"),
        (100, 1.6, "Does not fit cortex-m55+int8: ", "Fits "),
        (
            None,
            1.6,
            "Bad quality: the output has 1.6 dB signal to noise, the answers are mostly noise",
            "it cortex",
        ),
    ],
)
def test_the_verdict_comes_first(
    there: int | None, db: float, words: str, not_said: str, on_cpu: Program, samples: Any
) -> None:
    facts = collect(on_cpu, ReportOptions(samples, measure=False))
    tensors = tuple(dataclasses.replace(q, signal_to_noise_db=db) for q in facts.quality.tensors)
    quality = dataclasses.replace(facts.quality, tensors=tensors)
    page = render(dataclasses.replace(facts, sram_bytes_of_chip=there, quality=quality))
    before = page.partition('<div class="tiles">')[0]
    assert words in before
    assert not_said not in before
    assert ('<strong class="bad">1.6 dB</strong>' in page) == (db < 15)
    assert ('<strong class="well">40.0 dB</strong>' in page) == (db > 30)


@pytest.mark.parametrize(("there", "verdict"), [(10**6, "Fits"), (100, "Does not fit"), (None, "")])
def test_flash_has_a_verdict_where_it_is_known(there: int | None, verdict: str, on_cpu: Program) -> None:
    facts = collect(on_cpu, ReportOptions(measure=False, max_flash=there))
    before = render(facts).partition('<div class="tiles">')[0]
    assert (f"{verdict} cortex-m55+int8: ≥ " in before) == bool(verdict), "code was not linked"
    assert (" flash, without code" in before) == bool(verdict)
    linked = dataclasses.replace(facts, measured=dataclasses.replace(facts.measured, code_bytes=5000))
    assert (
        linked.flash_bytes
        == facts.flash_bytes + 5000
        == on_cpu.constant_bytes + on_cpu.lowered.params_bytes + 5000
    )
    assert "≥" not in render(linked).partition('<div class="tiles">')[0]


def test_boxes_name_the_module_and_the_kind(npu_facts: Facts) -> None:
    boxes = re.findall(
        r'<text[^>]*font-weight="600"[^>]*>([^<]*)</text>\s*<text[^>]*>([^<]*)</text>',
        draw_network(npu_facts),
    )
    for op in npu_facts.ops:
        if op.module:
            assert (op.module, f"{op.kind} {'×'.join(map(str, op.makes[0].shape))}") in boxes


def test_with_a_clock_the_page_tells_time_and_rate(on_cpu: Program, tmp_path: Path) -> None:
    time = on_cpu.time("160MHz").milliseconds
    page = on_cpu.report(tmp_path / "a.html", measure=False, clock="160MHz").read_text("utf-8")
    told = TimeFacts("160 MHz", time.low, time.high, "", "")
    assert f"<strong>{told.milliseconds}</strong>" in page
    assert f"{told.rate} at 160 MHz" in page
    assert "--clock gives ms" not in page
    assert TimeFacts("", 2.0, 5.0, "", "").rate == "200–500 per second"


def test_ops_are_known_by_the_path_of_their_module(npu_facts: Facts) -> None:
    labels = {op.label: op for op in npu_facts.ops if op.module}
    assert any(op.kind == "conv2d" for op in labels.values())
    page = render(npu_facts)
    for op in labels.values():
        assert op.source.endswith(f" {op.module}")
        assert f' title="{op.name}">{op.module}</a>' in page


def test_labels_of_boxes_that_overlap_do_not() -> None:
    one = ResidentFacts("first_name", "activation", 0, 1000, 0, 3, -1)
    two = ResidentFacts("second_name", "activation", 0, 1000, 0, 3, -1)
    peak = PeakFacts(0, 0, "x", 1000, ())
    arena = ArenaFacts(1000, 1000, 1000, 0, ("a",) * 4, (0,) * 4, (1000,) * 4, (one, two), peak, None, ())
    lines = re.findall(r'<text x="[\d.]+" y="([\d.]+)"[^>]*>(?:first|second)_name', draw_arena(arena))
    assert len(lines) == 2
    assert abs(float(lines[0]) - float(lines[1])) >= 13


def test_a_page_without_data_and_tools_says_why(on_cpu: Program) -> None:
    page = render(collect(on_cpu, ReportOptions(measure=False)))
    assert "no data was given: --data or --calibrate" in page
    assert "Instructions are not counted: not asked for (--no-measure)" in page


def test_reports_without_jinja_name_the_package(
    on_cpu: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without_jinja(name: str, *rest: Any, **more: Any) -> Any:
        if name.split(".")[0] in ("jinja2", "markupsafe"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without_jinja)
    with pytest.raises(PillionError, match=r"pip install 'pillion\[report\]'"):
        on_cpu.report(tmp_path / "r.html")
    assert not list(tmp_path.iterdir())
    assert "<svg" in on_cpu._repr_html_()  # a notebook needs no extra


def test_python_writes_the_page(on_cpu: Program, samples: Any, tmp_path: Path) -> None:
    counts: list[tuple[int, int | None]] = []
    path = on_cpu.report(
        tmp_path / "r.html", samples, measure=False, progress=lambda done, total: counts.append((done, total))
    )
    assert path == tmp_path / "r.html"
    assert counts == [(1, 3), (2, 3), (3, 3)]
    page = path.read_text("utf-8")
    assert page.startswith("<!doctype html>")
    assert "through the float model" in page


def test_a_notebook_shows_the_figures(on_npu: Program) -> None:
    shown = on_npu._repr_html_()
    seen = Seen(shown)
    assert {"table", "svg", "rect"} <= set(seen.tags)
    assert not seen.all("href")  # links would lead out of the notebook
    assert f"{on_npu.graph.macs:,}" in shown
    assert f"{len(on_npu.ledger.on_npu)} on the NPU" in shown
    assert f"peak: {on_npu.memory.arena_bytes:,} bytes" in shown


@pytest.mark.parametrize("top", [1, 7, 16, 999, 5808, 10_240, 602_112, 1_404_944, 10_485_760, 4_000_000_000])
def test_the_scale_is_round(top: int) -> None:
    found = tick_sizes(top)
    unit = next(unit for unit in (1024**2, 1024, 1) if top >= 10 * unit or unit == 1)
    assert found[0] == 0
    assert found[-1] <= top < found[-1] + found[1] - found[0]
    assert len(found) <= 11
    assert str((found[1] - found[0]) // unit).rstrip("0") in ("1", "2", "5")
    assert len({format_size(size) for size in found}) == len(found)


def test_the_page_shows_the_numbers_of_the_facts(npu_facts: Facts, npu_page: Path) -> None:
    page = npu_page.read_text("utf-8")
    for figure in (
        npu_facts.macs,
        npu_facts.arena.arena_bytes,
        npu_facts.crossing_bytes,
        npu_facts.constant_bytes,
    ):
        assert f"{figure:,}" in page


def test_the_wheel_has_the_page_and_all_kernels(tmp_path: Path) -> None:
    """Templates, style, script and C are no Python: a build may forget them."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    names = set(zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist())
    assert {f"pillion/report/page/report.{kind}" for kind in ("html", "css", "js")} <= names
    sources = [p for p in (ROOT / "kernels").rglob("*.[ch]") if p.parent.name not in ("tests", "build")]
    assert {f"pillion/{source.relative_to(ROOT).as_posix()}" for source in sources} <= names

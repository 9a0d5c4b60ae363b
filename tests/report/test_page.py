# SPDX-License-Identifier: Apache-2.0
"""The page as text: one file, nothing from elsewhere, and names that stay names."""

from __future__ import annotations

import builtins
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

from pillion.errors import PillionError
from pillion.program import Program
from pillion.report.collect import collect
from pillion.report.facts import Facts
from pillion.report.page import island, render
from pillion.report.pictures.memory import size_in_words, ticks
from pillion.report.subject import Asked

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


def test_nothing_comes_from_elsewhere(npu_page: Path) -> None:
    page = npu_page.read_text("utf-8")
    seen = Seen(page)
    assert not seen.all("src")
    assert not {"link", "iframe", "img", "object", "base"} & set(seen.tags)
    assert not re.findall(r"(?:https?:)?//[\w.]+\.\w+|url\(|@import", page.replace("\n// ", ""))
    assert "default-src 'none'" in page


@pytest.mark.parametrize("which", ["on_npu", "on_cpu"])
def test_every_op_is_there_with_its_reasons(which: str, request: pytest.FixtureRequest) -> None:
    program: Program = request.getfixturevalue(which)
    facts = collect(program, Asked(measure=False))
    seen = Seen(render(facts))
    assert [i for i in seen.all("id") if i.startswith("op-")] == [f"op-{op.number}" for op in facts.ops]
    held = json.loads(next(text for text in seen.script if text.startswith("{")))
    assert [op["because"] for op in held["ops"]] == [op.because for op in facts.ops]
    assert [op["flip"] for op in held["ops"]] == [op.flip for op in facts.ops]
    assert [len(op["rules"]) for op in held["ops"]] == [len(op.rules) for op in facts.ops]


def test_the_same_program_has_the_same_page(on_npu: Program) -> None:
    pages = [render(collect(on_npu, Asked(measure=False))) for _ in range(2)]
    assert pages[0] == pages[1]


def test_names_from_a_model_stay_names() -> None:
    rng = np.random.default_rng(0)
    data = [rng.standard_normal((1, 5, 4, 3))]
    program = hostile.program()
    page = render(collect(program, Asked(data, measure=False, command=hostile.NAMES[0])))
    page.encode()  # halves of characters would not go into a file
    seen = Seen(page)
    assert seen.tags.count("script") == 2
    assert not {"img", "b"} & set(seen.tags)
    assert not [name for name, _ in seen.attributes if name.startswith("on")]
    assert "49" not in re.findall(r"\{\{.*?\}\}|>49<", page)
    assert page.count("</script>") == 2
    assert not set(island(collect(program, Asked(measure=False)))) & set("<>&\u2028\u2029")
    assert "onerror" not in "".join(re.findall(r"<[^>]*>", program._repr_html_()))
    assert hostile.NAMES[3] in program._repr_html_()


def test_a_page_without_data_and_tools_says_why(on_cpu: Program) -> None:
    page = render(collect(on_cpu, Asked(measure=False)))
    assert "no data was given: --data or --calibrate" in page
    assert "Instructions are not counted: not asked for (--no-measure)" in page


def test_without_the_template_engine_the_way_to_it_is_told(
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
    found = ticks(top)
    unit = next(unit for unit in (1024**2, 1024, 1) if top >= 10 * unit or unit == 1)
    assert found[0] == 0
    assert found[-1] <= top < found[-1] + found[1] - found[0]
    assert len(found) <= 11
    assert str((found[1] - found[0]) // unit).rstrip("0") in ("1", "2", "5")
    assert len({size_in_words(size) for size in found}) == len(found)


def test_numbers_of_the_page_are_those_of_the_facts(npu_facts: Facts, npu_page: Path) -> None:
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

# SPDX-License-Identifier: Apache-2.0
"""The page in a real browser: it opens from disk, sorts, zooms, leads from one view to another, and takes keys."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import hostile
import numpy as np
import pytest
from browser import Page

from pillion.report.collect import collect
from pillion.report.page import write_page
from pillion.report.report_facts import Facts
from pillion.report.report_options import ReportOptions

pytestmark = pytest.mark.torch


@pytest.fixture
def page(driver: Page, npu_page: Path) -> Iterator[Page]:
    driver.media()
    yield driver.open(npu_page)
    assert driver.complaints() == []


@pytest.mark.turns(3)
def test_the_page_opens_offline_without_console_messages(
    page: Page, npu_page: Path, npu_facts: Facts
) -> None:
    asked = {url for url in page.requests() if not url.startswith("data:")}
    assert asked <= {npu_page.as_uri(), "about:blank"}
    assert page.driver.title == f"{npu_facts.model} on mcxn947"
    assert page.js("document.querySelectorAll('#network a.op').length") == len(npu_facts.ops)
    assert page.js("document.documentElement.scrollWidth <= innerWidth")


def test_a_heading_sorts_its_table(page: Page, npu_facts: Facts) -> None:
    heading = page.one("#ops th:nth-child(6) button")
    heading.click()
    macs = [int(text.replace(",", "")) for text in page.texts("#ops tbody td:nth-child(6)")]
    assert macs == sorted((op.macs for op in npu_facts.ops), reverse=True)
    assert page.one("#ops th:nth-child(6)").get_attribute("aria-sort") == "descending"
    heading.click()
    assert page.texts("#ops tbody td:nth-child(6)") == [f"{m:,}" for m in sorted(macs)]
    page.one("#ops th:nth-child(2) button").send_keys("\ue007")  # Enter
    names = page.texts("#ops tbody td:nth-child(2)")
    assert names == page.js("arguments[0].sort((a, b) => a.localeCompare(b, 'en', {numeric: true}))", names)
    ratios = page.js(
        "[...document.querySelectorAll('#tensors th')].findIndex(h => h.textContent.startsWith('Signal'))"
    )
    page.one(f"#tensors th:nth-child({ratios + 1}) button").click()
    shown = page.texts(f"#tensors tbody td:nth-child({ratios + 1})")
    known = [float(text) for text in shown if text not in ("–", "exact")]
    assert known == sorted(known, reverse=True)
    assert shown[-1] == "–"  # what is not known is last in either order


def test_the_report_filter_shows_matching_ops(page: Page, npu_facts: Facts) -> None:
    page.press("/")
    page.press("cpu")
    shown = page.js("[...document.querySelectorAll('#ops tbody tr')].filter(r => !r.hidden).length")
    assert shown == len(npu_facts.ops) - npu_facts.on_npu
    assert page.one("#shown").text == f"{shown} of {len(npu_facts.ops)}"


def width_seen(page: Page) -> float:
    return float(page.js("document.getElementById('network').viewBox.baseVal.width"))


def test_the_graph_zooms_and_moves(page: Page) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    whole = width_seen(page)
    page.one("[data-zoom=in]").click()
    assert width_seen(page) == pytest.approx(whole / 1.4, rel=0.01)
    page.press("-")
    assert width_seen(page) == pytest.approx(whole, rel=0.01)
    page.press("+++")
    page.press("0")
    assert width_seen(page) == whole
    page.press("++")
    left = page.js("document.getElementById('network').viewBox.baseVal.x")
    page.js("document.getElementById('graph').scrollIntoView()")
    chain = ActionChains(page.driver).move_to_element_with_offset(page.one("#view"), 200, 150)
    chain.click_and_hold().move_by_offset(-60, 0).release().perform()
    moved = page.js("document.getElementById('network').viewBox.baseVal.x")
    assert moved > left
    page.js("document.getElementById('view').focus()")
    page.press("\ue014")  # right
    assert page.js("document.getElementById('network').viewBox.baseVal.x") > moved
    page.js(
        "document.getElementById('view').dispatchEvent(new WheelEvent('wheel',"
        "{deltaY: -120, ctrlKey: true, clientX: 500, clientY: 400, cancelable: true}))"
    )
    assert width_seen(page) < whole / 1.4**2 * 0.9


def details(page: Page) -> str:
    return str(
        page.js(
            "document.getElementById('details').hidden ? '' : document.getElementById('details').innerText"
        )
    )


def test_an_op_tells_all_of_itself(page: Page, npu_facts: Facts) -> None:
    op = next(op for op in npu_facts.ops if op.unit == "cpu" and op.flip)
    page.one(f"#network a[data-op='{op.number}']").click()
    words = details(page)
    for told in (
        op.name,
        op.kernel.name,
        op.because,
        op.flip,
        op.source,
        op.decided_by.rule,
        op.decided_by.got,
    ):
        assert told in words
    assert page.driver.current_url.endswith(f"#op-{op.number}")
    assert page.js("document.querySelectorAll('#ops tr.chosen').length") == 1
    assert page.js("document.querySelectorAll('#network .edge.chosen').length") > 0
    page.press("\ue00c")  # Escape
    assert details(page) == ""
    on_npu = next(op for op in npu_facts.ops if op.kind == "conv2d" and op.unit == "npu")
    page.one(f"#ops a[data-op='{on_npu.number}']").click()
    assert all(rule.rule in page.one("#details").get_attribute("textContent") for rule in on_npu.rules)
    assert "signal to noise" in details(page).lower()
    assert page.js("document.querySelectorAll('#details svg.histogram').length") == 1


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    "place", [".arena a.resident", ".panel.of-cycles a.row3", "#flash a", "#placement a"]
)
def test_all_pictures_and_tables_lead_to_ops(place: str, page: Page) -> None:
    link = page.one(place)
    number = link.get_attribute("data-op")
    page.js("arguments[0].scrollIntoView({block: 'center'})", link)
    page.js("arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true}))", link)
    assert page.driver.current_url.endswith(f"#op-{number}")
    assert details(page)


def test_an_address_leads_to_an_op(driver: Page, npu_page: Path, npu_facts: Facts) -> None:
    driver.open(npu_page, "#op-2")
    assert npu_facts.ops[2].name in details(driver)
    assert driver.complaints() == []
    driver.open(npu_page, "#op-999999")
    assert details(driver) == ""


def test_keys_alone_are_enough(page: Page, npu_facts: Facts) -> None:
    page.press("jj")
    assert npu_facts.ops[1].name in details(page)
    page.press("k")
    assert npu_facts.ops[0].name in details(page)
    page.press("\ue00c?")
    assert page.js("document.getElementById('keys').open")
    page.press("\ue00c")
    page.js("document.querySelector('#network a.op').focus()")
    page.press("\ue007")  # Enter follows the link that has the focus
    assert page.driver.current_url.endswith("#op-0")
    page.press("\ue00c")
    assert page.js("document.activeElement.dataset.op") == "0"  # back where one was
    page.js("document.querySelector('.switch input:checked').focus()")
    page.press("\ue014")  # right: the next measure
    assert page.js("getComputedStyle(document.querySelector('.panel.of-macs')).display") == "block"


def brightness(page: Page, selector: str, what: str) -> float:
    colour = page.js(f"getComputedStyle(document.querySelector(arguments[0])).{what}", selector)
    return sum(map(float, re.findall(r"[\d.]+", colour)[:3])) / 765


@pytest.mark.parametrize("by", ["system", "button"])
def test_the_page_is_light_or_dark(by: str, page: Page) -> None:
    assert brightness(page, "body", "backgroundColor") > 0.9 > 0.3 > brightness(page, "body", "color")
    if by == "system":
        page.media(prefers_color_scheme="dark")
    else:
        page.one("#theme").click()
    assert brightness(page, "body", "backgroundColor") < 0.2 < 0.7 < brightness(page, "body", "color")
    assert brightness(page, "#network", "color") > 0.7
    if by == "button":
        page.one("#theme").click()
        assert brightness(page, "body", "backgroundColor") > 0.9


def test_the_page_prints(page: Page) -> None:
    page.press("j+++")
    printed = page.printed()
    assert printed.startswith(b"%PDF-")
    pages = len(re.findall(rb"/Type\s*/Page\b", printed))
    assert 2 <= pages <= 9
    page.media(prefers_color_scheme="dark")
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert page.js("getComputedStyle(document.getElementById('details')).display") == "none"
    assert page.js("getComputedStyle(document.querySelector('.panel.of-macs')).display") == "block"
    assert brightness(page, "body", "backgroundColor") > 0.95
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_a_narrow_screen_needs_no_scrolling_sideways(page: Page) -> None:
    size = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        assert page.js("document.documentElement.scrollWidth") <= 390
        page.press("j")
        box = page.js("document.getElementById('details').getBoundingClientRect().toJSON()")
        assert box["left"] >= 0
        assert box["right"] <= 390
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_names_that_are_scripts_are_shown_and_not_run(driver: Page, tmp_path: Path) -> None:
    program = hostile.program()
    data = [np.random.default_rng(0).standard_normal((1, 5, 4, 3))]
    path = tmp_path / "<img src=x onerror=window.hit=3>.html"
    write_page(collect(program, ReportOptions(data, measure=False, command=hostile.NAMES[0])), path)
    driver.open(path)
    for number in range(len(program.graph.ops)):
        driver.press("j")
        assert program.graph.ops[number].kind in details(driver)
    driver.press("/")
    driver.press("<img src=x onerror=window.hit=4>")
    assert driver.js("window.hit") is None
    assert driver.js("document.images.length") == 0
    assert hostile.NAMES[0] in driver.js("document.getElementById('ops').textContent")
    assert hostile.SOURCE in driver.js("document.getElementById('details').textContent")
    assert driver.complaints() == []

# SPDX-License-Identifier: Apache-2.0
"""Programs and pages that the tests of reports look at; one browser for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import browser
import numpy as np
import pytest
import torch
from branches import SHAPE, Branches

import pillion
from pillion.compile_options import PlacementOptions
from pillion.ir.types import Array
from pillion.program import Program
from pillion.report.collect import collect
from pillion.report.page import write_page
from pillion.report.report_facts import Facts
from pillion.report.report_options import ReportOptions


@pytest.fixture(scope="session")
def samples() -> list[Array]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(SHAPE).astype(np.float32) for _ in range(3)]


@pytest.fixture(scope="session")
def on_npu(samples: list[Array]) -> Program:
    options = PlacementOptions(keep_on_cpu=("softmax*",))
    made = pillion.compile(
        Branches(), (torch.zeros(SHAPE),), target="mcxn947", calibrate=samples, placement=options
    )
    assert len(made.ledger.segments) > 1
    return made


@pytest.fixture(scope="session")
def on_cpu(samples: list[Array]) -> Program:
    return pillion.compile(Branches(), (torch.zeros(SHAPE),), target="cortex-m55", calibrate=samples)


@pytest.fixture(scope="session")
def npu_facts(on_npu: Program, samples: list[Array]) -> Facts:
    return collect(
        on_npu, ReportOptions(samples, measure=False, command="pillion report 'net.py:Net' -o r.html")
    )


@pytest.fixture(scope="session")
def npu_page(npu_facts: Facts, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "net.html"
    write_page(npu_facts, path)
    return path


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[browser.Page]:
    missing = browser.missing()
    if missing:
        pytest.skip(f"no browser: {missing} is not installed (make test-tools)")
    page = browser.Page(browser.start(tmp_path_factory.mktemp("profile")))
    yield page
    page.driver.quit()

# SPDX-License-Identifier: Apache-2.0
"""Makes docs/pictures/report.png: the report of a network, as Chromium shows it (python tools/report_picture.py)."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np

import pillion
from pillion.report.collect import collect
from pillion.report.page import write_page
from pillion.report.report_options import ReportOptions

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "pictures" / "report.png"
MODEL, TARGET, SIZE = "mobilenet_v2", "imxrt700", 96
MOST_BYTES = 200_000
WIDTH, HEIGHT = 1360, 1080
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    f"--window-size={WIDTH},{HEIGHT}",
)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        program = pillion.compile(MODEL, target=TARGET, calibrate=samples(), input_size=SIZE)
        write_page(collect(program, ReportOptions()), page)
        content = photographed(page, Path(folder))
    if len(content) > MOST_BYTES:
        sys.exit(f"the picture has {len(content):,} bytes, {MOST_BYTES:,} are the most")
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_bytes(content)
    print(f"{PICTURE.relative_to(ROOT)}: {len(content):,} bytes")


def samples() -> list[np.ndarray]:
    """Noise, as the network's weights are random too: the picture is of the page, not of a result."""
    rng = np.random.default_rng(0)
    return [rng.standard_normal((1, 3, SIZE, SIZE)).astype(np.float32) for _ in range(8)]


def photographed(page: Path, folder: Path) -> bytes:
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    for flag in (*FLAGS, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(flag)
    options.binary_location = shutil.which("chromium") or ""
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        driver.get(page.as_uri())
        return bytes(driver.get_screenshot_as_png())
    finally:
        driver.quit()


if __name__ == "__main__":
    main()

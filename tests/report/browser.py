# SPDX-License-Identifier: Apache-2.0
"""A real browser for the tests of pages: Chromium from the system's packages, without a window and without a network."""

from __future__ import annotations

import base64
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--window-size=1300,900",
)


def missing() -> str:
    """What is not there that a browser takes; empty where all is."""
    absent = [tool for tool in ("chromium", "chromedriver") if shutil.which(tool) is None]
    try:
        import selenium  # noqa: F401  # whether it is there
    except ImportError:
        absent.append("selenium")
    return ", ".join(absent)


def start(profile: Path) -> Any:
    """A browser with a profile of its own."""
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.binary_location = shutil.which("chromium") or ""
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))


@dataclass
class Page:
    """A page that is open in the browser."""

    driver: Any

    def open(self, path: Path, fragment: str = "") -> Page:
        self.driver.get("about:blank")
        for log in ("browser", "performance"):
            self.driver.get_log(log)
        self.driver.get(path.as_uri() + fragment)
        return self

    def js(self, expression: str, *arguments: object) -> Any:
        return self.driver.execute_script(f"return {expression}", *arguments)

    def one(self, selector: str) -> Any:
        return self.driver.find_element("css selector", selector)

    def texts(self, selector: str) -> list[str]:
        return self.js("[...document.querySelectorAll(arguments[0])].map(e => e.textContent)", selector)

    def press(self, keys: str) -> None:
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.driver).send_keys(keys).perform()

    def complaints(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """What the page has asked a network or the disk for."""
        found = self.driver.get_log("performance")
        import json

        events = [json.loads(entry["message"])["message"] for entry in found]
        return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]

    def media(self, **features: str) -> None:
        """Sets what the system prefers: `prefers_color_scheme="dark"`."""
        named = [{"name": k.replace("_", "-"), "value": v} for k, v in features.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": named})

    def printed(self) -> bytes:
        options = {"printBackground": True, "preferCSSPageSize": True}
        return base64.b64decode(self.driver.execute_cdp_cmd("Page.printToPDF", options)["data"])

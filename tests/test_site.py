# SPDX-License-Identifier: Apache-2.0
"""The site of the docs: it builds without a warning, asks no other computer for anything, and has every page in its nav."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

pytest.importorskip("mkdocs")
import site_hook  # noqa: E402  # its folder is put on the path first

LOADED = re.compile(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=[\"']?(https?:)?//|url\([\"']?(https?:)?//")
LINKED = re.compile(r"<link\b[^>]*>")
PICTURES = sorted((ROOT / "docs" / "pictures").glob("*.svg"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole site, built as `make docs-site` does. `--strict` makes an error of every warning: links, anchors, pages left out."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return folder


@pytest.mark.nightly
def test_every_page_is_in_the_nav(site: Path) -> None:
    start = (site / "index.html").read_text("utf-8")
    pages = [page.relative_to(ROOT / "docs").with_suffix(".html") for page in (ROOT / "docs").rglob("*.md")]
    assert len(pages) > 30
    assert [page for page in map(str, pages) if f'href="{page}"' not in start] == []
    assert 'href="project/changes.html"' in start
    assert 'href="examples/digits.html"' in start


@pytest.mark.nightly
def test_site_pages_load_no_external_files(site: Path) -> None:
    for page in [*site.rglob("*.html"), *site.rglob("*.css")]:
        text = page.read_text("utf-8")
        assert LOADED.search(text) is None, page
        sheets = [tag for tag in LINKED.findall(text) if "stylesheet" in tag or "preconnect" in tag]
        assert [tag for tag in sheets if "//" in tag] == [], page


@pytest.mark.nightly
def test_pictures_are_in_the_pages(site: Path) -> None:
    text = "".join(page.read_text("utf-8") for page in site.rglob("*.html"))
    for picture in PICTURES:
        label = re.search(r'aria-label="[^"]+"', picture.read_text("utf-8"))
        assert label, picture
        assert label[0] in text, picture


@pytest.mark.nightly
def test_the_api_is_made_from_the_code(site: Path) -> None:
    text = (site / "reference" / "api.html").read_text("utf-8")
    for name in (
        "compile",
        "Program",
        "arena_bytes",
        "prepare_qat",
        "PillionError",
        "io_dtype",
        "firmware",
        "measure",
    ):
        assert name in text
    assert ":::" not in text


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.stem)
def test_a_picture_has_colours_for_light_and_for_dark(picture: Path) -> None:
    text = picture.read_text("utf-8")
    assert "prefers-color-scheme:dark" in text
    drawn = text.split("</style>")[1]
    assert re.findall(r"#[0-9a-f]{3,6}\b|fill=|stroke=|style=", drawn) == []
    css = (ROOT / "docs" / "pictures" / "site.css").read_text("utf-8")
    for name in set(re.findall(r"var\((--\w+)\)", text)):
        assert text.count(f"{name}:#") == css.count(f"{name}: #") == 2, name


@pytest.mark.parametrize(
    ("page", "target", "link"),
    [
        ("guide/training.md", "quantization.md", "[a](quantization.md#x)"),
        ("guide/training.md", "../../examples/digits/README.md", "[a](../examples/digits.md#x)"),
        ("project/contributing.md", "docs/requirements.md", "[a](../requirements.md#x)"),
        ("project/contributing.md", "src/pillion/compiler.py", "a"),
        ("examples/digits.md", "../../docs/guide/training.md", "[a](../guide/training.md#x)"),
        ("index.md", "nowhere.md", "[a](nowhere.md#x)"),
    ],
)
def test_links_of_the_repository_become_links_of_the_site(page: str, target: str, link: str) -> None:
    assert site_hook.link("a", target, "#x", page) == link


def test_a_page_that_the_nav_does_not_name_goes_to_its_section() -> None:
    nav = [{"How to": ["guide/a.md"]}, {"Other": ["b.md"]}]
    done = site_hook.complete(nav, {"guide": "How to"}, ["guide/a.md", "guide/new.md", "b.md", "c.md"])
    assert done == [{"How to": ["guide/a.md", "guide/new.md"]}, {"Other": ["b.md"]}]

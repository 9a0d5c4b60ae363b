# SPDX-License-Identifier: Apache-2.0
"""What mkdocs asks when it builds the site: pages that the nav does not name, pages that lie outside docs/,
links to them, and pictures."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"\[([^][]*)\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)\s]*)?\)")
PICTURE = re.compile(r'<img [^>]*src="[^"]*pictures/([\w-]+\.svg)"[^>]*>')
PROJECT = "Project"
"""The section of the nav for pages that lie outside docs/."""


def outside() -> dict[str, str]:
    """Gives the pages outside docs/ that the site shows: path in the repository → path in the site."""
    guests = {"CONTRIBUTING.md": "project/contributing.md", "CHANGELOG.md": "project/changes.md"}
    for page in sorted((ROOT / "examples").glob("*/README.md")):
        guests[page.relative_to(ROOT).as_posix()] = f"examples/{page.parent.name}.md"
    return guests | {"README.md": "index.md", "examples/README.md": "tutorials/index.md"}


def home(page: str) -> str:
    """Gives the path in the repository of a page of the site."""
    shown = {site: path for path, site in outside().items() if not (ROOT / "docs" / site).exists()}
    return shown.get(page, f"docs/{page}")


def link(text: str, target: str, anchor: str, page: str) -> str:
    """Gives a link as it must be in the site. Files that the site does not show are named, not linked."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(home(page)), target))
    site = path.removeprefix("docs/") if path.startswith("docs/") else outside().get(path)
    if site is None:
        return text if (ROOT / path).exists() else f"[{text}]({target}{anchor})"
    return f"[{text}]({posixpath.relpath(site, posixpath.dirname(page) or '.')}{anchor})"


def complete(nav: list[dict[str, list[Any]]], sections: dict[str, str], pages: list[str]) -> list[Any]:
    """Adds pages that the nav does not name to the section of their folder."""
    by_name = {name: entries for section in nav for name, entries in section.items()}
    known = {entry for entries in by_name.values() for entry in entries}
    for page in pages:
        section = by_name.get(sections.get(page.split("/")[0], ""))
        if section is not None and page not in known:
            section.append(page)
    return nav


def on_config(config: Any) -> Any:
    """Completes the nav."""
    docs = Path(config.docs_dir)
    pages = sorted(page.relative_to(docs).as_posix() for page in docs.rglob("*.md"))
    guests = sorted(page for page in outside().values() if not (docs / page).exists())
    project = {"project": PROJECT, "examples": "Tutorials"}
    config.nav = complete(config.nav, config.extra["sections"] | project, pages + guests)
    return config


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages that lie outside docs/."""
    for path, page in outside().items():
        if files.get_file_from_path(page) is None:
            files.append(File.generated(config, page, abs_src_path=str(ROOT / path)))
    return files


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Puts the pictures into the page, where they take its colours."""

    def drawn(found: re.Match[str]) -> str:
        text = (ROOT / "docs" / "pictures" / found[1]).read_text("utf-8")
        return f'<div class="picture">{text[text.index("<svg") :]}</div>'

    return PICTURE.sub(drawn, html)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turns links between files of the repository into links between pages of the site, and lets the title of a generated page be
    its first line."""
    text = re.sub(r"\A<!--.*?-->\s*", "", markdown)
    return LINK.sub(lambda m: link(m[1], m[2], m[3] or "", page.file.src_uri), text)

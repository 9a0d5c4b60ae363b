# SPDX-License-Identifier: Apache-2.0
"""The HTML page of a report: one file that needs no network."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pillion.errors import PillionError
from pillion.host_io.atomic_files import write_whole
from pillion.report.image_report import ImageReport
from pillion.report.page.summary import grade, key_conclusions, summary_tiles
from pillion.report.pictures.arena_picture import draw_arena, format_size
from pillion.report.pictures.histogram import histogram_picture
from pillion.report.pictures.network import draw_network
from pillion.report.pictures.shares import cost_shares_picture, known_costs
from pillion.report.pictures.svg import clean_text
from pillion.report.pictures.timeline_picture import draw_timeline
from pillion.report.report_facts import Facts, PartFacts, TensorQuality

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


def render(facts: Facts) -> str:
    """Returns the page as HTML."""
    require_template_engine()
    from markupsafe import Markup

    environment = _jinja_environment()
    script = _package_file("report.js")
    shown = known_costs(facts)
    return environment.get_template("report.html").render(
        facts=facts,
        tiles=list(summary_tiles(facts)),
        measures=shown,
        shares={measure.key: Markup(cost_shares_picture(facts, measure)) for measure in shown},
        network=Markup(draw_network(facts)),
        memory=Markup(draw_arena(facts.arena, facts.shown)),
        timeline=Markup(draw_timeline(facts.overlap)) if facts.overlap else "",
        histograms=[Markup(histogram_picture(q.histogram, q.tensor)) for q in facts.quality.tensors],
        flash_tables=[
            (title, _bytes_by_group(parts), parts)
            for title, parts in (("Constants", facts.constants), ("Code", facts.code))
        ],
        on_cpu=[op for op in facts.ops if op.unit == "cpu"],
        verdicts=key_conclusions(facts),
        with_code=lambda text: _with_code(text, facts.shown),
        counted=facts.measured.instructions is not None,
        island=Markup(script_data_json(facts)),
        style=Markup(_package_file("report.css")),
        script=Markup(script),
        script_hash=_hash_of_script(script),
    )


def write_page(facts: Facts | ImageReport, path: Path) -> None:
    """Writes the page to a file atomically."""
    page = render_image(facts) if isinstance(facts, ImageReport) else render(facts)
    write_whole(path, page.encode())


def render_image(facts: ImageReport) -> str:
    """Returns the page of a program image as HTML."""
    require_template_engine()
    from markupsafe import Markup

    counted = facts.measured.instructions
    tiles = (
        ("Instructions", "–" if counted is None else f"{counted:,}", facts.measured.board, "#work"),
        ("Arena", format_size(facts.arena.arena_bytes), f"{facts.arena.arena_bytes:,} bytes", "#arena"),
        ("Image", format_size(facts.file_bytes), f"{facts.file_bytes:,} bytes of flash", "#flash"),
    )
    return (
        _jinja_environment()
        .get_template("image.html")
        .render(
            facts=facts,
            tiles=tiles,
            memory=Markup(draw_arena(facts.arena)),
            style=Markup(_package_file("report.css")),
        )
    )


def require_template_engine() -> None:
    """Raises if the packages that render pages are not installed."""
    try:
        import jinja2  # noqa: F401  # whether it is there
    except ImportError:
        raise PillionError(
            "reports need the template engine Jinja",
            rule="the page is made with the packages of the extra `report`",
            here="jinja2 is not installed",
            help="pip install 'pillion[report]'; the facts alone need nothing: pillion report --json",
        ) from None


def script_data_json(facts: Facts) -> str:
    """Returns the data for the page's script, as JSON that cannot close its element."""
    data = {"ops": [asdict(op) for op in facts.ops], "measured": asdict(facts.measured)}
    text = json.dumps(_clean_text(data), separators=(",", ":"))  # in ASCII
    return re.sub("[<>&]", lambda mark: f"\\u{ord(mark[0]):04x}", text)


def _clean_text(data: Any) -> Any:
    """Returns the data with all text made safe for a page."""
    match data:
        case str():
            return clean_text(data)
        case dict():
            return {key: _clean_text(value) for key, value in data.items()}
        case list() | tuple():
            return [_clean_text(item) for item in data]
        case _:
            return data


@cache
def _jinja_environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("pillion.report", "page")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, lstrip_blocks=True)
    environment.filters.update(
        clean=lambda text: clean_text(str(text)),
        n=lambda count: f"{count:,}",
        shape=lambda sizes: "×".join(map(str, sizes)) or "scalar",
        percent=lambda part: "–" if part is None else f"{part:.2%}".removesuffix("%"),
        short=lambda number: "–" if number is None else f"{number:.3g}",
        ratio=_format_ratio,
        ratio_value=_ratio_value,
        grade=lambda quality: grade(quality.signal_to_noise_db),
    )
    return environment


def _package_file(name: str) -> str:
    """Returns a file of this package, to be embedded unchanged."""
    return (resources.files(__package__ or "") / name).read_text("utf-8")


def _hash_of_script(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _bytes_by_group(parts: Sequence[PartFacts]) -> list[tuple[str, int]]:
    groups: dict[str, int] = {}
    for part in parts:
        groups[part.group] = groups.get(part.group, 0) + part.bytes
    return sorted(groups.items(), key=lambda item: -item[1])


def _format_ratio(quality: TensorQuality) -> str:
    if quality.signal_to_noise_db is not None:
        return f"{quality.signal_to_noise_db:.1f}"
    return "exact" if quality.largest_error == 0 else "–"


def _ratio_value(quality: TensorQuality) -> str:
    exact = 999.0 if quality.largest_error == 0 else None
    number = exact if quality.signal_to_noise_db is None else quality.signal_to_noise_db
    return "" if number is None else f"{number:.6g}"


def _with_code(text: str, shown: Callable[[str], str]) -> Markup:
    """Returns text with names in backticks marked up as code."""
    from markupsafe import Markup, escape

    pieces = text.split("`")
    return Markup().join(
        Markup("<code>{}</code>").format(clean_text(shown(piece))) if i % 2 else escape(clean_text(piece))
        for i, piece in enumerate(pieces)
    )

# SPDX-License-Identifier: Apache-2.0
"""Bar charts of layers: an SVG file, and characters for terminals."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from pillion.evaluation.layer_errors import Comparison, LayerErrors
from pillion.report.pictures.svg import empty_picture, escaped_markup, svg_element

MOST_BARS = 40
WIDTH, ROW, TOP, LEFT, RIGHT = 920, 22, 86, 300, 200
STYLE = (
    "text { font: 12px system-ui, sans-serif; fill: #1b1f24 } .title { font-size: 16px; font-weight: 600 } "
    ".faint { fill: #59636e } .bar { fill: #2f6feb } .track { fill: #eef1f4 } .back { fill: #ffffff } "
    "@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .faint { fill: #9198a1 } "
    ".bar { fill: #6ea8fe } .track { fill: #262c36 } .back { fill: #0d1117 } }"
)
BLOCKS = " ▏▎▍▌▋▊▉█"


def layer_chart_svg(comparison: Comparison) -> str:
    """Draws the most harmful layers as SVG. Model names are escaped text."""
    layers = comparison.layers[:MOST_BARS]
    height = TOP + ROW * len(layers) + 20
    label = f"Damage by layer: {comparison.model}"
    size = {"width": WIDTH, "height": height}
    root = empty_picture(WIDTH, height, label, xmlns="http://www.w3.org/2000/svg", role="img", **size)
    svg_element(root, "title", label)
    svg_element(root, "style", STYLE)
    svg_element(root, "rect", class_="back", **size)
    title = f"{comparison.model} for {comparison.target}: what each layer does to the outputs"
    for x, y, text, kind in (
        (20, 30, title, "title"),
        (20, 50, _comparison_summary(comparison), "faint"),
        (20, 72, "layer", "faint"),
        (LEFT, 72, "share of the damage", "faint"),
        (WIDTH - RIGHT + 12, 72, "outputs with its noise alone", "faint"),
    ):
        svg_element(root, "text", text, x=x, y=y, class_=kind)
    largest = max((layer.share for layer in layers), default=0) or 1
    for number, layer in enumerate(layers):
        _draw_bar(root, TOP + ROW * number, layer, largest)
    return escaped_markup(root) + "\n"


def _draw_bar(root: Element, y: int, layer: LayerErrors, largest: float) -> None:
    room = WIDTH - LEFT - RIGHT
    group = svg_element(root, "g")
    svg_element(group, "title", f"{layer.name}: {layer.hint.reason}. {layer.hint.help}")
    name = layer.name if len(layer.name) <= 26 else f"…{layer.name[-25:]}"
    svg_element(group, "text", f"{name}  {layer.kind}", x=20, y=y + 14)
    for kind, length in (("track", room), ("bar", max(1, round(room * layer.share / largest)))):
        svg_element(group, "rect", class_=kind, x=LEFT, y=y + 3, width=length, height=ROW - 8, rx=2)
    words = f"{_format_decibels(layer.output_db)}, {layer.share:.1%}"
    svg_element(group, "text", words, x=WIDTH - RIGHT + 12, y=y + 14)


def _comparison_summary(comparison: Comparison) -> str:
    return (
        f"{comparison.samples} samples; signal to noise of the outputs {_format_decibels(comparison.output_db)}, "
        f"{_format_decibels(comparison.expected_db)} by the sum of all layers"
    )


def _format_decibels(decibels: float | None) -> str:
    return "exact" if decibels is None else f"{decibels:.1f} dB"


def text_bar(part: float, width: int = 20) -> str:
    """Returns a bar of characters for a number from 0 to 1."""
    eighths = round(max(0.0, min(part, 1.0)) * width * 8)
    full, rest = divmod(eighths, 8)
    return "█" * full + (BLOCKS[rest] if rest else "")

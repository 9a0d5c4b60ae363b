# SPDX-License-Identifier: Apache-2.0
"""Bar charts of layers: an SVG file, and characters for terminals."""

from __future__ import annotations

from xml.etree import ElementTree

from pillion.evaluation.layer_errors import Comparison, LayerErrors
from pillion.ir.graph import printable

MOST_BARS = 40
WIDTH, ROW, TOP, LEFT, RIGHT = 920, 22, 86, 300, 200
STYLE = """text { font: 12px system-ui, sans-serif; fill: #1b1f24 } .title { font-size: 16px; font-weight: 600 }
.faint { fill: #59636e } .bar { fill: #2f6feb } .track { fill: #eef1f4 } .back { fill: #ffffff }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .faint { fill: #9198a1 } .bar { fill: #6ea8fe }
.track { fill: #262c36 } .back { fill: #0d1117 } }"""
BLOCKS = " ▏▎▍▌▋▊▉█"


def svg(comparison: Comparison) -> str:
    """Draws the most harmful layers as SVG. Model names are escaped text."""
    layers = comparison.layers[:MOST_BARS]
    height = TOP + ROW * len(layers) + 20
    root = ElementTree.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "viewBox": f"0 0 {WIDTH} {height}",
            "width": f"{WIDTH}",
            "height": f"{height}",
            "role": "img",
        },
    )
    ElementTree.SubElement(root, "title").text = f"Damage by layer: {printable(comparison.model)}"
    ElementTree.SubElement(root, "style").text = STYLE
    ElementTree.SubElement(root, "rect", {"class": "back", "width": f"{WIDTH}", "height": f"{height}"})
    _text(
        root,
        20,
        30,
        f"{comparison.model} for {comparison.target}: what each layer does to the outputs",
        "title",
    )
    _text(root, 20, 50, _summary(comparison), "faint")
    _text(root, 20, 72, "layer", "faint")
    _text(root, LEFT, 72, "share of the damage", "faint")
    _text(root, WIDTH - RIGHT + 12, 72, "outputs with its noise alone", "faint")
    largest = max((layer.share for layer in layers), default=0) or 1
    for number, layer in enumerate(layers):
        _bar(root, TOP + ROW * number, layer, largest)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=False) + "\n"


def _bar(root: ElementTree.Element, y: int, layer: LayerErrors, largest: float) -> None:
    room = WIDTH - LEFT - RIGHT
    group = ElementTree.SubElement(root, "g")
    ElementTree.SubElement(group, "title").text = printable(
        f"{layer.name}: {layer.hint.reason}. {layer.hint.help}"
    )
    name = layer.name if len(layer.name) <= 26 else f"…{layer.name[-25:]}"
    _text(group, 20, y + 14, f"{name}  {layer.kind}")
    for kind, length in (("track", room), ("bar", max(1, round(room * layer.share / largest)))):
        box = {"x": f"{LEFT}", "y": f"{y + 3}", "width": f"{length}", "height": f"{ROW - 8}", "rx": "2"}
        ElementTree.SubElement(group, "rect", {"class": kind, **box})
    _text(group, WIDTH - RIGHT + 12, y + 14, f"{_db(layer.output_db)}, {layer.share:.1%}")


def _text(parent: ElementTree.Element, x: int, y: int, text: str, kind: str = "") -> None:
    more = {"class": kind} if kind else {}
    ElementTree.SubElement(parent, "text", {"x": f"{x}", "y": f"{y}", **more}).text = printable(text)


def _summary(comparison: Comparison) -> str:
    return (
        f"{comparison.samples} samples; signal to noise of the outputs {_db(comparison.output_db)}, "
        f"{_db(comparison.expected_db)} by the sum of all layers"
    )


def _db(decibels: float | None) -> str:
    return "exact" if decibels is None else f"{decibels:.1f} dB"


def bar(part: float, width: int = 20) -> str:
    """Returns a bar of characters for a number from 0 to 1."""
    eighths = round(max(0.0, min(part, 1.0)) * width * 8)
    full, rest = divmod(eighths, 8)
    return "█" * full + (BLOCKS[rest] if rest else "")

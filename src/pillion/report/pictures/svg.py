# SPDX-License-Identifier: Apache-2.0
"""SVG and HTML elements. Model names become text and attributes, never markup."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement, tostring

NPU, CPU, PLAIN = "#0d9488", "#d97706", "#8b93a5"
"""Colours distinguishable with any colour vision, on light and dark; style sheets may override them by class."""
UNIT_COLOURS = {"npu": NPU, "cpu": CPU}


def svg_element(parent: Element | None, tag: str, text: str = "", /, **attributes: object) -> Element:
    """Creates an element. Attributes are Python names: `font_size`, and `class_` for `class`."""
    named = {key.rstrip("_").replace("_", "-"): _attribute_text(value) for key, value in attributes.items()}
    node = Element(tag, named) if parent is None else SubElement(parent, tag, named)
    node.text = clean_text(text) if text else None
    return node


def empty_picture(width: float, height: float, label: str, /, **attributes: object) -> Element:
    """Creates an empty picture with a text alternative."""
    size = {
        "viewBox": f"0 0 {_attribute_text(width)} {_attribute_text(height)}",
        "aria-label": clean_text(label),
    }
    picture = svg_element(None, "svg", **{"role": "group", **attributes})
    picture.attrib.update(size)
    return picture


def op_link(parent: Element, number: int, title: str, class_: str = "") -> Element:
    """Creates a link to an op of the page, with a tooltip; -1 creates none."""
    if number < 0:
        group = svg_element(parent, "g", class_=class_)
    else:
        group = svg_element(parent, "a", href=f"#op-{number}", class_=class_, data_op=number)
    svg_element(group, "title", title)
    return group


def escaped_markup(made: Element) -> str:
    """Returns the markup of an element, with all text escaped."""
    return tostring(made, encoding="unicode", short_empty_elements=made.tag == "svg")


def clean_text(text: str) -> str:
    """Removes characters that a page cannot hold: control characters and lone surrogates."""
    encodable = text.encode("utf-8", "replace").decode()
    return "".join(c if c.isprintable() or c == " " else "\N{REPLACEMENT CHARACTER}" for c in encodable)


def shorten_to_width(text: str, width: float, size: float = 11) -> str:
    """Shortens text to a width; the end of a name is kept."""
    most = int(width / (size * 0.6))
    if len(text) <= most:
        return text
    return "…" + text[1 - most :] if most > 2 else ""


def _attribute_text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.1f}".removesuffix(".0")
    return clean_text(str(value))

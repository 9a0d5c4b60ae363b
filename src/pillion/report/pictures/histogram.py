# SPDX-License-Identifier: Apache-2.0
"""The histogram of a tensor: integers as a filled shape, float values as a line."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pillion.report.pictures.svg import PLAIN, empty_picture, escaped_markup, svg_element
from pillion.report.report_facts import HistogramFacts

WIDTH, HEIGHT = 132.0, 30.0


def histogram_picture(values: HistogramFacts, name: str) -> str:
    """Draws the frequencies of values, with square-root heights that show rare values."""
    label = f"values of {name} from {values.low:.4g} to {values.high:.4g}"
    picture = empty_picture(WIDTH, HEIGHT, label, class_="histogram", role="img", width=WIDTH, height=HEIGHT)
    most = max((*values.integers, *values.floats), default=0) or 1
    outline = _histogram_path(values.integers, most)
    svg_element(
        picture,
        "path",
        d=f"M0 {HEIGHT:.0f}{outline}L{WIDTH:.0f} {HEIGHT:.0f}Z",
        class_="integers",
        fill=PLAIN,
        fill_opacity=0.45,
    )
    if values.floats:
        line = "M" + _histogram_path(values.floats, most)[1:]
        svg_element(picture, "path", d=line, class_="floats", fill="none", stroke="#dc2626", stroke_width=1.1)
    return escaped_markup(picture)


def _histogram_path(counts: Sequence[int], most: int) -> str:
    wide = WIDTH / len(counts)
    heights = [HEIGHT - (HEIGHT - 2) * math.sqrt(count / most) for count in counts]
    return "".join(f"L{i * wide:.1f} {y:.1f}H{(i + 1) * wide:.1f}" for i, y in enumerate(heights))

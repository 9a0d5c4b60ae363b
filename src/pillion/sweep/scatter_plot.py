# SPDX-License-Identifier: Apache-2.0
"""The picture of a sweep: costs against metrics, the best variants numbered as in the table."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pillion.sweep.jobs import Job
from pillion.sweep.pareto import COSTS
from pillion.sweep.runner import SweepRow

FORMS = ("svg", "png")
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#000000")
"""Colours that are distinguishable with any colour vision."""
_MARKERS = "osD^vPX*<>"
_TITLES = {
    "ram_bytes": "RAM: arena and NPU weights (bytes)",
    "flash_bytes": "flash: code and constants (bytes)",
    "instructions": "instructions of one inference",
}
_WIDE = 20.0
"""Ratio of largest to smallest value from which an axis is logarithmic."""
_MOST_LABELS = 40
_MOST_AT_ONE_PLACE = 4
_MOST_NAME = 40


@dataclass(frozen=True)
class Dot:
    """A variant in the picture."""

    number: int
    row: SweepRow
    is_best: bool

    def figure(self, name: str) -> float | None:
        """Returns a figure or metric; None if it is not known."""
        return self.row.result.value(name)

    def place(self, names: tuple[str, str]) -> tuple[float, float]:
        """Returns two known figures."""
        x, y = map(self.figure, names)
        assert x is not None
        assert y is not None
        return x, y


def draw_scatter_plot(
    rows: Sequence[SweepRow], marked: Sequence[bool], goals: Mapping[str, bool], title: str
) -> dict[str, bytes]:
    """Returns the picture in each format; none if no two figures are known."""
    dots = [
        Dot(number, row, is_best)
        for number, (row, is_best) in enumerate(zip(rows, marked, strict=True), 1)
        if row.result.failure is None
    ]
    panels = _panel_figures(dots, goals)
    return _draw_panels(dots, panels, goals, title) if panels else {}


def _panel_figures(dots: Sequence[Dot], goals: Mapping[str, bool]) -> list[tuple[str, str]]:
    """Returns the pairs of figures (x, y): costs on x, metrics on y if known."""
    known = [name for name in goals if any(dot.figure(name) is not None for dot in dots)]
    bought = [name for name in known if name not in COSTS]
    costs = [name for name in known if name in COSTS]
    if bought:
        return [(cost, bought[0]) for cost in costs]
    return [(a, b) for number, a in enumerate(costs) for b in costs[number + 1 :]]


def _draw_panels(
    dots: Sequence[Dot], panels: Sequence[tuple[str, str]], goals: Mapping[str, bool], title: str
) -> dict[str, bytes]:
    import matplotlib
    from matplotlib.figure import Figure

    settings: Any = {
        "svg.hashsalt": "pillion",
        "svg.fonttype": "none",
        "text.parse_math": False,
        "font.size": 9,
    }
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(4.6 * len(panels), 4.6), layout="constrained")
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        styles = _Styles(dots)
        for ax, (x, y) in zip(axes, panels, strict=True):
            _draw_panel(ax, dots, (x, y), goals, styles)
        figure.legend(handles=styles.legend(dots), loc="outside lower center", ncols=6, frameon=False)
        figure.suptitle(_shorten_name(title), fontsize=11)
        return {form: _save_figure(figure, form) for form in FORMS}


def _save_figure(figure: Any, form: str) -> bytes:
    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # of letters that the font lacks
        figure.savefig(stream, format=form, dpi=130, metadata={"Date": None} if form == "svg" else {})
    return stream.getvalue()


class _Styles:
    """Colours by target, or by model if there is one target; markers by model."""

    def __init__(self, dots: Sequence[Dot]) -> None:
        self.models = list(dict.fromkeys(dot.row.job.model for dot in dots))
        self.targets = list(dict.fromkeys(dot.row.job.target for dot in dots))

    def colour(self, job: Job) -> str:
        """Returns the colour of a variant."""
        number = self.targets.index(job.target) if len(self.targets) > 1 else self.models.index(job.model)
        return _COLOURS[number % len(_COLOURS)]

    def mark(self, job: Job) -> str:
        """Returns the marker of a variant."""
        return _MARKERS[self.models.index(job.model) % len(_MARKERS)]

    def legend(self, dots: Sequence[Dot]) -> list[Any]:
        """Returns the legend entries: models, targets, and the front."""
        from matplotlib.lines import Line2D

        jobs = [dot.row.job for dot in dots]
        several = len(self.targets) > 1
        models = {job.model: ("#444444" if several else self.colour(job), self.mark(job)) for job in jobs}
        targets = {job.target: (self.colour(job), "s") for job in jobs}
        named = [*(models.items() if len(models) > 1 else ()), *(targets.items() if several else ())]
        line = Line2D([], [], color="#444444", lw=0.8, label="best in these two, by target")
        return [
            *(Line2D([], [], color=c, marker=m, ls="", label=_shorten_name(name)) for name, (c, m) in named),
            line,
        ]


def _shorten_name(name: str) -> str:
    """Shortens a name for the picture, and removes characters that it cannot show."""
    name = "".join(c if c.isprintable() else "�" for c in name)
    return name if len(name) <= _MOST_NAME else name[: _MOST_NAME - 1] + "…"


def _draw_panel(
    ax: Any, dots: Sequence[Dot], names: tuple[str, str], goals: Mapping[str, bool], styles: _Styles
) -> None:
    """Draws all variants that have both figures, and the front through the best."""
    there = [dot for dot in dots if None not in map(dot.figure, names)]
    for dot in sorted(there, key=lambda dot: dot.is_best):
        ax.scatter(
            *dot.place(names),
            marker=styles.mark(dot.row.job),
            s=46 if dot.is_best else 26,
            color=styles.colour(dot.row.job),
            alpha=1.0 if dot.is_best else 0.3,
            linewidths=0,
            zorder=3 if dot.is_best else 2,
        )
    for target in styles.targets:
        own = [dot for dot in there if dot.row.job.target == target]
        colour = styles.colour(own[0].row.job) if own and len(styles.targets) > 1 else "#444444"
        line = pareto_staircase([dot.place(names) for dot in own], goals[names[1]])
        ax.step(*zip(*line, strict=True) if line else ([], []), where="post", color=colour, lw=0.8, zorder=1)
    _draw_dot_numbers(ax, [dot for dot in there if dot.is_best], names)
    for number, axis in enumerate((ax.xaxis, ax.yaxis)):
        _set_up_axis(axis, names[number], [dot.place(names)[number] for dot in there])
    ax.tick_params(axis="x", rotation=30)
    ax.grid(color="#dddddd", lw=0.5)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def _draw_dot_numbers(ax: Any, dots: Sequence[Dot], names: tuple[str, str]) -> None:
    """Writes the numbers of variants next to their dots; numbers at one place share a row."""
    labels: dict[tuple[float, float], list[str]] = {}
    for dot in dots[:_MOST_LABELS]:
        labels.setdefault(dot.place(names), []).append(str(dot.number))
    for position, numbers in labels.items():
        text = ", ".join(numbers[:_MOST_AT_ONE_PLACE]) + ("…" if len(numbers) > _MOST_AT_ONE_PLACE else "")
        ax.annotate(text, position, (5, 5), textcoords="offset points", fontsize=8)


def _set_up_axis(axis: Any, name: str, values: Sequence[float]) -> None:
    """Sets the label, ticks and scale of an axis."""
    axis.set_label_text(_TITLES.get(name, _shorten_name(name)))
    if name in COSTS:
        if values and min(values) > 0 and max(values) > _WIDE * min(values):
            axis.axes.set(**{f"{axis.axis_name}scale": "log"})
            axis.set_minor_formatter(lambda number, position: "")
        axis.set_major_formatter(lambda number, position: f"{number:,.0f}")


def pareto_staircase(points: Sequence[tuple[float, float]], up_is_better: bool) -> list[tuple[float, float]]:
    """Returns the points that no other point beats, from left to right; x is minimized."""
    sign = -1 if up_is_better else 1
    steps: list[tuple[float, float]] = []
    for x, y in sorted(points, key=lambda point: (point[0], sign * point[1])):
        if not steps or sign * y < sign * steps[-1][1]:
            steps.append((x, y))
    return steps

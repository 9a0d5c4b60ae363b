# SPDX-License-Identifier: Apache-2.0
"""The sweep file: models, axes, measurements and search goals."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pillion.data.reading_options import AS_IT_IS, Reading
from pillion.errors import PillionError
from pillion.evaluation.metrics import metric_of
from pillion.host_io.atomic_files import read_text, suffix_of
from pillion.host_io.user_code import split_spec
from pillion.option_record import option_fields
from pillion.sweep.axes import (
    ARGUMENTS,
    FOR_ALL,
    OF_MODELS,
    Axis,
    SweepFolder,
    convert_argument,
    read_axis,
    read_options,
)
from pillion.sweep.job_result import Figures
from pillion.sweep.toml_tables import TOP, TomlTable, as_short_text, number_of
from pillion.toml_parser import parse_toml

ARTEFACTS = ("c", "pte", "tflite")
"""Formats in which variants are kept."""
MOST_TRIALS = 100_000
MOST_BYTES = 1 << 20
"""Largest file that is read."""


@dataclass(frozen=True)
class ModelPlan:
    """A model with its own axes."""

    name: str
    source: str
    files: tuple[str, ...] = ()
    axes: Mapping[str, Axis] = field(default_factory=dict)


QUALITY = "quality"
"""The metric that is the signal-to-noise ratio against the float model, in dB."""


@dataclass(frozen=True)
class MeasureOptions:
    """Measurements of each variant, and the formats to keep."""

    instructions: bool = True
    artefacts: tuple[str, ...] = ("c", "pte")
    data: str | None = None
    metrics: tuple[str, ...] = ()
    limit: int | None = None
    reading: Reading = AS_IT_IS

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Returns the names of the metrics in results; a user's function may add others."""
        return tuple(metric.rpartition(":")[2] for metric in self.metrics)

    @property
    def has_own_metrics(self) -> bool:
        """Whether the metrics include a user's function."""
        return any(split_spec(metric)[1] for metric in self.metrics)


@dataclass(frozen=True)
class SearchPlan:
    """The goals of a search: figures to minimize or maximize, under limits."""

    goals: Mapping[str, bool]
    """Whether to maximize, by figure."""
    at_most: Mapping[str, float] = field(default_factory=dict)
    at_least: Mapping[str, float] = field(default_factory=dict)
    seed: int = 0


@dataclass(frozen=True)
class SweepFile:
    """The content of a sweep file."""

    path: Path
    models: tuple[ModelPlan, ...]
    options: Mapping[str, Axis]
    measure: MeasureOptions = MeasureOptions()
    search: SearchPlan | None = None

    def axes_of(self, model: ModelPlan) -> dict[str, Axis]:
        """Returns all axes of a model, its factory's first: variants of one model follow each other."""
        return {**model.axes, **{key: axis for key, axis in self.options.items() if key not in model.axes}}


def read_plan(path: Path) -> SweepFile:
    """Reads a sweep file. Its paths are relative to its folder."""
    top = TomlTable(parse_toml(read_text(path, "sweep", MOST_BYTES), path, "docs/guide/sweep.md"), path, TOP)
    folder = SweepFolder(path.resolve().parent)
    tables, options_table = top.tables("model"), top.table("options") or TomlTable({}, path, "[options]")
    measure_table, search_table = top.table("measure"), top.table("search")
    top.done()
    if not tables:
        raise top.wrong("it names no model", "[[model]] for each model", '[[model]]\nsource = "net.py:Net"')
    options = read_options(options_table, folder, FOR_ALL)
    options_table.done()
    models = tuple(_read_model(table, folder) for table in tables)
    measure = _read_measure_options(measure_table, folder)
    search = _read_search_plan(search_table, measure)
    _require_names(top, models)
    if any("target" not in {**options, **model.axes} for model in models):
        raise top.wrong("no target", "[options] names one or more", '[options]\ntarget = ["cortex-m33"]')
    return SweepFile(path, models, options, measure, search)


def _read_model(table: TomlTable, folder: SweepFolder) -> ModelPlan:
    source = table.need("source", what=str, example='"net.py:Net", or a name of `pillion models`')
    name = table.take("name", what=str) or _short_model_name(source)
    axes = read_options(table, folder, FOR_ALL) | read_options(table, folder, OF_MODELS)
    files = table.take("files", [], what=list)
    if not all(isinstance(file, str) for file in files):
        raise table.wrong(f"files = {as_short_text(files)}", "a list of paths", 'files = ["weights.pt"]')
    arguments = table.table("arguments")
    table.done()
    if arguments is not None:
        if ".py:" not in source:
            raise table.wrong(
                f"arguments of {as_short_text(source)}",
                "arguments go with file.py:factory",
                "leave [model.arguments] out",
            )
        for key, values in arguments.rest().items():
            axes[ARGUMENTS + key] = read_axis(arguments, key, values, convert_argument, folder)
    return ModelPlan(name, folder.model(source), tuple(map(folder.path, files)), axes)


def _short_model_name(source: str) -> str:
    """Returns the model's name in the table."""
    file, colon, name = source.rpartition(":")
    return name.lower() if colon and suffix_of(file) == ".py" else Path(source).stem


def _read_measure_options(table: TomlTable | None, folder: SweepFolder) -> MeasureOptions:
    if table is None:
        return MeasureOptions()
    defaults = MeasureOptions()
    artefacts = tuple(table.take("artefacts", list(defaults.artefacts), what=list))
    if not set(map(str, artefacts)) <= set(ARTEFACTS):
        raise table.wrong(
            f"artefacts = {as_short_text(artefacts)}", f"of {', '.join(ARTEFACTS)}", 'artefacts = ["c"]'
        )
    metrics, data = table.take("metrics"), table.take("data", what=str)
    metrics = [metrics] if isinstance(metrics, str) else metrics or []
    if not isinstance(metrics, list) or not all(isinstance(metric, str) for metric in metrics):
        raise table.wrong(f"metrics = {as_short_text(metrics)}", "a list of names", 'metrics = ["top1"]')
    options = MeasureOptions(
        table.take("instructions", True, what=bool),
        artefacts,
        folder.data(data) if data else None,
        tuple(map(folder.metric, metrics)) or (("top1",) if data else ()),
        table.take("limit", what=int),
        _read_data_options(table, folder),
    )
    table.done()
    _check_measure(table, options)
    return options


def _read_data_options(table: TomlTable, folder: SweepFolder) -> Reading:
    """Reads the data options of `pillion eval`."""
    given: dict[str, Any] = {}
    for option in option_fields(Reading):
        value = None if option.field == "transform" else table.take(option.field)
        if value is None:
            continue
        kind, what, example = _KINDS.get(option.field, (str, "a text", "…"))
        several = value if isinstance(value, list) and option.default == () else [value]
        if any(isinstance(one, bool) or not isinstance(one, kind) for one in several):
            raise table.wrong(f"{option.field} = {as_short_text(value)}", what, f"{option.field} = {example}")
        given[option.field] = tuple(several) if option.default == () else value
    if "labels" in given:
        given["labels"] = Path(folder.path(given["labels"]))
    return Reading(**given)


_NUMBERS = ((int, float), "a number, or a list of them", "0.5")
_KINDS: Mapping[str, tuple[Any, str, str]] = {
    **dict.fromkeys(("mean", "std"), _NUMBERS),
    "divide": ((int, float), "a number", "255"),
    "classes": (str, "a list of names", '["no", "yes"]'),
}


def _check_measure(table: TomlTable, options: MeasureOptions) -> None:
    if options.data is None and (options.metrics or options.limit is not None or options.reading != AS_IT_IS):
        raise table.wrong(
            "metrics, limit or how to read without data", "accuracy needs data", 'data = "test.npz"'
        )
    if options.limit is not None and options.limit < 1:
        raise table.wrong(f"limit = {options.limit}", "a number of samples above 0", "leave it out")
    if set(options.metric_names) & set(Figures.names()):
        raise table.wrong(
            f"metrics = {as_short_text(options.metrics)}", "other names than those of figures", "rename it"
        )
    for name in options.metrics:
        if name != QUALITY and not split_spec(name)[1]:
            metric_of(name)


def _read_search_plan(table: TomlTable | None, measure: MeasureOptions) -> SearchPlan | None:
    if table is None:
        return None
    goals: dict[str, bool] = {}
    for key, is_large in (("maximize", True), ("minimize", False)):
        several = table.take(key, [])
        for name in several if isinstance(several, list) else [several]:
            goals[_check_figure_name(table, key, name, measure)] = is_large
    limits = {key: _read_limits(table.table(key), measure) for key in ("at_most", "at_least")}
    seed = table.take("seed", 0, what=int)
    table.done()
    if not goals:
        raise table.wrong("no goal", "maximize or minimize names a figure", 'minimize = "instructions"')
    if not 0 <= seed < 2**32:
        raise table.wrong(f"seed = {seed}", "a seed has 32 bits", "seed = 0")
    return SearchPlan(goals, limits["at_most"], limits["at_least"], seed)


def check_trials(trials: int) -> None:
    """Raises if the number of trials is not positive or too large."""
    if not 1 <= trials <= MOST_TRIALS:
        raise PillionError(
            f"{trials:,} trials are no search",
            rule=f"1 to {MOST_TRIALS:,} trials",
            here=f"--search {trials}",
            help="--search 200",
        )


def _read_limits(table: TomlTable | None, measure: MeasureOptions) -> dict[str, float]:
    if table is None:
        return {}
    limits = {}
    for key, value in table.rest().items():
        name, is_size = _check_figure_name(table, key, key, measure), key.endswith("_bytes")
        number = number_of(value, is_size=is_size)
        if number is None:
            kind, example = ("a number of bytes", "256K") if is_size else ("a number", "20M")
            raise table.wrong(
                f"{key} = {as_short_text(value)}", f"{kind}, such as {example}", f'{key} = "{example}"'
            )
        limits[name] = number
    return limits


def _check_figure_name(table: TomlTable, key: str, name: Any, measure: MeasureOptions) -> str:
    """Checks the name of a figure that variants have, or that a user's function may return."""
    known = (*Figures.names(), *measure.metric_names)
    if not isinstance(name, str) or (name not in known and not measure.has_own_metrics):
        close = difflib.get_close_matches(str(name), known, n=1)
        help = f"did you mean `{close[0]}`?" if close else "one of these; [measure] names metrics"
        raise table.wrong(f"{key}: {as_short_text(name)}", f"figures: {', '.join(known)}", help)
    if name in Figures.measured() and not measure.instructions:
        raise table.wrong(
            f"{key}: {name}, which is not measured", "[measure] instructions", "instructions = true"
        )
    return name


def _require_names(top: TomlTable, models: tuple[ModelPlan, ...]) -> None:
    names = [model.name for model in models]
    twice = next((name for number, name in enumerate(names) if name in names[:number]), None)
    if twice is not None:
        raise top.wrong(
            f"two models are called {twice}", "each model has its own name", 'name = "…" in [[model]]'
        )

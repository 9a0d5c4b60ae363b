# SPDX-License-Identifier: Apache-2.0
"""A job: one variant to compile and measure, identified by the contents that its result depends on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pillion.host_io.atomic_files import suffix_of
from pillion.host_io.user_code import split_spec
from pillion.sweep.axes import ARGUMENTS, Value
from pillion.sweep.fingerprint import content_hash, files_of_spec, pillion_hash, tools_hash
from pillion.sweep.sweep_file import MeasureOptions, ModelPlan

_KEY = 20
PATHS = ("weights", "calibrate")
"""Options that are paths of files."""
Contents = Mapping[str, Mapping[str, str]]
"""Content hashes by purpose and path."""


@dataclass(frozen=True)
class Job:
    """A variant of a model: axis values, measurements, and content hashes of the files it reads."""

    model: str
    source: str
    values: Mapping[str, Value]
    measure: MeasureOptions
    contents: Contents = field(default_factory=dict)
    pillion: str = ""
    tools: str = ""

    @property
    def arguments(self) -> dict[str, Value]:
        """The arguments for the model's factory."""
        return {k.removeprefix(ARGUMENTS): v for k, v in self.values.items() if k.startswith(ARGUMENTS)}

    @property
    def target(self) -> str:
        """The target of the variant."""
        return str(self.values["target"])

    def option(self, name: str) -> Any:
        """Returns the value of an option, or None if the sweep does not set it."""
        return self.values.get(name)

    @property
    def model_key(self) -> str:
        """A hash of the model, shared by variants that differ in other options."""
        roles = ("model", "files", "weights")
        parts = {
            "source": self.source,
            "arguments": self.arguments,
            "options": [self.option(name) for name in ("weights", "input_size")],
            "contents": [sorted(self.contents.get(role, {}).items()) for role in roles],
        }
        return json.dumps(parts, sort_keys=True)

    @property
    def key(self) -> str:
        """A hash of the job, independent of folders and of the model's display name."""
        measure = {k: v for k, v in vars(self.measure).items() if k not in ("data", "metrics", "reading")}
        measure["reading"] = vars(self.measure.reading) | {"labels": None}
        parts = {
            "source": _last_path_component(self.source),
            "values": {k: _last_path_component(v) if k in PATHS else v for k, v in self.values.items()},
            "measure": measure,
            "metrics": [_last_path_component(metric) for metric in self.measure.metrics],
            "data": _last_path_component(self.measure.data or ""),
            "contents": {
                role: sorted((Path(path).name, name) for path, name in files.items())
                for role, files in self.contents.items()
            },
            "pillion": self.pillion,
            "tools": self.tools,
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:_KEY]


def _last_path_component(path: Value) -> str:
    """Returns the last component of a path; its content is hashed elsewhere."""
    return Path(str(path)).name


class JobFactory:
    """Creates jobs, reading each file once."""

    def __init__(self) -> None:
        self._read: dict[str, Mapping[str, str]] = {}

    def job(self, model: ModelPlan, values: Mapping[str, Value], measure: MeasureOptions) -> Job:
        """Returns the job of a variant."""
        values = dict(values)
        if values.get("precision", "mixed") != "mixed":
            for name in ("min_quality", "max_time"):  # they say how `mixed` chooses
                values.pop(name, None)
        named = {name: [str(values[name])] for name in PATHS if name in values}
        named["model"] = [model.source] if is_file_spec(model.source) else []
        named["files"] = list(model.files)
        labels = measure.reading.labels
        named["data"] = [measure.data] if measure.data else []
        named["labels"] = [str(labels)] if labels else []
        named["metrics"] = [metric for metric in measure.metrics if is_file_spec(metric)]
        contents = {role: self._content_hashes(names) for role, names in named.items() if names}
        tools = tools_hash() if measure.instructions else ""
        return Job(model.name, model.source, values, measure, contents, pillion_hash(), tools)

    def _content_hashes(self, names: list[str]) -> dict[str, str]:
        hashes: dict[str, str] = {}
        for name in names:
            if name not in self._read:
                self._read[name] = {str(file): content_hash(file) for file in files_of_spec(name)}
            hashes.update(self._read[name])
        return hashes


def is_function_spec(spec: str) -> bool:
    """Whether the text is `file.py:function`."""
    return bool(split_spec(spec)[1])


def is_file_spec(source: str) -> bool:
    """Whether a model or metric is a file or part of one, and not a built-in name."""
    return is_function_spec(source) or suffix_of(source) != ""

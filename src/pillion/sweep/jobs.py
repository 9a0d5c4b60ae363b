# SPDX-License-Identifier: Apache-2.0
"""A job is one variant to compile and measure. It is known by all that its result depends on: contents, not the places of files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pillion.outside.files import suffix_of
from pillion.outside.user_code import split_spec
from pillion.sweep.axes import ARGUMENTS, Value
from pillion.sweep.contents import files_of, name_of_content, name_of_pillion, name_of_tools
from pillion.sweep.plan import Measure, ModelPlan

_KEY = 20
PATHS = ("weights", "calibrate")
"""Options that are the paths of files."""
Contents = Mapping[str, Mapping[str, str]]
"""What files are for → their paths → names for their contents."""


@dataclass(frozen=True)
class Job:
    """A variant of a model: the value of each axis, what is measured, and the content of each file that is read."""

    model: str
    source: str
    values: Mapping[str, Value]
    measure: Measure
    contents: Contents = field(default_factory=dict)
    pillion: str = ""
    tools: str = ""

    @property
    def arguments(self) -> dict[str, Value]:
        """Gives what the model's factory is called with."""
        return {k.removeprefix(ARGUMENTS): v for k, v in self.values.items() if k.startswith(ARGUMENTS)}

    @property
    def target(self) -> str:
        """The chip that the variant is compiled for."""
        return str(self.values["target"])

    def option(self, name: str) -> Any:
        """Gives the value of an option, or None where the sweep does not say."""
        return self.values.get(name)

    @property
    def model_key(self) -> str:
        """Gives a name for the model that the variant is compiled from, which variants with other options have in common."""
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
        """Gives the name of the job. The folders of files do not count, nor what the model is called in the table."""
        measure = {k: v for k, v in vars(self.measure).items() if k not in ("data", "metrics", "reading")}
        measure["reading"] = vars(self.measure.reading) | {"labels": None}
        parts = {
            "source": _last(self.source),
            "values": {k: _last(v) if k in PATHS else v for k, v in self.values.items()},
            "measure": measure,
            "metrics": [_last(one) for one in self.measure.metrics],
            "data": _last(self.measure.data or ""),
            "contents": {
                role: sorted((Path(path).name, name) for path, name in files.items())
                for role, files in self.contents.items()
            },
            "pillion": self.pillion,
            "tools": self.tools,
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:_KEY]


def _last(path: Value) -> str:
    """What a path ends with: its content is named elsewhere."""
    return Path(str(path)).name


class Jobs:
    """Makes jobs. Each file that they depend on is read once."""

    def __init__(self) -> None:
        self._read: dict[str, Mapping[str, str]] = {}

    def job(self, model: ModelPlan, values: Mapping[str, Value], measure: Measure) -> Job:
        """Makes the job of a variant."""
        named = {name: [str(values[name])] for name in PATHS if name in values}
        named["model"] = [model.source] if names_a_file(model.source) else []
        named["files"] = list(model.files)
        labels = measure.reading.labels
        named["data"] = [measure.data] if measure.data else []
        named["labels"] = [str(labels)] if labels else []
        named["metrics"] = [one for one in measure.metrics if names_a_file(one)]
        contents = {role: self._contents(names) for role, names in named.items() if names}
        tools = name_of_tools() if measure.instructions else ""
        return Job(model.name, model.source, dict(values), measure, contents, name_of_pillion(), tools)

    def _contents(self, names: list[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        for name in names:
            if name not in self._read:
                self._read[name] = {str(file): name_of_content(file) for file in files_of(name)}
            found.update(self._read[name])
        return found


def names_a_function(spec: str) -> bool:
    """Whether this is `file.py:function`."""
    return bool(split_spec(spec)[1])


def names_a_file(source: str) -> bool:
    """Whether a model or a metric is a file, or something in one, and not a name that Pillion knows."""
    return names_a_function(source) or suffix_of(source) != ""

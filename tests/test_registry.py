# SPDX-License-Identifier: Apache-2.0
"""What is added to the registry takes part in compilations, until it is taken out (packages: examples/test_plugin.py)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import pillion
from pillion import REGISTRY
from pillion.cli.completion import complete_executors
from pillion.ir.graph import Graph
from pillion.ir.text import to_text
from pillion.ir.verdict import Verdict
from pillion.ops import Add, parse
from pillion.pass_pipeline import Step, describe_passes
from pillion.run.executor import DEFAULTS, Runnable, RunOptions, RunResult, Samples


class Twice:
    """Runs the reference twice."""

    name = "twice"

    def judge(self, program: Runnable) -> Verdict:
        return Verdict("twice", True, "a graph", "a graph")

    def run(self, program: Runnable, samples: Samples, options: RunOptions = DEFAULTS) -> list[RunResult]:
        both = [[tuple(program.graph.reference(*sample)) for sample in samples] for _ in range(2)]
        assert all(np.array_equal(a[0], b[0]) for a, b in zip(*both, strict=True))
        return [RunResult(outputs) for outputs in both[0]]


def written(tmp_path: Path) -> Path:
    op = next(iter(Add.examples()))
    file = tmp_path / "net.graph"
    file.write_text(to_text(Graph("net", op.activations, (op,), op.results)))
    return file


def test_importers_passes_and_executors_take_part(tmp_path: Path) -> None:
    seen: list[str] = []

    def note(graph: Graph) -> Graph:
        """Notes the graph's name."""
        seen.append(graph.name)
        return graph

    file = written(tmp_path)
    with REGISTRY.changed() as registry:
        registry.add_importer(".graph", lambda path: parse(path.read_text()))
        registry.add_pass(Step(note, "tests"))
        registry.add_executor(Twice())
        program = pillion.compile(file, target="cortex-m3")
        inputs: Sequence[np.ndarray] = [np.zeros(v.shape, np.int8) for v in program.graph.inputs]
        np.testing.assert_array_equal(program.run(*inputs, on="twice")[0], program.run(*inputs)[0])
        assert {"pass": "note", "when": "tests", "summary": "Notes the graph's name."} in describe_passes()
        assert complete_executors("tw") == ["twice"]
    assert seen == ["net"]
    assert complete_executors("tw") == []
    with pytest.raises(pillion.PillionError, match="does not name a model"):
        pillion.compile(file, target="cortex-m3")

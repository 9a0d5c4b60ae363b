# SPDX-License-Identifier: Apache-2.0
"""Each pass on small graphs, written as text: before, ---, after."""

from __future__ import annotations

from pathlib import Path

import pytest

from pillion import passes
from pillion.ir.text import to_text
from pillion.ir.verify import verify
from pillion.ops import parse
from pillion.ops.samples import random_like

CASES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_a_pass_rewrites_as_recorded(path: Path) -> None:
    """`name.what.txt`: the pass called `name` turns the first graph into the second."""
    before, after = (part.strip() + "\n" for part in path.read_text("utf-8").split("---\n"))
    one = getattr(passes, path.stem.split(".")[0])
    graph = verify(parse(before))
    result = verify(one(graph))
    assert to_text(result) == to_text(parse(after))
    assert to_text(one(result)) == to_text(result), "a pass has nothing to do after itself"
    inputs = [random_like(v) for v in graph.inputs]
    if all(v.is_quantized for op in graph for v in op.results):
        for one_output, other in zip(graph.reference(*inputs), result.reference(*inputs), strict=True):
            assert one_output.tobytes() == other.tobytes()


def test_every_pass_of_the_pipeline_is_documented() -> None:
    assert all((one.__doc__ or "").strip() for one in passes.PIPELINE)

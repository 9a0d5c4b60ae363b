# SPDX-License-Identifier: Apache-2.0
"""Counts the instructions of Pillion's programs for the networks of MLPerf Tiny, for the comparison with times that others have
published: `python benchmarks/silicon.py` renews `counted` in silicon.json. The published times there are medians of MLPerf Tiny's closed division
(github.com/mlcommons/tiny_results_v*, closed/*/results/*/*/performance/results.txt), by hand."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pillion
from pillion import zoo

RECORD = Path(__file__).with_name("silicon.json")
NETS = {"ic": "resnet8", "kws": "ds_cnn", "vww": "mobilenet_v1_025", "ad": "deep_autoencoder"}
"""The names of MLPerf Tiny, and those of the zoo."""


def counted(net: str, core: str) -> dict[str, Any]:
    """Returns what one run executes, as published.json has it."""
    module, example = zoo.build(NETS[net])
    time = pillion.compile(module, example, target=core, io_dtype="int8").time("100MHz")
    ran = [op.executed for op in time.ops if op.executed is not None]
    counts: Counter[str] = Counter()
    for one in ran:
        counts.update({name.name: count for name, count in one.counts.items()})
    return {
        "counts": dict(sorted(counts.items())),
        "more_registers": sum(one.more_registers for one in ran),
        "taken": sum(one.taken for one in ran),
        "constants": [sum(one.constants.bytes for one in ran), sum(one.constants.lines for one in ran)],
        "arena": [sum(one.arena.bytes for one in ran), sum(one.arena.lines for one in ran)],
        "basis": time.basis,
    }


def main() -> None:
    record = json.loads(RECORD.read_text("utf-8"))
    cores = sorted({row["core"] for row in record["published"]})
    record["counted"] = {core: {net: counted(net, core) for net in NETS} for core in cores}
    rows = ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in record["published"])
    counts = ",\n".join(
        f"  {json.dumps(core)}: {json.dumps(nets)}" for core, nets in record["counted"].items()
    )
    RECORD.write_text(f'{{\n "published": [\n{rows}\n ],\n "counted": {{\n{counts}\n }}\n}}\n', "utf-8")


if __name__ == "__main__":
    main()

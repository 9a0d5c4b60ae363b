# SPDX-License-Identifier: Apache-2.0
"""A program whose names want to be more than names."""

from __future__ import annotations

import dataclasses

import faulty_executors
from pillion.emitters.c.kernel_costs import core_cycles
from pillion.ir.types import Value
from pillion.partition import all_on_cpu
from pillion.program import Program
from pillion.targets import find_target

NAMES = (
    "</script><img src=x onerror=\"window.hit='name'\">",
    '"><svg onload="window.hit=\'attribute\'">',
    "'onmouseover='window.hit=1' x='",
    "{{ 7 * 7 }}{% raw %}",
    "<!--<script>window.hit='comment'</script>",
    "]]>&lt;b&gt;\u2028\u2029\x00\x1b[31m\ud800 ‮",
)
SOURCE = "net.py:1</td><script>window.hit='source'</script>"


def program() -> Program:
    """The planted net, in which values and sources have such names."""
    graph = faulty_executors.net()
    names = {
        v: Value(f"{NAMES[i % len(NAMES)]}{i}", v.type, v.data) for i, v in enumerate(graph.values.values())
    }
    graph = graph.substitute(names)
    graph = graph.replace(ops=tuple(dataclasses.replace(op, source=SOURCE) for op in graph.ops))
    target = find_target("cortex-m33")
    ledger = all_on_cpu(graph, core_cycles(target.core), "--target <b onclick=window.hit=2>")
    return Program(graph, target, ledger)

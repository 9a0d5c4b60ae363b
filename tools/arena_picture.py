# SPDX-License-Identifier: Apache-2.0
"""docs/pictures/arena.svg: who lives where in the arena, and when, from the memory plan of a small network of the zoo."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pillion.ir.types import Value
    from pillion.program import Program

MODEL, TARGET = "separable_residual", "cortex-m33+int8"
PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
LEFT, TOP, COLUMN, HEIGHT = 70, 40, 96, 300


def style() -> str:
    """Gives the colours that all pictures share."""
    found = re.search(r"<style>.*?</style>", (PICTURES / "pipeline.svg").read_text("utf-8"), re.DOTALL)
    assert found
    return found[0]


def lifetimes(program: Program) -> dict[Value, tuple[int, int]]:
    """Gives for each tensor in the arena the first and the last operator that need it."""
    graph, lives = program.graph, {}
    for value in program.memory.offsets:
        made = [n for n, op in enumerate(graph.ops) if value in op.results]
        read = [n for n, op in enumerate(graph.ops) if value in op.operands]
        last = len(graph.ops) - 1 if value in graph.outputs else max(read, default=0)
        lives[value] = (made[0] if made else 0, last)
    return lives


def block(x: float, y: float, width: float, height: float, kind: str, label: str) -> str:
    name = f'<text class="mid soft" x="{x + width / 2:g}" y="{y + height / 2 + 4:g}">{label}</text>'
    box = f'<rect class="{kind} edge" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4"/>'
    return box + (name if height > 13 and label else "")


def arena_picture() -> str:
    """Gives the picture: operators from left to right, bytes of the arena from bottom to top."""
    import pillion

    program = pillion.compile(MODEL, target=TARGET, io_dtype="int8")
    memory, ops = program.memory, program.graph.ops
    scale = HEIGHT / memory.arena_bytes
    width = LEFT + COLUMN * len(ops) + 20
    parts = [f'<text class="bold" x="10" y="22">Arena of {MODEL}: {memory.arena_bytes:,} bytes</text>']

    def put(first: int, last: int, offset: int, size: int, kind: str, label: str) -> None:
        y = TOP + HEIGHT - (offset + size) * scale
        wide = COLUMN * (last - first + 1) - 4
        parts.append(block(LEFT + COLUMN * first + 2, y, wide, max(size * scale, 2), kind, label))

    for value, (first, last) in lifetimes(program).items():
        shape = "×".join(map(str, value.type.shape[1:]))
        border = value in (*program.graph.inputs, *program.graph.outputs)
        size = value.type.size_bytes
        put(first, last, memory.offsets[value], size, "good" if border else "cpu", shape)
    for number, step in enumerate(program.lowered.steps):
        if (offset := memory.scratch_offsets.get(step.choice.op)) is not None:
            put(number, number, offset, step.choice.kernel.scratch_bytes(step.choice.op), "npu", "")
    for number, op in enumerate(ops):
        x, y = LEFT + COLUMN * number + COLUMN / 2, TOP + HEIGHT + 20
        parts.append(f'<text class="mid soft" x="{x:g}" y="{y}">{op.kind}</text>')
    for part in range(5):
        y = TOP + HEIGHT * (1 - part / 4)
        parts.append(
            f'<text class="end soft" x="{LEFT - 8}" y="{y + 4:g}">{memory.arena_bytes * part // 4:,}</text>'
        )
    head = f'class="drawn" viewBox="0 0 {width} {TOP + HEIGHT + 50}" width="{width}" height="{TOP + HEIGHT + 50}"'
    label = f"The arena of {MODEL} over time"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {head} role="img" aria-label="{label}">',
            style(),
            *parts,
            "</svg>",
        ]
    )

# SPDX-License-Identifier: Apache-2.0
"""What networks take that run a few rows at a time: the arena, and the instructions on the emulated boards, for several wishes."""

from __future__ import annotations

from typing import Any

import numpy as np

import pillion
from pillion import zoo
from pillion.compile_options import Memory
from pillion.program import Program

MODELS: dict[str, tuple[str, int | None, str]] = {
    "resnet8": ("resnet8", None, "24K"),
    "mobilenet_v1_025": ("mobilenet_v1_025", None, "36K"),
    "yolo_two_heads": ("yolo_two_heads", None, "96K"),
    "mobilenet_v2@96": ("mobilenet_v2", 96, "64K"),
    "mobilenet_v3_small": ("mobilenet_v3_small", 224, "192K"),
    "unet": ("unet", None, "240K"),
    "mobilenet_v2": ("mobilenet_v2", 224, "256K"),
}
"""Of each model its name in the zoo, the side of its picture, and the RAM that it is bound to."""

Figures = dict[str, Any]


def wishes(max_ram: str) -> dict[str, dict[str, Any]]:
    """What is asked for, as it is typed."""
    return {
        "--extra 1%": {"extra": "1%"},
        "--extra 5%": {"extra": "5%"},
        f"--max-ram {max_ram}": {"max_ram": max_ram},
        "--rows-in --extra 5%": {"rows_in": True, "extra": "5%"},
    }


def measured(label: str, core: str, board: str) -> Figures:
    """The arena and the instructions of a model, whole and by each wish; int8 NHWC input and output."""
    name, size, max_ram = MODELS[label]
    module, example = zoo.build(name, size)
    samples = zoo.random_inputs(name, 1, size)
    whole = pillion.compile(
        module, example, target=core, calibrate=samples, name=name, io_dtype="int8", io_layout="nhwc", extra=0
    )
    found = {"whole": on_board(whole, board)}
    for wish, asked in wishes(max_ram).items():
        found[wish] = on_board(whole.within(Memory(**asked)), board)
    return found


def on_board(program: Program, board: str) -> Figures:
    """The figures of one program, whose bytes are those of the reference."""
    (value,) = program.graph.inputs
    x = np.random.default_rng(1).integers(-128, 128, value.shape).astype(np.int8)
    result = program.measure(x, on=board, timeout=900)
    assert result.profile is not None
    for ours, reference in zip(result.outputs, program.graph.reference(x), strict=True):
        assert np.array_equal(ours, reference), f"other bytes than the reference on {board}"
    return {
        "instructions": result.profile.instructions,
        "arena_bytes": program.memory.arena_bytes,
        "code_bytes": result.profile.code_bytes,
    }


def lines(label: str, core: str, figures: Figures) -> str:
    """What is printed of a model on a core."""
    whole = figures["whole"]
    return "\n".join(
        f"{label:20} {core:10} {wish:22} {one['arena_bytes']:>10,} {one['instructions']:>12,} "
        f"{100 * (one['instructions'] / whole['instructions'] - 1):+6.2f} % {one['code_bytes']:>7,}"
        for wish, one in figures.items()
    )

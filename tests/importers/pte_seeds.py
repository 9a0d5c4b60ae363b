# SPDX-License-Identifier: Apache-2.0
"""Valid `.pte` files to read and to damage: our own, with and without an NPU segment, and ExecuTorch's."""

from __future__ import annotations

from pathlib import Path

from pillion.devices.cortex_m import CORES
from pillion.emitters.pte import emit
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ops import ALL_OPS, Add, Clamp, Conv2d, Op, Segment
from pillion.ops.example_values import value

FOREIGN = sorted((Path(__file__).parent / "foreign").glob("*.pte"))
"""Written by ExecuTorch's own Cortex-M flow, 1.4.1's or 1.5.1's (`_15`), from the models of `executorch_flow.py`."""


def one_op(op: Op) -> Graph:
    return Graph("g", op.activations, (op,), op.results)


def small_file(op: Op, core: str = "cortex-m55") -> bytes:
    """The program of one op; nothing where it is refused."""
    try:
        return emit(one_op(op), CORES[core])
    except PillionError:
        return b""


def small_files() -> list[bytes]:
    """A few of each op, none of them large."""
    return [
        raw for cls in ALL_OPS for op in list(cls.examples())[:3] if 0 < len(raw := small_file(op)) < 8000
    ]


def segment_graph() -> Graph:
    """An NPU segment of two inputs, with weights, between two ops of the core."""
    conv = list(Conv2d.examples())[2]
    x, y = conv.activations[0], conv.results[0]
    b, total = value("b", y.shape, 0.1, 5), value("total", y.shape, 0.2, 3)
    body = Graph("npu0", (x, b), (conv, Add(a=y, b=b, y=total)), (total,), Arithmetic.TFLITE)
    first = value("first", x.shape, x.scale, x.zero_point)
    clamped, after = value("clamped", x.shape, x.scale, x.zero_point), value("after", y.shape, 0.2, 3)
    other, last = value("other", y.shape, 0.1, 5), value("last", y.shape, 0.3, 1)
    ops = (
        Clamp(x=first, y=clamped, low=-100, high=90),
        Segment(xs=(clamped, other), ys=(after,), body=body, device="npu"),
        Clamp(x=after, y=last),
    )
    return Graph("mixed", (first, other), ops, (last,))

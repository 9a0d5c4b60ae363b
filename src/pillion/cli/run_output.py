# SPDX-License-Identifier: Apache-2.0
"""A run as plain data, for tables and `--json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pillion.cli.console import Facts

if TYPE_CHECKING:
    from pillion.ir.stream_io import Streaming
    from pillion.run.executor import BoardProfile, RunResult

SEGMENT = "segment"
"""Kind of the ops that run on the NPU. A board emulates them in software: their instruction counts are not the
chip's."""


def run_facts(model: str, on: str, result: RunResult, streaming: Streaming | None = None) -> Facts:
    """Returns the facts about a run."""
    facts: Facts = {"model": model, "on": on, "outputs": [_array_summary(o) for o in result.outputs]}
    if result.measured is not None:
        return {**facts, **_measured_facts(result.measured)}
    if result.profile is None:
        return facts
    profile = result.profile
    ops = [
        {
            **{"kind": op.kind, "name": op.name, "kernel": op.kernel, "macs": op.macs},
            **{"instructions": None if op.kind == SEGMENT else count, "source": op.source, "why": op.why},
        }
        for op, count in zip(profile.ops, profile.op_instructions, strict=True)
    ]
    regions = [{"region": r.name, "predicted": r.predicted, "found": r.found} for r in profile.regions]
    on_npu = sum(op.kind == SEGMENT for op in profile.ops)
    not_counted = (
        {"not_counted": f"segments of the NPU ({on_npu}): a stand-in computes them here"} if on_npu else {}
    )
    return {
        **facts,
        "instructions": profile.instructions,
        **not_counted,
        **(_stream_call_facts(profile.instructions, streaming) if streaming else {}),
        "code_bytes": profile.code_bytes,
        "stack_bytes": profile.stack_bytes,
        "regions": regions,
        "ops": ops,
    }


def _measured_facts(measured: BoardProfile) -> Facts:
    """Returns the facts about the measurements of a board at the other end of a line."""
    unit = "instructions" if measured.is_emulated else "cycles"
    rows = [
        {
            "kind": op.kind,
            "name": op.name,
            "kernel": op.kernel,
            unit: cycles,
            "source": op.source,
            "why": op.why,
        }
        for op, cycles in zip(measured.ops, measured.op_cycles, strict=True)
    ]
    milliseconds = {} if measured.is_emulated else {"measured_ms": 1e3 * measured.cycles / measured.clock_hz}
    return {
        "chip": measured.chip,
        "chip_clock_hz": measured.clock_hz,
        "compiler": f"{measured.compiler} {measured.flags}",
        unit: measured.cycles,
        **milliseconds,
        "stack_bytes": measured.stack_bytes,
        "ops": rows,
    }


def _stream_call_facts(instructions: int, streaming: Streaming) -> Facts:
    """Returns the instructions per call of a stream: calls with enough frames run the model, others copy frames."""
    fed = streaming.inputs[0]
    return {
        "instructions_of_the_longest_call": instructions,
        "instructions_per_call": round(instructions / streaming.calls),
        "instructions_per_frame": round(instructions / fed.frames),
    }


def _array_summary(array: Any) -> Facts:
    flat = array.ravel()
    return {
        "dtype": array.dtype.name,
        "shape": list(array.shape),
        "min": flat.min().item() if flat.size else None,
        "max": flat.max().item() if flat.size else None,
        "argmax": int(flat.argmax()) if flat.size else None,
    }

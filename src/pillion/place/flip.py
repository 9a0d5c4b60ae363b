# SPDX-License-Identifier: Apache-2.0
"""The smallest change to an op that would let the NPU take it, found by trying: a changed op is judged like any other."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from pillion.devices import neutron
from pillion.devices.device import Device
from pillion.ir.op import Op
from pillion.ir.types import PerChannel, PerTensor, TensorType, Value
from pillion.ir.verdict import Verdict, all_ok, failures
from pillion.ops import Linear, Softmax

Change = tuple[str, Op]


def smallest_change(op: Op, npu: Device, verdicts: tuple[Verdict, ...]) -> str:
    """What to change, in words; empty where no single change is known to help."""
    failed = {verdict.rule.split(".")[1] for verdict in failures(verdicts) if verdict.rule.startswith(f"{op.kind}.")}
    for name in failed:
        for words, changed in CHANGES.get(name, _none)(op):
            if all_ok(npu.judge(changed)):
                return words
    if any(v.rule == "user.keep_on_cpu" and not v.ok for v in verdicts):
        return "leave out --keep-on-cpu" if all_ok(npu.judge(op)) else ""
    return ""


def _none(op: Op) -> Iterator[Change]:
    return iter(())


def _window(field: str) -> Callable[[Op], Iterator[Change]]:
    def change(op: Op) -> Iterator[Change]:
        old = getattr(op, field)
        if field in op.attributes:
            new = tuple(min(n, neutron.MAX_WINDOW) for n in old)
            yield f"{field} {old} → {new}", dataclasses.replace(op, **{field: new})

    return change


def _one_scale(op: Op) -> Iterator[Change]:
    if isinstance(op, Linear) and isinstance(op.weights.type.quant, PerChannel):
        quant = PerTensor(max(op.weights.type.quant.scales))
        weights = dataclasses.replace(op.weights, type=dataclasses.replace(op.weights.type, quant=quant))
        yield "weights with one scale (quantize for this target)", dataclasses.replace(op, weights=weights)


def _softmax_axis(limit: int) -> Callable[[Op], Iterator[Change]]:
    def change(op: Op) -> Iterator[Change]:
        if isinstance(op, Softmax):
            shape = (*op.x.shape[:-1], limit)
            x, y = (_reshaped(v, shape) for v in (op.x, op.y))
            yield f"channels {op.x.shape[-1]} → {limit}", dataclasses.replace(op, x=x, y=y)

    return change


def _softmax_rows(op: Op) -> Iterator[Change]:
    if isinstance(op, Softmax):
        shape = (neutron.MAX_SOFTMAX_ROWS, op.x.shape[-1])
        x, y = (_reshaped(v, shape) for v in (op.x, op.y))
        rows = op.x.type.elements // op.x.shape[-1]
        yield f"rows {rows} → {neutron.MAX_SOFTMAX_ROWS}", dataclasses.replace(op, x=x, y=y)


def _unpadded(op: Op) -> Iterator[Change]:
    if "padding" in op.attributes:
        yield "no padding (or count_include_pad=True)", dataclasses.replace(op, padding=(0, 0, 0, 0))  # type: ignore[call-arg]


def _unit_steps(op: Op) -> Iterator[Change]:
    if "step" in op.attributes:
        yield "step 1", dataclasses.replace(op, step=tuple(1 for _ in op.attributes["step"]))  # type: ignore[call-arg]


def _same_parameters(op: Op) -> Iterator[Change]:
    quant = op.results[0].type.quant
    same = {v: Value(v.name, dataclasses.replace(v.type, quant=quant)) for v in op.operands if not v.is_constant}
    yield "one scale and zero point for operands and result (as the quantizer gives them)", op.substitute(same)


def _reshaped(value: Value, shape: tuple[int, ...]) -> Value:
    return Value(value.name, TensorType(shape, value.dtype, value.type.quant))


CHANGES: dict[str, Callable[[Op], Iterator[Change]]] = {
    "stride": _window("stride"),
    "dilation": _window("dilation"),
    "kernel": _window("kernel"),
    "weights": _one_scale,
    "channels": _softmax_axis(neutron.MAX_SOFTMAX_CHANNELS),
    "rows": _softmax_rows,
    "padding": _unpadded,
    "step": _unit_steps,
    "parameters": _same_parameters,
}
"""Name of a rule → changes that might satisfy it, smallest first."""

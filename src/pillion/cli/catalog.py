# SPDX-License-Identifier: Apache-2.0
"""Tables of devices, rules and kernels, for the command line, JSON and the docs."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from pillion.devices.cortex_m import CORES, Core
from pillion.devices.device import Device
from pillion.errors import PillionError
from pillion.ops import listed_ops
from pillion.targets import NPUS, TARGETS

TableRow = Mapping[str, Any]


def npu_nicknames() -> dict[str, str]:
    """Returns the short names of NPUs: `npu` is the first NPU, a family name the first of its family."""
    return {nick: name for name in reversed([*NPUS]) for nick in ("npu", name.split("-")[0])}


RULE_COLUMNS = ("op", "rule", "wants", "source")
KERNEL_COLUMNS = ("op", "kernels")


def npu_rule_rows(npu: Device) -> list[TableRow]:
    """Returns every rule of an NPU, by op."""
    kinds = sorted(npu.ops, key=lambda op: op.kind)
    return [
        {"op": op.kind, "rule": rule.name, "wants": rule.wants, "source": rule.source}
        for op in kinds
        for rule in npu.rules_of(op)
    ]


def kernels_of(core: Core) -> list[TableRow]:
    """Returns the kernels of a core for each op, in order of preference."""
    from pillion.emitters.c.kernel_choice import kernels

    table = kernels(core.isa)
    return [{"op": op.kind, "kernels": [k.name for k in table if k.op is op]} for op in listed_ops()]


def known_devices() -> list[str]:
    """Returns all names that `describe_device` accepts."""
    return [*NPUS, *CORES, *TARGETS, *npu_nicknames()]


def describe_device(name: str) -> tuple[list[TableRow], tuple[str, ...]]:
    """Returns the rows and columns for an NPU or a core. A target means its NPU, or its core if it has none."""
    device = name.lower()
    device = npu_nicknames().get(device, device)
    for target in TARGETS.values():
        if device in (target.name, *target.aliases):
            device = target.npu.name if target.npu else target.core.name
    if device in NPUS:
        return npu_rule_rows(NPUS[device]), RULE_COLUMNS
    if device in CORES:
        return kernels_of(CORES[device]), KERNEL_COLUMNS
    known = known_devices()
    close = difflib.get_close_matches(device, known, n=1)
    raise PillionError(
        f"there is no device `{name}`",
        rule=f"an NPU ({', '.join(NPUS)}), a core ({', '.join(CORES)}) or a target",
        here=f"--device {name}",
        help=f"--device {(close or known)[0]}",
    )

# SPDX-License-Identifier: Apache-2.0
"""Arm's Ethos-U: all that Pillion knows of it. The docs table, `explain`, errors and tests read the same rules.

accelerators    the sizes that there are
limits, rules   what Arm's compiler Vela takes, and computes rightly
estimate        what ops cost
vela/           from a segment's TFLite file to a command stream
stream/         what a command stream computes, bit for bit
payload         what ExecuTorch's delegate is handed
computer/       C in the place of Arm's driver, on this computer
firmware        the C that calls Arm's driver
"""

from __future__ import annotations

from pillion.devices.device import Device
from pillion.devices.ethos_u.accelerators import ACCELERATORS, Accelerator, Family
from pillion.devices.ethos_u.computer import driver
from pillion.devices.ethos_u.converter import cost_for, payloads_for
from pillion.devices.ethos_u.estimate import DISPATCH_CYCLES, FLASH_BYTES_PER_CYCLE, estimate
from pillion.devices.ethos_u.multipliers import multipliers_for
from pillion.devices.ethos_u.payload import executed, shown
from pillion.devices.ethos_u.rules import SUPPORTED, rules
from pillion.ir.numerics import Arithmetic
from pillion.ir.wishes import Wishes
from pillion.ops import ALL_OPS, Pad, Reshape, Slice, Transpose
from pillion.passes.sum_hard_sigmoids import sum_hard_sigmoids
from pillion.passes.sums_of_one_axis import sums_of_one_axis

MOVEMENT = (Reshape, Transpose, Slice, Pad)
"""Of these alone no segment is made: the core moves bytes as well."""


WISHES = Wishes(
    functions_by_name=True, fixed=frozenset({"softmax", "add", "concat"}), copies_of_convolutions=True
)
RULES = {family: rules(family) for family in Family}
"""The same for all sizes of a family."""


def ethos_u(accelerator: Accelerator) -> Device:
    """Makes the description of an Ethos-U of some size."""
    proven = (
        ""
        if accelerator.family is not Family.U85 and accelerator.cores == 1
        else "; its streams are not proven"
    )
    return Device(
        name=accelerator.name,
        summary=f"Arm Ethos-{accelerator.family.name}, {accelerator.macs} MAC per cycle{proven}",
        ops=frozenset(SUPPORTED),
        lacks=frozenset(ALL_OPS) - frozenset(SUPPORTED),
        rules=RULES[accelerator.family],
        estimate=lambda op: estimate(op, accelerator),
        flash_bytes_per_cycle=FLASH_BYTES_PER_CYCLE,
        dispatch_cycles=DISPATCH_CYCLES,
        arithmetic=Arithmetic.TFLITE_INTEGER,
        copies_weights=False,
        drops=lambda op: isinstance(op, MOVEMENT),
        delegate="EthosUBackend",
        file_operators=(("ethos-u", "Arm's Ethos-U, by Vela"),),
        wishes=WISHES,
        rewrites=(sum_hard_sigmoids, sums_of_one_axis, multipliers_for(accelerator)),
        show=shown,
        execute=executed,
        driver=driver,
        cost=cost_for(accelerator),
        payloads=payloads_for(accelerator),
    )


ETHOS_U = {name: ethos_u(accelerator) for name, accelerator in ACCELERATORS.items()}

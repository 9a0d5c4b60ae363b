# SPDX-License-Identifier: Apache-2.0
"""Arm's Ethos-U. The docs table, `explain`, errors and tests read the same rules.

accelerators            the sizes
limits, rules           the ops that Arm's compiler Vela supports and computes correctly
rewrites                passes before partitioning
estimate                costs of ops
vela/, converter        from a segment's TFLite file to a command stream
stream/                 interprets a command stream, bit for bit
payload                 the payload of ExecuTorch's delegate
host_driver/            C that replaces Arm's driver on this computer
segment_source          the C that calls Arm's driver"""

from __future__ import annotations

from pillion.compile_options import NpuOptions
from pillion.devices.device import Device
from pillion.devices.ethos_u.accelerators import ACCELERATORS, Accelerator, Family
from pillion.devices.ethos_u.converter import cost_for, payloads_for
from pillion.devices.ethos_u.estimate import DISPATCH_CYCLES, FLASH_BYTES_PER_CYCLE, estimate
from pillion.devices.ethos_u.host_driver import substitute_driver
from pillion.devices.ethos_u.payload import executable_of, memory_of, payload_lines
from pillion.devices.ethos_u.rewrites import dense_multiplier_pass, separate_resizes, tabulate_functions
from pillion.devices.ethos_u.rules import SUPPORTED, rules
from pillion.devices.ethos_u.vela.vela_settings import OPTIONS, VelaSettings, alternatives, settings_of
from pillion.devices.op_groups import MOVES
from pillion.ir.constraints import QuantizationConstraints
from pillion.ir.numerics import Arithmetic
from pillion.passes.split_reductions import split_reductions
from pillion.passes.sum_hard_sigmoids import sum_hard_sigmoids

CONSTRAINTS = QuantizationConstraints(
    functions_by_name=True,
    shared=frozenset({"avg_pool2d"}),
    fixed=frozenset({"softmax", "lut", "add", "concat"}),
    copies_of_convolutions=True,
)
RULES = {family: rules(family) for family in Family}
"""The rules by family; all sizes of a family have the same."""


def ethos_u(settings: VelaSettings) -> Device:
    """Returns the description of an Ethos-U of this size, with these settings of Vela."""
    accelerator = settings.accelerator
    proven = "" if accelerator.cores == 1 else "; its streams are not proven"
    return Device(
        name=accelerator.name,
        summary=f"Arm Ethos-{accelerator.family.name}, {accelerator.macs} MAC per cycle{proven}",
        ops=frozenset(SUPPORTED),
        rules=RULES[accelerator.family],
        estimate=lambda op: estimate(op, accelerator),
        flash_bytes_per_cycle=FLASH_BYTES_PER_CYCLE,
        dispatch_cycles=DISPATCH_CYCLES,
        arithmetic=Arithmetic.TFLITE_INTEGER,
        has_workspace=True,
        copies_weights=False,
        removes=lambda op: isinstance(
            op, MOVES
        ),  # no segment on their own: the core moves bytes just as well
        delegate="EthosUBackend",
        file_operators=(("ethos-u", "Arm's Ethos-U, by Vela"),),
        constraints=CONSTRAINTS,
        rewrites=(
            tabulate_functions,
            separate_resizes,
            sum_hard_sigmoids,
            split_reductions,
            dense_multiplier_pass(accelerator),
        ),
        show=payload_lines,
        execute=executable_of,
        memory_of=memory_of,
        driver=substitute_driver,
        options=OPTIONS,
        configure=lambda options: configured(accelerator, options),
        alternatives=lambda options: alternatives(accelerator, options),
        cost=cost_for(settings),
        payloads=payloads_for(settings),
    )


def configured(accelerator: Accelerator, options: NpuOptions) -> Device | None:
    """Returns the description of an Ethos-U of this size with Vela set up by the user's options; None without any."""
    return ethos_u(settings_of(accelerator, options)) if options.flags else None


ETHOS_U = {name: ethos_u(VelaSettings(accelerator)) for name, accelerator in ACCELERATORS.items()}

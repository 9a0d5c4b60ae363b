# SPDX-License-Identifier: Apache-2.0
"""NXP's eIQ Neutron. The docs table, `explain`, errors and tests read the same rules.

limits, old_flow, rules the ops that NXP's converter supports
generations             its releases, which differ in rules
settings                the user's options
fixits/                 changes that may satisfy a rule
sums                    a pass before partitioning
removed_by_converter    ops that the converter removes
estimate                costs of ops
converter/              from a segment's TFLite file to NPU code"""

from __future__ import annotations

from functools import cache, partial

from pillion.devices.cortex_m.cores import IMAGE_BITS
from pillion.devices.device import Device
from pillion.devices.neutron.converter import convert_segments, require_conversion
from pillion.devices.neutron.converter.code_listing import list_neutron_code, memory_of
from pillion.devices.neutron.converter.extract import NEUTRON_GRAPH
from pillion.devices.neutron.estimate import DISPATCH_CYCLES, KERNEL_START, UNCERTAINTY, estimate
from pillion.devices.neutron.fixits import fixits_for
from pillion.devices.neutron.limits import NeutronGeometry
from pillion.devices.neutron.removed_by_converter import is_removed
from pillion.devices.neutron.rules import SUPPORTED, rules
from pillion.devices.neutron.settings import OPTIONS, NeutronSettings, settings_of
from pillion.devices.neutron.sums import layers_for_sums
from pillion.ir.constraints import QuantizationConstraints
from pillion.passes.convolve_linear import convolve_linear
from pillion.passes.decompose_silu import decompose_silu
from pillion.passes.legalize_nearest import legalize_nearest
from pillion.passes.per_channel_requantize import per_channel_requantize
from pillion.passes.rescale_sums import rescale_sums
from pillion.passes.split_flips import split_flips
from pillion.passes.split_groups import split_groups
from pillion.passes.sum_hard_sigmoids import sum_hard_sigmoids

CONSTRAINTS = QuantizationConstraints(
    functions_by_name=True,
    symmetric_operands=frozenset({"batch_matmul"}),
    shared=frozenset({"mean", "reduce_max", "reduce_min", "avg_pool2d"}),
    fixed=frozenset({"softmax", "lut", "add", "concat"}),
    per_tensor_weights=frozenset({"linear"}),
    copies_of_convolutions=True,
    image_bits=min(IMAGE_BITS.values()),
)
"""The constraints on quantization that the rules require. ReduceSum has none, because requantizing to a sum's
scale loses its operand's precision; sums become layers, or else means and products."""


@cache
def neutron(name: str, geometry: NeutronGeometry, settings: NeutronSettings) -> Device:
    """Returns the description of a Neutron of this size, with these settings of the converter."""
    own_rules = rules(geometry, settings.generation)
    return Device(
        name=name,
        summary=f"NXP eIQ Neutron, {geometry.pipelines} x {geometry.macs} MAC per cycle",
        ops=frozenset(SUPPORTED),
        rules=own_rules,
        estimate=lambda op: estimate(op, geometry),
        dispatch_cycles=DISPATCH_CYCLES,
        uncertainty=UNCERTAINTY,
        kernel_start=KERNEL_START,
        constraints=CONSTRAINTS,
        rewrites=(
            *(
                split_groups,
                split_flips,
                per_channel_requantize,
                legalize_nearest,
                sum_hard_sigmoids,
                decompose_silu,
            ),
            *(layers_for_sums(own_rules), rescale_sums, convolve_linear),
        ),
        copies_weights=not settings.prefetch,
        fixits=fixits_for,
        removes=is_removed,
        delegate="NeutronBackend",
        file_operators=((NEUTRON_GRAPH, "NXP's eIQ Neutron"),),
        show=list_neutron_code,
        memory_of=memory_of,
        options=OPTIONS,
        configure=lambda options: neutron(name, geometry, settings_of(options)),
        cost=partial(require_conversion, settings),
        payloads=partial(convert_segments, settings),
    )


N3_64 = neutron("neutron-n3-64", NeutronGeometry(8, 8), NeutronSettings())
N1_16 = neutron("neutron-n1-16", NeutronGeometry(4, 4), NeutronSettings())

# SPDX-License-Identifier: Apache-2.0
"""NXP's eIQ Neutron: all that Pillion knows of it. The docs table, `explain`, errors and tests read the same rules.

limits, rules   what NXP's converter takes
changes/        what might satisfy a rule
dropped         what the converter removes
estimate        what ops cost
converter/      from a segment's TFLite file to code for the NPU
"""

from __future__ import annotations

from pillion.devices.device import Device
from pillion.devices.neutron.changes import changes_for
from pillion.devices.neutron.converter import payloads
from pillion.devices.neutron.converter.extract import NEUTRON_GRAPH
from pillion.devices.neutron.dropped import drops
from pillion.devices.neutron.estimate import DISPATCH_CYCLES, estimate
from pillion.devices.neutron.limits import Geometry
from pillion.devices.neutron.rules import LACKING, SUPPORTED, rules
from pillion.ir.wishes import Wishes
from pillion.passes.plain_nearest import plain_nearest
from pillion.passes.rescale_sums import rescale_sums
from pillion.passes.split_groups import split_groups
from pillion.passes.spread_multipliers import spread_multipliers
from pillion.passes.sum_hard_sigmoids import sum_hard_sigmoids

WISHES = Wishes(
    functions_by_name=True,
    symmetric_operands=frozenset({"batch_matmul"}),
    shared=frozenset({"mean", "reduce_max", "reduce_min"}),
    fixed=frozenset({"softmax", "add", "concat"}),
    per_tensor_weights=frozenset({"linear"}),
    copies_of_convolutions=True,
)
"""What the rules above need of the quantizer. Not for sums: in the steps of a sum nothing is left of what it sums up. They become means
and products."""


def neutron(name: str, geometry: Geometry) -> Device:
    """Makes the description of a Neutron of some size."""
    return Device(
        name=name,
        summary=f"NXP eIQ Neutron, {geometry.pipelines} x {geometry.macs} MAC per cycle",
        ops=frozenset(SUPPORTED),
        lacks=frozenset(LACKING),
        rules=rules(geometry),
        estimate=lambda op: estimate(op, geometry),
        dispatch_cycles=DISPATCH_CYCLES,
        wishes=WISHES,
        rewrites=(split_groups, spread_multipliers, plain_nearest, sum_hard_sigmoids, rescale_sums),
        changes=changes_for,
        drops=drops,
        delegate="NeutronBackend",
        file_operators=((NEUTRON_GRAPH, "NXP's eIQ Neutron"),),
        payloads=payloads,
    )


N3_64 = neutron("neutron-n3-64", Geometry(8, 8))
N1_16 = neutron("neutron-n1-16", Geometry(4, 4))

# SPDX-License-Identifier: Apache-2.0
"""Nets that torch's pt2e flow converts with the quantizers of others."""

from __future__ import annotations

import sys
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.fx import GraphModule
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer import (
    ComposableQuantizer,
    QuantizationAnnotation,
    QuantizationSpec,
    Quantizer,
    arm_inductor_quantizer,
    x86_inductor_quantizer,
)
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

Inputs = tuple[Tensor, ...]


def cortex_m() -> Any:
    from executorch.backends.cortex_m.quantizer.quantizer import CortexMQuantizer

    return CortexMQuantizer()


def neutron() -> Any:
    """NXP's quantizer asks its SDK for the chip only: a stand-in names it."""
    chip = SimpleNamespace(name="imxrt700", subsystem=False, hwVersion=2)
    sdk: Any = ModuleType("eiq_neutron_sdk")
    sdk.neutron_converter = SimpleNamespace(getNeutronTarget=lambda _: chip)
    sdk.neutron_library_utils = SimpleNamespace(isNeutronTarget=lambda _: True)
    sys.modules["eiq_neutron_sdk"] = sdk
    try:
        from executorch.backends.nxp.backend.neutron_target_spec import NeutronTargetSpec
        from executorch.backends.nxp.quantizer.neutron_quantizer import NeutronQuantizer

        return NeutronQuantizer(NeutronTargetSpec("imxrt700"))
    finally:
        del sys.modules["eiq_neutron_sdk"]


@cache
def remember_patterns() -> None:
    """XNNPACK's quantizer exports its twelve patterns at each call, which takes seconds; here it does so once."""
    from executorch.backends.xnnpack.quantizer import xnnpack_quantizer_utils as utils

    export, known = utils._get_aten_graph_module_for_pattern, {}

    def exported_once(pattern: Any, inputs: Inputs, *options: Any) -> GraphModule:
        closure = tuple(cell.cell_contents for cell in pattern.fn.__closure__)
        key = (pattern.fn.__code__, closure, tuple(x.shape for x in inputs), options)
        if key not in known:
            known[key] = export(pattern, inputs, *options)
        return deepcopy(known[key])  # matching takes the pattern's results apart

    utils._get_aten_graph_module_for_pattern = exported_once


def xnnpack(**options: Any) -> Any:
    remember_patterns()
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )

    return XNNPACKQuantizer().set_global(
        get_symmetric_quantization_config(**{"is_per_channel": True, **options})
    )


class LastResult(Quantizer):
    """Annotates the result of the last call, which torchao's own quantizers leave in float."""

    def __init__(self, spec: QuantizationSpec) -> None:
        self.spec = spec

    def annotate(self, model: GraphModule) -> GraphModule:
        (last,) = model.graph.output_node().all_input_nodes
        last.meta[Q_ANNOTATION_KEY] = QuantizationAnnotation(output_qspec=self.spec, _annotated=True)
        return model

    def validate(self, model: GraphModule) -> None:
        pass


def x86(**options: Any) -> Any:
    """Torchao's own, with activations of uint8."""
    config = x86_inductor_quantizer.get_default_x86_inductor_quantization_config(**options)
    quantizer = x86_inductor_quantizer.X86InductorQuantizer().set_global(config)
    return ComposableQuantizer([quantizer, LastResult(config.output_activation)])


def arm() -> Any:
    """Torchao's own, with one scale for all weights of a layer."""
    config = arm_inductor_quantizer.get_default_arm_inductor_quantization_config()
    quantizer = arm_inductor_quantizer.ArmInductorQuantizer().set_global(config)
    return ComposableQuantizer([quantizer, LastResult(config.output_activation)])


QUANTIZERS: dict[str, Callable[[], Any]] = {
    "cortex_m": cortex_m,
    "neutron": neutron,
    "xnnpack": xnnpack,
    "x86": x86,
    "arm": arm,
}


class Branches(nn.Module):
    """Regular, depthwise and pointwise convolution, a batch norm, clamps, a sum, pools, a concatenation, linear."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.norm, self.d = (
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.Conv2d(8, 8, 3, 2, 1, groups=8),
        )
        self.c, self.f = nn.Conv2d(8, 8, 1), nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu6(self.d(torch.relu(self.norm(self.a(x)))))
        y = y + self.c(y)
        y = torch.cat([y, F.max_pool2d(y, 3, 1, 1)], 1)
        return self.f(F.adaptive_avg_pool2d(y, 1).flatten(1))


class Perceptron(nn.Module):
    """Linear layers, one without bias."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(13, 17), nn.Linear(17, 9, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.relu(self.a(x)))


class Mean(nn.Module):
    """Windows and strides that are not square, a hardtanh, a sum with a clamp, a mean."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(2, 6, (3, 5), stride=(2, 1)), nn.Conv2d(6, 6, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.hardtanh(self.a(x), -1.0, 1.0)
        return F.relu(x + self.b(x)).mean((2, 3))


class Rows(nn.Module):
    """Joined channels become rows of a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.f = nn.Conv2d(4, 6, 1), nn.Conv2d(4, 6, 3, padding=1), nn.Linear(12, 7)

    def forward(self, x: Tensor) -> Tensor:
        return self.f(torch.cat([self.a(x), self.b(x)], 1).permute(0, 2, 3, 1))


class Pooled(nn.Module):
    """Two layers with clamps, and a pool at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 5, 3), nn.Conv2d(5, 7, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return F.max_pool2d(torch.relu(self.b(F.relu6(self.a(x)))), 2)


class Padded(nn.Module):
    """An input that is padded before it is quantized."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Conv2d(3, 5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return F.max_pool2d(self.a(F.pad(x, (1, 0, 2, 1))), 2)


NETS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "branches": (Branches, (1, 3, 9, 7)),
    "branches of three": (Branches, (3, 3, 9, 7)),
    "perceptron": (Perceptron, (2, 13)),
    "mean": (Mean, (1, 2, 11, 13)),
    "rows": (Rows, (1, 4, 5, 7)),
    "pooled": (Pooled, (1, 3, 11, 9)),
    "padded": (Padded, (1, 3, 8, 7)),
}


def net_of(name: str) -> tuple[nn.Module, Inputs]:
    make, shape = NETS[name]
    torch.manual_seed(0)
    return make().eval(), (torch.randn(shape),)


def converted(net: nn.Module, x: Inputs, quantizer: Any, *, fold: bool = True) -> GraphModule:
    """The net as its user has it after `convert_pt2e`, calibrated with random numbers."""
    name = type(quantizer).__name__
    if name == "CortexMQuantizer":
        net = net.to(memory_format=torch.channels_last)
        x = tuple(t.to(memory_format=torch.channels_last) if t.dim() == 4 else t for t in x)
    exported = torch.export.export(net, x, strict=name == "NeutronQuantizer")
    prepared = prepare_pt2e(exported.module(check_guards=False), quantizer)
    source = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for _ in range(4):
            prepared(*(torch.randn(t.shape, generator=source) for t in x))
    return convert_pt2e(prepared, fold_quantize=fold)

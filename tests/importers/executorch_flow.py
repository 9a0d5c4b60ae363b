# SPDX-License-Identifier: Apache-2.0
"""ExecuTorch's own Cortex-M flow on a few small models: the programs of others. It needs `executorch[ethos-u]`, for a
package that its passes import.

    python tests/importers/executorch_flow.py     # writes those of the installed version anew to tests/importers/foreign/
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Residual(nn.Module):
    """Regular, depthwise and pointwise convolution, a sum, a mean, linear, softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.c, self.f = nn.Conv2d(8, 8, 1), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.a(x))
        z = self.c(torch.relu(self.b(y))) + y
        return self.f(F.adaptive_avg_pool2d(z, 1).flatten(1)).softmax(-1)


class Activations(nn.Module):
    """Hard-swish, tables, a pool, a transposed convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(4, 6, 3, stride=2), nn.Conv2d(6, 7, 1), nn.Conv2d(7, 5, 1)
        self.d = nn.ConvTranspose2d(5, 4, 3, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(self.b(F.hardswish(self.a(x))))
        return torch.sigmoid(self.d(F.silu(self.c(F.max_pool2d(y, 2)))))


class Gate(nn.Module):
    """Squeeze and excite: a product over the channels; paddings."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.p = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 1), nn.AvgPool2d(2, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.a(x))
        y = y * F.hardsigmoid(self.b(F.adaptive_avg_pool2d(y, 1)))
        return F.pad(self.p(y), (1, 0, 2, 1))


class Mlp(nn.Module):
    """Linear layers, a minimum of two tensors, bounds."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(7, 16), nn.Linear(16, 9), nn.Linear(9, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.b(torch.relu(self.a(x)))
        return self.c(F.hardtanh(torch.minimum(y, y * y)))


class Products(nn.Module):
    """A product of two inputs, transposed, joined and cut."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        c = torch.bmm(a, b)
        return torch.cat([c, c.permute(0, 2, 1)], 1).reshape(2, -1)[:, 3:40]


class Groups(nn.Module):
    """Grouped convolutions without bias in common, an image of one row's kernel, a sum."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Conv2d(4, 8, 3, groups=2)
        self.b = nn.Conv2d(8, 4, (1, 3), stride=(1, 2), padding=(0, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.relu(self.a(x))) + self.b(self.a(x))


class Windows(nn.Module):
    """All operators with images; since 1.5 average pools round the number of windows up."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 6, 3, stride=2), nn.Conv2d(6, 12, 3, groups=6, padding=1)
        self.c, self.p = nn.ConvTranspose2d(12, 4, 3, stride=2), nn.AvgPool2d(3, 2, ceil_mode=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.p(self.c(self.b(F.max_pool2d(torch.relu(self.a(x)), 2, 2, padding=1))))


class OneChannel(nn.Module):
    """An image of one channel, padded: the kernel takes it for channels last, whatever its dim order is."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Conv2d(1, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.a(F.pad(x, (1, 0, 2, 1)))


class Quotient(nn.Module):
    """A quotient of two tensors."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.tanh(a / b)


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[tuple[int, ...], ...]]] = {
    "res": (Residual, ((1, 3, 9, 7),)),
    "acts": (Activations, ((1, 4, 15, 13),)),
    "se": (Gate, ((1, 3, 10, 8),)),
    "mlp": (Mlp, ((3, 7),)),
    "bmm": (Products, ((2, 5, 3), (2, 3, 5))),
    "group": (Groups, ((1, 4, 9, 11),)),
    "windows": (Windows, ((1, 3, 14, 11),)),
    "one": (OneChannel, ((1, 1, 7, 5),)),
    "div": (Quotient, ((3, 7, 5), (3, 7, 5))),
}
"""Name → model and the shapes of its inputs."""


def program(name: str, core: str, seed: int = 3, explicit_layout: bool = False) -> bytes:
    """A model of this table, quantized and lowered by ExecuTorch for a core: `M55`, `M33`, …

    Since 1.5.1 images may have an explicit layout, NHWC, in place of dim orders."""
    torch.manual_seed(seed)
    make, shapes = MODELS[name]
    return lowered(make().eval(), tuple(map(torch.randn, shapes)), core, explicit_layout)


def lowered(model: nn.Module, inputs: tuple[Tensor, ...], core: str, explicit_layout: bool = False) -> bytes:
    """A model with untrained weights, quantized by random data and lowered by ExecuTorch for a core."""
    from executorch.backends.cortex_m.passes.cortex_m_pass_manager import CortexMPassManager
    from executorch.backends.cortex_m.quantizer.quantizer import CortexMQuantizer
    from executorch.backends.cortex_m.target_config import CortexM, CortexMTargetConfig
    from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    layout = torch.contiguous_format if explicit_layout else torch.channels_last
    chosen = {"use_explicit_layout": True} if explicit_layout else {}
    model = model.to(memory_format=layout)
    inputs = tuple(in_format(x, layout) for x in inputs)
    exported = torch.export.export(model, inputs, strict=True).module(check_guards=False)
    prepared = prepare_pt2e(exported, CortexMQuantizer(**chosen))
    for _ in range(4):
        prepared(*(9 * torch.randn_like(x) for x in inputs))
    aten = torch.ops.aten
    kept = [aten.linear.default, aten.hardsigmoid.default, aten.hardswish.default, aten.silu.default]
    config = EdgeCompileConfig(
        preserve_ops=kept,
        _check_ir_validity=False,
        _core_aten_ops_exception_list=[aten.max_pool2d.default],
    )
    edge = to_edge(torch.export.export(convert_pt2e(prepared), inputs, strict=True), compile_config=config)
    passes = CortexMPassManager(
        edge.exported_program(),
        target_config=CortexMTargetConfig(cpu=CortexM[core]),
        **chosen,
    )
    edge._edge_programs["forward"] = passes.transform()
    return bytes(edge.to_executorch(ExecutorchBackendConfig(extract_delegate_segments=False)).buffer)


def in_format(x: Tensor, layout: torch.memory_format) -> Tensor:
    return x.to(memory_format=layout) if x.dim() == 4 else x


if __name__ == "__main__":
    folder = Path(__file__).parent / "foreign"
    if version("executorch").startswith("1.4."):
        for model in ("res", "acts", "se", "mlp", "bmm", "group"):
            for core in ("M55", "M33") if model in ("res", "mlp") else ("M55",):
                (folder / f"{model}_{core.lower()}.pte").write_bytes(program(model, core))
    else:
        for model in ("windows", "div"):
            (folder / f"{model}_m55_15.pte").write_bytes(program(model, "M55"))
        for model in ("windows", "res", "one"):
            of_nhwc = program(model, "M55", explicit_layout=True)
            (folder / f"{model}_nhwc_m55_15.pte").write_bytes(of_nhwc)

# SPDX-License-Identifier: Apache-2.0
"""A model with the operator of the plug-in: it removes spikes from a signal and classifies it."""

from __future__ import annotations

import pillion_median.torch_row  # noqa: F401  # makes torch.ops.median
import torch
from torch import nn

import pillion


class Pulse(nn.Module):
    """Two filters over channels of 13 samples, and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.conv, self.last = nn.Conv1d(3, 4, 3), nn.Linear(4 * 11, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns two scores."""
        smooth = torch.ops.median.median3(x)
        return self.last(torch.ops.median.median3(torch.relu(self.conv(smooth))).flatten(1))


def main() -> None:
    """Compiles the model, and compares the C with the reference."""
    samples = [torch.randn(1, 3, 13, generator=torch.Generator().manual_seed(seed)) for seed in range(8)]
    program = pillion.compile(
        Pulse().eval(), samples[0], target="pulse-belt", quantize=pillion.Quantization(samples)
    )
    kinds = [op.kind for op in program.graph.ops]
    different = 0
    for x in samples:
        (expected,), (found,) = program.run(x), program.run(x, on="host")
        different += sum(a != b for a, b in zip(expected.tobytes(), found.tobytes(), strict=True))
    print(f"{kinds.count('median3')} median filters, {different} bytes differ")


if __name__ == "__main__":
    main()

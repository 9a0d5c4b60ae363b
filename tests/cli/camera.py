# SPDX-License-Identifier: Apache-2.0
"""Steps from a camera to `small_net.Net`, as users keep them in a file."""

import torch
from torch import Tensor, nn

from pillion.modules import Crop, Normalize

camera = nn.Sequential(Crop(9, 7), Normalize(0.5, 0.25))
number = 3


def example_inputs() -> tuple[Tensor, ...]:
    return (torch.zeros(1, 3, 12, 9, dtype=torch.uint8),)

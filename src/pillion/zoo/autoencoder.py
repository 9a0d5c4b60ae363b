# SPDX-License-Identifier: Apache-2.0
"""The deep autoencoder of MLPerf Tiny, which detects anomalies in machine sounds."""

from __future__ import annotations

from collections import OrderedDict
from itertools import pairwise

from torch import Tensor, nn

EPS = 1e-3  # Keras' default, with which the reference model was trained
FEATURES = 640  # five frames of 128 mel bands
HIDDEN = (128, 128, 128, 128, 8, 128, 128, 128, 128)


class DeepAutoencoder(nn.Module):
    """Ten dense layers with a bottleneck of 8 for 640 features; the reconstruction error is the anomaly."""

    def __init__(self) -> None:
        super().__init__()
        widths = (FEATURES, *HIDDEN)
        self.body = nn.Sequential(*(_dense_block(*pair) for pair in pairwise(widths)))
        self.head = nn.Linear(widths[-1], FEATURES)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.body(x))
        return out


def _dense_block(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        OrderedDict(
            linear=nn.Linear(inputs, outputs, bias=False),
            norm=nn.BatchNorm1d(outputs, eps=EPS),
            act=nn.ReLU(),
        )
    )

# SPDX-License-Identifier: Apache-2.0
"""PyTorch modules for the steps after a network, from its outputs to events, scores and boxes.

They are ordinary modules of PyTorch: train, export and compile them as parts of a model."""

from __future__ import annotations

from pillion.modules.anomalies import CentreDistance, ReconstructionError
from pillion.modules.boxes import AnchorDecoder, CentreDecoder, DflDecoder, NonMaxSuppression
from pillion.modules.keywords import KeywordDetector, PosteriorSmoother

__all__ = [
    "AnchorDecoder",
    "CentreDecoder",
    "CentreDistance",
    "DflDecoder",
    "KeywordDetector",
    "NonMaxSuppression",
    "PosteriorSmoother",
    "ReconstructionError",
]

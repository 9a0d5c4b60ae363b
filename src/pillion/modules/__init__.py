# SPDX-License-Identifier: Apache-2.0
"""PyTorch modules for the steps before and after a network: from a camera's bytes to its inputs, and from its outputs to
events, scores and boxes.

They are ordinary modules of PyTorch: train, export and compile them as parts of a model."""

from __future__ import annotations

from pillion.modules.anomalies import CentreDistance, ReconstructionError
from pillion.modules.boxes import AnchorDecoder, CentreDecoder, DflDecoder, NonMaxSuppression
from pillion.modules.cascades import Cascade
from pillion.modules.energies import NoiseReduction, Pcen
from pillion.modules.filters import BiquadCascade
from pillion.modules.keywords import KeywordDetector, PosteriorSmoother
from pillion.modules.label_runs import RunLengths
from pillion.modules.pictures import (
    BayerToRgb,
    Crop,
    GrayToRgb,
    Normalize,
    Resize,
    Rgb565ToRgb,
    RgbToGray,
    Rotate,
    Yuv422ToRgb,
)
from pillion.modules.sequences import CtcDecoder
from pillion.modules.window_statistics import WindowStatistics

__all__ = [
    "AnchorDecoder",
    "BayerToRgb",
    "BiquadCascade",
    "Cascade",
    "CentreDecoder",
    "CentreDistance",
    "Crop",
    "CtcDecoder",
    "DflDecoder",
    "GrayToRgb",
    "KeywordDetector",
    "NoiseReduction",
    "NonMaxSuppression",
    "Normalize",
    "Pcen",
    "PosteriorSmoother",
    "ReconstructionError",
    "Resize",
    "Rgb565ToRgb",
    "RgbToGray",
    "Rotate",
    "RunLengths",
    "WindowStatistics",
    "Yuv422ToRgb",
]

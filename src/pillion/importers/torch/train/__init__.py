# SPDX-License-Identifier: Apache-2.0
"""Quantization-aware training."""

import pillion.importers.torch.quantize  # noqa: F401  # it imports torchao without its messages

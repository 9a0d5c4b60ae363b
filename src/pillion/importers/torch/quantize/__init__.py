# SPDX-License-Identifier: Apache-2.0
"""Quantizes float modules to int8 graphs after training; `quantized_program` documents the graph that the importer reads."""

from pillion.importers.torch.export import quiet_torch

with quiet_torch():
    import torchao.quantization.pt2e  # noqa: F401  # it registers the library

# SPDX-License-Identifier: Apache-2.0
"""Quantizes float modules to int8 graphs: after training (`ptq`), or with it (`prepare_qat`, then `finish_training`).

`QuantizedProgram` documents the graph that the importer reads."""

from pillion.importers.torch.export import quiet

with quiet():
    import torchao.quantization.pt2e  # noqa: F401  # it registers the library

from pillion.importers.torch.quantize.annotate import FloatOp
from pillion.importers.torch.quantize.ptq import ptq
from pillion.importers.torch.quantize.quantized_program import QuantizedProgram
from pillion.importers.torch.train.qat import finish_training, prepare_qat
from pillion.importers.torch.train.qat_module import QatModule
from pillion.ir.constraints import QuantizationConstraints

__all__ = [
    "FloatOp",
    "QatModule",
    "QuantizationConstraints",
    "QuantizedProgram",
    "finish_training",
    "prepare_qat",
    "ptq",
]
